"""Text is read in blocks that begin and end anywhere; what comes out are the whole lines of the file, as UTF-8."""

import bz2
import gzip
import random

import pyarrow as pa
import pytest

from remanence.errors import InputError
from remanence.tables import csv, open_table, text

PACK = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".zst": lambda content: pa.Codec("zstd").compress(content, asbytes=True),
}
ENCODINGS = ["utf-8", "utf-8-sig", "utf-16", "utf-16-le"]
CELLS = ["1", "-2.5", "é", "ä€😀", "", '"a,b"', '"x\ny"', '"q""q"', "z" * 30]


@pytest.mark.parametrize("ending", PACK)
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_are_whole_wherever_a_block_ends(tmp_path, monkeypatch, ending, end):
    path = tmp_path / f"t.csv{ending}"
    for seed in range(40):
        rng = random.Random(seed)
        monkeypatch.setattr(text, "CHUNK", rng.choice([3, 4, 5, 7, 16, 64, 1000]))
        rows = [",".join(rng.choices(CELLS, k=3)).replace("\n", end) + end for _ in range(rng.randrange(30))]
        content, encoding, whole = "a,b,c" + end + "".join(rows), rng.choice(ENCODINGS), rng.random() < 0.5
        tail = "" if rng.random() < 0.5 else "7,unfinis"  # a writer is at work
        mark = "\ufeff" if encoding == "utf-16-le" else ""
        path.write_bytes(PACK[ending]((mark + content + tail).encode(encoding)))
        with text.TextSource(path, quote=b'"', whole=whole) as source:
            beginning = source.peek(rng.choice([1, 50]))
            found = source.read_line() if rng.random() < 0.5 else b""
            while part := source.read(rng.choice([-1, 1, 3, 50])):
                found += bytes(part)
        expected = content + tail if whole else content
        assert found.decode() == expected, (seed, encoding)
        assert expected.encode().startswith(beginning) and source.waiting == (not whole and bool(tail))


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_rows_are_the_same_for_blocks_of_any_length(tmp_path, monkeypatch, end, encoding):
    lines = [f'{i},"{i}{end if i % 3 else ""},{"é" * (i % 5)}",{i / 7!r}{end}' for i in range(300)]
    content = "a,note,b" + end + "".join(lines)
    (tmp_path / "t.csv").write_bytes((("\ufeff" if encoding == "utf-16-le" else "") + content).encode(encoding))
    for length in (997, 1000, 1001, 1 << 20):
        monkeypatch.setattr(text, "CHUNK", length)
        blocks = list(open_table(tmp_path / "t.csv").pieces()[0].blocks(["a", "b"], ["note"]))
        assert [v for block in blocks for v in block.X[:, 1]] == [i / 7 for i in range(300)]
        assert [v for block in blocks for v in block.labels][4].strip() == f"4{end},éééé".strip()


def test_quotes_that_begin_behind_the_first_block_may_hold_line_breaks(tmp_path, monkeypatch):
    monkeypatch.setattr(text, "CHUNK", 1 << 12)
    monkeypatch.setattr(csv, "BLOCK", 1 << 12)
    plain, quoted = "".join(f"{i},plain\n" for i in range(3000)), "".join(f'{i},"two\nlines"\n' for i in range(3000))
    (tmp_path / "t.csv").write_text("a,note\n" + plain + quoted)
    blocks = list(open_table(tmp_path / "t.csv").pieces()[0].blocks(["a"], ["note"]))
    assert sum(len(block.X) for block in blocks) == 6000 and blocks[-1].labels[-1] == "two\nlines"


def test_a_long_line_may_come_late(tmp_path, monkeypatch):
    """Longer than what is read at once, and than what is parsed at once."""
    monkeypatch.setattr(text, "CHUNK", 1 << 16)
    notes = ["short"] * 9000 + ["long " * 2_000_000] + ["short"] * 9000
    (tmp_path / "t.csv").write_text("a,note\n" + "".join(f"{i},{note}\n" for i, note in enumerate(notes)))
    blocks = list(open_table(tmp_path / "t.csv").pieces()[0].blocks(["a"], ["note"]))
    assert [v for block in blocks for v in block.labels] == [note.strip() for note in notes]


def test_an_open_quote_at_the_end_is_refused_with_what_to_do(tmp_path):
    (tmp_path / "t.csv").write_text('a,note\n1,p\n2,"q\nr')
    with pytest.raises(InputError, match="if it is being written, read it again") as refusal:
        list(open_table(tmp_path / "t.csv", waits=True).pieces()[0].blocks(["a"], ["note"]))
    assert refusal.value.arguments == ("dialect",)


@pytest.mark.parametrize("line", ["sep=;", "SEP=;", '"sep=;"', "sep=|", "sep=\t", "sep= "])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_line_that_names_the_delimiter_stands_before_the_header(tmp_path, line, end, encoding):
    delimiter = line.strip('"')[4]
    rows = [delimiter.join(cells) for cells in (["a", "b,c", "label"], ["1.5", "2", "x"], ["2.5", "3", "y"])]
    (tmp_path / "t.csv").write_bytes("".join(row + end for row in [line, *rows]).encode(encoding))
    table = open_table(tmp_path / "t.csv")
    assert (table.columns, table.dialect.delimiter) == (("a", "b,c", "label"), delimiter)
    for _ in range(2):  # (the second pass opens the file anew)
        (block,) = table.pieces()[0].blocks(["b,c", "a"], ["label"])
        assert block.X.tolist() == [[2, 1.5], [3, 2.5]] and block.labels.tolist() == ["x", "y"]
    given = csv.Dialect.from_options({"delimiter": ","})
    assert open_table(tmp_path / "t.csv", given).dialect.delimiter == ","


@pytest.mark.parametrize("line", ["sep=", "sep=;;", "sep=§", "separator=;"])
def test_a_line_that_names_no_delimiter_is_a_header(tmp_path, line):
    (tmp_path / "t.csv").write_text(f"{line}\n1\n2\n")
    if line == "sep=;;":  # the delimiter of three names, two of them empty
        with pytest.raises(InputError, match="more than once"):
            open_table(tmp_path / "t.csv")
    else:
        assert line.startswith(open_table(tmp_path / "t.csv").columns[0])


def test_a_line_that_names_the_delimiter_and_nothing_else_is_an_empty_table(tmp_path):
    (tmp_path / "t.csv").write_text("sep=;\n")
    with pytest.raises(InputError, match="is empty; expected a line of column names"):
        open_table(tmp_path / "t.csv")
