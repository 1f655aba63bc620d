"""Fit nonlinear scalar models with the linear methods: linearize around the last estimate, then update.

    f̃_t(θ) = f_t(θ^{t−1}) + ∇f_t(θ^{t−1})ᵀ(θ − θ^{t−1})                                       (N1)
    so the method learns x_t = ∇f_t(θ^{t−1}) with the target y_t − f_t(θ^{t−1}) + x_tᵀθ^{t−1}      (N2)

With ICL every linearized sample so far is fitted exactly, at the least distance of θ from its start; with RLS this is
the extended filter with Q = 0. The old linearizations become less accurate as θ moves away from its start.
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
    """Result of `linearized`: the estimates of θ, the prediction errors, and the distance from the start.

    Parameters
    ----------
    path : array (T + 1, d)
        θ after every sample, the start first.
    errors : array (T,)
        y_t − f_t(θ) before sample t was learned.
    distance : array (T + 1,)
        ‖θ − start‖ along the path.
    state : object
        The final state of the method.

    Examples
    --------
    >>> import numpy as np
    >>> from remanence import kalman
    >>> found = kalman.linearized(lambda v: v[0] * v[1], [2.0], start=[1.0, 1.0])
    >>> found.path, found.errors
    (array([[1. , 1. ],
           [1.5, 1.5]]), array([1.]))
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
    """Fit y_t = f_t(θ), one scalar per step, with a linear method.

    Parameters
    ----------
    observe : function of θ, or a list of one per step
        f_t, which returns one number.
    Y : array (T,)
        The observations.
    start : array (d,)
        The initial θ.
    method : Method, optional
        The linear method; default `ICL()`. Use `RLS` for noisy observations.
    jacobian : function of θ, or a list of one per step, optional
        The gradient of `observe`. Default: torch.func for torch functions, else a complex step or differences.

    Returns
    -------
    Linearized
        The estimates, the prediction errors, and the distance from the start.

    Examples
    --------
    >>> import numpy as np
    >>> from remanence import kalman
    >>> rng = np.random.default_rng(0)
    >>> rows = rng.standard_normal((20, 3))
    >>> true = np.array([0.5, -0.3, 0.2])
    >>> observe = [lambda v, x=x: np.tanh(x @ v) for x in rows]
    >>> found = kalman.linearized(observe, np.tanh(rows @ true), start=np.zeros(3))
    >>> bool(np.abs(found.theta - true).max() < 0.1)
    True

    References
    ----------
    Peng and Vidal (2025), "Mathematics of continual learning", nonlinear models.
    """
    method = ICL() if method is None else method
    if not isinstance(method, Method):
        raise InputError(f"expected method to be one of rm.list_methods(), like rm.ICL(), got {method!r}")
    y, theta = check_numbers(unmasked(Y), "Y", np.float64), check_numbers(start, "start", np.float64)
    if y.ndim != 1 or not len(y):
        raise InputError(f"expected Y of shape (steps,), one number per step and at least one, got {y.shape}")
    if theta.ndim != 1 or not len(theta):
        raise InputError(f"expected start of shape (features,), got {theta.shape}; it is θ⁰")
    check_finite(y, "Y")
    start = check_start(theta[:, None], len(theta), 1)
    f, df = functions(observe, "observe", len(y), 0), functions(jacobian, "jacobian", len(y))
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
