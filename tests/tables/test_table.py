"""Tables on disk give the rows that were put into them, whatever the format, and refuse what they are not."""

import numpy as np
import pytest

from remanence.errors import FileError, InputError
from remanence.labels import as_labels
from remanence.tables import csv as text
from remanence.tables import expand_paths, open_table
from remanence.tables import npz as arrays

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
parquet = pytest.importorskip("remanence.tables.parquet")

NAMES = ["a", "b", "c"]


def make(path, X, y, **options):
    """Write rows with labels into a file of the format its name says."""
    if path.suffix == ".csv":
        lines = [",".join([*NAMES, "label"])]
        lines += [",".join([*(repr(float(v)) for v in row), str(label)]) for row, label in zip(X, y, strict=True)]
        path.write_text("\n".join(lines) + "\n")
    elif path.suffix == ".npz":
        np.savez(path, X=X, label=y)
    else:
        columns = {name: X[:, j] for j, name in enumerate(NAMES)} | {"label": y}
        pq.write_table(pa.table(columns), path, **options)
    return path


def whole(path, labels=("label",)):
    table = open_table(path)
    blocks = [b for p in table.pieces() for b in p.blocks(table.features(labels), labels)]
    return np.concatenate([b.X for b in blocks]), np.concatenate([b.labels for b in blocks])


@pytest.mark.parametrize("ending", [".csv", ".npz", ".parquet"])
@pytest.mark.parametrize("kind", ["int", "text"])
def test_rows_come_back_bit_for_bit_in_blocks(tmp_path, monkeypatch, ending, kind):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 3)) * 10.0 ** rng.integers(-200, 200, (50, 3))
    y = rng.integers(0, 4, 50)
    y = y if kind == "int" else np.array([f"class {v}" for v in y])
    for module in (text, arrays, parquet):
        monkeypatch.setattr(module, "ROWS_AT_ONCE", 7)
    path = make(tmp_path / f"t{ending}", X, y, **({"row_group_size": 20} if ending == ".parquet" else {}))
    got, labels = whole(path)
    assert (got == X).all()
    assert as_labels(labels).tolist() == y.tolist()
    assert as_labels(labels).dtype.kind == ("i" if kind == "int" else "U")


def test_a_parquet_row_group_is_a_piece_known_by_what_it_holds(tmp_path):
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((40, 3)), rng.integers(0, 3, 40)
    both = open_table(make(tmp_path / "both.parquet", X, y, row_group_size=20)).pieces()
    second = open_table(make(tmp_path / "second.parquet", X[20:], y[20:])).pieces()
    assert [p.name for p in both] == ["both.parquet[0]", "both.parquet[1]"]
    assert both[0].fingerprint() != both[1].fingerprint() == second[0].fingerprint()


def test_a_column_of_vectors_is_one_column_an_entry(tmp_path):
    V = np.random.default_rng(2).standard_normal((6, 4))
    for kind in (pa.list_(pa.float64(), 4), pa.list_(pa.float32())):
        rows = [None if i == 2 else list(v) for i, v in enumerate(V)]
        try:
            pq.write_table(pa.table({"v": pa.array(rows, kind), "label": list(range(6))}), tmp_path / "v.parquet")
        except pa.ArrowNotImplementedError:  # older pyarrow does not write missing vectors of a fixed length
            continue
        table = open_table(tmp_path / "v.parquet")
        assert table.features(["label"]) == ("v0", "v1", "v2", "v3")
        (rows,) = table.pieces()[0].blocks(["v3", "v0"], ["label"])
        np.testing.assert_allclose(rows.X[[0, 1, 3]], V[[0, 1, 3]][:, [3, 0]], rtol=1e-6)
        assert rows.complete().tolist() == [True, True, False, True, True, True]
    pq.write_table(pa.table({"v": [[1.0, 2.0], [3.0]]}), tmp_path / "ragged.parquet")
    table = open_table(tmp_path / "ragged.parquet")
    with pytest.raises(InputError, match="vectors of 2 numbers"):
        list(table.pieces()[0].blocks(table.columns))


