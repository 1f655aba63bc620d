"""The folder of a run: every learner is saved as soon as it is trained, so that a stopped run can be continued.

<folder>/settings.json                    the settings of the run; a run with other settings is an error
<folder>/learned/<learner>-<seed>.json    the result of one learner for one seed
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from remanence.certificates import Certificate
from remanence.errors import InputError
from remanence.evaluation import ErrorMatrix
from remanence.evaluation.confusion import Confusion
from remanence.evaluation.reliability import Reliability
from remanence.files import make_folder, remove_unfinished, write_atomically
from remanence.report.folders import LEARNED, PART, RESULTS, SETTINGS, check_folder, holds, read_json


@dataclass(frozen=True)
class Part:
    """The result of one learner on the stream of one seed."""

    matrix: ErrorMatrix
    certificates: tuple[Certificate, ...] = ()
    confusion: Confusion | None = None
    reliability: Reliability | None = None


class Kept(Protocol):
    """Where finished parts of a run are stored."""

    def part(self, name: str, seed: int) -> Part | None: ...
    def keep(self, name: str, seed: int, part: Part) -> None: ...


class Nothing:
    """Stores nothing: for a run in memory."""

    def part(self, name: str, seed: int) -> Part | None:
        return None

    def keep(self, name: str, seed: int, part: Part) -> None:
        pass


class RunFolder:
    """The folder in which a run is saved part by part, and from which it is continued.

    A folder with a run of other settings is an InputError, unless `again` deletes that run (and no other file).
    A folder with other files is a FileError in any case.

    Parameters
    ----------
    folder : Path
    settings : mapping
        All that decides the numbers of the run.
    again : bool
        Delete what the folder holds of a run and start from scratch.

    Examples
    --------
    >>> import remanence as rm, tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as parent:
    ...     folder = rm.report.RunFolder(pathlib.Path(parent) / "run", {"seed": 0})
    ...     print(folder.part("rls", 0))
    None
    """

    def __init__(self, folder: Path, settings: Mapping[str, Any], again: bool = False) -> None:
        wanted = json.loads(json.dumps(dict(settings)))
        check_folder(folder)
        before = None if again else _settings_in(folder)
        if before is not None and before != wanted:
            raise InputError(
                f"expected {folder} to be new or to hold this run, got one with {_differing(before, wanted)}; "
                "name another folder, or replace that run with `again`",
                arguments=("folder", "again"),
            )
        self.folder = make_folder(folder)
        self.reused = 0
        remove_unfinished(folder / SETTINGS)
        if again:
            for left in (folder / LEARNED).glob("*-*.json"):
                if holds(left, PART):
                    left.unlink()
        if before != wanted:
            (folder / RESULTS).unlink(missing_ok=True)
            write_atomically(folder / SETTINGS, json.dumps(wanted, indent=1, ensure_ascii=False).encode() + b"\n")
        self.learned = make_folder(folder / LEARNED)  # after the settings, which mark the folder as that of a run

    def part(self, name: str, seed: int) -> Part | None:
        """The stored part of this learner and seed; None if there is none or it cannot be read."""
        path = self._path(name, seed)
        remove_unfinished(path)
        try:
            data = read_json(path)
            confusion = Confusion.from_dict(data["confusion"]) if data.get("confusion") else None
            certificates = tuple(map(Certificate.from_dict, data["certificates"]))
            reliability = Reliability.from_dict(data["reliability"]) if data.get("reliability") else None
            part = Part(ErrorMatrix.from_dict(data["matrix"]), certificates, confusion, reliability)
        except (ValueError, KeyError, TypeError, AttributeError):
            return None
        self.reused += 1
        return part

    def keep(self, name: str, seed: int, part: Part) -> None:
        """Write the part atomically."""
        data: dict[str, Any] = {"matrix": part.matrix.to_dict()}
        data["certificates"] = [c.to_dict() for c in part.certificates]
        data["confusion"] = None if part.confusion is None else part.confusion.to_dict()
        data["reliability"] = None if part.reliability is None else part.reliability.to_dict()
        text = json.dumps(data, ensure_ascii=False, allow_nan=False)
        write_atomically(self._path(name, seed), text.encode() + b"\n")

    def _path(self, name: str, seed: int) -> Path:
        return self.learned / f"{name}-{seed}.json"


def _settings_in(folder: Path) -> dict[str, Any] | None:
    """The settings of the run in a folder; None if there is no run in it."""
    if not (folder / SETTINGS).exists():
        return {} if (folder / RESULTS).exists() else None  # results without their settings: some other run
    found = read_json(folder / SETTINGS)
    return found if isinstance(found, dict) else {}


def _differing(before: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    keys = [key for key in {**wanted, **before} if before.get(key) != wanted.get(key)]
    shown = [f"{key} {before[key]!r} and not {wanted.get(key)!r}" for key in keys if key in before]
    return "; ".join(shown) or "unknown settings"
