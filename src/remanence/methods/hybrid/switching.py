"""Several linear models that take turns without a label: their product is a polynomial that all samples satisfy.

    Π (y − xᵀθᵢ) = 0   for every sample, whichever model it is from                                      (S1)
    yⁿ ≈ Σ cₘ m(x, y):  least squares over the monomials of degree n, folded into a root                 (S2)
    n = the smallest degree that fits; its coefficients give the models back (monomials.py), which are then
        moved to those whose product fits best (products.py)                                             (S3)
    the model in force is the one that fits the latest sample best                                       (S4)
    with samples at hand: least squares over those that a model fits best, until none changes sides      (S5)

RLS on the same samples finds the average of the models, which solves neither.
"""

from dataclasses import dataclass
from functools import partial
from math import comb
from typing import Annotated, Any

import numpy as np
from numpy.typing import DTypeLike

from remanence.arrays import Array, read_only
from remanence.errors import InputError
from remanence.memory.root import Root, empty, take_outputs
from remanence.methods.hybrid.monomials import exponents, factors, monomials
from remanence.methods.hybrid.products import nearest_product
from remanence.methods.hybrid.solutions import directions, solution
from remanence.methods.protocol import Method
from remanence.validation import check_block, check_count, check_memory, check_number, check_result, check_start, quiet

EXACT = 1e-9  # singular values below say that nothing is left to fit


@dataclass(frozen=True, slots=True)
class SwitchingState:
    """For each output the roots of the monomials of degrees 1, 2, …, and the latest sample."""

    start: Annotated[Array, "d c"]
    roots: Annotated[tuple[Root, ...], "* *"]  # output by output, degree by degree
    latest: Annotated[Array, "*"]  # (d + c) x and y − xᵀstart; empty before the first sample
    count: int


