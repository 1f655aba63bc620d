"""A file that was read is held by no thread of Arrow, which at the end of the process would abort it."""

import gc
import gzip

import pytest

import remanence as rm
from remanence.tables import csv


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
