"""`remanence verify`: one line a claim, JSON for scripts, and an exit code that means something."""

import json

import pytest

import remanence as rm
from remanence.cli import main

FEW = ["--claim", "icl_is_the_minimum_norm_solution", "--claim", "two_recurring_tasks_err_at_most"]


def call(capsys, *arguments):
    with pytest.raises(SystemExit) as leaving:
        main(["verify", *arguments])
    out, err = capsys.readouterr()
    return leaving.value.code, out, err


def test_one_line_a_claim_with_its_kind_and_worst_case(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")  # a line stays a line in a narrow terminal too
    code, out, _ = call(capsys, *FEW, "--instances", "3")
    lines = out.splitlines()
    assert code == 0
    assert lines[0].startswith("✓ = icl_is_the_minimum_norm_solution") and "Theorem 5" in lines[0]
    assert lines[1].startswith("✓ ≤ two_recurring_tasks_err_at_most") and "Theorem 2" in lines[1]
    assert "2 of 2 claims hold for seed 0" in out


def test_json_is_a_list_of_certificates_and_nothing_else(capsys):
    code, out, err = call(capsys, *FEW, "--instances", "3", "--seed", "4", "--json")
    rows = json.loads(out)
    assert (code, err) == (0, "") and len(rows) == 2
    for row, certificate in zip(rows, rm.certificates.verify(4, 3, FEW[1::2]), strict=True):
        assert row == certificate.to_dict() and row["holds"] is True


def test_a_claim_that_fails_is_told_in_full_and_leaves_with_1(capsys, monkeypatch):
    import remanence.methods.icl as home

    whole = home.walk
    monkeypatch.setattr(home, "walk", lambda W, *rest: (whole(W, *rest)[0] + 1e-3, *whole(W, *rest)[1:]))
    code, out, _ = call(capsys, *FEW, "--instances", "2")
    assert code == 1 and out.startswith("✗ = icl_is_the_minimum_norm_solution")
    assert "ICL is at the minimum-norm solution after every sample (Theorem 5): FAILS" in out
    assert "1 of 2 claims hold" in out
    code, out, _ = call(capsys, *FEW, "--instances", "2", "--json")
    assert code == 1 and [row["holds"] for row in json.loads(out)] == [False, True]


def test_the_map_is_drawn_where_it_is_asked_for(capsys, tmp_path):
    path = tmp_path / "map.svg"
    code, out, _ = call(capsys, *FEW, "--instances", "2", "--draw", str(path))
    assert code == 0 and path.exists() and str(path) in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--claim", "icl_is_minimum_norm"], "did you mean icl_is_the_minimum_norm_solution"),
        (["--instances", "0"], "at least 1"),
        (["--seed", "-1"], "at least 0"),
        ([*FEW, "--instances", "1", "--draw", "/no/such/folder/map.svg"], "map.svg"),
    ],
)
def test_bad_use_leaves_with_2_and_says_what_to_do(capsys, arguments, said):
    code, out, err = call(capsys, *arguments)
    assert (code, out) == (2, "") and said in " ".join(err.split()) and "Traceback" not in err


def test_the_help_has_an_example(capsys):
    code, out, _ = call(capsys, "--help")
    assert code == 0 and "Example: remanence verify" in out
