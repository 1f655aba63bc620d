"""Which rows are in a model: a value and pure functions of it, without access to files.

    in the model = rows of the pieces in force − rows removed from them − rows removed on trust               (H)

A piece is in the ledger under a mark: its fingerprint, or one derived from it if it was learned more than once. Rows
are identified by their place within the piece, and compared by a key, a hash of their numbers and outputs. Places are
stored, keys are not. Rows removed on trust were found in no available piece; they are stored as places within the file
that was unlearned, so that they can be found once both files are available.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.hashing import content_fingerprint
from remanence.store.ledger import Entry, Ledger, marks, now

Blocks = Iterable[tuple[Array, Array]]  # places (n,) and keys (n,) "S16" of rows, block by block
Places = dict[str, list[int]]  # mark: rows, by their places within the piece


@dataclass(frozen=True, slots=True)
class Available:
    """A piece that can be read."""

    fingerprint: str
    rows: Callable[[], Blocks]
    name: str = ""
    begins: str | None = None  # see Entry
    span: int | None = None


@dataclass(frozen=True, slots=True)
class Holdings:
    """What a model has learned, and which of these rows were removed (H)."""

    ledger: Ledger = field(default_factory=Ledger)
    out: Mapping[str, Sequence[int]] = field(default_factory=dict)  # removed rows of pieces in force
    loose: Mapping[str, Sequence[int]] = field(default_factory=dict)  # rows removed on trust, by file
    merged: Mapping[str, int] = field(default_factory=dict)  # rows that were removed from a piece before it was merged
    since: Mapping[str, int] = field(default_factory=dict)  # the ledger position before which loose rows were learned

    @classmethod
    def of(cls, ledger: Ledger, notes: Mapping[str, Any]) -> "Holdings":
        """The holdings in a ledger and the notes of a model file."""
        return cls(ledger, *({**notes.get(name, {})} for name in ("out", "loose", "merged", "since")))

    def to_notes(self) -> dict[str, Any]:
        """The part that is stored in the notes."""
        kept = {"out": self.out, "loose": self.loose, "merged": self.merged, "since": self.since}
        return {name: {mark: _plain(v) for mark, v in what.items()} for name, what in kept.items()}

    def held_marks(self, fingerprint: str) -> list[str]:
        """The marks under which this piece is in force."""
        return list(takewhile(self.ledger.contains, marks(fingerprint)))

    def went_out(self, fingerprint: str) -> int:
        """The position in the ledger where these rows were last unlearned; -1 if never."""
        met = takewhile(lambda mark: self.ledger.last_action(mark) is not None, marks(fingerprint))
        places = (self.ledger.last_place(mark) for mark in met)
        return max((i for i in places if self.ledger.entries[i].action == "unlearned"), default=-1)

    def went_loose(self, mark: str) -> int:
        """The position in the ledger from which on pieces cannot hold the rows removed on trust under this mark."""
        return self.since.get(mark, len(self.ledger))

    def rows_of(self, mark: str) -> int:
        """The rows of a piece in force, with those removed."""
        return self.ledger.entries[self.ledger.last_place(mark)].rows + self.merged.get(mark, 0)

    def rows_in(self, mark: str) -> int:
        """The rows of a piece in force without those removed by place; some may have been removed on trust."""
        return self.rows_of(mark) - len(self._gone(mark))

    def rows_loose(self) -> int:
        """The rows removed on trust that were found in no piece since.

        In ledgers written before such rows were noted, they are the difference in the sum (H).
        """
        return max(sum(map(self.rows_in, self.ledger.in_force())) - self.ledger.rows(), 0)

    def _gone(self, mark: str) -> Sequence[int]:
        return self.out.get(mark, ())

    def to_learn(self, fingerprint: str, occurrence: int, again: bool) -> str | None:
        """The mark under which to learn a piece, or None if it is known.

        Content that is in one file k times is known if it is in force k times; `again` takes the next free mark.
        """
        if not again and occurrence < len(self.held_marks(fingerprint)):
            return None
        return next(mark for mark in marks(fingerprint) if not self.ledger.contains(mark))

    def merge(self, other: "Holdings") -> "Holdings":
        """With all that another model holds; an InputError if both hold the same piece, which would count twice."""
        coming = other.ledger.in_force().items()
        ledger = self.ledger.merged(Ledger(tuple(replace(e, rows=other.rows_in(mark)) for mark, e in coming)))
        gone = {mark: len(other._gone(mark)) for mark, _ in coming if other._gone(mark)}
        loose = {mark: list(places) for mark, places in self.loose.items()}
        entries = list(ledger.entries)
        for mark, places in other.loose.items():
            entry = other.ledger.entries[other.ledger.last_place(mark)]
            entries.append(replace(entry, rows=len(places), action="unlearned"))
            loose[mark] = [*loose.get(mark, ()), *places]
        nameless = other.rows_loose() - sum(map(len, other.loose.values()))
        if nameless > 0:  # (of an older file, which does not say which)
            mark = content_fingerprint(*(mark for mark, _ in coming), f"{nameless} rows out")
            entries.append(Entry(mark, "unlearned on trust", nameless, "unlearned"))
        out = {mark: list(places) for held in (self, other) for mark, places in held.out.items()}
        since = {**self.since, **dict.fromkeys(other.loose, len(ledger))}
        return Holdings(Ledger(tuple(entries)), out, loose, {**self.merged, **gone}, since)


@dataclass(frozen=True, slots=True)
class Plan:
    """Where the rows to remove were found, and which were not."""

    keys: Array  # (k,) of the requested rows, unique and sorted
    times: Array  # (k,) how often each was requested
    owners: Array  # (k,) the first requested piece that has it
    found: Mapping[str, list[int]]  # mark: places of all copies
    copies: Array  # (k,) how many of each were found
    elsewhere: Array  # (k,) how many of these in pieces that were not requested
    is_out: Array  # (k,) not found, and known to be removed already
    unsearched: tuple[Entry, ...]  # pieces in force that were not available

    @property
    def lost(self) -> Array:
        """(k,) which rows were not found and are not known to be removed."""
        return np.asarray((self.copies == 0) & ~self.is_out)

    def rows(self, which: Array) -> int:
        """How many requested rows these are."""
        return int(self.times[which].sum())


def plan_removal(
    held: Holdings, requested: Sequence[Available], others: Iterable[Available], inside: Sequence[Available] = ()
) -> Plan:
    """Find every copy of the requested rows in the available pieces in force; `inside` are pieces within requested."""
    keys, times, owners = _requested_keys(requested)
    searched: set[str] = set()
    found: Places = {}
    copies, elsewhere = np.zeros(len(keys), int), np.zeros(len(keys), int)
    since = np.full(len(keys), -1)  # the last known position in the ledger where each was removed
    own = {piece.fingerprint for piece in (*requested, *inside)}
    for piece in _distinct((*requested, *inside, *others)):
        marked, past = held.held_marks(piece.fingerprint), held.went_out(piece.fingerprint)
        searched.update(marked)
        if not marked and past < 0:
            continue
        for places, where in _matches(piece, keys):
            if not marked:
                since[where] = np.maximum(since[where], past)
            for mark in marked:
                gone = np.isin(places, held.out.get(mark, ()))
                since[where[gone]] = np.maximum(since[where[gone]], held.ledger.last_place(mark))
                found.setdefault(mark, []).extend(places[~gone].tolist())
                np.add.at(copies, where[~gone], 1)
                np.add.at(elsewhere, where[~gone], piece.fingerprint not in own)
    unsearched = tuple(entry for mark, entry in held.ledger.in_force().items() if mark not in searched)
    newest = max((held.ledger.last_place(entry.fingerprint) for entry in unsearched), default=-1)
    is_out = (copies == 0) & (since >= 0) & (since > newest)  # a later piece that is not available may have them again
    return Plan(keys, times, owners, found, copies, elsewhere, is_out, unsearched)


def apply_removal(
    held: Holdings,
    plan: Plan,
    requested: Sequence[Available],
    trusted: Sequence[Sequence[int]],
    inside: Sequence[Available] = (),
) -> Holdings:
    """After a removal: requested pieces and those `inside` them leave the ledger, rows of others are removed, those
    `trusted` are loose."""
    ledger, out = held.ledger, {mark: list(places) for mark, places in held.out.items()}
    loose, closed = {mark: list(places) for mark, places in held.loose.items()}, set()
    since = dict(held.since)
    for piece in _distinct((*requested, *inside)):
        for mark in held.held_marks(piece.fingerprint):
            closed.add(mark)
            out.pop(mark, None)
            entry = replace(ledger.entries[ledger.last_place(mark)], rows=len(plan.found.get(mark, ())), when=now())
            ledger = ledger.with_entry(replace(entry, action="unlearned"))
    for mark, places in plan.found.items():
        if mark not in closed and places:
            out[mark] = sorted([*out.get(mark, ()), *places])
    for i, (piece, more) in enumerate(zip(requested, trusted, strict=True)):
        rows = int(plan.elsewhere[plan.owners == i].sum()) + len(more)
        if rows:
            mark = next(mark for mark in marks(piece.fingerprint) if ledger.last_action(mark) is None)
            entry = Entry(mark, piece.name, rows, "unlearned", begins=piece.begins, span=piece.span)
            ledger = ledger.with_entry(entry)
            if more:
                loose[mark], since[mark] = list(more), len(held.ledger)
    merged = {mark: rows for mark, rows in held.merged.items() if mark not in closed}
    return Holdings(ledger, out, loose, merged, since)


def lost_places(plan: Plan, piece: Available) -> list[int]:
    """The places within a requested piece of the rows that were not found."""
    lost: list[int] = []
    for places, where in _matches(piece, plan.keys):
        lost += places[plan.lost[where]].tolist()
    return lost


def resolve_trusted(held: Holdings, available: Sequence[Available]) -> tuple[Holdings, list[Entry]]:
    """Attribute rows removed on trust to available pieces that hold them; also the entries whose file is missing.

    Such rows were learned before they were removed, so later pieces do not count; of the available the oldest is taken.
    """
    out, loose = {mark: set(places) for mark, places in held.out.items()}, dict(held.loose)
    missing = []
    files = {mark: piece for piece in available for mark in _met(held, piece.fingerprint)} if loose else {}
    for entry_mark, places in held.loose.items():
        if entry_mark not in files:
            missing.append(held.ledger.entries[held.ledger.last_place(entry_mark)])
            continue
        keys = np.unique(np.concatenate([k[np.isin(at, places)] for at, k in files[entry_mark].rows()]))
        wanted: list[list[int]] = [[] for _ in keys]  # per row: its places in the file removed on trust
        for at, where in _matches(files[entry_mark], keys):
            for row, k in zip(at.tolist(), where.tolist(), strict=True):
                wanted[k] += [row] * list(places).count(row)
        holders = [(m, piece) for piece in _distinct(available) for m in held.held_marks(piece.fingerprint)]
        for mark, piece in sorted(holders, key=lambda holder: held.ledger.last_place(holder[0])):
            if held.ledger.last_place(mark) >= held.went_loose(entry_mark) or not any(wanted):
                break
            for at, where in _matches(piece, keys):
                for row, k in zip(at.tolist(), where.tolist(), strict=True):
                    if wanted[k] and row not in out.setdefault(mark, set()):
                        out[mark].add(row)
                        wanted[k].pop()
        loose[entry_mark] = sorted(row for rows in wanted for row in rows)
    if held.rows_loose() > sum(map(len, held.loose.values())):  # (of an older file, which does not say which)
        last = max(i for i, e in enumerate(held.ledger) if e.action == "unlearned")
        missing.append(replace(held.ledger.entries[last], name="a file that was unlearned on trust long ago"))
    kept = {mark: places for mark, places in loose.items() if places}
    since = {mark: held.went_loose(mark) for mark in kept}
    gone = {mark: sorted(places) for mark, places in out.items() if places}
    return replace(held, out=gone, loose=kept, since=since), missing


def may_hold(held: Holdings, plan: Plan, missing: Iterable[Entry]) -> list[Entry]:
    """Entries on trust, of files not available, whose rows may be among those that were found."""
    oldest = min((held.ledger.last_place(mark) for mark, places in plan.found.items() if places), default=None)
    if oldest is None:
        return []
    return [entry for entry in missing if held.went_loose(entry.fingerprint) > oldest]


def _requested_keys(requested: Sequence[Available]) -> tuple[Array, Array, Array]:
    keys = [np.concatenate([k for _, k in piece.rows()] or [np.empty(0, "S16")]) for piece in requested]
    owners = np.repeat(np.arange(len(keys)), [len(k) for k in keys])
    found, first, times = np.unique(np.concatenate(keys), return_index=True, return_counts=True)
    return found, times, owners[first]


def _matches(piece: Available, keys: Array) -> Iterator[tuple[Array, Array]]:
    """The places of rows that are among `keys`, and their positions among them, block by block."""
    if not len(keys):
        return
    for places, mine in piece.rows():
        where = np.minimum(np.searchsorted(keys, mine), len(keys) - 1)
        hit = keys[where] == mine
        yield places[hit], where[hit]


def _distinct(pieces: Iterable[Available]) -> list[Available]:
    found: dict[str, Available] = {}
    for piece in pieces:
        found.setdefault(piece.fingerprint, piece)
    return list(found.values())


def _met(held: Holdings, fingerprint: str) -> Iterator[str]:
    return takewhile(lambda mark: held.ledger.last_action(mark) is not None, marks(fingerprint))


def _plain(value: Any) -> Any:
    return value if isinstance(value, int) else [int(place) for place in value]
