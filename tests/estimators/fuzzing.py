"""Every estimator against every kind of input, in a process of bounded memory: run by test_fuzz.py.

python fuzzing.py SEED CASES       prints how many calls were accepted and refused, and every call that broke the law:
                                   what is refused is refused by an error of ours, and has changed nothing
"""

import array
import json
import resource
import sys
import warnings
from collections import Counter
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import scipy.sparse as sparse
from sklearn.exceptions import NotFittedError
from sklearn.preprocessing import StandardScaler

import remanence as rm

LIMIT = 6 << 30  # bytes of address space
ALLOWED = (rm.InputError, rm.FileError, rm.NumericalError, rm.MissingDependency, NotFittedError)
D = 4

METHODS = [
    None,
    rm.RLS(0.1),
    rm.RLS("auto"),
    rm.RLS(0.1, 0.9),
    rm.RLS(0.1, 1.1),
    rm.RLS(forget=0),
    rm.LowRankRLS(3),
    rm.LMS(0.5),
    rm.LMS(0.01, normalized=False),
    rm.APA(2),
    rm.APA(None),
    rm.ICL(),
    rm.OGD(0.01),
    rm.ORFit(2),
    rm.Kalman(0.1),
]


class Unwilling:
    """An object that raises whatever it is asked."""

    def __init__(self, problem):
        self.problem = problem

    def __array__(self, *args, **kwargs):
        raise self.problem

    def __len__(self):
        return 6

    def __getitem__(self, i):
        raise self.problem


def odd_values(rng, values):
    """An array of numbers as something else: another type, another container, with odd entries."""
    values = np.array(values, float)
    flat = values.ravel()
    entry = tuple(int(rng.integers(n)) for n in values.shape) if values.size else ()

    def with_entry(value, dtype=None):
        changed = values.astype(object) if dtype is None else values.astype(dtype)
        if changed.size:
            changed[entry] = value
        return changed

    masked = np.ma.masked_array(values, np.zeros(values.shape, bool))
    hidden = np.ma.masked_array(values, values == flat[0]) if values.size else masked
    table = pd.DataFrame(values.reshape(len(values), -1) if values.ndim else [[1.0]])
    made = [
        lambda: values,
        lambda: values.astype(rng.choice(["f2", "f4", "f8", "g", "i1", "i8", "u8", "?", ">f8", ">i4"])),
        lambda: values.astype(rng.choice(["c8", "c16"])) + 1j * rng.integers(2),
        lambda: values.astype(rng.choice(["U8", "S8"])),
        lambda: np.round(values).astype(np.int64).astype(rng.choice(["M8[s]", "m8[s]", "M8[D]"])),
        lambda: values.astype(np.dtypes.StringDType()),
        lambda: values.astype(object),
        lambda: with_entry(rng.choice(np.array([np.nan, np.inf, -np.inf, 1e200, 1e155, -1e149, 1e-310]))),
        lambda: with_entry(float(rng.choice([np.nan, np.inf, 1e200, 1e140, 1e308])), float),
        lambda: with_entry(None),
        lambda: with_entry("text"),
        lambda: with_entry(b"bytes"),
        lambda: with_entry({"a": 1}),
        lambda: with_entry(object()),
        lambda: with_entry([1.0, 2.0]),
        lambda: with_entry(10**400),
        lambda: with_entry(2**63),
        lambda: with_entry(Fraction(1, 3)),
        lambda: with_entry(Decimal("NaN")),
        lambda: with_entry(True),
        lambda: with_entry(1j),
        lambda: with_entry(np.datetime64("2020-01-01")),
        lambda: with_entry(pd.NA),
        lambda: with_entry("a\0"),
        lambda: values.tolist(),
        lambda: tuple(values.tolist()),
        lambda: with_entry(None).tolist(),
        lambda: with_entry("x").tolist(),
        lambda: with_entry(10**400).tolist(),
        lambda: [*values.tolist(), [1.0]],
        lambda: [*values.tolist(), None],
        lambda: np.asmatrix(values.reshape(len(values), -1)) if values.ndim else values,
        lambda: masked,
        lambda: hidden,
        lambda: hidden.tolist(),
        lambda: sparse.csr_matrix(values.reshape(len(values), -1)) if values.ndim else values,
        lambda: sparse.coo_array(values.reshape(len(values), -1)) if values.ndim else values,
        lambda: sparse.csr_matrix((len(values), 10**9)) if values.ndim else values,
        lambda: table,
        lambda: table.astype("Float64").mask(table > 1.5),
        lambda: table.astype(object).where(table < 1, "text"),
        lambda: table.assign(when=pd.Timestamp("2020-01-01")),
        lambda: table.astype("category"),
        lambda: table.rename(columns=str),
        lambda: table.iloc[:, 0],
        lambda: pd.DataFrame({0: [1.0], "0": [2.0]}),
        lambda: {"a": flat},
        lambda: {1, 2, 3},
        lambda: None,
        lambda: 7,
        lambda: float("nan"),
        lambda: "text",
        lambda: b"bytes",
        lambda: (float(v) for v in flat),
        lambda: range(len(flat)),
        lambda: memoryview(np.ascontiguousarray(flat)),
        lambda: array.array("d", flat),
        lambda: object(),
        lambda: Unwilling(rng.choice([ValueError("no"), TypeError("no"), RuntimeError("no"), KeyError("no")])),
        lambda: np.array(3.0),
        lambda: flat,
        lambda: values[None],
        lambda: values[..., None],
        lambda: values[:0],
        lambda: values[:1],
        lambda: values[..., :0],
        lambda: values[::-1],
        lambda: np.asfortranarray(values),
        lambda: np.broadcast_to(values, (2, *values.shape))[0],
        lambda: np.repeat(values, 2, axis=-1)[..., ::2],
        lambda: values * float(rng.choice([1e-300, 1e-160, 1e100, 1e149, 1e150, 1e154, 1e200, 1e300])),
        lambda: np.zeros_like(values),
        lambda: np.full_like(values, 2.0**62),
        lambda: np.rec.fromarrays([flat, flat]),
        lambda: type("Array", (np.ndarray,), {})(values.shape),
    ]
    return made[rng.integers(len(made))]()


