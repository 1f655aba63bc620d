"""Square-root information of weighted rows: the data are never squared, so no digits are lost to squaring.

    RᵀR = Σ wᵢ xᵢxᵢᵀ      Rᵀz = Σ wᵢ xᵢyᵢᵀ      ρ = min over W of Σ wᵢ ‖yᵢ − Wᵀxᵢ‖²      (R1)
    [R; √w X] = Q [R'; 0]     [R' z'; 0 r] = Qᵀ [R z; √w X √w Y]     ρ' = ρ + ‖r‖²          (R2)
    W = R⁻¹ z                                                                              (R3)

A prior is rows too: √λ I with targets √λ θ⁰. It is folded in when solving and never kept among the data, so the
ridge can change afterwards, merging never counts it twice, and removal touches the data alone.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import DTypeLike
from scipy.linalg import get_lapack_funcs  # (here, and not in the function: the first row must not wait for it)

from remanence.arrays import Array, square, squared_sum, triangle
from remanence.errors import InputError, NumericalError
from remanence.kernels.folding import chunk, fold
from remanence.memory.lost import ROUNDING, after_removal
from remanence.memory.lost import merged as lost_by_both
from remanence.parallel.blas_threads import one_thread
from remanence.validation import check_count

RESIDUE = 64.0  # times the precision: what rounding may leave in a column, relative to the row


@cache
def triangular_solver(dtype: str) -> Any:
    """LAPACK's trtrs for a dtype character."""
    return get_lapack_funcs(("trtrs",), dtype=np.dtype(dtype))[0]


