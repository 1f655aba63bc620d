"""A state is a value: learning, predicting, branching, donating a successor and threads do not change it."""

import copy
import pickle
import sys
import threading
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

SIZES = {"seed": st.integers(0, 10**6), "d": st.integers(1, 12), "c": st.integers(1, 4)}


def ask_everything(case, state, X):
    """Every question a state can be asked."""
    m = case.method
    m.weights(state), m.predict(state, X)
    for question in ("loss", "evidence", "ridge_of", "data"):
        if hasattr(m, question) and not case.consistent:
            getattr(m, question)(state)
    if hasattr(m, "variance") and not case.consistent:
        m.variance(state, X)


@given(**SIZES, first=st.integers(1, 70), a=st.integers(1, 40), b=st.integers(1, 40), asked=st.booleans())
def test_two_updates_from_one_state_do_not_disturb_each_other(case, seed, d, c, first, a, b, asked):
    stream = case.stream(seed, first + a + b, d, c)
    (X0, Y0), (Xa, Ya), (Xb, Yb) = case.pieces(stream, (first, first + a))
    m = case.method
    expected = {}
    for name, X, Y in (("a", Xa, Ya), ("b", Xb, Yb)):  # each on a state of its own
        expected[name] = case.model(m.update(m.update(case.fresh(stream), X0, Y0), X, Y), X)
    for order in ("ab", "ba"):
        state = m.update(case.fresh(stream), X0, Y0)
        if asked:
            m.predict(state, Xa)
        children = {}
        for name in order:
            X, Y = (Xa, Ya) if name == "a" else (Xb, Yb)
            children[name] = m.update(state, X, Y)
            if asked:
                m.predict(children[name], X0)
        for name in order:
            case.same(case.model(children[name], Xa if name == "a" else Xb), expected[name])
        case.same(case.model(m.update(state, Xb, Yb), Xb), expected["b"])


@pytest.mark.cutting
@given(seed=st.integers(0, 10**6), d=st.integers(1, 10), moves=st.integers(5, 25))
def test_a_tree_of_states_grown_in_any_order_holds_what_each_branch_learned(case, seed, d, moves):
    """A random walk over a growing tree: update, track and ask anywhere; each node is a learner of its rows."""
    rng = np.random.default_rng(seed)
    stream, m = case.stream(seed, 60, d, 2), case.method
    nodes = [(case.fresh(stream), [])]
    for _ in range(moves):
        node = int(rng.integers(len(nodes))) if rng.random() < 0.6 else len(nodes) - 1
        state, rows = nodes[node]
        new = list(rng.integers(0, 60, rng.choice([1, 1, 2, 5, 33])))
        match int(rng.integers(5)):
            case 0:
                m.weights(state)
            case 1:
                ask_everything(case, state, stream.X[:3])
            case 2:
                nodes.append((m.track(state, stream.X[new], stream.Y[new])[0], rows + new))
            case _:
                nodes.append((m.update(state, stream.X[new], stream.Y[new]), rows + new))
    order = rng.permutation(len(nodes))
    for k in order:
        state, rows = nodes[k]
        alone = m.update(case.fresh(stream), stream.X[rows], stream.Y[rows]) if rows else case.fresh(stream)
        case.same(case.model(state, stream.X[rows]), case.model(alone, stream.X[rows]))
        more = case.pieces(stream, [4])[0]
        case.same(case.model(m.update(state, *more), more[0]), case.model(m.update(alone, *more), more[0]))


@given(**SIZES, n=st.integers(1, 70), cuts=st.lists(st.integers(1, 69), max_size=12))
def test_asking_changes_nothing(case, seed, d, c, n, cuts):
    stream, m = case.stream(seed, n, d, c), case.method
    asked, silent = case.fresh(stream), case.fresh(stream)
    for X, Y in case.pieces(stream, cuts):
        ask_everything(case, asked, X)
        asked, silent = m.update(asked, X, Y), m.update(silent, X, Y)
    case.same(case.model(asked, stream.X), case.model(silent, stream.X))
    before = m.weights(asked).copy()
    ask_everything(case, asked, stream.X)
    np.testing.assert_array_equal(m.weights(asked), before)


@given(**SIZES, n=st.integers(2, 90), cuts=st.lists(st.integers(1, 89), max_size=20), asked=st.booleans())
def test_donating_changes_no_number(case, seed, d, c, n, cuts, asked):
    stream, m = case.stream(seed, n, d, c), case.method
    kept, given_away = case.fresh(stream), case.fresh(stream)
    for X, Y in case.pieces(stream, cuts):
        if asked:
            m.predict(kept, X), m.predict(given_away, X)
        kept, given_away = m.update(kept, X, Y), m.update(given_away, X, Y, donate=True)
    case.same(case.model(given_away, stream.X), case.model(kept, stream.X), rounding=1e-10)
    kept, e1 = m.track(kept, *stream)
    given_away, e2 = m.track(given_away, *stream, donate=True)
    case.same(e1, e2, scale=np.linalg.norm(stream.Y) + np.linalg.norm(e1))
    case.same(case.model(given_away, stream.X), case.model(kept, stream.X))


