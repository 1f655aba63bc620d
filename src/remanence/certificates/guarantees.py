"""The guarantees that `certify` checks: for each the conditions under which it applies, and what was measured.

    W_joint = argmin λ‖W‖² + Σ ‖y_i − Wᵀx_i‖²  over all tasks at once              (J1)   λ = 0: the smallest such W
    x_iᵀW_t = x_iᵀW_i  for every row i of a task learned before t                  (J2)
    G_t − G_{t−1} ⪰ 0,  G the information of all samples so far                    (J3)

A guarantee whose condition is not met does not apply, and the certificate says which condition. Otherwise it holds or
fails, with the number measured. Rows so nearly dependent that any answer would be within rounding are such a condition.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.certificates.certificate import Certificate, difference, likely, rounding
from remanence.certificates.claims.linear.lms import lms_errors_add_up_to_the_way_gone
from remanence.certificates.instances.runs import largest, worst_of
from remanence.certificates.joint import JointModel, joint_training
from remanence.certificates.memories import shortfall, size
from remanence.certificates.training_record import LinearModel
from remanence.kalman import Kalman
from remanence.labels import are_labels
from remanence.methods import APA, ICL, LMS, OGD, RLS, ORFit

EQUAL = "The learner equals joint training on all tasks"
UNMOVED = "Predictions on learned rows of earlier tasks have not changed"
SMALLEST = "The model is the minimum-norm solution of all tasks"
GROWING = "Information about earlier samples never decreases"
SMOOTHER = "Later tasks make earlier models more certain: the smoother is not worse than the filter"
ADDED_UP = "The squared errors of LMS sum to its decrease in squared distance to the true model"

LEARNED = "predictions on learned rows"
TINY = float(np.finfo(float).tiny)
COARSE = 0.1  # relative to the answers: a certificate that allows more shows nothing
OTHER = "the learner is not one of the linear methods"
CONFLICT = "no model fits all samples"
MOVES_TOO = "joint training does not fit every sample exactly, and also changes old predictions"


def certificates_of_linear(model: LinearModel) -> list[Certificate]:
    """The certificates of a linear method, or of an estimator around one."""
    joint = joint_training(model)
    equal = _equals_joint_training(model, joint)
    found = [
        equal,
        _unmoved(model, joint, equal.holds),
        _minimum_norm(model, joint),
        _information(model),
        _smoother(model),
        _lms_identity(model, joint),
    ]
    return [_unless_anything_holds(certificate) for certificate in found]


def certificates_of_predictions(first: list[Array], final: list[Array], joint: list[Array]) -> list[Certificate]:
    """The certificates of any other learner, from its predictions on the rows of each task.

    `first` are those just after the task, `final` those after the last one, and `joint` those of a copy that learned
    all rows at once.
    """
    equal = _copies_agree(final, joint)
    return [equal, _labels_stay(first, final, equal.holds), *_for_linear_methods()]


def _unless_anything_holds(found: Certificate) -> Certificate:
    """The certificate, if it could have failed: where rounding may be as large as an answer, nothing was shown."""
    if not found.holds or found.allowed < COARSE:
        return found
    why = f"rounding may change answers by {found.allowed:.0e} of their size ({', '.join(found.conditions)})"
    return _not(found.claim, found.source, why)


def _not(claim: str, source: str, unmet: str) -> Certificate:
    return Certificate(claim, source, (), float("nan"), float("nan"), unmet=unmet)


# Any learner: its predictions


def _copies_agree(final: list[Array], joint: list[Array]) -> Certificate:
    what, measured, allowed = _difference_of_predictions(final, joint)
    return Certificate(EQUAL, "a copy that learned all rows at once, in random order", (what,), measured, allowed)


def _labels_stay(first: list[Array], final: list[Array], equal: bool) -> Certificate:
    if len(first) < 2:
        return _not(UNMOVED, "(OGD), (GP)", "there is one task only")
    what, measured, allowed = _difference_of_predictions(first[:-1], final[:-1])
    if equal and measured > allowed:
        return _not(UNMOVED, "(OGD), (GP)", MOVES_TOO)
    return Certificate(UNMOVED, "(OGD), (GP)", (what,), measured, allowed)


def _difference_of_predictions(one: list[Array], other: list[Array]) -> tuple[str, float, float]:
    a, b = np.concatenate(one), np.concatenate(other)
    if are_labels(a):
        return "share of learned rows predicted differently", float(np.mean(a != b)), 0.0
    return LEARNED, largest(a - b) / max(largest(b), TINY), rounding(1.0, a.size)


def _for_linear_methods() -> list[Certificate]:
    claims = ((SMALLEST, "Theorems 4 and 5"), (GROWING, "Remark 4"), (SMOOTHER, "Theorem 7"), (ADDED_UP, "regret"))
    return [_not(claim, source, OTHER) for claim, source in claims]


# Linear methods: what they are


def _equals_joint_training(model: LinearModel, joint: JointModel) -> Certificate:
    source, method = f"least squares over all rows, ridge {model.ridge:g}", model.method
    if isinstance(method, RLS) and method.forget not in (0, 1):
        return _not(EQUAL, source, f"forget = {method.forget} weighs samples by age, and joint training does not")
    if _drifts(method):
        return _not(EQUAL, source, "with drift every task has a model of its own, and joint training has one for all")
    if isinstance(method, (ICL, ORFit)) and not joint.fits:
        return _not(EQUAL, source, f"{CONFLICT}, and hard memory then keeps the oldest targets")
    measured, conditions = difference(model.X @ model.W, joint.predictions), (LEARNED, f"cond {joint.kappa:.0e}")
    return Certificate(EQUAL, source, conditions, measured, _allowed(model, joint.kappa))


def _unmoved(model: LinearModel, joint: JointModel, equal: bool) -> Certificate:
    source, method = "(OGD), (GP)", model.method
    if len(model.ends) < 2:
        return _not(UNMOVED, source, "there is one task only")
    if _drifts(method):
        return _not(UNMOVED, source, "with drift every task has a model of its own")
    if isinstance(method, RLS) and method.forget not in (0, 1):
        return _not(UNMOVED, source, f"forget = {method.forget} weighs samples by age, and changes old predictions")
    hard = isinstance(method, (ICL, OGD)) or (isinstance(method, ORFit) and method.rank is None)
    if not hard and equal and not joint.exact:
        return _not(UNMOVED, source, MOVES_TOO)
    parts = zip((0, *model.ends), model.ends[:-1], model.weights, strict=False)
    moved = worst_of(*(largest(model.X[start:end] @ (model.W - W)) for start, end, W in parts))
    scale = largest(np.linalg.norm(model.X, axis=1)) * max(float(np.linalg.norm(W)) for W in model.weights)
    kappa = 1.0 if hard else joint.kappa
    return Certificate(UNMOVED, source, (LEARNED,), moved / max(scale, TINY), _allowed(model, kappa))


def _minimum_norm(model: LinearModel, joint: JointModel) -> Certificate:
    source = "Theorems 4 and 5"
    if model.ridge:
        return _not(SMALLEST, source, f"ridge = {model.ridge:g} is not 0")
    if not joint.fits:
        return _not(SMALLEST, source, CONFLICT)
    conditions = ("θ⁰ = 0", f"cond {joint.kappa:.0e}")
    return Certificate(SMALLEST, source, conditions, difference(model.W, joint.W), _allowed(model, joint.kappa))


def _information(model: LinearModel) -> Certificate:
    source, method = "Remark 4, Φ_t ⪯ Φ_{t−1}", model.method
    if _drifts(method):
        return _not(GROWING, source, "with drift old tasks are less informative about the next one")
    if isinstance(method, RLS) and (method.forget == "auto" or 0 < method.forget < 1):
        return _not(GROWING, source, f"forget = {method.forget} gives older samples less weight")
    if isinstance(method, ORFit) and method.rank is not None:
        return _not(GROWING, source, f"rank = {method.rank} discards the weakest direction when a new one is added")
    if model.lost is None:
        window = f"the last {method.buffer} samples only" if isinstance(method, APA) else "no memory that only grows"
        return _not(GROWING, source, f"{type(method).__name__} keeps {window}")
    worst = worst_of(*model.lost) if model.lost else 0.0
    return Certificate(GROWING, source, ("after every task",), worst, _allowed(model, 1.0), "bound")


def _smoother(model: LinearModel) -> Certificate:
    source, method = "Theorem 7, Σ_{i|t} ⪯ Σ_{i|i}", model.method
    if not isinstance(method, Kalman):
        return _not(SMOOTHER, source, "the learner is no Kalman filter")
    member = model.state.best
    filtered = [known.cov for known in (*member.past, member.known)]
    smoothed = [known.cov for known in method.smoothed(model.state)]
    worst = worst_of(*(shortfall(a - b, size(a)) for a, b in zip(filtered, smoothed, strict=True)))
    kappa = max(float(np.linalg.cond(cov)) for cov in filtered)
    allowed = _allowed(model, kappa)
    return Certificate(SMOOTHER, source, ("a correct model", f"cond {kappa:.0e}"), worst, allowed, "bound")


def _lms_identity(model: LinearModel, joint: JointModel) -> Certificate:
    source, method = "regret", model.method
    if not isinstance(method, LMS):
        return _not(ADDED_UP, source, "the learner is not LMS")
    if not isinstance(method.step, float) or not method.normalized:
        return _not(ADDED_UP, source, "the step is not constant and normalised")
    if not joint.fits:
        return _not(ADDED_UP, source, CONFLICT)
    start = np.zeros_like(joint.W)
    found = lms_errors_add_up_to_the_way_gone(model.X, model.Y, joint.W, start, method.step, method)
    return replace(found, claim=ADDED_UP, allowed=found.allowed + _allowed(model, joint.kappa))  # θ* is computed too


def _drifts(method: Any) -> bool:
    return isinstance(method, Kalman) and bool(np.any(np.asarray(method.drift) != 0))


def _allowed(model: LinearModel, kappa: float) -> float:
    return model.precision * rounding(kappa, likely(model.X.size))
