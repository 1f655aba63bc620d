"""Invalid input raises an InputError that says what was given, and leaves the state unchanged."""

import numpy as np
import pytest

import remanence as rm

D, C = 3, 2
LEARNING = ("update", "track")
GOOD_X, GOOD_Y = np.ones((2, D)), np.ones((2, C))


def spoiled(array, value):
    array = array.astype(float).copy()
    array[-1, -1] = value
    return array


BAD_ROWS = {  # X, and a word the message must contain
    "nan": (spoiled(GOOD_X, np.nan), "NaN"),
    "nan-first": (np.array([[np.nan, 1.0, 1.0], [1.0, 1.0, 1.0]]), "NaN"),
    "inf": (spoiled(GOOD_X, np.inf), "infinity"),
    "minus-inf": (spoiled(GOOD_X, -np.inf), "infinity"),
    "too-wide": (np.ones((2, 4)), "(2, 4)"),
    "too-narrow": (np.ones((2, 2)), "(2, 2)"),
    "flat": (np.ones(D), "(3,)"),
    "scalar": (1.0, "()"),
    "three-axes": (np.ones((2, D, 1)), "(2, 3, 1)"),
    "text": (np.full((2, D), "red"), "U3"),
    "numeric-text": (np.full((2, D), "1.5"), "U3"),
    "bytes": (np.full((2, D), b"1"), "S1"),
    "word": ("hello", "str"),
    "complex": (np.ones((2, D), complex), "complex128"),
    "object-of-text": (np.full((2, D), "red", object), "object"),
    "object-of-numeric-text": (np.full((2, D), "1.5", object), "object"),
    "object-of-complex": (np.full((2, D), 1j, object), "object"),
    "object-of-none": (np.full((2, D), None, object), ""),
    "object-of-huge": (np.full((2, D), 10**400, object), ""),
    "object-of-lists": ([[[1], [2], [3]], [[1, 2], 2, 3]], ""),
    "ragged": ([[1.0, 2.0, 3.0], [1.0]], "unequal"),
    "dates": (np.full((2, D), np.datetime64("2024-01-01")), "datetime64"),
    "none": (None, ""),
    "dictionary": ({"a": 1}, "dict"),
    "set": ({1, 2}, "set"),
}
BAD_TARGETS = {
    "nan": (spoiled(GOOD_Y, np.nan), "NaN"),
    "inf": (spoiled(GOOD_Y, np.inf), "infinity"),
    "huge": (spoiled(GOOD_Y, 1e200), "1.0e+200"),
    "flat": (np.ones(2), "(2,)"),
    "too-wide": (np.ones((2, 3)), "(2, 3)"),
    "too-few": (np.ones((1, C)), "2 rows"),
    "too-many": (np.ones((3, C)), "3"),
    "text": (np.full((2, C), "red"), "U3"),
    "complex": (np.ones((2, C), complex), "complex128"),
    "object-of-text": (np.full((2, C), "red", object), "object"),
    "none": (None, ""),
}


def learned(case):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((40, D))
    return case.method.update(case.method.init(D, C), X, X @ rng.standard_normal((D, C)))


def refused(case, calls):
    """Every call (name, word, function of the state) raises InputError with the word, and the state never noticed."""
    m, state, twin = case.method, learned(case), learned(case)
    before, targets = np.array(case.model(state, np.eye(D))), m.predict(state, np.eye(D))
    after = case.model(m.update(twin, np.eye(D), targets), np.eye(D))
    wrong = []
    for name, word, call in calls:
        try:
            call(state)
            wrong.append(f"{name}: accepted")
        except rm.InputError as error:
            if word not in str(error):
                wrong.append(f"{name}: {word!r} is not in {str(error)!r}")
        except Exception as error:
            wrong.append(f"{name}: {type(error).__name__}: {error}")
        np.testing.assert_array_equal(case.model(state, np.eye(D)), before, err_msg=name)
        case.same(case.model(m.update(state, np.eye(D), targets), np.eye(D)), after)
    assert not wrong, "; ".join(wrong)


def test_bad_rows_are_refused_by_every_call_that_takes_rows(case):
    m = case.method
    calls = []
    for name, (X, word) in BAD_ROWS.items():
        calls.append((f"update {name}", word, lambda s, X=X: m.update(s, X, GOOD_Y)))
        calls.append((f"track {name}", word, lambda s, X=X: m.track(s, X, GOOD_Y)))
        calls.append((f"predict {name}", word, lambda s, X=X: m.predict(s, X)))
        if isinstance(m, rm.RLS) and not case.consistent:
            calls.append((f"variance {name}", word, lambda s, X=X: m.variance(s, X)))
        if isinstance(m, rm.RLS) and m.forget == 1:
            calls.append((f"remove {name}", word, lambda s, X=X: m.remove(s, X, GOOD_Y)))
    refused(case, calls)


