"""Files that are either the old one or the new one."""

import os

import pytest

from remanence.errors import FileError
from remanence.files import make_folder, remove_unfinished, write_atomically


def test_content_may_be_bytes_or_buffers_and_leaves_nothing_beside(tmp_path):
    write_atomically(tmp_path / "a", b"one")
    write_atomically(tmp_path / "b", iter([b"on", memoryview(b"e"), bytearray(b"!")]))
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == {"a": b"one", "b": b"one!"}


def test_a_write_that_fails_half_way_leaves_the_old_file(tmp_path):
    write_atomically(tmp_path / "a", b"old")

    def parts():
        yield b"new"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_atomically(tmp_path / "a", parts())
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("a", b"old")]


def test_permissions_are_those_of_the_old_file_or_of_the_user(tmp_path):
    before = os.umask(0o027)
    try:
        write_atomically(tmp_path / "a", b"one")
    finally:
        os.umask(before)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o640
    (tmp_path / "a").chmod(0o600)
    write_atomically(tmp_path / "a", b"two")
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o600


def test_only_what_a_killed_writer_of_this_file_left_is_removed(tmp_path):
    kept = ["a", ".a.part", ".b.0123456789abcdef.part", ".a.b.0123456789abcdef.part", ".a.0123456789ABCDEF.part"]
    for name in [*kept, ".a.0123456789abcdef.part"]:
        (tmp_path / name).touch()
    remove_unfinished(tmp_path / "a")
    assert {p.name for p in tmp_path.iterdir()} == set(kept)


def test_folders_that_are_not_there_or_are_files_are_named(tmp_path):
    with pytest.raises(FileError, match=r"absent/a: No such file"):
        write_atomically(tmp_path / "absent" / "a", b"")
    (tmp_path / "file").touch()
    with pytest.raises(FileError, match="got a file"):
        make_folder(tmp_path / "file")
    assert make_folder(tmp_path / "x" / "y").is_dir()