@pytest.mark.parametrize("ending", [".csv", ".npz", ".parquet"])
def test_missing_entries_are_told_and_columns_may_be_asked_in_any_order(tmp_path, ending):
    X = np.arange(12.0).reshape(4, 3)
    X[1, 2] = np.nan
    table = open_table(make(tmp_path / f"t{ending}", X, np.array([1, 2, 3, 4])))
    names = table.features(["label"])
    (rows,) = table.pieces()[0].blocks(names[::-1], ["label"])
    np.testing.assert_array_equal(rows.X, X[:, ::-1])
    assert rows.complete().tolist() == [True, False, True, True]
    assert len(rows.only(rows.complete()).X) == 3


def test_missing_labels_are_told(tmp_path):
    (tmp_path / "t.csv").write_text("a,label\n1,x\n2,\n3,y\n")
    pq.write_table(pa.table({"a": [1.0, 2.0, 3.0], "label": ["x", None, "y"]}), tmp_path / "t.parquet")
    for path in ("t.csv", "t.parquet"):
        (rows,) = open_table(tmp_path / path).pieces()[0].blocks(["a"], ["label"])
        assert rows.complete().tolist() == [True, False, True]


BAD = {
    "no header": (".csv", b"1,2,3\n4,5,6\n", "name the columns"),
    "ragged": (".csv", b"a,b,label\n1,2,0\n1,2\n", "row 2"),
    "text among numbers": (".csv", b"a,b,label\n1,2,0\n1,red,0\n", "column 'b', row 2 of bad.csv, got 'red'"),
    "binary": (".csv", bytes(range(256)), "not a text file of rows"),
    "parquet inside": (".csv", b"PAR1....PAR1", "holds a Parquet file"),
    "zip inside": (".parquet", b"PK\x03\x04....", "holds an NPZ"),
    "text inside": (".npz", b"a,b\n1,2\n", "not what its name says"),
    "broken zip": (".npz", b"PK\x03\x04 and no more", "not an NPZ file"),
    "broken parquet": (".parquet", b"PAR1 and no more", "not a whole Parquet file"),
    "nothing": (".csv", b"", "is empty"),
    "only names": (".csv", b"a,b,label\n", "no rows"),
    "twice the same name": (".csv", b"a,a,label\n1,2,3\n", "more than once"),
    "no label": (".csv", b"a,b\n1,2\n", "the column 'label'"),
    "unknown": (".xlsx", b"x", "ending in"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_table_is_refused_with_its_name(tmp_path, name):
    ending, content, words = BAD[name]
    path = tmp_path / f"bad{ending}"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"bad\.") as refusal:
        whole(path)
    assert words in str(refusal.value)


def test_objects_in_an_npz_are_never_unpickled(tmp_path):
    np.savez(tmp_path / "o.npz", X=np.array([[{}]], dtype=object))
    with pytest.raises(InputError, match="without objects"):
        open_table(tmp_path / "o.npz")


def test_other_delimiters_and_a_byte_order_mark(tmp_path):
    for delimiter in ";\t":
        text = "a b label\n1 2 x\n3 4 y\n".replace(" ", delimiter)
        (tmp_path / "t.csv").write_bytes(b"\xef\xbb\xbf" + text.encode())
        X, labels = whole(tmp_path / "t.csv")
        assert X.tolist() == [[1, 2], [3, 4]] and labels.tolist() == ["x", "y"]


def test_patterns_and_names(tmp_path):
    for name in ("b.csv", "a.csv", "c.txt"):
        (tmp_path / name).write_text("x")
    found = expand_paths([tmp_path / "*.csv", tmp_path / "b.csv", tmp_path / "absent.csv"])
    assert [p.name for p in found] == ["a.csv", "b.csv", "absent.csv"]
    with pytest.raises(FileError, match="no file matches"):
        expand_paths([tmp_path / "*.json"])
    with pytest.raises(FileError, match=r"absent\.csv"):
        open_table(tmp_path / "absent.csv")


def test_labels_that_only_look_like_whole_numbers_stay_text():
    assert as_labels(["01", "02"]).tolist() == ["01", "02"]
    assert as_labels(["1", "x"]).dtype.kind == "U"
    assert as_labels(["1", "2"]).tolist() == [1, 2]
    assert as_labels(["1.5", "2"]).tolist() == [1.5, 2.0]
