"""Column names that travel with a model, columns that are no features, and files that are not to be overwritten."""

import numpy as np
import pytest

import remanence as rm
from remanence.store import read
from remanence.store.jobs.learn_options import LearnOptions

from .job_helpers import learn_tables
from .test_learn import KIND, sheet


def test_a_model_taught_from_tables_knows_its_columns_in_python(tmp_path, rows):
    pd = pytest.importorskip("pandas")
    X, y = rows
    for options in (KIND, LearnOptions("kind", features="random:20")):
        m = tmp_path / f"m{options.features}"
        learn_tables(m, [sheet(tmp_path / "t.csv", X, y)], options)
        assert "feature_names_in_" not in vars(read(m).learner)  # (as in files that were written before)
        model = rm.load(m)
        frame = pd.DataFrame(X, columns=list("abcd"))
        assert list(model.feature_names_in_) == list("abcd") and model.score(frame, y) > 0.5
        with pytest.raises(ValueError, match="feature names"):
            model.predict(frame[frame.columns[::-1]])
        rm.save(model, tmp_path / "saved")
        with pytest.raises(ValueError, match="feature names"):
            rm.load(tmp_path / "saved").predict(frame[frame.columns[::-1]])
        (tmp_path / "saved").unlink()


def test_a_column_without_a_name_is_left_out_with_a_word(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(",a,kind\n0,1.5,x\n1,2.5,y\n")
    report = learn_tables(tmp_path / "m", [path], KIND)
    assert report.total("learned") == 2 and report.warnings == ["the column '' of t.csv is left out: it has no name"]
    assert read(tmp_path / "m").notes["columns"] == ["a"]


@pytest.mark.parametrize("name", ["id", "Index", "customer_id"])
@pytest.mark.parametrize("first", [0, 1])
def test_a_column_that_counts_the_rows_is_left_out_at_first_sight(tmp_path, name, first):
    path = tmp_path / "t.csv"
    path.write_text(f"{name},a,n,kind\n" + "".join(f"{i + first},{i * i},{i},{'xy'[i % 2]}\n" for i in range(9)))
    report = learn_tables(tmp_path / "left out", [path], KIND)
    assert report.warnings == [f"the column {name!r} of t.csv is left out: it counts the rows"]
    assert read(tmp_path / "left out").notes["columns"] == ["a", "n"]
    declared = LearnOptions("kind", column_kinds={name: "number"})
    assert learn_tables(tmp_path / "m", [path], declared).total("learned") == 9
    path.write_text(path.read_text() + "99,1,1,x\n")
    assert learn_tables(tmp_path / "other", [path], KIND).total("learned") == 10  # (it does not count them now)


def test_a_missing_column_is_told_with_the_names_that_matter(tmp_path):
    path = tmp_path / "Xy.npz"
    np.savez(path, X=np.zeros((3, 40)), labels=np.arange(3), weight=np.ones(3))
    with pytest.raises(rm.InputError, match=r"'label'.*did you mean 'labels'\?.*'X0'.*'weight'"):
        learn_tables(tmp_path / "m", [path], LearnOptions("label"))


def test_a_damaged_or_newer_file_of_ours_is_not_overwritten(tmp_path, rows):
    X, y = rows
    m = tmp_path / "m"
    learn_tables(m, [sheet(tmp_path / "t.csv", X, y)], KIND)
    good, model = m.read_bytes(), rm.load(m)
    newer = good.replace(b'"format":"3"', b'"format":"9"')
    assert newer != good
    damaged = [newer, good[:400]]
    for place in (0, 8, 12, 30, 110, 130, 200):
        content = bytearray(good)
        content[place] ^= 1
        damaged.append(bytes(content))
    for content in damaged:
        m.write_bytes(content)
        with pytest.raises(rm.FileError, match="ledger"):
            rm.save(model, m)
        assert m.read_bytes() == content
    for content in (b"", b"something else", b"\x80\x04pickled"):
        m.write_bytes(content)
        rm.save(model, m)
        m.unlink()