def test_donating_a_state_leaves_its_parent_and_siblings_alone(case):
    """Only the state that is donated is given away, whatever it shares with others behind the scenes."""
    m = case.method
    for d, first, second in ((4, 200, 1), (4, 200, 3), (130, 200, 2)):
        if case.shared and d > 100:
            continue
        for asked in (False, True):
            stream = case.stream(0, first + second + 200, d, 2)
            (X0, Y0), (X1, Y1), (X2, Y2) = case.pieces(stream, (first, first + second))
            parent = m.update(case.fresh(stream), X0, Y0)
            twin = m.update(case.fresh(stream), X0, Y0)
            expected = case.model(twin, X0), case.model(m.update(twin, X1, Y1), X0)
            child, sibling = m.update(parent, X1, Y1), m.update(parent, X1, Y1)
            if asked:
                m.predict(child, X1)
            m.update(child, X2, Y2, donate=True)
            case.same(case.model(sibling, X0), expected[1])
            case.same(case.model(parent, X0), expected[0])
            case.same(case.model(m.update(parent, X1, Y1), X0), expected[1])


def test_donating_a_state_with_other_outputs_leaves_the_original_alone(case):
    m = case.method
    stream = case.stream(0, 400, 4, 2)
    (X0, Y0), (X1, Y1) = case.pieces(stream, [200])
    original = m.update(case.fresh(stream), X0, Y0)
    expected = case.model(m.update(case.fresh(stream), X0, Y0), X0)
    m.update(m.with_outputs(original, np.array([1, 0])), X1, Y1[:, ::-1], donate=True)
    case.same(case.model(original, X0), expected)


@given(**SIZES, n=st.integers(1, 60))
def test_the_callers_arrays_are_neither_written_nor_kept(case, seed, d, c, n):
    stream, m = case.stream(seed, n, d, c), case.method
    X, Y, start = stream.X.copy(), stream.Y.copy(), stream.start.copy()
    state = m.init(d, c, start=start)
    states = [m.update(state, X, Y), m.track(state, X, Y)[0], m.update(state, X, Y, donate=True)]
    np.testing.assert_array_equal(X, stream.X)
    np.testing.assert_array_equal(Y, stream.Y)
    X[:], Y[:], start[:] = 1e3, -1e3, 1e3
    for state in states:
        case.same(case.model(state, stream.X), case.model(case.learned(stream), stream.X))


@given(**SIZES, n=st.integers(1, 50))
def test_read_only_and_strided_arrays_are_learned_like_any_other(case, seed, d, c, n):
    stream, m = case.stream(seed, n, d, c), case.method
    expected = case.model(case.learned(stream), stream.X)
    frozen = [a.copy() for a in stream]
    for a in frozen:
        a.flags.writeable = False
    wide = [np.repeat(np.repeat(a, 2, axis=0), 3, axis=1)[::2, ::3] for a in stream]
    fortran = [np.asfortranarray(a) for a in stream]
    reverse = [a[::-1].copy()[::-1] for a in stream]
    for X, Y in (frozen, wide, fortran, reverse, [a.tolist() for a in stream]):
        case.same(case.model(m.update(case.fresh(stream), X, Y), stream.X), expected)
        case.same(case.model(m.track(case.fresh(stream), X, Y)[0], stream.X), expected)


def test_a_state_survives_pickle_and_deepcopy(case):
    m, stream = case.method, case.stream(0, 50, 5, 2)
    (X0, Y0), (X1, Y1) = case.pieces(stream, [45])
    expected = case.model(m.update(m.update(case.fresh(stream), X0, Y0), X1, Y1), X1)
    for asked in (False, True):
        state = m.update(case.fresh(stream), X0, Y0)
        if asked:
            m.predict(state, X1)
        for twin in (copy.deepcopy(state), pickle.loads(pickle.dumps(state))):
            case.same(case.model(m.update(twin, X1, Y1), X1), expected)


def _at_once(jobs):
    """Run the jobs in threads that start together and are interrupted all the time; their results in order."""
    gate, results = threading.Barrier(len(jobs)), [None] * len(jobs)

    def run(k):
        gate.wait()
        try:
            results[k] = jobs[k]()
        except BaseException as error:  # (a thread must not die silently)
            results[k] = error

    threads = [threading.Thread(target=run, args=(k,)) for k in range(len(jobs))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for r in results:
        if isinstance(r, BaseException):
            raise r
    return results


def test_threads_may_learn_from_and_ask_one_state_at_the_same_time(case):
    m = case.method
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for seed in range(4 if case.shared else 12):
            stream = case.stream(4 * seed, 60, 8, 2)
            (X0, Y0), (X1, Y1), _ = case.pieces(stream, (40, 50))
            state = m.update(m.update(case.fresh(stream), X0[:35], Y0[:35]), X0[35:], Y0[35:])
            alone = m.update(m.update(case.fresh(stream), X0[:35], Y0[:35]), X0[35:], Y0[35:])

            def branch(k, first, X=X1, Y=Y1):
                grown = first
                for i in range(k, k + 5):
                    grown = m.update(grown, X[i : i + 1], Y[i : i + 1])
                    m.predict(grown, X)
                return case.model(grown, X)

            expected = [branch(k, alone) for k in range(5)]
            jobs = [lambda k=k, s=state: branch(k, s) for k in range(5)] + [lambda s=state, X=X0: case.model(s, X)] * 3
            results = _at_once(jobs)
            for got, wanted in zip(results, [*expected, *[case.model(alone, X0)] * 3], strict=True):
                case.same(got, wanted)
    finally:
        sys.setswitchinterval(interval)


def test_writing_into_the_weights_changes_no_state(case):
    m, stream = case.method, case.stream(0, 20, 4, 2)
    for state in (case.fresh(stream), case.learned(stream)):
        before = m.weights(state).copy()
        W = m.weights(state)
        with suppress(ValueError):  # (a read-only view may be returned)
            W *= 0
        np.testing.assert_array_equal(m.weights(state), before)
        if m.linear:
            np.testing.assert_array_equal(m.predict(state, np.eye(4)), before)
