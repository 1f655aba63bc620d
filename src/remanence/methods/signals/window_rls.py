"""Recursive least squares over a sliding window: after every row the ridge solution of the last w rows, exactly.

    minimise  λ‖W − θ⁰‖² + Σ ‖yᵢ − Wᵀxᵢ‖²   over i = t−w+1, …, t                                                (W1)
    J = root of the rows and the prior:  the new row is rotated in, then the oldest out: g = ±1 in (T2)    (W2)

Rotating out costs digits where little is left of what there was, and the loss adds up. So J is folded anew from the
rows, which are kept, after every w of them; where 4ε√w maxⱼ eⱼ (JᵀJ)⁻¹ⱼⱼ, eⱼ the energy of column j, is more than
LIMITS; and before a row leaves that has most of the energy of a column. On average a row costs O(d²), but O(wd²) where
so little is determined by the window and the ridge that every row needs a J of its own.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any

import numpy as np
from numpy.typing import DTypeLike

from remanence.arrays import Array, read_only
from remanence.errors import NumericalError
from remanence.kernels.rotations import rotate_rows
from remanence.memory import root as roots
from remanence.memory.root import Root, sums_of_squares, take_outputs
from remanence.methods.protocol import Method
from remanence.methods.signals.complex_numbers import InPairs, takes_complex
from remanence.validation import check_block, check_count, check_number, check_result, check_start, quiet

LIMITS = {np.dtype(np.float64): 1e-10, np.dtype(np.float32): 1e-3}  # relative errors that rotating out may cost
LEAST = 16  # rows between looks at what was lost, the first of them at the first row after J was folded anew


@dataclass(frozen=True, slots=True)
class WindowState:
    """The rows in the window, oldest first, the root of these and the prior, and the rows since it was folded anew."""

    X: Annotated[Array, "k d squarable"]
    Y: Annotated[Array, "k c squarable"]
    joint: Annotated[Root, "d c"]
    start: Annotated[Array, "d c"]
    since: int
    count: int


@takes_complex
@dataclass(frozen=True, slots=True)
class WindowRLS(Method[WindowState]):
    """Recursive least squares over the last `window` rows: older ones are removed exactly, not faded.

    Parameters
    ----------
    window : int, default=100
        w: how many rows count.
    ridge : float, default=1.0
        λ: the weight of ‖W − start‖² beside the squared errors.

    Examples
    --------
    >>> import numpy as np, remanence as rm
    >>> X, Y = np.eye(2)[[0, 1, 0, 1]], np.array([[1.0], [2.0], [3.0], [4.0]])
    >>> rls = rm.WindowRLS(window=2, ridge=1e-12)
    >>> rls.weights(rls.update(rls.init(features=2, outputs=1), X, Y)).ravel().round(6).tolist()
    [3.0, 4.0]

    References
    ----------
    Golub and Van Loan (2013), "Matrix Computations", section 6.5: updating and downdating factors.
    """

    window: int = 100
    ridge: float = 1.0

    summary = "least squares over the last `window` rows; older ones are removed exactly"
    cost = "3d² + dc"
    memory = "w(d + c) + d² + dc"

    def __post_init__(self) -> None:
        object.__setattr__(self, "window", check_count(self.window, "window", hint="the number of rows that count"))
        object.__setattr__(self, "ridge", check_number(self.ridge, "ridge", hint="a small positive number"))

    def init(self, features: int, outputs: int, start: Any = None, dtype: DTypeLike = np.float64) -> WindowState:
        W = check_start(start, features, outputs, dtype)
        X, Y = np.zeros((0, features), W.dtype), np.zeros((0, outputs), W.dtype)
        return WindowState(X, Y, self._folded(X, Y, W), W, 0, 0)

    @quiet
    def update(self, state: WindowState, X: Any, Y: Any, donate: bool = False) -> WindowState:
        X, Y = check_block(X, Y, state.start)
        if 2 * len(X) < self.window:
            return self._tracked(state, X, Y)[0]
        X, Y = (np.concatenate(parts)[-self.window :] for parts in ((state.X, X), (state.Y, Y)))
        joint = self._folded(X, Y, state.start)
        check_result(joint.factor, joint.target)
        return replace(state, X=X, Y=Y, joint=joint, since=0, count=state.count + len(X))

    @quiet
    def track(self, state: WindowState, X: Any, Y: Any, donate: bool = False) -> tuple[WindowState, Array]:
        X, Y = check_block(X, Y, state.start)
        return self._tracked(state, X, Y)

    def in_pairs(self) -> InPairs:
        real = replace(self, window=2 * self.window)
        return InPairs(real, track=partial(real._tracked, group=2))

    @quiet
    def weights(self, state: WindowState) -> Array:
        return read_only(state.joint.solve())

    def template(self, state: WindowState) -> Array:
        return state.start

    def with_outputs(self, state: WindowState, sources: Array) -> WindowState:
        joint, Y = state.joint.with_outputs(sources), take_outputs(state.Y, sources)
        return replace(state, Y=Y, joint=joint, start=take_outputs(state.start, sources))

    # Helpers

    def _folded(self, X: Array, Y: Array, start: Array) -> Root:
        """J of these rows."""
        d, c = start.shape
        empty = roots.empty(d, c, start.dtype)
        return (empty.folded(X, Y, donate=True) if len(X) else empty).with_prior(self.ridge, start)

    def _tracked(self, state: WindowState, X: Array, Y: Array, group: int = 1) -> tuple[WindowState, Array]:
        """Rows in groups: those of a group are rotated in before as many are rotated out."""
        held, d = len(state.X), len(state.start)
        X, Y = np.concatenate([state.X, X]), np.concatenate([state.Y, Y])
        joint, since, i = state.joint, state.since, held
        errors, size = np.empty_like(Y[held:]), min(group * max(d, LEAST), self.window)
        while i < len(X):
            if since >= self.window:
                joint, since = self._folded(*self._window(X, Y, i), state.start), 0
            end = min(i + (size - since % size if since else group), len(X))
            found = self._rotated(joint, X, Y, i, end, group)
            anew = i + group if found is None else end
            look = not since or (since + end - i) % size == 0
            if found is None or (look and not self._accurate(found[0], joint, X, i, end)):
                for j in range(i, anew, group):
                    fresh = joint if since == 0 else self._folded(*self._window(X, Y, j), state.start)
                    errors[j - held : j - held + group] = Y[j : j + group] - X[j : j + group] @ fresh.solve()
                    joint, since = self._folded(*self._window(X, Y, j + group), state.start), 0
                i = anew
            else:
                joint, errors[i - held : end - held] = found
                since, i = since + end - i, end
        last = self._window(X, Y, len(X))
        check_result(errors, joint.factor, joint.target)
        return WindowState(last[0].copy(), last[1].copy(), joint, state.start, since, state.count + i - held), errors

    def _window(self, X: Array, Y: Array, end: int) -> tuple[Array, Array]:
        """The rows that count before row `end`."""
        return X[max(0, end - self.window) : end], Y[max(0, end - self.window) : end]

    def _rotated(self, joint: Root, X: Array, Y: Array, first: int, end: int, group: int) -> tuple[Root, Array] | None:
        """J and the errors after the rows first … end (W2); None where one leaves that is most of a column."""
        places = [(j, 1) for j in range(first, end)]
        for j in range(end - group, first - group, -group):
            gone = [(k - self.window, -1) for k in range(j, j + group) if k >= self.window]
            places[j - first + group : j - first + group] = gone
        which, signs = (np.array(part) for part in zip(*places, strict=True))
        odd = len(which) % 2
        rows, targets = (np.concatenate([A[which], np.zeros((odd, A.shape[1]), A.dtype)]) for A in (X, Y))
        weights = np.append(signs, [0] * odd).astype(X.dtype)
        left, energies = np.empty_like(targets), sums_of_squares(joint.factor)
        out = which[signs < 0]
        if len(out) and (X[out].astype(np.float64) ** 2 > energies / 2).any():
            return None
        factor, target, rest = np.ascontiguousarray(joint.factor), np.ascontiguousarray(joint.target), joint.rest.copy()
        factor, target = factor.copy(), target.copy()
        rotate_rows(factor, target, rest, rows, targets, weights, np.ones_like(weights), left)
        errors = left[: len(which)][signs > 0]
        after = Root(np.asfortranarray(factor), np.asfortranarray(target), rest)
        if not (np.isfinite(factor).all() and np.isfinite(errors).all()):
            return None
        return after, errors

    def _accurate(self, after: Root, before: Root, X: Array, first: int, end: int) -> bool:
        """Whether rotating the rows first … end in, and older ones out, costs no more digits than LIMITS."""
        if end <= self.window:
            return True
        peak = sums_of_squares(before.factor) + sums_of_squares(X[first:end])
        limit = LIMITS[X.dtype] / (4 * float(np.finfo(X.dtype).eps) * np.sqrt(self.window))
        if peak.max() <= limit * self.ridge:  # (JᵀJ)⁻¹ is at most 1/λ
            return True
        if 2 * self.window <= X.shape[1]:  # and nearly is, where half of the directions have no rows
            return False
        try:
            return bool((peak * after.inverse_diagonal()).max() <= limit)
        except NumericalError:
            return False
