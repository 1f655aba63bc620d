"""The configurations over which every law is run: a test that takes `case` is run on each of them.

A law marked `cutting` is not run on methods for which each update is a task, one marked `float32` not on methods that
need float64, one marked `outputs` not on methods whose outputs share what is learned.
"""

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import util
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import remanence as rm

SKELETON = Path(__file__).parents[2] / "examples" / "skeleton_method.py"
STEPS = tuple(np.random.default_rng(7).uniform(0.2, 1.6, 1000))


def skeleton():
    """The class in the example file, as an imported module has it: pickling looks it up by name."""
    if "skeleton_method" not in sys.modules:
        spec = util.spec_from_file_location("skeleton_method", SKELETON)
        sys.modules["skeleton_method"] = util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules["skeleton_method"])
    return sys.modules["skeleton_method"].LeakyLMS


def falling(t):
    """A step that is a rule of t."""
    return 1.5 / (1 + 0.1 * t)


@dataclass(frozen=True)
class Stream:
    """Rows, targets, and the weights to start from."""

    X: Any
    Y: Any
    start: Any

    def __iter__(self):
        return iter((self.X, self.Y))


@dataclass(frozen=True)
class Case:
    """A method with settings, and what must be known of it to state a law."""

    name: str
    method: Any
    consistent: bool = False  # refuses data that contradict themselves
    shared: bool = False  # a setting is fitted to all outputs together
    coupled: bool = False  # outputs share what is learned, by a rule that is not linear in the targets
    float64_only: bool = False
    in_library: bool = True  # model files know it
    faint: bool = False  # the prior ends near what rounding can see: weights it alone decides are not comparable
    rounding: float = 1e-9  # what may differ between two ways of computing one thing, relative

    def stream(self, seed, n, d, c, kind=None, start=True):
        """Samples of one of four kinds: plain, with repeated and zero rows, of low rank, of many scales."""
        rng = np.random.default_rng([seed, n, d, c])
        kind = (0, 1, 2, 3)[seed % 4] if kind is None else kind
        kind = 0 if self.faint and kind in (1, 2) else kind
        X = rng.standard_normal((n, d))
        if kind == 1:
            X[rng.random(n) < 0.15] = 0
            X = X[rng.integers(0, n, n)]
        elif kind == 2:
            r = max(1, d // 2)
            X = X[:, :r] @ rng.standard_normal((r, d)) / np.sqrt(r)
        elif kind == 3:
            X = X * np.logspace(-1.5, 1, d)
        Y = X @ rng.standard_normal((d, c))
        if not self.consistent:
            Y = Y + 0.3 * rng.standard_normal((n, c))
        W = rng.standard_normal((d, c)) if start else np.zeros((d, c))
        return Stream(X, Y, W)

    def fresh(self, stream, dtype=np.float64):
        return self.method.init(*stream.start.shape, start=stream.start, dtype=dtype)

    def learned(self, stream):
        """The state after the whole stream in one call."""
        return self.method.update(self.fresh(stream), *stream)

    def model(self, state, X):
        """What two ways of learning must agree on: the weights, or if the prior is faint the answers at recent rows.

        A model that is not linear has no weights to compare.
        """
        if not self.method.linear:
            return self.method.predict(state, X)
        return self.method.predict(state, X[-5:]) if self.faint else self.method.weights(state)

    def pieces(self, stream, cuts: Iterable[int]):
        """The stream cut at the given places, as far as they lie inside it."""
        n = len(stream.X)
        places = [0, *sorted({k for k in cuts if 0 < k < n}), n]
        return [(stream.X[a:b], stream.Y[a:b]) for a, b in pairwise(places)]

    def same(self, a, b, rounding=None, scale=None):
        """Equal up to rounding, relative to the larger of the two (or to `scale`)."""
        a, b = np.asarray(a), np.asarray(b)
        assert a.shape == b.shape and a.dtype == b.dtype
        size = max(np.linalg.norm(a), np.linalg.norm(b)) if scale is None else scale
        error = np.linalg.norm(a - b) / max(size, np.finfo(float).tiny)
        allowed = self.rounding if rounding is None else rounding
        assert error <= allowed, f"{self.name}: differ by {error:.1e}, allowed {allowed:.0e}"


CASES = [
    Case("lms", rm.LMS()),
    Case("lms-0.3", rm.LMS(0.3)),
    Case("lms-sequence", rm.LMS(STEPS)),
    Case("lms-rule", rm.LMS(falling)),
    Case("lms-raw", rm.LMS(0.01, normalized=False)),
    Case("apa-0", rm.APA(0)),
    Case("apa-3", rm.APA(3)),
    Case("apa-all", rm.APA(None)),
    Case("apa-3-half", rm.APA(3, 0.5)),
    Case("apa-all-half", rm.APA(None, 0.5)),
    Case("icl", rm.ICL()),
    Case("ogd", rm.OGD(0.05)),
    Case("ogd-rule", rm.OGD(falling)),
    Case("orfit", rm.ORFit()),
    Case("orfit-3", rm.ORFit(3)),
    Case("rls-0.5", rm.RLS(0.3, 0.5), faint=True),
    Case("rls-0.9", rm.RLS(0.3, 0.9)),
    Case("rls-0.99", rm.RLS(0.3, 0.99)),
    Case("rls", rm.RLS(0.3)),
    Case("rls-1.01", rm.RLS(0.3, 1.01)),
    Case("rls-tiny-ridge", rm.RLS(1e-8), faint=True),
    Case("rls-floor", rm.RLS(0.3, 0.9, floor=0.05)),
    Case("rls-forget-auto", rm.RLS(0.3, "auto"), shared=True, faint=True, rounding=1e-7),
    Case("rls-exact", rm.RLS(forget=0), consistent=True),
    Case("lowrank-4", rm.LowRankRLS(4, 0.3)),
    Case("lowrank-all", rm.LowRankRLS(500, 0.3)),
    Case("rls-auto", rm.RLS("auto"), shared=True, rounding=1e-7),
    Case("kalman", rm.Kalman(0.1, noise=0.3), float64_only=True),
    Case("kalman-auto", rm.Kalman("auto"), shared=True, float64_only=True, rounding=1e-7),
    Case("kernel-rls", rm.KernelRLS(width=2.0, tolerance=1e-3, ridge=0.01), float64_only=True),
    Case(
        "kernel-rls-tracker",
        rm.KernelRLS(width=2.0, tolerance=1e-3, budget=8, forget=0.98, ridge=0.1),
        shared=True,
        float64_only=True,
    ),
    Case("kernel-lms", rm.KernelLMS(width=2.0)),
    Case("window-rls", rm.WindowRLS(7, 0.3)),
    Case("block-lms", rm.BlockLMS(3, 0.1, 4)),
    # Outputs share a few atoms and take free ones in turn; μ‖s‖₁ does not scale with the targets as squares do.
    Case("task-dictionary", rm.TaskDictionary(3), shared=True, coupled=True, float64_only=True),
    Case("skeleton", skeleton()(step=0.5, leak=0.1), in_library=False),
]


def pytest_configure(config):
    config.addinivalue_line("markers", "cutting: a law on cutting a stream into updates")
    config.addinivalue_line("markers", "float32: a law on states in float32")
    config.addinivalue_line("markers", "outputs: a law on outputs that are learned as if each were alone")


def pytest_generate_tests(metafunc):
    if "case" in metafunc.fixturenames:
        marks = {mark.name for mark in metafunc.definition.iter_markers()}
        cases = [case for case in CASES if not ("float32" in marks and case.float64_only)]
        cases = [case for case in cases if not ("cutting" in marks and case.method.task_per_update)]
        cases = [case for case in cases if not ("outputs" in marks and case.coupled)]
        metafunc.parametrize("case", cases, ids=lambda case: case.name)
    if "rls" in metafunc.fixturenames:
        soft = [c for c in CASES if isinstance(c.method, rm.RLS) and not c.consistent and c.method.forget != "auto"]
        metafunc.parametrize("rls", soft, ids=lambda case: case.name)


@pytest.fixture(autouse=True)
def _no_warnings(recwarn):
    """No law may be kept at the price of a numerical warning."""
    yield
    loud = [str(w.message) for w in recwarn if issubclass(w.category, RuntimeWarning)]
    assert not loud, loud
