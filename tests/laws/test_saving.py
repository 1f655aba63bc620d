"""Saving and loading changes nothing: learning further from a file gives the same numbers, bit for bit.

A file holds no rows, so pending rows are folded in first, as at the end of a block: what continues bit for bit is the
state that `settled` gives, which is the same but for rounding, and the very state itself where nothing waits.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import remanence as rm
from remanence.methods.lowrank_rls import LowRankState
from remanence.methods.rls_state import RLSState
from remanence.store.model_file import ModelFile, from_bytes, to_buffers

QUESTIONS = ("weights", "predict", "variance", "loss", "evidence", "ridge_of")


def content(learner):
    return b"".join(bytes(part) for part in to_buffers(ModelFile(learner)))


def asked(case, state, X, question):
    """The answer as bytes; questions that a method has not got are answered by nothing."""
    ask = getattr(case.method, question, None)
    if ask is None or (case.consistent and question not in ("weights", "predict")):
        return b""
    return np.asarray(ask(state, X) if question in ("predict", "variance") else ask(state)).tobytes()


def waits(state):
    """Whether rows wait in this state to be folded in."""
    return isinstance(state, (RLSState, LowRankState)) and state.pending.count > 0


def moves(rng, count):
    """What a user may do next: learn or track some rows, learn them on a branch, ask something."""
    for _ in range(count):
        yield (
            rng.choice(["update", "update", "donate", "track", "branch", "ask"]),
            int(rng.choice([1, 1, 1, 2, 7, 40])),
            str(rng.choice(QUESTIONS)),
        )


def walked(case, state, stream, script):
    """The state after a script of moves, and everything that was answered on the way, as bytes."""
    said, m, at = [], case.method, 0
    for move, rows, question in script:
        X, Y = (np.take(V, range(at, at + rows), axis=0, mode="wrap") for V in stream)
        if move == "track":
            state, errors = m.track(state, X, Y)
            said.append(errors.tobytes())
        elif move == "ask":
            said.append(asked(case, state, X, question))
        elif move == "branch":
            m.weights(m.update(state, X, Y))
        else:
            state = m.update(state, X, Y, donate=move == "donate")
        at += rows if move != "ask" else 0
    said += [asked(case, state, stream.X[:5], question) for question in QUESTIONS]
    return state, said


@given(
    seed=st.integers(0, 10**6),
    d=st.integers(1, 12),
    c=st.integers(1, 3),
    single=st.booleans(),
    before=st.integers(0, 6),
    after=st.integers(1, 6),
)
def test_going_on_from_the_file_is_going_on(case, seed, d, c, single, before, after):
    rng = np.random.default_rng(seed)
    stream = case.stream(seed, 200, d, c)
    if not case.in_library:
        return  # (tests/test_contributing.py saves it once it is registered)
    state = case.fresh(stream, np.float32 if single and not case.float64_only else np.float64)
    script = list(moves(rng, before))
    state = walked(case, state, stream, script)[0]
    if case.name.endswith("-rule"):
        with pytest.raises(rm.InputError, match=r"function .*rm\.steps"):
            content((case.method, state))
        return
    file = content((case.method, state))
    method, loaded = from_bytes(file).learner
    assert method == case.method and type(loaded) is type(state)
    settled = method.settled(state)
    if not waits(state):
        assert settled is state
    else:
        assert settled.pending.count == 0 and settled.count == state.count
        if not single:
            case.same(*(method.predict(each, stream.X) for each in (method.settled(state), state)))
    state = settled
    assert content((method, loaded)) == file == content((case.method, state))
    script = list(moves(rng, after))
    assert walked(case, loaded, stream, script)[1] == walked(case, state, stream, script)[1]


@pytest.mark.parametrize("seed", range(3))
def test_a_wide_root_goes_on(rls, seed):
    """Wide factors take another road through LAPACK than narrow ones."""
    if rls.method.ridge == "auto" or rls.method.floor:
        pytest.skip("there is no door to wait at where the prior does not fade with the rows")
    stream = rls.stream(seed, 250, 170, 2)
    rng = np.random.default_rng(seed)
    state = walked(rls, rls.fresh(stream), stream, [("update", 200, ""), *moves(rng, 5)])[0]
    state = rls.method.settled(state)
    _, loaded = from_bytes(content((rls.method, state))).learner
    script = list(moves(rng, 6))
    assert walked(rls, loaded, stream, script)[1] == walked(rls, state, stream, script)[1]