@dataclass(frozen=True, slots=True)
class Switching(Method[SwitchingState]):
    """Finds several linear models in samples that do not say which one they are from (hybrid system identification).

    `models(state)` are the models, `segment(state, X, Y)` says which one each sample is from, and `weights` and
    `predict` are those of the model that fits the latest sample. Each output has models of its own.

    Parameters
    ----------
    modes : int, default=2
        At most this many models. Memory grows like features^(2·modes).
    forget : float, default=1.0
        β: below 1 old samples fade, so that models may drift.
    tolerance : float, default=0.02
        As many models are used as bring the last of `singular_values` below this: about the size of the noise beside
        the targets.

    Examples
    --------
    >>> import numpy as np, remanence as rm
    >>> X = np.random.default_rng(0).standard_normal((70, 2))
    >>> mode = np.arange(70) // 7 % 2
    >>> Y = np.where(mode == 0, X @ [1.0, 2.0], X @ [3.0, -1.0])[:, None]
    >>> method = rm.Switching(modes=2)
    >>> state = method.update(method.init(features=2, outputs=1), X, Y)
    >>> sorted(method.models(state).round(9).tolist())
    [[1.0, 2.0], [3.0, -1.0]]

    References
    ----------
    Vidal (2008), "Recursive identification of switched ARX systems", Automatica.
    Vidal, Ma and Sastry (2005), "Generalized principal component analysis (GPCA)", IEEE Trans. PAMI.
    """

    modes: int = 2
    forget: float = 1.0
    tolerance: float = 0.02

    summary = "several linear models in samples without labels, from the root of monomials of degree n"
    cost = "M², M = (d+n choose n)"
    memory = "cM²"

    def __post_init__(self) -> None:
        object.__setattr__(self, "modes", check_count(self.modes, "modes", hint="the largest number of models"))
        forget = check_number(self.forget, "forget", hint="1 keeps everything, 0.99 fades")
        if forget > 1:
            raise InputError(f"expected forget to be at most 1, got {forget:g}; 1 keeps everything, 0.99 fades")
        object.__setattr__(self, "forget", forget)
        hint = "the size of the noise beside the targets, like 0.02"
        object.__setattr__(self, "tolerance", check_number(self.tolerance, "tolerance", high=1.0, hint=hint))

    def init(self, features: int, outputs: int, start: Any = None, dtype: DTypeLike = np.float64) -> SwitchingState:
        start = check_start(start, features, outputs, dtype)
        if start.dtype != np.float64:
            raise InputError(f"expected dtype float64 for Switching, got {start.dtype}: powers of the data need digits")
        what, hint = f"monomials of {features} features", "use fewer modes or features"
        largest = 16 * outputs * (comb(features + self.modes, self.modes) - 1) ** 2
        check_memory(float(min(largest, 10**300)), what, hint)  # (before as many degrees are gone through)
        sizes = self._sizes(features)
        check_memory(16.0 * outputs * sum(m * m for m in sizes), what, hint)
        return SwitchingState(start, tuple(empty(m, 1) for _ in range(outputs) for m in sizes), np.zeros(0), 0)

    @quiet
    def update(self, state: SwitchingState, X: Any, Y: Any, donate: bool = False) -> SwitchingState:
        X, Y = check_block(X, Y, state.start)
        return self._learned(state, X, Y - X @ state.start)

    @quiet
    def track(self, state: SwitchingState, X: Any, Y: Any, donate: bool = False) -> tuple[SwitchingState, Array]:
        X, Y = check_block(X, Y, state.start)
        errors = np.empty_like(Y)
        for i in range(len(X)):
            errors[i] = Y[i] - X[i] @ self.weights(state)
            state = self._learned(state, X[i : i + 1], Y[i : i + 1] - X[i : i + 1] @ state.start)
        return state, errors

    def _learned(self, state: SwitchingState, X: Array, Z: Array) -> SwitchingState:
        fading = self.forget ** np.arange(len(X) - 1, -1, -1.0) if self.forget < 1 else None
        roots = []
        for j, n, root in self._each(state):
            rows = monomials(X, Z[:, j], n)
            check_result(rows)
            roots.append(root.folded(rows[:, :-1], rows[:, -1:], fading, self.forget ** len(X)))  # (S2)
            check_result(roots[-1].factor, roots[-1].target)
        return SwitchingState(state.start, tuple(roots), np.append(X[-1], Z[-1]), state.count + len(X))

    @quiet
    def weights(self, state: SwitchingState) -> Array:
        W = state.start.copy()
        d = len(W)
        if state.count:
            x, z = state.latest[:d], state.latest[d:]
            for j in range(W.shape[1]):
                models = self._models(state, j)
                W[:, j] += models[np.argmin(np.abs(z[j] - models @ x))]  # (S4)
        check_result(W)
        return read_only(W)

    def models(self, state: SwitchingState, output: int = 0) -> Array:
        """The models (n, d) of one output, as many as the samples show, at most `modes`."""
        self._check_output(state, output)
        return np.asarray(self._models(state, output) + state.start[:, output])

    @quiet
    def segment(self, state: SwitchingState, X: Any, Y: Any, output: int = 0) -> Array:
        """(n,) Which of `models(state, output)` each sample is from: the one that fits it best."""
        X, Y = check_block(X, Y, state.start)
        models = self.models(state, output)
        return np.asarray(np.argmin(np.abs(Y[:, output : output + 1] - X @ models.T), axis=1))

    @quiet
    def refined_models(self, state: SwitchingState, X: Any, Y: Any, output: int = 0, rounds: int = 10) -> Array:
        """`models` made more exact with samples at hand: least squares over those that each of them fits best (S5).

        Noise moves the roots of a polynomial more than a least-squares solution. A model that too few samples are from
        to determine it stays as it was.

        Parameters
        ----------
        state : SwitchingState
        X, Y : array (n, d), array (n, c)
            Samples of these models, learned or not.
        output : int
        rounds : int
            Of assigning samples and solving; it ends when no assignment changes.

        Returns
        -------
        array (modes, d)
        """
        X, Y = check_block(X, Y, state.start)
        models, y, last = self.models(state, output).copy(), Y[:, output], None
        least = directions(state.roots[output * self.modes], len(models))[0].shape[1]
        for _ in range(check_count(rounds, "rounds")):
            mode = np.argmin(np.abs(y[:, None] - X @ models.T), axis=1)
            if last is not None and np.array_equal(mode, last):
                break
            last = mode
            for k in range(len(models)):
                own = mode == k
                solution, _, rank, _ = np.linalg.lstsq(X[own], y[own], rcond=None)
                if rank >= least:
                    models[k] = solution
        check_result(models)
        return np.asarray(models)

    def singular_values(self, state: SwitchingState, output: int = 0) -> tuple[float, ...]:
        """The smallest singular value for each degree, all monomials but yⁿ orthonormal: near 0 where it fits."""
        self._check_output(state, output)
        return tuple(solution(root)[1] for j, _, root in self._each(state) if j == output)

    def merge(self, a: SwitchingState, b: SwitchingState) -> SwitchingState:
        """The state that saw the samples of both; the latest is that of b."""
        if self.forget != 1 or not np.array_equal(a.start, b.start) or len(a.roots) != len(b.roots):
            raise InputError("expected two states of one shape and start, learned with forget=1, got others")
        roots = tuple(one.merged(other) for one, other in zip(a.roots, b.roots, strict=True))
        return SwitchingState(a.start, roots, b.latest if b.count else a.latest, a.count + b.count)

    def template(self, state: SwitchingState) -> Array:
        return state.start

    def accepts_state(self, state: object) -> bool:
        if not isinstance(state, SwitchingState) or len(state.roots) != self.modes * state.start.shape[1]:
            return False
        d, c = state.start.shape
        shapes = [root.target.shape for root in state.roots]
        return shapes == [(m, 1) for _ in range(c) for m in self._sizes(d)] and (
            len(state.latest) == (d + c if state.count else 0)
        )

    def with_outputs(self, state: SwitchingState, sources: Array) -> SwitchingState:
        d, size, roots = len(state.start), self.modes, list[Root]()
        for source in sources:
            own = state.roots[max(int(source), 0) * size :][:size]
            roots += own if source >= 0 else map(partial(_without_y, d), own, self._degrees())
        latest = state.latest
        if state.count:
            latest = np.append(latest[:d], take_outputs(latest[None, d:], sources))
        return SwitchingState(take_outputs(state.start, sources), tuple(roots), latest, state.count)

    # Helpers

    def _degrees(self) -> range:
        return range(1, self.modes + 1)

    def _sizes(self, features: int) -> list[int]:
        """How many monomials of each degree there are, without yⁿ."""
        return [comb(features + n, n) - 1 for n in self._degrees()]

    def _each(self, state: SwitchingState) -> list[tuple[int, int, Root]]:
        """Output, degree and root."""
        return [(k // self.modes, k % self.modes + 1, root) for k, root in enumerate(state.roots)]

    def _models(self, state: SwitchingState, output: int) -> Array:
        """The models of what `start` does not explain (S3)."""
        own = state.roots[output * self.modes : (output + 1) * self.modes]
        solutions = map(solution, own)  # (each is computed when the ones before do not fit)
        degree, coefficients, size = next(
            (n, c, size) for n, (c, size) in enumerate(solutions, 1) if size <= self.tolerance or n == self.modes
        )
        found = factors(coefficients, *directions(own[0], degree), degree)
        check_result(found)
        if degree > 1 and len(found) == degree and size > EXACT:
            found = nearest_product(own[degree - 1], own[0], found)
            check_result(found)
        return found

    def _check_output(self, state: SwitchingState, output: int) -> None:
        if check_count(output, "output", low=0) >= state.start.shape[1]:
            raise InputError(f"expected output below {state.start.shape[1]}, got {output}")
        if not state.count:
            raise InputError("expected a state that has learned samples, got one that has learned none")


def _without_y(features: int, root: Root, degree: int) -> Root:
    """The root of the same rows with targets zero: only monomials without y are left."""
    pure = int((exponents(features, degree)[:, -1] == 0).sum())
    factor = np.zeros_like(root.factor, order="F")
    factor[:pure, :pure] = root.factor[:pure, :pure]
    return Root(factor, np.zeros_like(root.target, order="F"), np.zeros(1))
