"""The ledger says what is in a model now, and refuses what would count rows twice."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remanence.errors import InputError
from remanence.hashing import content_fingerprint
from remanence.store.ledger import Entry, Ledger

WHEN = "2024-05-06T07:08:09+00:00"


def entry(name, action="learned", rows=5):
    return Entry(content_fingerprint(name), name, rows, action, WHEN)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=30))
def test_it_holds_what_a_set_would_hold(moves):
    """Against a plain set of names: in, out, and no move that changes nothing."""
    ledger, held = Ledger(), set()
    for name, comes in moves:
        if comes == (name in held):
            with pytest.raises(InputError):
                ledger.with_entry(entry(name)) if comes else ledger.without(content_fingerprint(name))
            continue
        before = ledger.entries
        ledger = ledger.with_entry(entry(name)) if comes else ledger.without(content_fingerprint(name), WHEN)
        assert ledger.entries[:-1] == before
        (held.add if comes else held.remove)(name)
        assert {name for name in "abc" if ledger.contains(content_fingerprint(name))} == held
        assert {e.name for e in ledger.in_force().values()} == held
    assert Ledger.from_list(ledger.to_list()) == ledger and len(ledger) == len(list(ledger))


def test_rows_that_came_in_under_another_name_may_go_out_once():
    ledger = Ledger().with_entry(entry("all")).with_entry(entry("a part", "unlearned"))
    assert ledger.contains(content_fingerprint("all")) and not ledger.contains(content_fingerprint("a part"))
    assert ledger.last_action(content_fingerprint("a part")) == "unlearned"
    assert ledger.last_action(content_fingerprint("other")) is None
    with pytest.raises(InputError, match="a part, which the ledger has as unlearned"):
        ledger.with_entry(entry("a part", "unlearned"))
    assert ledger.with_entry(entry("a part")).contains(content_fingerprint("a part"))


def test_merging_brings_what_is_in_force_and_refuses_what_would_count_twice():
    mine = Ledger().with_entry(entry("a"))
    theirs = Ledger().with_entry(entry("b")).with_entry(entry("c")).without(content_fingerprint("c"), WHEN)
    both = mine.merged(theirs, WHEN)
    assert both.entries == (entry("a"), entry("b", "merged"))
    assert both.contains(content_fingerprint("b")) and not both.contains(content_fingerprint("c"))
    with pytest.raises(InputError, match="both have learned b"):
        both.merged(theirs)
    with pytest.raises(InputError, match="both have learned a"):
        both.merged(mine)


def test_content_is_known_by_values_kinds_and_lengths():
    X = np.arange(6.0)
    prints = [
        content_fingerprint(*parts)
        for parts in (
            (X,), (X.astype(np.float32),), (X.reshape(2, 3),), (X.tobytes(),), (X, X), (X + 1,),
            ("ab", "c"), ("a", "bc"), (b"ab",), ("ab",), (np.array(["ab"]),),
        )
    ]  # fmt: skip
    assert len(set(prints)) == len(prints)
    assert content_fingerprint(X) == content_fingerprint(np.arange(12.0)[:6].copy(order="F"))
    assert content_fingerprint(np.array(["a", "b"], dtype=object)) == content_fingerprint(np.array(["a", "b"]))


def test_an_entry_knows_when():
    assert Entry(content_fingerprint(b""), "now", 0).when.endswith("+00:00")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("abc", "name", 1), "64 hexadecimal"),
        (("A" * 64, "name", 1), "64 hexadecimal"),
        (("a" * 64, 3, 1), "a text as name"),
        (("a" * 64, "name", -1), "rows"),
        (("a" * 64, "name", 1, "lost"), "an action among"),
        (("a" * 64, "name", 1, "learned", "yesterday"), "a time in UTC"),
        (("a" * 64, "name", 1, "learned", "2024-05-06T07:08:09"), "a time in UTC"),
        (("a" * 64, "name", 1, "learned", "2024-05-06T07:08:09+02:00"), "a time in UTC"),
    ],
)
def test_entries_that_make_no_sense_are_refused(arguments, words):
    with pytest.raises(InputError, match=words):
        Entry(*arguments)
