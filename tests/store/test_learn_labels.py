"""Words that may mean a missing label, and labels written in two ways: one rule, and nothing is guessed."""

from datetime import date
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import remanence as rm
from remanence.store.jobs.evaluate import evaluate_tables

from .job_helpers import learn_tables
from .test_learn import KIND

WORDS = ["nan", "NaN", "null", "NA", "None", "n/a"]


def table(path, labels):
    path.write_text("a,kind\n" + "".join(f"{k}.5,{label}\n" for k, label in enumerate(labels)))
    return path


def classes(path):
    return rm.load(path).classes_.tolist()


@pytest.mark.parametrize("word", WORDS)
def test_among_numbers_a_word_is_a_missing_label_as_it_is_among_features(tmp_path, word):
    data = table(tmp_path / "t.csv", ["1", word, "2", ""])
    with pytest.raises(rm.InputError, match="2 of 4 rows"):
        learn_tables(tmp_path / "m", [data], KIND)
    assert learn_tables(tmp_path / "m", [data], KIND, drop=True).total("dropped") == 2
    assert classes(tmp_path / "m") == [1, 2]
    more = table(tmp_path / "more.csv", ["2", word, "3"])
    assert learn_tables(tmp_path / "m", [more], drop=True).total("dropped") == 1
    assert classes(tmp_path / "m") == [1, 2, 3]


@pytest.mark.parametrize("word", WORDS)
def test_among_text_a_word_is_a_class_unless_missing_ones_are_to_be_left_out(tmp_path, word):
    data = table(tmp_path / "t.csv", ["x", word, "y"])
    with pytest.raises(rm.InputError, match=f"got '{word}', which may be either; leave missing labels empty"):
        learn_tables(tmp_path / "m", [data], KIND, drop=True)
    assert not (tmp_path / "m").exists()
    learn_tables(tmp_path / "m", [data], KIND)
    assert classes(tmp_path / "m") == sorted(["x", word, "y"])
    again = table(tmp_path / "more.csv", ["x", word, ""])
    assert learn_tables(tmp_path / "m", [again], drop=True).total("dropped") == 1  # a class by now
    assert evaluate_tables(tmp_path / "m", [again], drop=True).rows == 2


def test_a_first_file_of_such_words_alone_is_text(tmp_path):
    learn_tables(tmp_path / "m", [table(tmp_path / "t.csv", ["NA", "NA"])], KIND)
    assert classes(tmp_path / "m") == ["NA"]


@pytest.mark.parametrize(("one", "other"), [("1", "1.0"), ("2.50", "2.5"), ("-3", "-3.00"), ("7.", "7")])
def test_one_number_written_in_two_ways_is_refused_and_changes_nothing(tmp_path, one, other):
    both = table(tmp_path / "both.csv", ["x", one, other])
    with pytest.raises(rm.InputError, match="are one number; write it as before"):
        learn_tables(tmp_path / "m", [both], KIND)
    learn_tables(tmp_path / "m", [table(tmp_path / "t.csv", ["x", one])], KIND)
    before = (tmp_path / "m").read_bytes()
    with pytest.raises(rm.InputError, match=r"more\.csv.*one number"):
        learn_tables(tmp_path / "m", [table(tmp_path / "more.csv", ["x", other])])
    with pytest.raises(rm.InputError, match="one number"):
        evaluate_tables(tmp_path / "m", [tmp_path / "more.csv"])
    assert (tmp_path / "m").read_bytes() == before


def test_codes_that_only_look_alike_are_classes_of_their_own(tmp_path):
    codes = ["01", "1", "001", "1.5", "1.25", "v1.0", "1.0.0", "x"]
    learn_tables(tmp_path / "m", [table(tmp_path / "t.csv", codes)], KIND)
    assert classes(tmp_path / "m") == sorted(codes)


LABEL_COLUMNS = {
    "int8": ([1, 2], pa.int8(), [1, 2]),
    "uint64": ([1, 2], pa.uint64(), [1, 2]),
    "double": ([1.0, 2.0], pa.float64(), [1, 2]),
    "decimal": ([Decimal(1), Decimal(2)], pa.decimal128(5, 0), [1, 2]),
    "text": (["x", "y"], pa.string(), ["x", "y"]),
    "large text": (["x", "y"], pa.large_string(), ["x", "y"]),
    "dictionary": (["x", "y"], pa.dictionary(pa.int8(), pa.string()), ["x", "y"]),
    "bytes": ([b"x", b"y"], pa.binary(), ["x", "y"]),
    "fixed bytes": ([b"x", b"y"], pa.binary(1), ["x", "y"]),
    "bool": ([False, True], pa.bool_(), ["False", "True"]),
    "date": ([date(2024, 5, 1), date(2024, 5, 2)], pa.date32(), ["2024-05-01", "2024-05-02"]),
}


def typed(path, name):
    values, kind, _ = LABEL_COLUMNS[name]
    shift = float(list(LABEL_COLUMNS).index(name))
    pq.write_table(pa.table({"a": [shift + 0.25, shift + 0.5], "kind": pa.array(values, kind)}), path)
    return path


@pytest.mark.parametrize("first", LABEL_COLUMNS)
def test_labels_of_every_type_and_of_several_types_over_files(tmp_path, first):
    """The first file decides: integers take no text, and text takes everything as it is written."""
    path, expected = tmp_path / "m", LABEL_COLUMNS[first][2]
    learn_tables(path, [typed(tmp_path / "first.parquet", first)], KIND)
    assert classes(path) == expected
    known = set(expected)
    for other in LABEL_COLUMNS:
        data, labels = typed(tmp_path / "other.parquet", other), LABEL_COLUMNS[other][2]
        if other == first:
            continue
        if isinstance(expected[0], int) and not isinstance(labels[0], int):
            with pytest.raises(rm.InputError, match="expected integers as labels"):
                learn_tables(path, [data])
        else:
            learn_tables(path, [data])
            known |= set(labels) if isinstance(expected[0], int) else set(map(str, labels))
        assert set(classes(path)) == known


def test_bytes_that_are_no_text_and_truth_values_written_in_another_way(tmp_path):
    pq.write_table(pa.table({"a": [1.0], "kind": pa.array([b"\xff"])}), tmp_path / "t.parquet")
    with pytest.raises(rm.InputError, match=r"t\.parquet"):
        learn_tables(tmp_path / "m", [tmp_path / "t.parquet"], KIND)
    assert not (tmp_path / "m").exists()
    learn_tables(tmp_path / "m", [typed(tmp_path / "t.parquet", "bool")], KIND)
    with pytest.raises(rm.InputError, match=r"truth values .* as they were written so far, 'True', got 'true'"):
        learn_tables(tmp_path / "m", [table(tmp_path / "t.csv", ["true"])])
    with pytest.raises(rm.InputError, match="as they were written so far"):
        learn_tables(tmp_path / "n", [table(tmp_path / "t.csv", ["true", "TRUE"])], KIND)
    learn_tables(tmp_path / "m", [table(tmp_path / "t.csv", ["True", "False"])])
    assert classes(tmp_path / "m") == ["False", "True"]
