"""`unlearn` of the rows that have given values: just these, in all files, however the values are written."""

import json
from dataclasses import replace
from datetime import date

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import remanence as rm
from remanence.cli import main
from remanence.errors import InputError
from remanence.store.jobs.learn_options import LearnOptions
from remanence.store.jobs.sources import learned_files
from remanence.store.ledger import Entry, Ledger
from remanence.tables import Dialect

from .job_helpers import learn_tables, unlearn_tables

OPTIONS = LearnOptions(targets=("y",), ignored=("who", "day"))
IDS = [2**53 + 1, 2**53, 2**53 + 2, 1234567890123456789, 1234567890123456788]


def write(path, who, seed=0):
    """A table of rows by persons."""
    rng = np.random.default_rng(seed)
    n = len(who)
    columns = {"a": rng.normal(size=n).round(3), "y": rng.normal(size=n).round(3), "who": who}
    columns["day"] = [date(2024, 1, 1 + k % 3) for k in range(n)]
    if path.suffix == ".parquet":
        pq.write_table(pa.table(columns), path)
    elif path.suffix == ".jsonl":
        rows = ({name: values[k] for name, values in columns.items()} for k in range(n))
        path.write_text("".join(json.dumps(row, default=str) + "\n" for row in rows))
    else:
        cells = zip(*columns.values(), strict=True)
        lines = (",".join("" if cell is None else str(cell) for cell in row) + "\n" for row in cells)
        path.write_text("a,y,who,day\n" + "".join(lines))
    return path, np.column_stack([columns["a"], columns["y"]])


def holds(model, rows):
    joint = rm.ContinualRegressor().fit(rows[:, :1], rows[:, 1])
    learner = rm.load(model)
    assert learner.n_seen_ == len(rows)
    np.testing.assert_allclose(learner.predict(rows[:, :1]), joint.predict(rows[:, :1]), atol=1e-12)


@pytest.mark.parametrize("ledger", [None, "rows"])
@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl"])
def test_numbers_are_compared_by_all_of_their_digits(tmp_path, ending, gaps, ledger):
    who = [*(IDS * 8), *([None] * 3 if gaps else [])]
    path, rows = write(tmp_path / f"t.{ending}", who)
    learn_tables(tmp_path / "m", [path], replace(OPTIONS, ledger=ledger))
    left = np.ones(len(who), bool)
    for wanted in IDS[:2]:
        assert unlearn_tables(tmp_path / "m", [path], where={"who": str(wanted)}).total("unlearned") == 8
        left &= np.array([value != wanted for value in who])
        holds(tmp_path / "m", rows[left])


@pytest.mark.parametrize(
    ("value", "chosen"),
    [("7", ["7", "7.0", "+7"]), ("7.00", ["7", "7.0", "+7"]), ("007", ["007"]), ("true", ["True"]), ("x y", ["x y"])],
)
def test_values_are_the_same_text_number_or_truth_value(tmp_path, value, chosen):
    who = ["7", "7.0", "+7", "007", "07", "70", "True", "x y", "xy"] * 2
    path, rows = write(tmp_path / "t.csv", who)
    learn_tables(tmp_path / "m", [path], OPTIONS)
    unlearn_tables(tmp_path / "m", [path], where={"who": value})
    holds(tmp_path / "m", rows[[cell not in chosen for cell in who]])


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_several_values_and_dates(tmp_path, ending):
    path, rows = write(tmp_path / f"t.{ending}", list(range(4)) * 6)
    learn_tables(tmp_path / "m", [path], OPTIONS)
    unlearn_tables(tmp_path / "m", [path], where={"who": "2", "day": "2024-01-03"})
    holds(tmp_path / "m", rows[[not (k % 4 == 2 and k % 3 == 2) for k in range(24)]])


def test_files_without_such_rows_are_passed_over_unless_all_of_them_are(tmp_path):
    files = [write(tmp_path / name, who, seed) for seed, (name, who) in
             enumerate({"one.csv": [1, 2] * 5, "two.csv": [2, 3] * 5, "three.csv": [1, 3] * 5}.items())]  # fmt: skip
    paths, rows = [path for path, _ in files], np.concatenate([found for _, found in files])
    learn_tables(tmp_path / "m", paths, OPTIONS)
    before = (tmp_path / "m").read_bytes()
    with pytest.raises(InputError, match=r"one\.csv.*three\.csv with who=9, got none"):
        unlearn_tables(tmp_path / "m", paths, where={"who": "9"})
    assert (tmp_path / "m").read_bytes() == before
    assert unlearn_tables(tmp_path / "m", paths, where={"who": "1"}).total("unlearned") == 10
    holds(tmp_path / "m", rows[np.array([1, 2] * 5 + [2, 3] * 5 + [1, 3] * 5) != 1])


def test_the_command_searches_all_files_it_is_given_and_takes_a_column_once(tmp_path, capsys):
    for name in ("a", "b"):  # (files of one name, which the ledger cannot tell apart)
        (tmp_path / name).mkdir()
        write(tmp_path / name / "t.csv", [1, 2] * 5, seed=ord(name))
    options = ["--target", "y", "--ignore", "who", "--ignore", "day"]
    for arguments, code in (
        (["learn", str(tmp_path / "m"), str(tmp_path), *options], 0),
        (["unlearn", str(tmp_path / "m"), str(tmp_path / "*/t.csv"), "--where", "who=1", "--where", "who=2"], 2),
        (["unlearn", str(tmp_path / "m"), str(tmp_path / "*/t.csv"), "--where", "who=1"], 0),
    ):
        with pytest.raises(SystemExit) as left:
            main(arguments)
        assert (left.value.code or 0) == code
    assert "not searched" not in capsys.readouterr().err
    assert rm.load(tmp_path / "m").n_seen_ == 10


def test_learned_files_are_searched_as_they_are_written(tmp_path):
    path, rows = write(tmp_path / "t.csv", [1, 2] * 6)
    path.write_text(path.read_text().replace(",", ":"))
    dialect = Dialect.from_options({"delimiter": ":"})
    from remanence.store.jobs.learn import learn_session
    from remanence.store.jobs.unlearn import unlearn_session

    with learn_session(tmp_path / "m", OPTIONS, dialect=dialect) as job:
        job.learn(path)
    (tmp_path / "some.csv").write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:5]))
    with unlearn_session(tmp_path / "m", dialect=dialect) as job:
        job.unlearn(tmp_path / "some.csv")
    holds(tmp_path / "m", rows[4:])


def test_names_that_no_file_can_have_are_no_learned_files(tmp_path):
    """A ledger may come from another system, or from anybody."""
    ledger = Ledger((Entry("0" * 64, "n" * 5000, 3), Entry("1" * 64, "a\0b", 3)))
    assert learned_files(ledger, [tmp_path]) == []
