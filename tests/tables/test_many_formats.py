"""The same rows in every format, all bad columns at once, dialects, folders and empty files."""

import bz2
import csv
import gzip
import json

import numpy as np
import pytest

from remanence.errors import FileError, InputError
from remanence.tables import Dialect, expand_paths, open_table
from remanence.tables.write import encoded

pa = pytest.importorskip("pyarrow")
X = np.random.default_rng(0).standard_normal((40, 3))
Y = np.array(["x", "y"] * 20)


def whole(path, **options):
    table = open_table(path, **options)
    blocks = [b for p in table.pieces() for b in p.blocks(table.features(["label"]), ["label"])]
    return np.concatenate([b.X for b in blocks]), np.concatenate([b.labels for b in blocks])


@pytest.mark.parametrize(
    "ending", ["csv", "tsv", "csv.gz", "csv.bz2", "csv.zst", "jsonl", "jsonl.gz", "parquet", "feather"]
)
def test_what_is_written_is_read_back(tmp_path, ending):
    path = tmp_path / f"t.{ending}"
    block = {"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "label": Y}
    path.write_bytes(
        b"".join(encoded(path, [{n: c[:25] for n, c in block.items()}, {n: c[25:] for n, c in block.items()}]))
    )
    numbers, labels = whole(path)
    assert (numbers == X).all() and labels.tolist() == Y.tolist()


def test_an_npz_of_columns_is_a_table_of_these_columns(tmp_path):
    np.savez(tmp_path / "t.npz", a=X[:, 0], b=X[:, 1], c=X[:, 2], label=Y)
    assert open_table(tmp_path / "t.npz").columns == ("a", "b", "c", "label")
    numbers, labels = whole(tmp_path / "t.npz")
    assert (numbers == X).all() and labels.tolist() == Y.tolist()
    for wrong in ({"a": X[:, 0], "b": X[1:, 1]}, {"a": np.array(1.0)}, {}, {"a": X[:0, 0]}):
        np.savez(tmp_path / "wrong.npz", **wrong)
        with pytest.raises(InputError, match=r"wrong\.npz"):
            open_table(tmp_path / "wrong.npz")


def test_vectors_have_the_same_columns_in_every_format(tmp_path):
    np.savez(tmp_path / "t.npz", v=X, label=Y)
    pa.feather = pytest.importorskip("pyarrow.feather")
    pa.feather.write_feather(pa.table({"v": list(X), "label": Y}), tmp_path / "t.feather")
    (tmp_path / "t.jsonl").write_text(
        "".join(json.dumps({"v": v, "label": k}) + "\n" for v, k in zip(X.tolist(), Y, strict=True))
    )
    for ending in ("npz", "feather", "jsonl"):
        path = tmp_path / f"t.{ending}"
        assert open_table(path).features(["label"]) == ("v0", "v1", "v2")
        assert (whole(path)[0] == X).all()
        table = open_table(path)
        table.with_earlier_names(["v.0", "v.1", "v.2"])
        assert table.columns[:2] == ("v.0", "v.1") or "v.0" in table.columns
        (block,) = table.pieces()[0].blocks(["v.2", "v.0"])
        assert (X[:, [2, 0]] == block.X).all()


def test_all_bad_columns_are_named_at_once(tmp_path):
    (tmp_path / "t.csv").write_text("a,b,c,label\n1,red,x,u\n2,blue,y,v\n")
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"a": [1.0], "b": ["red"], "c": ["x"], "label": ["u"]}), tmp_path / "t.parquet")
    for ending in ("csv", "parquet"):
        with pytest.raises(InputError, match=r"column 'b'.*the same is true of 'c'"):
            whole(tmp_path / f"t.{ending}")


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_dialects_are_told_from_the_first_lines(tmp_path, delimiter, encoding):
    lines = [delimiter.join(["a", "b", "c", "label"])]
    lines += [
        delimiter.join([*(repr(v).replace(".", ",") for v in row), k]) for row, k in zip(X.tolist(), Y, strict=True)
    ]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n", encoding=encoding)
    assert (whole(tmp_path / "t.csv")[0] == X).all()
    table = open_table(tmp_path / "t.csv")
    assert table.dialect.to_notes()["decimal"] == ","


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_a_dialect_is_told_where_entries_have_delimiters_quotes_and_breaks(tmp_path, delimiter):
    rows = [[f"{j},5" if delimiter != "," else f"{j}.5", 'one; "two"\nthree, four|five', "x"] for j in range(4)]
    with (tmp_path / "t.csv").open("w", newline="") as file:
        csv.writer(file, delimiter=delimiter, quoting=csv.QUOTE_ALL).writerows([["a;b", "c, d, e|", "label"], *rows])
    table = open_table(tmp_path / "t.csv")
    assert (table.columns, table.dialect.delimiter) == (("a;b", "c, d, e|", "label"), delimiter)
    blocks = list(table.pieces()[0].blocks(["a;b"], ["label"], originals=True))
    assert blocks[0].X[:, 0].tolist() == [0.5, 1.5, 2.5, 3.5]
    assert blocks[0].original["c, d, e|"].tolist() == [row[1] for row in rows]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("given", [False, True])
