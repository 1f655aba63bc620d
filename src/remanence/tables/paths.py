"""Where tables are: files, patterns, folders, standard input, and addresses of other file systems (fsspec).

Standard input and remote files are copied to a temporary file first: reading may need a second pass, and a table that
is larger than memory fits on the disk.
"""

import glob
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePath, PurePosixPath
from typing import IO

from remanence.errors import FileError, InputError, MissingDependency
from remanence.tables.formats import ENDINGS, NAMES, format_of

STANDARD_INPUT = "-"
HIDDEN = ("_", ".")  # names in folders of data sets that are not data: _SUCCESS, .crc


def is_address(path: str | Path) -> bool:
    """Whether this is an address such as s3://bucket/rows.parquet."""
    return "://" in str(path)


def expand_paths(patterns: Iterable[Path | str]) -> list[Path | str]:
    """The files that names, patterns such as 'data/*.csv' and folders stand for, each once, in the order given.

    Standard input (-) stays as it is; addresses (s3://bucket/*.parquet) may be patterns with * and folders, too.
    """
    found: dict[Path | str, None] = {}
    for pattern in map(str, patterns):
        if pattern == STANDARD_INPUT:
            found[pattern] = None
        elif is_address(pattern):
            found.update(dict.fromkeys(_at_address(pattern)))
        elif Path(pattern).is_dir():
            found.update(dict.fromkeys(_in_folder(Path(pattern))))
        elif Path(pattern).exists() or not glob.has_magic(pattern):
            found[Path(pattern)] = None
        else:
            matches = sorted(glob.glob(pattern, recursive=True))  # noqa: PTH207 (patterns may be absolute)
            if not matches:
                raise FileError(f"cannot find {pattern}: no file matches this pattern")
            found.update({Path(match): None for match in matches if Path(match).is_file()})
    return list(found)


def _in_folder(folder: Path) -> list[Path]:
    """The tables of a folder and the folders inside it, in the order of their names."""
    inside = [path.relative_to(folder) for path in sorted(folder.rglob("*")) if path.is_file()]
    return [folder / path for path in _tables(inside, str(folder))]


def _tables(inside: Iterable[PurePath], folder: str) -> list[PurePath]:
    """The files, by their paths inside a folder, that are tables."""
    tables = (path for path in inside if format_of(path) is not None)
    found = [path for path in tables if not any(part.startswith(HIDDEN) for part in path.parts)]
    if not found:
        raise FileError(f"cannot find tables in the folder {folder}: no file in it ends in {', '.join(ENDINGS)}")
    return found


def _at_address(pattern: str) -> list[str]:
    """The addresses that a pattern or a folder of another file system stands for."""
    if "*" not in pattern and format_of(pattern) is not None:  # (a question mark is no pattern: it begins a query)
        return [pattern]
    with _reading(pattern):
        from fsspec.core import url_to_fs

        system, path = url_to_fs(pattern)
        if "*" in pattern:
            matches = [match for match in sorted(system.glob(path)) if not system.isdir(match)]
            if not matches:
                raise FileError(f"cannot find {pattern}: no file matches this pattern")
        elif system.isdir(path):
            inside = [PurePosixPath(name).relative_to(path) for name in sorted(system.find(path))]
            matches = [str(PurePosixPath(path) / name) for name in _tables(inside, pattern)]
        else:
            return [pattern]
        return [system.unstrip_protocol(match) for match in matches]


def format_named(name: str) -> str:
    """The format of this name, such as csv or parquet; any other is an InputError."""
    known = sorted({*ENDINGS.values(), *NAMES})
    found = NAMES.get(name.lower(), name.lower())
    if found not in ENDINGS.values():
        raise InputError(f"expected a format among {', '.join(known)}, got {name!r:.40}", arguments=("given",))
    return found


@contextmanager
def local_file(path: Path | str, given: str | None = None) -> Iterator[Path]:
    """The file itself, or a temporary copy of standard input or of what is at an address."""
    text = str(path)
    if text != STANDARD_INPUT and not is_address(text):
        yield Path(path)
        return
    if text == STANDARD_INPUT and given is None:
        raise InputError("expected the format of standard input, such as csv, got none", arguments=("given",))
    ending = next(e for e, f in ENDINGS.items() if f == format_named(given)) if given else ""
    name = f"standard input{ending}" if text == STANDARD_INPUT else PurePosixPath(text).name
    with tempfile.TemporaryDirectory(prefix="remanence-") as folder:
        copy = Path(folder) / (name or "table")
        with copy.open("wb") as file:
            _copy(text, file)
        yield copy


def _copy(text: str, file: IO[bytes]) -> None:
    if text == STANDARD_INPUT:
        shutil.copyfileobj(sys.stdin.buffer, file, 1 << 20)
        return
    with _reading(text):
        import fsspec

        with fsspec.open(text, "rb") as source:
            shutil.copyfileobj(source, file, 1 << 20)


@contextmanager
def _reading(address: str) -> Iterator[None]:
    """Errors of fsspec, and of the packages it needs, as those of the library."""
    try:
        import fsspec  # noqa: F401
    except ImportError:
        raise MissingDependency(f"reading {address} needs fsspec, which is not installed; pip install fsspec") from None
    try:
        yield
    except (MissingDependency, FileError):
        raise
    except ImportError as problem:
        raise MissingDependency(f"reading {address} needs another package: {problem}") from None
    except FileNotFoundError as problem:
        reason = f", or it cannot be reached: {problem.__cause__}" if problem.__cause__ else ""
        raise FileError(f"cannot read {address}: there is no such file{reason}") from None
    except (OSError, ValueError) as problem:
        raise FileError(f"cannot read {address}: {problem}") from None
