"""Words that may mean a missing label, and labels written in two ways: one rule, and nothing is guessed."""

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
