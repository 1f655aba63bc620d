"""Nonlinear scalar models learned by the linear methods: linearise around the last estimate, then learn as usual.

    f̃_t(θ) = f_t(θ^{t−1}) + ∇f_t(θ^{t−1})ᵀ(θ − θ^{t−1})                                       (N1)
    so the method meets x_t = ∇f_t(θ^{t−1}) with the answer y_t − f_t(θ^{t−1}) + x_tᵀθ^{t−1}      (N2)

With ICL every linearised answer so far is met exactly and θ stays as near its start as that allows; with RLS it is the
extended filter with Q = 0. The further θ goes from its start, the less the old linearisations are worth: watch it.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.errors import InputError
from remanence.kalman.nonlinear.extended import functions
from remanence.kalman.nonlinear.jacobians import linearized_at
from remanence.kalman.observations import unmasked
from remanence.methods.icl import ICL
from remanence.methods.protocol import Method
from remanence.validation import check_finite, check_numbers, check_start


@dataclass(frozen=True, slots=True, eq=False)
class Linearized:
    """The path of θ, what was missed on the way, and how far it led.

    Attributes
    ----------
    path : array (T + 1, d)
        θ after every sample, the start first.
    errors : array (T,)
        y_t − f_t(θ) before sample t was learned.
    distance : array (T + 1,)
        ‖θ − start‖ along the path.
    state
        The state of the method at the end.
    """

    path: Array  # (T + 1, d) θ⁰ first
    errors: Array  # (T,) y_t − f_t(θ^{t−1})
    distance: Array  # (T + 1,) ‖θ^t − θ⁰‖
    state: Any  # of the method

    @property
    def theta(self) -> Array:
        """The last estimate."""
        return np.asarray(self.path[-1])


def linearized(observe: Any, Y: Any, *, start: Any, method: Any = None, jacobian: Any = None) -> Linearized:
    """Learn y_t = f_t(θ) one number at a time with any linear method (default ICL; RLS for noisy answers).

    `observe` is a function of θ or a list of one a step, and so is its gradient `jacobian`; without it torch.func, a
    complex step or differences find it.
    """
    method = ICL() if method is None else method
    if not isinstance(method, Method):
        raise InputError(f"expected method to be one of rm.list_methods(), like rm.ICL(), got {method!r}")
    y, theta = check_numbers(unmasked(Y), "Y", np.float64), check_numbers(start, "start", np.float64)
    if y.ndim != 1 or not len(y):
        raise InputError(f"expected Y of shape (steps,), one number a step and at least one, got {y.shape}")
    if theta.ndim != 1 or not len(theta):
        raise InputError(f"expected start of shape (features,), got {theta.shape}; it is θ⁰")
    check_finite(y, "Y")
    start = check_start(theta[:, None], len(theta), 1)
    f, df = functions(observe, "observe", len(y)), functions(jacobian, "jacobian", len(y))
    state = method.init(len(theta), 1, start)
    path, errors = [start[:, 0]], []
    for t in range(len(y)):
        last = path[-1]
        value, slope = linearized_at(f[t], df[t], last, "observe")
        if len(value) != 1:
            raise InputError(f"expected observe to return one number, got {len(value)}; use kalman.extended for more")
        errors.append(y[t] - value[0])
        state = method.update(state, slope, (errors[-1] + slope @ last)[:, None])  # (N2)
        path.append(method.weights(state)[:, 0])
    steps = np.array(path)
    return Linearized(steps, np.array(errors), np.linalg.norm(steps - steps[0], axis=1), state)
