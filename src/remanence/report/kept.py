"""A run that survives a kill: every learner is written down as soon as it has learned, and never learned twice.

<folder>/settings.json              what the run is; another run is refused its place
<folder>/learned/<learner>-<seed>.json
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from remanence.certificates import Certificate
from remanence.errors import FileError, InputError
from remanence.evaluation import ErrorMatrix
from remanence.files import make_folder, remove_unfinished, write_atomically

LEARNED, SETTINGS, RESULTS = "learned", "settings.json", "results.json"


@dataclass(frozen=True)
class Part:
    """What one learner made of the stream of one seed."""

    matrix: ErrorMatrix
    certificates: tuple[Certificate, ...] = ()


class Kept(Protocol):
    """Where finished parts of a run are."""

    def part(self, name: str, seed: int) -> Part | None: ...
    def keep(self, name: str, seed: int, part: Part) -> None: ...


class Nothing:
    """Keeps nothing: a run in memory."""

    def part(self, name: str, seed: int) -> Part | None:
        return None

    def keep(self, name: str, seed: int, part: Part) -> None:
        pass


class RunFolder:
    """The folder of a run; `settings` are all that decides its numbers.

    A folder that holds a run with other settings is refused; with `again` what is in it is forgotten first.
    """

    def __init__(self, folder: Path, settings: Mapping[str, Any], again: bool = False) -> None:
        wanted = json.loads(json.dumps(dict(settings)))
        before = None if again else _settings_in(folder)
        if before is not None and before != wanted:
            raise InputError(
                f"expected {folder} to be new or to hold this run, got one with {_differing(before, wanted)}; "
                "name another folder with --out, or replace that run with --again"
            )
        self.folder = make_folder(folder)
        self.learned = make_folder(folder / LEARNED)
        self.reused = 0
        remove_unfinished(folder / SETTINGS)
        if again:
            for left in self.learned.glob("*.json"):
                left.unlink()
        if before != wanted:
            (folder / RESULTS).unlink(missing_ok=True)
            write_atomically(folder / SETTINGS, json.dumps(wanted, indent=1, ensure_ascii=False).encode() + b"\n")

    def part(self, name: str, seed: int) -> Part | None:
        """What was kept of this learner and seed, if it can be read; what cannot is learned anew."""
        path = self._path(name, seed)
        remove_unfinished(path)
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            part = Part(ErrorMatrix.from_dict(data["matrix"]), tuple(map(Certificate.from_dict, data["certificates"])))
        except (OSError, ValueError, KeyError, TypeError):
            return None
        self.reused += 1
        return part

    def keep(self, name: str, seed: int, part: Part) -> None:
        """Write the part down; a reader sees all of it or nothing."""
        data = {"matrix": part.matrix.to_dict(), "certificates": [c.to_dict() for c in part.certificates]}
        text = json.dumps(data, ensure_ascii=False, allow_nan=False)
        write_atomically(self._path(name, seed), text.encode() + b"\n")

    def _path(self, name: str, seed: int) -> Path:
        return self.learned / f"{name}-{seed}.json"


def _settings_in(folder: Path) -> dict[str, Any] | None:
    """The settings of the run in a folder; None if there is no run in it."""
    path = folder / SETTINGS
    if not path.exists():
        return {} if (folder / RESULTS).exists() else None  # results of an early version: some other run
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise FileError(f"cannot read {path}: {problem}; delete it, or name another folder with --out") from None
    return found if isinstance(found, dict) else {}


def _differing(before: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    keys = [key for key in {**wanted, **before} if before.get(key) != wanted.get(key)]
    shown = [f"{key} {before[key]!r} and not {wanted.get(key)!r}" for key in keys if key in before]
    return "; ".join(shown) or "settings that are not written down"