@dataclass(frozen=True, slots=True)
class Root:
    """Square-root information of rows: what a least-squares fit needs to know of them."""

    factor: Array  # (d, d) R, upper triangular, column-major
    target: Array  # (d, c) z, column-major
    rest: Array  # (c,) ρ, always float64: what no weights can explain
    lost: Array | None = field(default=None, kw_only=True)  # (d + c,) what removals took from the digits, see lost.py

    @property
    def shape(self) -> tuple[int, int]:
        return self.target.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.factor.dtype

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as its triangle: half the bytes between processes."""
        return _from_triangle, (triangle(self.factor), self.target, self.rest, self.lost)

    def copy(self) -> "Root":
        return Root(self.factor.copy(order="F"), self.target.copy(order="F"), self.rest.copy(), lost=self.lost)

    def folded(
        self,
        X: Array,
        Y: Array,
        weights: Array | None = None,
        decay: float = 1.0,
        donate: bool = False,
        scratch: bool = False,
    ) -> "Root":
        """With the rows X (n, d), Y (n, c) folded in; old rows lose weight by `decay`, new ones have `weights`.

        `scratch`: X and Y may be overwritten, which saves a copy where they are column-major.
        """
        shrink = float(np.sqrt(decay))
        rest, lost = self.rest * decay, None if self.lost is None else self.lost * shrink
        scale = None if weights is None else np.sqrt(weights).astype(self.dtype)
        factor, target, old = self._begun(donate)
        spent = scratch and scale is None and len(X) <= chunk(len(factor)) and is_column_major(X, Y)
        rest = rest + fold(factor, target, X, Y, scale, shrink, old, scratch=spent)  # (R2)
        return Root(factor, target, rest, lost=lost)

    def merged(self, other: "Root", donate: bool = False, scratch: bool = False) -> "Root":
        """The root of both sets of rows, from the two factors alone.

        `scratch`: the arrays of the other may be overwritten, which saves a copy of its factor.
        """
        factor, target, old = self._begun(donate)
        spent = scratch and is_column_major(other.factor, other.target)
        rest = fold(factor, target, other.factor, other.target, old=old, triangle=True, scratch=spent)
        return Root(factor, target, self.rest + other.rest + rest, lost=lost_by_both(self.lost, other.lost))

    def _begun(self, donate: bool) -> tuple[Array, Array, tuple[Array, Array] | None]:
        """Column-major arrays for a result, and what it begins with, unless that is in them already."""
        old = np.asfortranarray(self.factor), np.asfortranarray(self.target)
        return (*old, None) if donate else (np.empty_like(old[0]), np.empty_like(old[1]), old)

    def with_prior(self, weight: float | Array, start: Array, unpenalized: int = 0) -> "Root":
        """With the prior weight·‖W − start‖² added; the first `unpenalized` features get only the rounding floor.

        `weight` is one number, or one per feature.
        """
        return prior(weight, start, unpenalized, self.rounding_floor(), self.dtype).merged(self, donate=True)

    def solve(self) -> Array:
        """The weights W (d, c) of least squares over all rows; the factor must be invertible."""
        with one_thread:  # (with several BLAS threads the weights have other bits)
            W, info = triangular_solver(self.dtype.char)(self.factor, self.target)  # (R3)
        check_solution(W, info)
        return np.ascontiguousarray(W)

    def whitened(self, X: Array) -> Array:
        """S = R⁻ᵀXᵀ (d, n), so that SᵀS = X (RᵀR)⁻¹ Xᵀ."""
        S, info = triangular_solver(self.dtype.char)(self.factor, np.asfortranarray(X.T), trans=1)
        if info > 0:
            raise NumericalError("the information is singular in this precision; use a larger ridge or float64")
        return S  # type: ignore[no-any-return]

    def unwhitened(self, P: Array) -> Array:
        """R⁻¹P: a step in whitened coordinates as a step of the weights."""
        return triangular_solver(self.dtype.char)(self.factor, P)[0]  # type: ignore[no-any-return]

    def inverse_diagonal(self) -> Array:
        """(d,) The diagonal of (RᵀR)⁻¹, in float64."""
        inverse, info = get_lapack_funcs(("trtri",), dtype=self.dtype)[0](self.factor)
        if info > 0:
            raise NumericalError("the information is singular in this precision; use a larger ridge or float64")
        return np.asarray(np.einsum("ij,ij->i", inverse, inverse, dtype=np.float64))

    def logdet(self) -> float:
        """log det RᵀR."""
        with np.errstate(divide="ignore"):
            return float(2 * np.sum(np.log(np.abs(np.diag(self.factor)).astype(np.float64))))

    def size(self) -> float:
        """‖R‖, the root of the total weight of the rows (Frobenius)."""
        return math.sqrt(squared_sum(self.factor))

    def rounding_floor(self) -> float:
        """The smallest weight of a prior that is distinguishable from zero in this precision: (ε‖R‖)²."""
        return float(np.finfo(self.dtype).eps * self.size()) ** 2

    def prior_floor(self) -> float:
        """The weight below which a decaying prior is lost to rounding in the rows: it is kept above this."""
        return prior_floor(self.size() ** 2, self.dtype)

    def cond_lower_bound(self) -> float:
        """A cheap lower bound of the condition number of R: the ratio of its diagonal entries."""
        diagonal = np.abs(np.diag(self.factor))
        low = float(diagonal.min())
        return float(diagonal.max()) / low if low > 0 else np.inf

    def with_outputs(self, sources: Array) -> "Root":
        """With output j taken from output sources[j], or new, its targets so far all zero, where that is -1."""
        lost, d = self.lost, len(self.factor)
        if lost is not None:
            lost = np.append(lost[:d], take_outputs(lost[None, d:], sources))
        target, rest = take_outputs(self.target, sources), take_outputs(self.rest[None], sources)[0]
        return Root(self.factor, np.asfortranarray(target), rest, lost=lost)

    def with_features(self, features: int) -> "Root":
        """With more features behind those it has, all zero so far."""
        d, lost = len(self.factor), self.lost
        factor = np.zeros((features, features), self.dtype, order="F")
        factor[:d, :d] = self.factor
        if lost is not None:
            lost = np.concatenate([lost[:d], np.zeros(features - d), lost[d:]])
        return Root(factor, np.asfortranarray(add_rows(self.target, features)), self.rest, lost=lost)

    def with_columns(self, sources: Array) -> "Root":
        """With feature j taken from feature sources[j], or zero so far where that is -1; others are forgotten."""
        d, old, lost = len(sources), len(self.factor), self.lost
        if d >= old and (sources[:old] == np.arange(old)).all() and (sources[old:] < 0).all():
            return self.with_features(d)
        rows = np.asfortranarray(take_outputs(self.factor, sources))
        root = empty(d, self.shape[1], self.dtype).folded(rows, self.target, donate=True)
        if lost is not None:
            lost = np.append(take_outputs(lost[None, :old], sources)[0], lost[old:])
        return Root(root.factor, root.target, root.rest + self.rest, lost=lost)

    def energies(self) -> Array:
        """(d + c,) The sums of squares of every feature and every target over the rows, in float64."""
        return np.append(sums_of_squares(self.factor), sums_of_squares(self.target) + self.rest)

    def flush_tiny(self) -> "Root":
        """With entries too small to matter set to zero, in place: decay must not end in denormal numbers."""
        tiny = np.sqrt(np.finfo(self.dtype).tiny) * self.size()
        for part in (self.factor, self.target):
            part[np.abs(part) < tiny] = 0
        return self


def _from_triangle(packed: Array, target: Array, rest: Array, lost: Array | None) -> Root:
    return Root(square(packed, len(target)), np.array(target, order="F"), rest, lost=lost)  # (arrays of its own)


def check_solution(W: Array, info: int = 0) -> None:
    """Raise NumericalError where a triangular solve failed or overflowed."""
    if info > 0 or not np.isfinite(W).all():
        raise NumericalError(
            "the information is singular in this precision, so the weights are not determined; "
            "use a larger ridge, rescale the features, or learn in float64"
        )


def prior_floor(square: float, dtype: DTypeLike) -> float:
    """`Root.prior_floor` of a factor with ‖R‖² = `square`."""
    return float(float(np.finfo(dtype).eps) ** 1.5 * square)


def take_outputs(columns: Array, sources: Array) -> Array:
    """The columns named by `sources`; -1 stands for a new column of zeros."""
    taken = columns[:, sources]
    taken[:, np.asarray(sources) < 0] = 0
    return taken


def check_sources(sources: Any, features: int, unpenalized: int = 0) -> Array:
    """Places of features, each at most once and -1 for a new one; unpenalized ones stay where they are."""
    places = np.asarray(sources)
    if places.ndim != 1 or not len(places) or places.dtype.kind not in "iu":
        raise InputError(f"expected one place for every feature to come, integers, got {sources!r:.60}")
    known = places[places >= 0]
    good = (places >= -1).all() and (known < features).all() and len(np.unique(known)) == len(known)
    if not (good and np.array_equal(places[:unpenalized], np.arange(unpenalized))):
        raise InputError(
            f"expected places among {features} features, each at most once, or -1 for a new one, with the first "
            f"{unpenalized}, which are not penalized, where they are, got {sources!r:.60}"
        )
    return places.astype(np.intp)


def take_rows(weights: Array, sources: Array) -> Array:
    """The rows of weights (d, c) named by `sources`; -1 stands for a new row of zeros."""
    return np.ascontiguousarray(take_outputs(weights.T, sources).T)


def add_rows(weights: Array, features: int) -> Array:
    """Weights (d, c) with rows of zeros added, for features that have been zero so far."""
    if check_count(features, "features") < len(weights):
        raise InputError(f"expected at least the {len(weights)} features that were learned, got {features}")
    return np.concatenate([weights, np.zeros((features - len(weights), weights.shape[1]), weights.dtype)])


def empty(features: int, outputs: int, dtype: DTypeLike = np.float64) -> Root:
    """The root of no rows."""
    return Root(
        np.zeros((features, features), dtype, order="F"),
        np.zeros((features, outputs), dtype, order="F"),
        np.zeros(outputs),
    )


def prior_diagonal(weight: float | Array, features: int, unpenalized: int, floor: float, dtype: DTypeLike) -> Array:
    """(d,) Square roots of the prior's weights: `weight`, but only `floor` for the first `unpenalized` features."""
    diagonal = np.full(features, np.sqrt(weight), dtype)
    diagonal[:unpenalized] = np.sqrt(max(floor, float(np.finfo(dtype).tiny)))
    return diagonal


