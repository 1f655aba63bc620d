"""Rows in and out as a value: found, out, on trust, merged; without a file."""

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from remanence.hashing import content_fingerprint
from remanence.store.jobs.holdings import (
    Available,
    Holdings,
    apply_removal,
    lost_places,
    may_hold,
    plan_removal,
    resolve_trusted,
)
from remanence.store.ledger import Entry

ROWS = st.lists(st.integers(0, 5), min_size=1, max_size=5).map(tuple)


def piece(rows):
    """A piece of rows that are plain numbers, in two blocks."""
    keys = np.array([b"%016d" % row for row in rows], "S16")
    places, half = np.arange(len(rows)), len(rows) // 2
    blocks = [(places[part], keys[part]) for part in (slice(half), slice(half, None))]
    return Available(content_fingerprint(repr(rows)), lambda: blocks, repr(rows))


def learned(held, rows, again=True):
    mark = held.to_learn(piece(rows).fingerprint, 0, again)
    entry = Entry(mark, repr(rows), len(rows))
    return Holdings(held.ledger.with_entry(entry), held.out, held.loose, held.merged, held.since)


def inside(held, pieces):
    """All rows that are in, by the places that are out."""
    rows = Counter()
    for content in set(pieces):
        for mark in held.held_marks(piece(content).fingerprint):
            rows.update(row for place, row in enumerate(content) if place not in held.out.get(mark, ()))
    return rows


@given(st.lists(ROWS, min_size=1, max_size=4), st.lists(st.tuples(ROWS, st.booleans()), max_size=4))
def test_every_copy_goes_out_and_nothing_else(pieces, requests):
    held, rows = Holdings(), Counter()
    for content in pieces:
        held, _ = learned(held, content), rows.update(content)
    for asked, drop_first in requests:
        at_hand = [piece(content) for content in pieces[drop_first:]]
        plan = plan_removal(held, [piece(asked)], at_hand)
        seen = {
            row for row in asked if any(row in c for c in (*pieces[drop_first:], *([asked] if asked in pieces else [])))
        }
        assert set(np.flatnonzero(plan.copies)) <= {i for i, k in enumerate(plan.keys) if int(k) in seen}
        if plan.lost.any():
            assert lost_places(plan, piece(asked)) == [i for i, r in enumerate(asked) if not _found(plan, r)]
            continue
        before = inside(held, pieces)
        held = apply_removal(held, plan, [piece(asked)], [[]])
        after = inside(held, pieces)
        assert before - after == Counter({int(k): int(n) for k, n in zip(plan.keys, plan.copies, strict=True) if n})
        assert held.ledger.rows() == after.total() == sum(map(held.rows_in, held.ledger.in_force()))
        assert Holdings.of(held.ledger, held.to_notes()).to_notes() == held.to_notes()
        hidden = Counter(pieces[0]) if drop_first else Counter()
        assert all(after[row] <= hidden[row] * pieces.count(pieces[0]) for row in asked)


def _found(plan, row):
    at = int(np.searchsorted(plan.keys, b"%016d" % row))
    return bool(plan.copies[at] or plan.is_out[at])


@given(ROWS, ROWS, st.data())
def test_rows_on_trust_are_found_when_their_piece_is_back(content, other, data):
    """Asked for while the piece was away: they go out once, whatever is asked for then."""
    held = learned(Holdings(), content)
    asked = tuple(data.draw(st.permutations(content)))[: data.draw(st.integers(1, len(content)))]
    if asked == content:
        return
    plan = plan_removal(held, [piece(asked)], [])
    assert plan.lost.all() and [e.name for e in plan.unsearched] == [repr(content)]
    held = apply_removal(held, plan, [piece(asked)], [lost_places(plan, piece(asked))])
    assert held.rows_loose() == len(asked) and held.ledger.rows() == len(content) - len(asked)
    held = learned(held, (*other, 9))
    same, missing = resolve_trusted(held, [piece(content)])
    assert same.rows_loose() == len(asked) and [e.name for e in missing] == [repr(asked)]
    assert may_hold(same, plan_removal(same, [piece(content)], []), missing) == missing
    assert not may_hold(same, plan_removal(same, [piece((*other, 9))], []), missing)
    found, missing = resolve_trusted(held, [piece(content), piece(asked), piece((*other, 9))])
    assert not missing and not found.loose and found.rows_loose() == 0
    assert inside(found, [content]) == Counter(content) - Counter(asked)
    merged = Holdings().merge(held)
    assert merged.rows_loose() == len(asked) and merged.ledger.rows() == held.ledger.rows()
