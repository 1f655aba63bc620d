"""The ledger: what a model has learned, identified by its content, so that nothing is learned twice.

    in force = learned or merged, and not unlearned since                                              (L)

A ledger is a value: every change makes a new one. It is stored in the model file itself, so that the learner and the
list of what it has learned are always from the same write.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal, get_args

from remanence.errors import InputError
from remanence.hashing import content_fingerprint
from remanence.validation import check_count

Action = Literal["learned", "unlearned", "merged"]
SHA256 = re.compile("[0-9a-f]{64}")
KEY = re.compile("[0-9a-f]{16}")


def marks(fingerprint: str) -> Iterator[str]:
    """The fingerprints under which a ledger lists the same rows when they are learned several times."""
    yield fingerprint
    times = 2
    while True:
        yield content_fingerprint(fingerprint, f"time {times}")
        times += 1


def now() -> str:
    """The time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


@dataclass(frozen=True, slots=True)
class Entry:
    """One change of a model: rows that were learned, unlearned or merged."""

    fingerprint: str  # SHA-256 of the keys of its rows; in ledgers of earlier versions that of a file
    name: str  # what people call it, a file name for instance
    rows: int
    action: Action = "learned"
    when: str = field(default_factory=now)  # UTC, ISO 8601
    size: int | None = None  # bytes of a CSV file, in ledgers of earlier versions, which know files and not rows
    begins: str | None = None  # the first 64 bits of the key of the first row, by which the piece is found in a file
    span: int | None = None  # rows of the piece there, also those that were unlearned since

    def __post_init__(self) -> None:
        if not isinstance(self.fingerprint, str) or not SHA256.fullmatch(self.fingerprint):
            raise InputError(
                f"expected a SHA-256 as 64 hexadecimal digits, got {self.fingerprint!r:.80}; use content_fingerprint"
            )
        if not isinstance(self.name, str):
            raise InputError(f"expected a text as name, got {type(self.name).__name__}")
        check_count(self.rows, "rows", 0)
        for count, what in ((self.size, "size"), (self.span, "span")):
            if count is not None:
                check_count(count, what, 0)
        if self.begins is not None and not (isinstance(self.begins, str) and KEY.fullmatch(self.begins)):
            raise InputError(f"expected the key of a row as 16 hexadecimal digits, got {self.begins!r:.40}")
        if self.action not in get_args(Action):
            raise InputError(f"expected an action among {', '.join(get_args(Action))}, got {self.action!r:.40}")
        try:
            moment = datetime.fromisoformat(self.when)
        except (TypeError, ValueError):
            moment = None
        if moment is None or moment.utcoffset() is None or moment.utcoffset():
            raise InputError(f"expected a time in UTC like {now()}, got {self.when!r:.40}")


@dataclass(frozen=True, slots=True)
class Ledger:
    """Everything that happened to a model, oldest first."""

    entries: tuple[Entry, ...] = ()
    _places: dict[str, int] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Where the last entry of every fingerprint stands, in the order of these last entries."""
        for i, entry in enumerate(self.entries):
            self._places.pop(entry.fingerprint, None)
            self._places[entry.fingerprint] = i

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def in_force(self) -> dict[str, Entry]:
        """What the model has learned and not unlearned (L), by fingerprint, in the order it was learned."""
        last = ((mark, self.entries[i]) for mark, i in self._places.items())
        return {mark: entry for mark, entry in last if entry.action != "unlearned"}

    def by_content(self) -> bool:
        """Whether it has pieces that are known by their rows, as earlier versions had not."""
        return any(entry.begins is not None for entry in self.entries)

    def by_file(self) -> dict[str, Entry]:
        """The entries in force that earlier versions made of whole files, by fingerprint."""
        return {mark: entry for mark, entry in self.in_force().items() if entry.begins is None}

    def rows(self) -> int:
        """The number of rows in the model: all that were learned or merged, less those unlearned."""
        return sum(-e.rows if e.action == "unlearned" else e.rows for e in self.entries)

    def contains(self, fingerprint: str) -> bool:
        """Whether these rows are in the model."""
        return self.last_action(fingerprint) in ("learned", "merged")

    def last_place(self, fingerprint: str) -> int:
        """The index of the last entry of these rows; -1 if there is none."""
        return self._places.get(fingerprint, -1)

    def last_action(self, fingerprint: str) -> Action | None:
        """The last action on these rows; None if there is none."""
        place = self.last_place(fingerprint)
        return None if place < 0 else self.entries[place].action

    def with_entry(self, entry: Entry) -> "Ledger":
        """With one more entry; rows in the model cannot be learned again, and unlearned rows not unlearned again.

        Rows may be unlearned that were not learned under this fingerprint: a part of a file, say.
        """
        last = self.last_action(entry.fingerprint)
        if (last in ("learned", "merged")) if entry.action != "unlearned" else (last == "unlearned"):
            raise InputError(
                f"expected rows that were not {entry.action} yet, got {entry.name}, which the ledger has as {last}"
            )
        places = self._places.copy()  # (copying is much faster than going through all entries)
        places.pop(entry.fingerprint, None)
        places[entry.fingerprint] = len(self.entries)
        longer = object.__new__(Ledger)
        object.__setattr__(longer, "entries", (*self.entries, entry))
        object.__setattr__(longer, "_places", places)
        return longer

    def without(self, fingerprint: str, when: str | None = None) -> "Ledger":
        """With these rows unlearned; raises InputError if they are not in the model."""
        held = self.in_force().get(fingerprint)
        if held is None:
            raise InputError(f"expected rows that are in the model, got {fingerprint!r:.80}, which are not")
        return self.with_entry(replace(held, action="unlearned", when=now() if when is None else when))

    def merged(self, other: "Ledger", when: str | None = None) -> "Ledger":
        """With all rows of another model; raises InputError if both have learned the same rows."""
        mine, theirs = self.in_force(), other.in_force()
        twice = [entry.name for key, entry in theirs.items() if key in mine]
        if twice:
            raise InputError(
                f"expected models of different rows to merge, but both have learned {', '.join(twice):.200}; "
                f"unlearn them from one of the two first"
            )
        when = now() if when is None else when
        came = (replace(entry, action="merged", when=when) for entry in theirs.values())
        return Ledger((*self.entries, *came))

    def to_list(self) -> list[list[Any]]:
        """The entries as JSON values."""
        return [[e.fingerprint, e.name, int(e.rows), e.action, e.when, *_optional(e)] for e in self.entries]

    @classmethod
    def from_list(cls, entries: Any) -> "Ledger":
        """The ledger that `to_list` was called on."""
        try:
            return cls(tuple(Entry(*entry) for entry in entries))
        except TypeError as problem:
            raise InputError(f"expected a list made by Ledger.to_list, got {problem}") from None


def _optional(entry: Entry) -> list[Any]:
    if entry.begins is not None:
        return [entry.size, entry.begins, entry.span]
    return [] if entry.size is None else [int(entry.size)]
