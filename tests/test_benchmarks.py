"""The benchmarks measure in turns, keep what they measured, refuse unfair comparisons, and all of them run."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # the benchmarks live beside the package, not in it

from benchmarks import memory, registry, results, rows, timing
from benchmarks.__main__ import main
from benchmarks.rows import SMOKE, Effort, Goal, Limit, NotTheSame, PeerMissing, Row

TEN = Goal("at least", 10)
FAST = Effort(rounds=3, seconds=60.0)


@pytest.fixture
def single():
    with timing.one_thread():
        yield


def a_row(name="stones", ours=1.0, theirs=12.0, goal=TEN, **more):
    return Row(name, "sorting", ours, "a peer", theirs, goal, **more)


def test_callables_take_turns_after_one_warm_up_each(single):
    calls = []
    found = timing.measure({"a": lambda: calls.append("a"), "b": lambda: calls.append("b") or 7}, FAST)
    assert "".join(calls) == "ab" + "ab" * 3
    assert found.results == {"a": None, "b": 7}
    assert len(found.seconds["a"]) == len(found.seconds["b"]) == 3


def test_the_best_round_counts_for_each_row():
    found = timing.Measured({"a": (3.0, 2.0, 5.0)}, {})
    assert found.best("a") == 2.0
    assert found.best("a", per=4) == 0.5
    assert found.pairs("a", "a", 1, 2) == ((3.0, 1.5), (2.0, 1.0), (5.0, 2.5))
    assert a_row(rounds=((1.0, 3.0), (2.0, 4.0))).spread == (2.0, 3.0) and a_row().spread is None


def test_no_round_begins_after_the_time_is_up_but_two_are_made(single):
    found = timing.measure({"a": lambda: None}, Effort(rounds=50, seconds=0.0))
    assert len(found.seconds["a"]) == 2


def test_measuring_on_several_threads_is_refused(monkeypatch):
    monkeypatch.setattr(timing, "threads", lambda: 2)
    with pytest.raises(RuntimeError, match=r"expected one thread.*OPENBLAS_NUM_THREADS=1"):
        timing.measure({"a": lambda: None}, FAST)


def test_a_goal_reads_as_times_faster_or_as_times_theirs():
    faster, cheaper = Goal("at least", 10), Goal("at most", 3.5)
    assert a_row(ours=2.0, theirs=20.0, goal=faster).ratio == 10 and a_row(ours=2.0, theirs=20.0, goal=faster).reached
    assert not a_row(ours=2.0, theirs=19.9, goal=faster).reached
    assert a_row(ours=7.0, theirs=2.0, goal=cheaper).ratio == 3.5 and a_row(ours=7.0, theirs=2.0, goal=cheaper).reached
    assert not a_row(ours=7.1, theirs=2.0, goal=cheaper).reached
    assert a_row(goal=Goal("at least")).reached is None
    assert (str(faster), str(cheaper), str(Goal("at most"))) == ("≥ 10", "≤ 3.5", "–")


def test_a_row_stands_beside_the_limit_of_the_machine():
    assert a_row(ours=6.0, limit=Limit("a pass", 2.0)).above_limit == 3.0
    assert a_row().above_limit is None


def test_sides_that_disagree_are_not_compared():
    assert rows.agree([1.0, 2.0], [[1.0], [2.0]], 0.0, "same") == 0.0
    for other in ([1.0, 2.1], [1.0, np.nan], [1.0]):
        with pytest.raises(NotTheSame):
            rows.agree([1.0, 2.0], other, 1e-6, "different")


def test_rows_are_kept_by_name_and_others_stay(tmp_path):
    facts = results.machine()
    results.write(tmp_path, "group", [a_row("one"), a_row("two")], facts)
    path = results.write(tmp_path, "group", [a_row("two", theirs=30.0)], facts)
    kept = json.loads(path.read_text())
    assert {row["name"]: row["ratio"] for row in kept["rows"]} == {"one": 12.0, "two": 30.0}
    assert [row["reached"] for row in kept["rows"]] == [True, True]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d", row["date"]) for row in kept["rows"])
    assert [file.name for file in tmp_path.iterdir()] == ["group.json"]


def test_the_facts_name_no_host_and_no_path():
    import platform

    facts = results.machine()
    text = json.dumps(facts)
    assert {"processor", "cores", "python", "libraries", "threads"} <= facts.keys()
    assert platform.node() not in text.replace(facts["processor"], "") and str(Path.cwd()) not in text


def test_the_markdown_table_has_a_line_a_row_and_says_what_is_missed(tmp_path):
    some = [
        a_row(
            "met",
            limit=Limit("a pass", 0.5),
            accuracy={"errors apart": 1e-15},
            note="a remark",
            rounds=((1.0, 12.0), (2.0, 20.0)),
        ),
        a_row("missed", theirs=2.0),
        a_row("shown", goal=Goal("at most")),
    ]
    results.write(tmp_path, "group", some, results.machine())
    text = results.markdown(tmp_path, ["group", "not measured yet"])
    lines = {line.split("|")[1].strip(): line for line in text.splitlines() if line.startswith("| ")}
    assert lines.keys() == {"benchmark", "met", "missed", "shown"}
    assert len({line.count("|") for line in lines.values()}) == 1
    assert "12× faster | 10 to 12 | ≥ 10 | yes | 2.0 (a pass) | errors apart 1.0e-15; a remark" in lines["met"]
    assert "**no**" in lines["missed"] and "yes" not in lines["missed"]
    assert "| – | – |" in lines["shown"]
    assert "met in 1 of 2 rows" in text and "make bench" in text


def test_a_pattern_chooses_groups_or_names_and_an_unknown_one_is_refused():
    assert {group for group, _, _ in registry.chosen([])} == registry.GROUPS.keys()
    assert {name for _, name, _ in registry.chosen(["memory", "rls-1*"])} == {
        "memory-donate",
        "memory-kalman-last",
        "memory-lowrank",
        "memory-weights",
        "rls-16",
        "rls-1024",
        "rls-1024-long",
    }
    with pytest.raises(SystemExit, match=r"got 'stones'; try one of .*rls-16"):
        registry.chosen(["stones"])


def fake(monkeypatch, *found, error=None):
    def run(effort):
        if error:
            raise error
        return found

    monkeypatch.setattr(registry, "GROUPS", {"group": {"fake": run}})


def test_the_command_shows_and_keeps_the_rows_and_a_miss_is_no_failure_unless_asked(monkeypatch, tmp_path, capsys):
    fake(monkeypatch, a_row("slow", theirs=2.0))
    assert main(["--quick", "--out", str(tmp_path)]) == 0
    assert "goals missed: slow" in capsys.readouterr().out
    assert (tmp_path / "group.json").exists() and "**no**" in (tmp_path / "README.md").read_text()
    assert main(["--quick", "--strict"]) == 1


def test_a_missing_peer_is_named_and_the_rest_goes_on(monkeypatch, capsys):
    fake(monkeypatch, error=PeerMissing("stones is not installed"))
    assert main(["--quick"]) == 0
    assert "fake skipped: stones is not installed" in capsys.readouterr().err


def test_a_state_is_counted_once_whatever_shares_it():
    import remanence as rm

    whole = np.zeros((10, 4))
    assert memory.held(rm.LMS().init(5, 2)) == 80
    assert sum(a.nbytes for a in memory.arrays(whole[:2])) == whole.nbytes
    state = rm.RLS().init(20, 3)
    assert memory.held(state) >= (20 * 20 + 2 * 20 * 3) * 8


def test_a_peer_that_is_not_installed_is_named_with_the_way_to_get_it(monkeypatch, single):
    monkeypatch.setitem(sys.modules, "padasip", None)
    with pytest.raises(PeerMissing, match=r"padasip is not installed; .*\[bench\]"):
        registry.GROUPS["linear_track"]["rls-16"](SMOKE)


def smoke(name):
    (run,) = (run for _, found, run in registry.chosen([]) if found == name)
    try:
        return run(SMOKE)
    except PeerMissing as reason:
        pytest.skip(str(reason))


@pytest.mark.parametrize("name", [name for _, name, _ in registry.chosen([])])
def test_every_benchmark_runs(name, single):
    found = smoke(name)
    assert found and len({row.name for row in found}) == len(found)
    for row in found:
        assert row.name.startswith(name)  # so that --only finds it
        assert np.isfinite(row.ratio) and row.ratio > 0
        json.dumps(row.as_dict())