def prior(
    weight: float | Array, start: Array, unpenalized: int = 0, floor: float = 0.0, dtype: DTypeLike = np.float64
) -> Root:
    """The root of the rows √weight·I with targets √weight·start; see `prior_diagonal`."""
    d = len(start)
    diagonal = prior_diagonal(weight, d, unpenalized, floor, dtype)
    factor = np.zeros((d, d), dtype, order="F")
    np.fill_diagonal(factor, diagonal)
    return Root(factor, np.asfortranarray(diagonal[:, None] * start.astype(dtype)), np.zeros(start.shape[1]))


def sums_of_squares(columns: Array) -> Array:
    """‖·‖² of every column, in float64."""
    return np.asarray(np.einsum("ij,ij->j", columns, columns, dtype=np.float64))


def is_column_major(*arrays: Array) -> bool:
    """Whether all of them are."""
    return all(array.flags.f_contiguous for array in arrays)


def removed(root: Root, X: Array, Y: Array) -> Root:
    """Without rows that were folded in before; refused when they cannot have been.

    A direction of which less is left than rounding may have taken (`lost`) cannot be told from an empty one, and rows
    that hold all of it may seem to hold more. Then as much is added to the diagonal as rounding may have taken, from
    the sum of one feature, or together from those of all.
    """
    d, eps = len(root.factor), float(np.finfo(root.dtype).eps)
    energies = root.energies()
    unseen = energies[:d] == 0
    if unseen.any():
        X = _without_residues(X, unseen, root.lost, eps)
    lost = after_removal(root.lost, energies, eps)
    squares, forgiven = lost**2, lost[d:] ** 2
    for allowance in (None, ROUNDING * eps * energies[:d], lost[:d] ** 2, d * lost[:d] ** 2):
        before = root
        if allowance is not None:
            diagonal = np.sqrt(np.where(unseen, allowance.max(initial=0.0), allowance))
            before = _diagonal(diagonal, root).merged(root, donate=True)
        found = _downdated(before, X, Y, forgiven)
        if found is not None:
            left, slack = found
            squares += 4 * slack * np.append(sums_of_squares(X), sums_of_squares(Y))  # (not independent: generously)
            if allowance is not None:
                left.factor[:, unseen] = 0
                squares[:d] += allowance
            return replace(left, lost=np.sqrt(squares))
    raise _not_learned()


