"""A file that was read is held by no thread of Arrow, which at the end of the process would abort it."""

import gc
import gzip
import weakref

import pytest

import remanence as rm
from remanence.tables import csv, text


@pytest.mark.parametrize("ending", ["whole", "early", "ragged", "text"])
def test_no_thread_holds_a_file_that_was_read(ending, tmp_path):
    rows = [f"{i},{2 * i}\n" for i in range(5000)]
    if ending == "ragged":
        rows[4000] = "1,2,3\n"
    if ending == "text":
        rows[4000] = "1,high\n"
    path = tmp_path / "rows.csv.gz"
    path.write_bytes(gzip.compress(("a,b\n" + "".join(rows)).encode()))
    for _ in range(20):
        blocks = csv.read(path).pieces()[0].blocks(["a", "b"])
        if ending == "whole":
            assert sum(len(block.X) for block in blocks) == 5000
        elif ending == "early":
            next(blocks)
            blocks.close()
        else:
            with pytest.raises(rm.InputError):
                list(blocks)
        assert not [o for o in gc.get_objects() if type(o) is csv._Bytes]


@pytest.mark.parametrize("ending", ["whole", "early"])
def test_no_thread_holds_the_text_that_was_read(ending, tmp_path, monkeypatch):
    """Arrow parses the text where it was read, so that it has to let go of it, too."""
    handed, read = [], text.TextSource.read

    def counted(source, size=-1):
        part = read(source, size)
        if isinstance(part, memoryview):
            handed.append(weakref.ref(part))
        return part

    monkeypatch.setattr(text.TextSource, "read", counted)
    monkeypatch.setattr(text, "CHUNK", 1 << 12)
    path = tmp_path / "rows.csv"
    path.write_text("a,b\n" + "".join(f"{i},{i / 7!r}\n" for i in range(5000)))
    for _ in range(20):
        handed.clear()
        blocks = csv.read(path).pieces()[0].blocks(["a", "b"])
        rows = [next(blocks).X.copy()] if ending == "early" else [block.X for block in blocks]
        blocks.close()
        assert len(handed) > 1 and not any(view() is not None for view in handed)
        assert (rows[0][:, 1] == rows[0][:, 0] / 7).all()  # (and numbers do not refer to it)
