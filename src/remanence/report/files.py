"""Files that are either the old one or the new one, never half of each."""

import os
from pathlib import Path
from tempfile import NamedTemporaryFile

from remanence.errors import FileError


def make_folder(path: Path) -> Path:
    """The folder, made if it is not there and found writable."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise FileError(f"expected {path} to be a folder, got a file; name another folder") from None
    except OSError as problem:
        raise FileError(f"cannot make the folder {path}: {problem.strerror}; name another folder") from None
    if not os.access(path, os.W_OK):
        raise FileError(f"cannot write into the folder {path}; name another folder or change its permissions")
    return path


def write_atomically(path: Path, content: bytes) -> None:
    """Write beside the file and move into its place."""
    try:
        with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
            beside = Path(file.name)
            try:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            except BaseException:
                beside.unlink()
                raise
        beside.chmod(0o644)  # a temporary file is private, a report is not
        beside.replace(path)
    except OSError as problem:
        raise FileError(f"cannot write {path}: {problem.strerror}; free some space or name another folder") from None