def odd_labels(rng, n):
    """Labels of many kinds, good and bad."""
    codes = rng.integers(0, 3, n)
    made = [
        lambda: codes,
        lambda: codes.astype(str),
        lambda: codes > 0,
        lambda: codes + 0.5,
        lambda: codes.astype(rng.choice(["f2", "u8", "i1", "f8", "O", "S3", "c16", "M8[s]", "m8[s]", "g"])),
        lambda: np.array([None, "a", "b"], object)[codes],
        lambda: np.array([1, "a", 2.0], object)[codes],
        lambda: np.array([True, 1, 2], object)[codes],
        lambda: np.array([np.nan, 1.0, 2.0], object)[codes],
        lambda: np.array([{"a": 1}, "a", "b"], object)[codes],
        lambda: np.array([(1, 2), (3,), ()], object)[codes],
        lambda: [10**400, *codes[1:].tolist()],
        lambda: [2**63, *codes[1:].tolist()],
        lambda: np.array([2**63, 2**64 - 1, 5], np.uint64)[codes],
        lambda: np.array([-(2**63), 2**53 + 1, 5])[codes],
        lambda: ["a", "a\0", "b"] * n,
        lambda: ["", " ", "\ud800"] * n,
        lambda: ["x" * 10**6] + ["y"] * (n - 1),
        lambda: [b"a"] * n,
        lambda: [[1]] * n,
        lambda: [[1, 2]] * n,
        lambda: [Decimal(1)] * n,
        lambda: pd.Series(codes.astype(str)),
        lambda: pd.Categorical(codes),
        lambda: pd.Series([pd.NA, *codes[1:].tolist()], dtype="Int64"),
        lambda: np.ma.masked_array(codes, codes == codes[0]) if n else codes,
        lambda: np.array(["é", "\U0001f41d", "a" * 300])[codes],
    ]
    return odd_values(rng, codes) if rng.random() < 0.3 else made[rng.integers(len(made))]()


def odd_settings(rng, model):
    """One setting as something that it should not be."""
    names = sorted(model.get_params(deep=False).keys() - {"epochs"})  # (as many as asked for are made)
    name = str(rng.choice(names or ["none"]))
    values = [None, "x", -1, 0, 10**12, 10**30, 1e300, float("nan"), [], {}, np.zeros(3), True, rm.RLS, object(),
              {"a": "x"}, {0: -1}, {0: 1e300}, "float32", "auto", b"x", StandardScaler(), 1j]  # fmt: skip
    return {} if name == "none" else {name: values[rng.integers(len(values))]}