def test_a_byte_order_mark_is_no_part_of_a_name(tmp_path, encoding, given):
    mark = "" if encoding == "utf-16" else "\ufeff"
    (tmp_path / "t.csv").write_text(mark + "a,label\n1,x\n", encoding=encoding)
    dialect = Dialect.from_options({"encoding": encoding} if given else {})
    assert open_table(tmp_path / "t.csv", dialect).columns == ("a", "label")


def test_a_dialect_that_is_given_is_used(tmp_path):
    (tmp_path / "t.csv").write_bytes("a:label\n1:\xe4\n2:b\n".encode("latin-1"))
    dialect = Dialect.from_options({"delimiter": ":", "encoding": "latin-1"})
    assert whole(tmp_path / "t.csv", dialect=dialect)[1].tolist() == ["\xe4", "b"]
    for wrong in ({"delimiter": "ab"}, {"colour": "red"}, {"encoding": "none"}, {"decimal": "x"}):
        with pytest.raises(InputError, match="expected"):
            Dialect.from_options(wrong)


def test_folders_are_read_in_the_order_of_names(tmp_path):
    for name in ("day=2/b.csv", "day=1/a.csv", "_SUCCESS", ".hidden/c.csv", "readme.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("a,label\n1,x\n")
    assert [p.name for p in expand_paths([tmp_path])] == ["a.csv", "b.csv"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileError, match="cannot find tables"):
        expand_paths([tmp_path / "empty"])


def test_formulas_are_written_as_text(tmp_path):
    cells = np.array(["=1+1", "@x", "-5", "+a", "plain"], dtype=object)
    text = b"".join(encoded(tmp_path / "t.csv", [{"a": cells}])).decode().splitlines()
    assert text == ["a", "'=1+1", "'@x", "-5", "'+a", "plain"]
    raw = b"".join(encoded(tmp_path / "t.csv", [{"a": cells}], raw=True)).decode().splitlines()
    assert raw[1:] == cells.tolist()


def test_compressed_files_with_other_endings_are_told(tmp_path):
    (tmp_path / "t.csv").write_bytes(gzip.compress(b"a,label\n1,x\n"))
    with pytest.raises(InputError, match="holds a gzip file"):
        open_table(tmp_path / "t.csv")
    (tmp_path / "t.csv.gz").write_bytes(bz2.compress(b"a,label\n1,x\n"))
    with pytest.raises(InputError, match="holds a bz2 file"):
        open_table(tmp_path / "t.csv.gz")


def test_an_empty_file_does_not_stop_others(tmp_path, capsys):
    from remanence.cli import main

    for name, text in {"1": "a,label\n1,x\n2,y\n", "2": "a,label\n", "3": "a,label\n3,x\n"}.items():
        (tmp_path / f"{name}.csv").write_text(text)
    with pytest.warns(UserWarning, match="no rows"), pytest.raises(SystemExit) as ended:
        main(["learn", str(tmp_path / "m"), str(tmp_path / "*.csv"), "--label", "label", "--json"])
    assert not ended.value.code and json.loads(capsys.readouterr().out)["learned"] == 3


def test_kinds_that_cannot_be_learned_are_refused(tmp_path, capsys):
    from remanence.cli import main

    (tmp_path / "t.csv").write_text("a,b,label\n1,red,x\n2,blue,y\n")
    arguments = ["learn", str(tmp_path / "m"), str(tmp_path / "t.csv"), "--label", "label", "--column"]
    for kind, code in (("b:colour", 2), ("b:number", 2), ("b:ignored", 0)):
        with pytest.raises(SystemExit) as ended:
            main([*arguments, kind])
        assert (ended.value.code or 0) == code
    said = capsys.readouterr().err
    assert "among number, truth, category" in said and "expected a number in column 'b', row 1" in said


@pytest.mark.parametrize("header", ["a,b", "ä,b"])
@pytest.mark.parametrize("given", [None, "ascii", "utf-16"])
def test_text_in_another_encoding_is_refused_with_the_option_that_names_it(tmp_path, header, given):
    path = tmp_path / "t.csv"
    path.write_bytes(f"{header}\n1,é\n".encode("latin-1"))
    with pytest.raises(InputError, match="latin-1") as refusal:
        table = open_table(path, Dialect(encoding=given))
        list(table.pieces()[0].blocks([table.columns[0]], ["b"]))
    assert refusal.value.arguments == ("encoding",)


@pytest.mark.parametrize("name", ["base64", "rot13", "klingon", "a\0b"])
def test_only_encodings_of_text_are_accepted(name):
    with pytest.raises(InputError, match="name of an encoding"):
        Dialect.from_options({"encoding": name})


@pytest.mark.parametrize("ending", ["\n", ""])
def test_a_list_of_all_rows_is_no_file_of_json_lines(tmp_path, ending):
    (tmp_path / "t.jsonl").write_text('[{"a": 1, "label": "x"}]' + ending)
    with pytest.raises(InputError, match="one object per line"):
        open_table(tmp_path / "t.jsonl", waits=True)


def test_dates_in_json_lines_are_text_as_they_are_written(tmp_path, monkeypatch):
    """Arrow takes them for times, of which one text is as good as another."""
    from remanence.tables import jsonl, text

    monkeypatch.setattr(text, "CHUNK", 40)
    monkeypatch.setattr(jsonl, "BLOCK", 40)  # several blocks, the first without dates
    path, dates = tmp_path / "t.jsonl", ["", "2024-01-01", "2024-01-01T12:00:00Z", "2024-01-01 00:00:00", "later"]
    path.write_text("".join(json.dumps({"n": k, "when": d or None, "a": [k]}) + "\n" for k, d in enumerate(dates)))
    table = open_table(path)
    blocks = list(table.pieces()[0].blocks(["n"], [], originals=True))
    assert table.columns == ("n", "when", "a0")
    assert [v or "" for block in blocks for v in block.original["when"].to_pylist()] == dates
    assert [n for block in blocks for n in block.X[:, 0]] == [0, 1, 2, 3, 4] and len(blocks) > 2
    path.write_text("".join(path.read_text().splitlines(keepends=True)[1:4]))
    assert open_table(path).columns == ("n", "when", "a0")  # (also where the first block has dates)


def test_a_line_that_waits_is_told_of_json_lines_too(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_text('{"a": 1, "label": "x"}\n{"a": 1, "lab')
    with pytest.warns(UserWarning, match="waits"):
        (block,) = open_table(path, waits=True).pieces()[0].blocks(["a"], ["label"])
    assert len(block.X) == 1
    path.write_text('{"a": 1, "label": "x"}')
    with pytest.raises(InputError, match="waits until it has one"):
        open_table(path, waits=True)
    (tmp_path / "t.csv").write_text("a,label")
    with pytest.raises(InputError, match="waits until it has one"):
        open_table(tmp_path / "t.csv", waits=True)
