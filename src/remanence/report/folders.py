"""Checks of output folders: files are written only into empty folders and into those of a run or a comparison."""

import json
from pathlib import Path
from typing import Any

from remanence.errors import FileError

LEARNED, SETTINGS, RESULTS, COMPARISON = "learned", "settings.json", "results.json", "comparison.json"

# Keys that these files have in every version.
MARKS = {
    SETTINGS: {"stream", "tasks", "methods", "seed", "seeds", "version"},
    RESULTS: {"schema", "settings", "learners"},
    COMPARISON: {"runs", "differing", "learners"},
}
PART = {"matrix", "certificates"}


def check_folder(folder: Path) -> None:
    """Raise a FileError for a folder with files but without a run or a comparison."""
    try:
        others = sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
    except OSError:  # missing, or not a folder: creating it will tell
        return
    if others and not any(holds(folder / name, keys) for name, keys in MARKS.items()):
        shown = ", ".join(others[:3]) + (" …" if len(others) > 3 else "")
        raise FileError(
            f"expected {folder} to be empty or to hold a run, but it holds {shown}; nothing was written: "
            f"name another folder"
        )


def holds(path: Path, keys: set[str]) -> bool:
    """Whether a file is JSON of an object with these keys."""
    found = read_json(path)
    return isinstance(found, dict) and keys <= found.keys()


def read_json(path: Path) -> Any:
    """The content of a JSON file, None if it cannot be read."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