def test_bad_targets_are_refused_by_every_call_that_learns(case):
    m = case.method
    calls = []
    for name, (Y, word) in BAD_TARGETS.items():
        calls.append((f"update {name}", word, lambda s, Y=Y: m.update(s, GOOD_X, Y)))
        calls.append((f"track {name}", word, lambda s, Y=Y: m.track(s, GOOD_X, Y)))
        if isinstance(m, rm.RLS) and m.forget == 1:
            calls.append((f"remove {name}", word, lambda s, Y=Y: m.remove(s, GOOD_X, Y)))
    refused(case, calls)


def test_an_empty_block_is_refused(case):
    nothing = np.zeros((0, D)), np.zeros((0, C))
    refused(case, [(call, "empty", lambda s, call=call: getattr(case.method, call)(s, *nothing)) for call in LEARNING])


def test_a_bad_row_anywhere_in_a_long_block_leaves_no_part_of_it_behind(case):
    X, Y, calls = np.random.default_rng(0).standard_normal((300, D)), np.zeros((300, C)), []
    for where in (0, 150, 299):
        worse = X.copy()
        worse[where, 1] = np.nan
        for call in LEARNING:
            calls.append((f"{call} {where}", "NaN", lambda s, call=call, X=worse: getattr(case.method, call)(s, X, Y)))
    refused(case, calls)


@pytest.mark.float32
def test_values_beyond_single_precision_are_refused_by_a_float32_state(case):
    m = case.method
    state = m.init(D, C, dtype=np.float32)
    for X, Y in ((spoiled(GOOD_X, 1e300), GOOD_Y), (GOOD_X, spoiled(GOOD_Y, 1e300))):
        with pytest.raises((rm.InputError, rm.NumericalError)):
            m.update(state, X, Y)


BAD_STARTS = [  # the arguments of init, and a word of the message
    ((0, 1), "features"),
    ((-3, 1), "-3"),
    ((3, 0), "outputs"),
    ((2.0, 1), "2.0"),
    (("3", 1), "'3'"),
    ((True, 1), "True"),
    ((None, 1), "None"),
    ((3, 2, np.ones((2, 3))), "(2, 3)"),
    ((3, 2, np.ones(3)), "(3,)"),
    ((3, 2, np.full((3, 2), np.nan)), "NaN"),
    ((3, 2, np.full((3, 2), "a")), "U1"),
    ((3, 2, None, np.float16), "float16"),
    ((3, 2, None, np.int64), "int64"),
    ((3, 2, None, "nonsense"), "nonsense"),
]


def test_init_refuses_what_is_no_size_no_start_and_no_precision(case):
    wrong = []
    for arguments, word in BAD_STARTS:
        try:
            case.method.init(*arguments)
            wrong.append(f"{arguments}: accepted")
        except rm.InputError as error:
            if word not in str(error):
                wrong.append(f"{arguments}: {word!r} is not in {str(error)!r}")
        except Exception as error:
            wrong.append(f"{arguments}: {type(error).__name__}: {error}")
    assert not wrong, "; ".join(wrong)


BAD_SETTINGS = [
    (rm.LMS, {"step": 0.0}, "0"),
    (rm.LMS, {"step": 2.0}, "2.0"),
    (rm.LMS, {"step": -0.5}, "-0.5"),
    (rm.LMS, {"step": np.nan}, "nan"),
    (rm.LMS, {"step": "fast"}, "str"),
    (rm.LMS, {"step": []}, "empty"),
    (rm.LMS, {"step": [1.0, np.inf]}, "infinity"),
    (rm.LMS, {"step": [[1.0]]}, "(1, 1)"),
    (rm.LMS, {"step": None}, "NoneType"),
    (rm.LMS, {"step": True}, "True"),
    (rm.LMS, {"step": 1j}, "complex"),
    (rm.LMS, {"step": -1.0, "normalized": False}, "-1.0"),
    (rm.APA, {"buffer": -1}, "-1"),
    (rm.APA, {"buffer": 1.5}, "1.5"),
    (rm.APA, {"buffer": True}, "True"),
    (rm.APA, {"buffer": "all"}, "'all'"),
    (rm.APA, {"step": 2.5}, "2.5"),
    (rm.ICL, {"tolerance": -1e-9}, "-1e-09"),
    (rm.ICL, {"tolerance": 0.0}, "0.0"),
    (rm.ICL, {"tolerance": 1.0}, "1.0"),
    (rm.ICL, {"tolerance": "small"}, "'small'"),
    (rm.OGD, {"step": 0.0}, "0.0"),
    (rm.OGD, {"tolerance": np.nan}, "nan"),
    (rm.ORFit, {"rank": 0}, "0"),
    (rm.ORFit, {"rank": -2}, "-2"),
    (rm.ORFit, {"rank": 2.0}, "2.0"),
    (rm.ORFit, {"tolerance": 5.0}, "5.0"),
    (rm.RLS, {"ridge": 0.0}, "0.0"),
    (rm.RLS, {"ridge": -1.0}, "-1.0"),
    (rm.RLS, {"ridge": np.inf}, "inf"),
    (rm.RLS, {"ridge": np.nan}, "nan"),
    (rm.RLS, {"ridge": "automatic"}, "'automatic'"),
    (rm.RLS, {"ridge": None}, "None"),
    (rm.RLS, {"ridge": np.ones(3)}, "array"),
    (rm.RLS, {"forget": -0.1}, "-0.1"),
    (rm.RLS, {"forget": np.nan}, "nan"),
    (rm.RLS, {"forget": np.inf}, "inf"),
    (rm.RLS, {"forget": "0.9"}, "'0.9'"),
    (rm.RLS, {"floor": -1.0}, "-1.0"),
    (rm.RLS, {"floor": np.inf}, "inf"),
]