def _without_residues(X: Array, unseen: Array, lost: Array | None, eps: float) -> Array:
    """The rows with zeros in columns of which the root knows nothing, where they hold no more than rounding.

    Rounding is what earlier removals may have left there, or a trace beside the row: the mean of equal numbers may
    differ from them, and features of a row from those of the same row in a block.
    """
    known = 0.0 if lost is None else lost[: len(unseen)][unseen]
    trace = RESIDUE * eps * np.sqrt(sums_of_squares(X.T))[:, None]
    if (np.abs(X[:, unseen]) > np.maximum(known, trace)).any():
        raise _not_learned()
    return np.asarray(np.where(unseen, X.dtype.type(0), X))


def _not_learned() -> InputError:
    return InputError(
        "these rows cannot all have been learned before: taking them out would leave less than nothing; "
        "pass exactly the rows and targets that were learned, with the same weights"
    )


def _diagonal(values: Array, like: Root) -> Root:
    """The root of the rows diag(values) with targets zero."""
    d, c = like.shape
    return Root(np.asfortranarray(np.diag(values.astype(like.dtype))), np.zeros((d, c), like.dtype, "F"), np.zeros(c))


def _downdated(root: Root, X: Array, Y: Array, rounding: Array) -> tuple[Root, float] | None:
    """Without the rows, and the share of them that was left; None where they hold more than the root does.

    `rounding` (c,) of each ‖y‖² is forgiven.

    With S solving RᵀS = Xᵀ, complete its columns by α (ααᵀ = I − SᵀS) to orthonormal ones. The rotation that takes
    [S; αᵀ] to [I; 0] takes [R z; 0 ζ] to [X Y; R' z'], ζ = α⁻¹(Y − Sᵀz); the rest shrinks by ‖ζ‖².      (R4)
    """
    from scipy.linalg import solve_triangular

    (d, c), n = root.shape, len(X)
    eps = float(np.finfo(root.dtype).eps)
    completed = _completed(root.factor, X)
    if completed is None:
        return None
    S, alpha, slack = completed
    zeta = solve_triangular(alpha, Y - S.T @ root.target, lower=True)
    taken, energy = sums_of_squares(zeta), root.rest + sums_of_squares(root.target)
    rest, forgiven = root.rest - taken, (max(1e3 * eps, 1e-9) + slack) * energy + rounding
    if (rest < -forgiven).any():  # rows that hold nearly all of a direction: rounding in I − SᵀS is much of α
        inverse = solve_triangular(alpha, np.eye(n, dtype=root.dtype), lower=True)
        if (rest < -forgiven - ROUNDING * eps * float(sums_of_squares(inverse).sum()) * taken).any():
            return None
    geqrf, ormqr = get_lapack_funcs(("geqrf", "ormqr"), dtype=root.dtype)
    Q, tau, _, _ = geqrf(np.asfortranarray(np.vstack([S, alpha.T])))
    both = np.zeros((d + n, d + c), root.dtype, order="F")
    both[:d, :d], both[:d, d:], both[d:, d:] = root.factor, root.target, zeta
    rotated = ormqr("L", "T", Q, tau, both, lwork=max(1, 64 * (d + c)))[0]
    left = empty(d, c, root.dtype).folded(rotated[n:, :d], rotated[n:, d:], donate=True)
    rest += left.rest  # where columns depend on others, the targets of fewer rows than these are explained
    return Root(left.factor, left.target, np.maximum(rest, 0.0)), slack


