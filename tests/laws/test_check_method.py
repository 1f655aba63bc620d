"""`rm.check_method` accepts every method of the library and sees each law that is broken."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

import remanence as rm
from remanence.methods.lms import LMSState
from remanence.methods.protocol import Method

from .conftest import skeleton

METHODS = [
    rm.LMS(),
    rm.LMS(0.3),
    rm.APA(3),
    rm.APA(None),
    rm.ICL(),
    rm.OGD(0.05),
    rm.ORFit(),
    rm.ORFit(3),
    rm.RLS(),
    rm.RLS(0.3, 0.9),
    rm.RLS(forget=0),
    rm.RLS("auto"),
    rm.LowRankRLS(4),
    rm.LowRankRLS(50),
    rm.Kalman(0.1),
    rm.Kalman("auto"),
    rm.KernelRLS(),
    rm.KernelRLS("laplace", 2.0, forget=0.99, budget=10, ridge=0.1),
    rm.KernelLMS(),
    rm.WindowRLS(7, 0.1),
    rm.BlockLMS(taps=3, step=0.1),
    rm.BlockLMS(taps=2, step=0.01, block=4, normalized=False),
    rm.Switching(),
    rm.Switching(1, 0.9),
    rm.TaskDictionary(3),
]


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_every_method_of_the_library_keeps_the_laws(method):
    rm.check_method(method)


def test_the_skeleton_keeps_the_laws():
    rm.check_method(skeleton()(step=0.5, leak=0.1))


@dataclass(frozen=True, slots=True)
class Broken(Method[LMSState]):
    """LMS with one fault at a time."""

    fault: str

    def init(self, features, outputs, start=None, dtype=np.float64):
        state = rm.LMS().init(features, outputs, start, dtype)
        return LMSState(state.W + 1, 0) if self.fault == "start" else state

    def track(self, state, X, Y, donate=False):
        if self.fault == "writes to X" and isinstance(X, np.ndarray):
            X *= 2
        if self.fault == "accepts NaN":
            X = np.nan_to_num(X)
        new, errors = rm.LMS().track(state, X, Y)
        if self.fault == "cut":
            new = LMSState(new.W * 0.9, new.count)
        if self.fault == "errors":
            errors = errors[::-1]
        if self.fault == "donate" and donate:
            new = LMSState(new.W + 1e-3, new.count)
        if self.fault == "impure":
            state.W[...] += 1
        return new, errors

    def weights(self, state):
        return state.W if self.fault == "hands out" else state.W.copy()

    def predict(self, state, X):
        answers = rm.LMS().predict(state, X)
        return answers + 1 if self.fault == "predict" else answers

    def with_outputs(self, state, sources):
        new = rm.LMS().with_outputs(state, sources)
        return replace(new, W=new.W[:, ::-1]) if self.fault == "outputs" else new


FAULTS = ["start", "writes to X", "accepts NaN", "cut", "errors", "donate", "impure", "hands out", "predict", "outputs"]


def test_without_a_fault_it_keeps_the_laws():
    rm.check_method(Broken("none"))


@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_law_is_seen(fault):
    with pytest.raises(AssertionError, match="breaks a law"):
        rm.check_method(Broken(fault))


@pytest.mark.parametrize("bad", [rm.RLS, "rls", None])
def test_what_is_no_method_is_refused(bad):
    with pytest.raises(rm.InputError, match="expected a method value"):
        rm.check_method(bad)