def fresh(rng, X):
    kind = rng.integers(10)
    if kind < 8:
        features = [None, None, rm.RandomFeatures(5), StandardScaler().fit(X)][rng.integers(4)]
        settings = {"fit_intercept": bool(rng.integers(2)), "features": features}
        settings["dtype"] = str(rng.choice(["float64", "float32"]))
        made = rm.ContinualClassifier if kind < 4 else rm.ContinualRegressor
        return made(METHODS[rng.integers(len(METHODS))], **settings)
    if kind == 8:
        return rm.RandomFeatures(int(rng.integers(1, 9)), activation=str(rng.choice(["relu", "tanh", "cos"])))
    return [rm.NearestMean(), rm.Finetune(epochs=1), rm.Replay(5, epochs=1), rm.Joint()][rng.integers(4)]


def calls(rng, model, X, y):
    """A call with odd arguments: name, arguments, keywords."""
    transformer, regressor = isinstance(model, rm.RandomFeatures), isinstance(model, rm.ContinualRegressor)
    names = ["fit", "transform"] if transformer else ["fit", "partial_fit", "partial_fit", "predict", "score"]
    for name in ("unlearn", "decision_function", "predict_proba", "class_scores"):
        names += [name] if callable(getattr(model, name, None)) else []
    name = str(rng.choice(names))
    rows = odd_values(rng, X) if rng.random() < 0.5 else X
    if name in ("transform", "predict", "decision_function", "predict_proba", "class_scores"):
        return name, (rows,), {"return_std": True} if name == "predict" and regressor and rng.random() < 0.3 else {}
    targets = y if rng.random() < 0.4 else odd_values(rng, y) if regressor else odd_labels(rng, len(y))
    extra = {}
    if not transformer and isinstance(model, (rm.ContinualClassifier, rm.ContinualRegressor)) and rng.random() < 0.4:
        extra["sample_weight"] = odd_values(rng, rng.integers(0, 4, len(y)))
    if name == "partial_fit" and not regressor and rng.random() < 0.2:
        extra["classes"] = odd_labels(rng, 4)
    return name, (rows, targets), extra


def same(before, after):
    return before.keys() == after.keys() and all(before[k] is after[k] for k in before)


def run(seed, cases):
    counts, broken = Counter(), []
    for case in range(cases):
        rng = np.random.default_rng([seed, case])
        n = int(rng.integers(1, 9))
        X = rng.standard_normal((n, D))
        model = fresh(rng, X)
        y = rng.standard_normal(n) if isinstance(model, rm.ContinualRegressor) else rng.integers(0, 3, n)
        taught = rng.random() < 0.7
        try:
            if taught:
                model.fit(X, y)
            if rng.random() < 0.25:
                model.set_params(**odd_settings(rng, model))
                if taught and not isinstance(model, rm.RandomFeatures):
                    model.predict(X)  # (another ridge takes effect when it is first asked for, whatever comes then)
        except ALLOWED:
            continue
        except Exception as problem:
            broken.append(f"case {case}: preparing {model}: {type(problem).__name__}: {problem!s:.150}")
            continue
        before = dict(vars(model))
        name, given, extra = calls(rng, model, X, y)
        try:
            answer = getattr(model, name)(*given, **extra)
            counts["accepted"] += 1
            for part in answer if isinstance(answer, tuple) else (answer,):
                if isinstance(part, np.ndarray) and part.dtype.kind == "f" and not np.isfinite(part).all():
                    broken.append(f"case {case}: {name} of {model} answered {part!r:.80}")
        except ALLOWED:
            counts["refused"] += 1
            if not same(
                {k: v for k, v in before.items() if k != "_drawn"},
                {k: v for k, v in vars(model).items() if k != "_drawn"},
            ):
                broken.append(f"case {case}: {name} of {model} changed it")
        except BaseException as problem:
            shown = [repr(g)[:100] for g in (*given, *extra.items())]
            broken.append(f"case {case}: {name} of {model} on {shown}: {type(problem).__name__}: {problem!s:.150}")
    return counts, broken


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT, LIMIT))
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    counts, broken = run(int(sys.argv[1]), int(sys.argv[2]))
    # (ru_maxrss would count the memory of whoever started this process, too)
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    peak = int(status["VmHWM"].split()[0]) * 1024
    print(json.dumps({**counts, "broken": broken, "peak": peak}))
