"""A folder that holds something else than our runs is never written into, and nothing of others is ever deleted."""

import json

import pytest

from remanence.cli import main

QUICK = ["--methods", "lms,joint", "--tasks", "2", "--no-certify"]


@pytest.fixture
def call(capsys, monkeypatch, tmp_path):
    """The command, with pages and pictures that take no time to draw."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("remanence.report.files.rendered", lambda figure, kind: b"a picture")
    monkeypatch.setattr("remanence.report.files.matrices_figure", lambda run: None)
    monkeypatch.setattr("remanence.report.files.accuracy_figure", lambda run: None)
    monkeypatch.setattr("remanence.report.files.map_boxes", lambda figure: [])
    monkeypatch.setattr("remanence.report.files.page", lambda run, pictures: "a page")
    monkeypatch.setattr("remanence.report.side_by_side.SideBySide.page", lambda self: "a page")

    def called(*arguments):
        with pytest.raises(SystemExit) as leaving:
            main([str(a) for a in arguments])
        out, err = capsys.readouterr()
        return leaving.value.code or 0, out, err

    return called


def contents(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


FOREIGN = {
    "a page and a picture": {"index.html": "<p>mine</p>", "accuracy.png": "mine"},
    "settings of an editor": {"settings.json": '{"editor.fontSize": 12}', "learned/words.json": "{}"},
    "settings that are no JSON": {"settings.json": "editor = 12"},
    "a list": {"settings.json": "[1, 2]"},
    "nested without end": {"settings.json": "[" * 100_000},
    "results of something else": {"results.json": '{"winner": "me"}'},
    "numbers of something else": {"comparison.json": '{"winner": "me"}'},
    "learned words": {"learned/words.json": '{"one": 1}', "learned/rls-0.json": '{"two": 2}'},
    "notes": {"notes.txt": "mine"},
}


@pytest.fixture(params=FOREIGN)
def foreign(request, tmp_path):
    folder = tmp_path / "site"
    for name, text in FOREIGN[request.param].items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize("again", [[], ["--again"]])
def test_run_refuses_a_folder_of_others_before_anything_is_written(call, foreign, again):
    before = contents(foreign)
    code, out, err = call("run", *QUICK, "--out", foreign, *again)
    assert (code, out) == (2, "") and "site" in err and "holds" in err
    assert contents(foreign) == before


def test_report_and_compare_refuse_a_folder_of_others(call, foreign, tmp_path):
    call("run", *QUICK, "--out", tmp_path / "a")
    call("run", *QUICK, "--seed", 1, "--out", tmp_path / "b")
    before = contents(foreign)
    for command in (["report", tmp_path / "a"], ["compare", tmp_path / "a", tmp_path / "b"]):
        code, out, err = call(*command, "--out", foreign)
        assert (code, out) == (2, "") and "site" in err and "holds" in err
        assert contents(foreign) == before


def test_a_run_elsewhere_than_in_a_folder_of_its_own_is_shown_only_where_it_is_told_to(call, tmp_path):
    call("run", *QUICK, "--out", tmp_path / "a")
    other = tmp_path / "mine"
    other.mkdir()
    (other / "kept.json").write_bytes((tmp_path / "a" / "results.json").read_bytes())
    (other / "index.html").write_text("mine")
    assert call("report", other / "kept.json")[0] == 2 and (other / "index.html").read_text() == "mine"
    assert call("report", other / "kept.json", "--out", tmp_path / "shown")[0] == 0


def test_our_folders_are_used_again(call, tmp_path):
    for _ in range(2):
        assert call("run", *QUICK, "--out", tmp_path / "a")[0] == 0
        assert call("report", tmp_path / "a", "--out", tmp_path / "shown")[0] == 0
        assert call("report", tmp_path / "a")[0] == 0
        assert call("run", *QUICK, "--seed", 1, "--out", tmp_path / "b")[0] == 0
        assert call("compare", tmp_path / "a", tmp_path / "b", "--out", tmp_path / "both")[0] == 0
    assert call("run", *QUICK, "--out", tmp_path / "shown", "--again")[0] == 0  # results without their settings


def test_an_empty_folder_and_one_with_hidden_files_are_free(call, tmp_path):
    for name in ("empty", "hidden"):
        (tmp_path / name).mkdir()
    (tmp_path / "hidden" / ".gitkeep").write_text("")
    for name in ("empty", "hidden"):
        assert call("run", *QUICK, "--out", tmp_path / name)[0] == 0
    assert (tmp_path / "hidden" / ".gitkeep").exists()


def test_again_deletes_nothing_but_parts_of_runs(call, tmp_path):
    folder = tmp_path / "a"
    call("run", *QUICK, "--out", folder)
    mine = {
        "learned/words.json": '{"one": 1}',
        "learned/notes-1.json": '["mine"]',
        "notes.txt": "mine",
        "learned/x": "y",
    }
    for name, text in mine.items():
        (folder / name).write_text(text)
    assert call("run", *QUICK, "--seed", 3, "--out", folder, "--again")[0] == 0
    assert {name: (folder / name).read_text() for name in mine} == mine
    assert {p.name for p in (folder / "learned").glob("*-[03].json")} == {"lms-3.json", "joint-3.json"}


def test_a_run_that_was_stopped_at_its_very_beginning_is_taken_up(call, tmp_path, monkeypatch):
    from remanence.report import kept

    real = kept.write_atomically

    def stopped(path, content):
        real(path, content)
        if path.name == "settings.json":
            raise KeyboardInterrupt

    monkeypatch.setattr(kept, "write_atomically", stopped)
    call("run", *QUICK, "--out", tmp_path / "a")
    monkeypatch.setattr(kept, "write_atomically", real)
    assert json.loads((tmp_path / "a" / "settings.json").read_text())["tasks"] == 2
    assert call("run", *QUICK, "--out", tmp_path / "a")[0] == 0