def _completed(R: Array, X: Array) -> tuple[Array, Array, float] | None:
    """S (d, n) with RᵀS = Xᵀ and α, lower triangular, with ααᵀ = (1 + σ)I − SᵀS, and σ, which is 0 or rounding.

    None where the rows hold more than R does. A row that alone holds a direction has leverage 1, give or take.
    """
    from scipy.linalg import cholesky

    identity, eps = np.eye(len(X), dtype=R.dtype), float(np.finfo(R.dtype).eps)
    for solved in (_solved, _solved_in_the_span):
        S = solved(R, X)
        if S is None:
            continue
        gram = S.T @ S
        if not np.isfinite(gram).all():  # S is finite and its square is not: R is singular but for rounding
            continue
        for slack in _slacks(gram, eps):
            try:
                return S, cholesky(identity * R.dtype.type(1 + slack) - gram, lower=True), slack
            except np.linalg.LinAlgError:
                continue
    return None


def _slacks(gram: Array, eps: float) -> Iterator[float]:
    """0, and then what leverages exceed 1 by, if rounding can be the cause."""
    yield 0.0
    slack = 2 * max(float(np.linalg.eigvalsh(gram)[-1]) - 1, 0.0) + ROUNDING * eps
    if slack <= 1e3 * len(gram) * eps:
        yield slack


def _solved(R: Array, X: Array) -> Array | None:
    """S (d, n) with RᵀS = Xᵀ by substitution, or None where R is singular."""
    S, info = triangular_solver(R.dtype.char)(R, np.asfortranarray(X.T), trans=1)
    return None if info or not np.isfinite(S).all() else S


def _solved_in_the_span(R: Array, X: Array) -> Array | None:
    """The smallest S where R has not full rank and its rows span X, or None; columns count alike."""
    norms = np.sqrt(sums_of_squares(R)).astype(R.dtype)
    norms[norms == 0] = 1
    even = X.T / norms[:, None]
    U, s, Vt = np.linalg.svd(R / norms)
    kept = s > len(R) * np.finfo(R.dtype).eps * s[0]
    if kept.all():
        return None
    S: Array = (U[:, kept] / s[kept]) @ (Vt[kept] @ even)
    outside = np.abs(even - Vt[kept].T @ (Vt[kept] @ even)).max()
    return S if outside <= np.sqrt(np.finfo(R.dtype).eps) * np.abs(even).max() else None