@pytest.mark.parametrize(("kind", "settings", "word"), BAD_SETTINGS, ids=repr)
def test_settings_out_of_range_are_refused_by_name_and_value(kind, settings, word):
    with pytest.raises(rm.InputError) as caught:
        kind(**settings)
    assert word in str(caught.value), str(caught.value)
    assert next(iter(settings)) in str(caught.value), str(caught.value)


@pytest.mark.parametrize("free", [-1, 4, 1.0, "1", True, None], ids=repr)
def test_a_number_of_free_features_that_is_none_is_refused(free):
    with pytest.raises(rm.InputError):
        rm.RLS().init(3, 1, free=free)


@pytest.mark.parametrize(
    "method", [rm.LMS([1.0] * 5), rm.APA(2, [1.0] * 5), rm.APA(None, [1.0] * 5), rm.OGD([1.0] * 5)]
)
def test_steps_that_run_out_are_refused_before_anything_is_learned(method):
    X, Y = np.random.default_rng(0).standard_normal((6, 4)), np.ones((6, 1))
    state = method.update(method.init(4, 1), X[:3], Y[:3])
    before = method.weights(state).copy()
    for call in (method.update, method.track):
        with pytest.raises(rm.InputError, match="5 entries"):
            call(state, X[3:], Y[3:])
    np.testing.assert_array_equal(method.weights(state), before)
    method.update(state, X[3:5], Y[3:5])


@pytest.mark.parametrize("answer", [np.nan, np.inf, "1", None, 1j, True])
def test_a_rule_that_gives_no_number_is_refused(answer):
    method = rm.LMS(lambda t: answer if t == 3 else 1.0)
    state = method.update(method.init(2, 1), np.eye(2), np.ones((2, 1)))
    with pytest.raises(rm.InputError, match=r"step\(3\)"):
        method.update(state, np.eye(2), np.ones((2, 1)))


def test_min_norm_refuses_what_no_method_would_learn():
    for X, Y in (
        (np.ones(3), np.ones((3, 1))),
        (np.ones((3, 2)), np.ones(3)),
        (np.ones((3, 2)), np.ones((2, 1))),
        (np.full((3, 2), np.nan), np.ones((3, 1))),
        (np.full((3, 2), "a"), np.ones((3, 1))),
        (np.zeros((0, 2)), np.zeros((0, 1))),
        (np.zeros((2, 0)), np.zeros((2, 1))),
        ([[1.0, 2.0], [3.0]], np.ones((2, 1))),
        (None, None),
    ):
        with pytest.raises(rm.InputError):
            rm.min_norm(X, Y)
    with pytest.raises(rm.InputError):
        rm.min_norm(np.ones((3, 2)), np.ones((3, 1)), start=np.ones((3, 1)))


def test_operations_that_need_equal_weights_say_so():
    X, Y = np.eye(3), np.ones((3, 1))
    for forget in (0.9, 1.1, 0.0):
        m = rm.RLS(forget=forget)
        s = m.update(m.init(3, 1), X, Y)
        for call in (lambda m=m, s=s: m.remove(s, X, Y), lambda m=m, s=s: m.merge(s, s)):
            with pytest.raises(rm.InputError, match="forget"):
                call()
    exact = rm.RLS(forget=0)
    s = exact.update(exact.init(3, 1), X, Y)
    for call in (exact.loss, exact.evidence, exact.ridge_of, exact.data):
        with pytest.raises(rm.InputError, match="forget=0"):
            call(s)
    with pytest.raises(rm.InputError, match="forget=0"):
        exact.variance(s, X)
    with pytest.raises(rm.InputError, match="forget=0"):
        exact.with_ridge(s, 2.0)


def test_states_that_cannot_be_merged_are_refused():
    m = rm.RLS()
    a = m.init(3, 1)
    for b in (m.init(4, 1), m.init(3, 2), m.init(3, 1, start=np.ones((3, 1))), m.init(3, 1, free=1)):
        with pytest.raises(rm.InputError):
            m.merge(a, b)
    with pytest.raises(rm.InputError):
        m.with_ridge(a, -2.0)
