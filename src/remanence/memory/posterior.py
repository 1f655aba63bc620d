"""Least squares over weighted rows and a prior: the root of the data, pending rows, the prior, and what was computed.

    posterior information  =  prior_weight · I  +  Σ wᵢ xᵢxᵢᵀ                                              (P)

The data are kept without the prior; the joint root of both is a second d × d factor. It is kept between updates only
where that pays: always up to NARROW features, and above only while few rows come at a time (docs/decisions/
posterior-memory.md). Where only the weights are asked for, they are solved for without keeping it.
"""

import warnings
from dataclasses import dataclass, field
from typing import Any, Literal, Self

import numpy as np

from remanence.arrays import Array
from remanence.memory import root as roots
from remanence.memory.forgetting import WeightSchedule
from remanence.memory.pending_rows import PendingRows, RowBuffer
from remanence.memory.ridge_solve import solve_with_prior
from remanence.memory.root import Root
from remanence.memory.tracking import Tracker, rows_per_call
from remanence.memory.variances import column_variances
from remanence.parallel.forking import unforked
from remanence.validation import check_result

NARROW = 512  # features up to which a second factor is cheap
FEW_ROWS = 256  # rows per fold up to which a wide second factor is folded along
RENEWAL = 100.0  # a prior that decayed below the floor is renewed to this many times the floor


@dataclass
class Cache:
    """Results computed for one state on request; dropping them changes no number."""

    posterior: Root | None = None  # the joint root of all rows and the prior
    weights: Array | None = None
    ridge: float | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy computes what it is asked for again: results would double the bytes between processes."""
        return Cache, ()


@dataclass
class SharedFlag:
    """Whether another state uses the same arrays, so that even a donated state may not be overwritten."""

    shared: bool = False


@dataclass(frozen=True, slots=True)
class Posterior:
    """The data's square-root information, rows not folded into it yet, and the prior beside it."""

    data: Root  # folded rows, without the prior
    pending: PendingRows  # rows learned after them
    start: Array  # (d, c) θ⁰
    count: int  # rows learned, pending ones included
    ridge: float | Literal["auto"]
    unpenalized: int = 0  # leading features without a prior: an intercept
    cache: Cache = field(default_factory=Cache, repr=False, compare=False)
    sharing: SharedFlag = field(default_factory=SharedFlag, repr=False, compare=False)
    scaled: bool = False  # whether the prior is that of standardized features; feature 0 is then the column of ones

    @classmethod
    def from_data(
        cls,
        schedule: WeightSchedule,
        data: Root,
        start: Array,
        count: int,
        ridge: float | Literal["auto"],
        unpenalized: int = 0,
        base: tuple[Root, float] | None = None,
        shared: bool = False,
        scaled: bool = False,
    ) -> Self:
        """With no pending rows; `base` is the joint root, if it is known, and the prior's weight in it."""
        buffer = RowBuffer(schedule.block_rows(len(start)), start)
        if base is not None:
            buffer.attach(*base)
        return cls(data, PendingRows(buffer), start, count, ridge, unpenalized, Cache(), SharedFlag(shared), scaled)

    def with_data(
        self, schedule: WeightSchedule, data: Root, count: int, base: tuple[Root, float] | None = None
    ) -> Self:
        """With the same prior and other data."""
        prior = (self.ridge, self.unpenalized, base)
        return self.from_data(schedule, data, self.start, count, *prior, scaled=self.scaled)

    # Learning

    def folded(
        self,
        schedule: WeightSchedule,
        X: Array,
        Y: Array,
        donate: bool,
        base: tuple[Root, float] | None = None,
        scratch: bool = False,
    ) -> Self:
        """With the pending rows and X, Y folded into the data; `base` is the new joint root, if it is known.

        `scratch`: X and Y may be overwritten.
        """
        donate = donate and not self.sharing.shared
        count, pending, buffer = self.count + len(X), self.pending, self.pending.buffer
        if base is not None and schedule.forget < 1 and base[1] <= RENEWAL * base[0].prior_floor():
            return self.with_data(schedule, base[0].copy(), count, base)  # the prior has decayed: only the data count
        weights, decay = schedule.rows(self.count, len(X))
        if base is None and buffer.base is not None and self._pays_to_carry(pending.count + len(X)):
            prior_weight = buffer.prior_weight * schedule.prior_decay(pending.count + len(X))
            joint = self._with_pending(schedule, buffer.base, donate).folded(X, Y, weights, decay, donate=True)
            base = self._with_renewed_prior(schedule, joint, prior_weight)
        elif donate:  # nobody uses them any more
            buffer.base, self.cache.posterior = None, None
        data = self._with_pending(schedule, self.data, donate) if pending.count else self.data
        data = data.folded(X, Y, weights, decay, donate or data is not self.data, scratch)
        if schedule.forget < 1:
            data.flush_tiny()
        check_result(np.diag(data.factor), data.target)
        new = self.with_data(schedule, data, count, base)
        new.pending.buffer.usual_energy = buffer.usual_energy  # column norms only grow
        return new

    def tracked(self, schedule: WeightSchedule, X: Array, Y: Array, donate: bool) -> tuple[Self, Array]:
        """With X, Y folded in row by row, and the error of every row before it; needs `is_recursive`."""
        self.attach_base(schedule)
        tracker = Tracker(self.joint_root(schedule).copy(), schedule.forget)
        prior_weight = self.pending.buffer.prior_weight * schedule.prior_decay(self.pending.count)
        errors, size = np.empty_like(Y), rows_per_call(self.start, schedule.forget)
        for i in range(0, len(X), size):
            part = slice(i, i + size)
            errors[part] = tracker.fold(X[part], Y[part], schedule.gain(self.count + i))
            prior_weight *= schedule.prior_decay(len(X[part]))
            if schedule.forget < 1 and prior_weight < (floor := tracker.prior_floor()):
                prior_weight = RENEWAL * floor
                tracker.renew_prior(prior_weight, self.start, self.unpenalized)
        check_result(errors)
        return self.folded(schedule, X, Y, donate, (tracker.result(), prior_weight)), errors

    # Solving

    def is_recursive(self, schedule: WeightSchedule) -> bool:
        """Whether the prior decays as the rows do, so that rows can be added to an earlier joint root."""
        return self.ridge != "auto" and not self.scaled and schedule.decays_uniformly

    def all_rows(self, schedule: WeightSchedule) -> Root:
        """The root of every row learned, without the prior; do not write to it."""
        return self._with_pending(schedule, self.data) if self.pending.count else self.data

    def shared_rows(self, schedule: WeightSchedule) -> Root:
        """`all_rows` for use in another state or by a caller: a later donation will not overwrite it."""
        if not self.pending.count:
            self.sharing.shared = True
        return self.all_rows(schedule)

    def own_rows(self, schedule: WeightSchedule, donate: bool) -> Root:
        """`all_rows` in arrays to write to: copies, or its own where the state is donated and nobody shares them."""
        if donate and not self.sharing.shared:
            self.pending.buffer.base, self.cache.posterior = None, None
            return self._with_pending(schedule, self.data, donate) if self.pending.count else self.data
        data = self.all_rows(schedule)
        return data.copy() if data is self.data else data

    def solve(self, schedule: WeightSchedule, ridge: float) -> Array:
        """The weights W (d, c) of least squares over all rows and the prior."""
        keeps, buffer = len(self.start) <= NARROW, self.pending.buffer
        if self.is_recursive(schedule) and (keeps or self.pending.count or buffer.base is not None):
            self.attach_base(schedule)
            W = self.pending.weights(schedule.forget, schedule.gain(self.count - self.pending.count))
            if W is not None:
                return W
        if keeps or self.cache.posterior is not None or buffer.base is not None:
            return self.joint_root(schedule, ridge, keep=keeps).solve()
        data = self.all_rows(schedule)
        weight = self.prior_weights(schedule, ridge, data)
        return solve_with_prior(data, weight, self.start, self.unpenalized)

    def joint_root(self, schedule: WeightSchedule, ridge: float | None = None, keep: bool = True) -> Root:
        """The root of all rows and the prior, by rotations alone; do not write to it."""
        if self.cache.posterior is not None:
            return self.cache.posterior
        base = self.pending.buffer.base
        if base is not None and self.is_recursive(schedule):
            joint = self._with_pending(schedule, base) if self.pending.count else base
        else:
            data = self.all_rows(schedule)
            weight = self.prior_weights(schedule, ridge, data)
            joint = data.with_prior(weight, self.start, self.unpenalized)
        if keep:
            self.cache.posterior = joint
        return joint

    def attach_base(self, schedule: WeightSchedule) -> None:
        """Compute the joint root of prior and folded rows, to which pending rows are added, unless it is there."""
        buffer = self.pending.buffer
        with unforked, buffer.lock:  # (in this order: a fork waits for the first, and must not hold the second)
            if buffer.base is None:
                count = self.count - self.pending.count
                weight = self.prior_weight(schedule, None, count, self.data)
                if count:
                    base = self.data.with_prior(weight, self.start, self.unpenalized)
                else:
                    base = roots.prior(weight, self.start, self.unpenalized, dtype=self.data.dtype)
                buffer.attach(base, weight)

    # The prior

    def prior_weights(
        self, schedule: WeightSchedule, ridge: float | None, data: Root, count: int | None = None
    ) -> float | Array:
        """The weight of the prior after `count` rows (all), `data`: a number, or one per feature where they are scaled.

        A feature of deviation s and weight w is one of deviation 1 and weight sw, so that its prior weighs ridge·s².
        """
        count = self.count if count is None else count
        if not self.scaled:
            return self.prior_weight(schedule, ridge, count, data)
        ridge = float(self.ridge if ridge is None else ridge)
        return max(ridge * schedule.prior_decay(count), schedule.floor) * column_variances(data)

    def prior_weight(self, schedule: WeightSchedule, ridge: float | None, count: int, data: Root) -> float:
        """The weight of the prior after `count` rows: it decays as they do, down to a floor; `ridge` where "auto"."""
        ridge = float(self.ridge if ridge is None else ridge)
        floor = RENEWAL * data.prior_floor() if schedule.forget < 1 else data.rounding_floor()
        if schedule.forget >= 1 and floor > ridge:
            warnings.warn(
                f"ridge={ridge:.3g} cannot be told from none beside data of this size in {data.dtype}; {floor:.3g} "
                f"is in force; rescale the features, or use a larger ridge",
                UserWarning,
                stacklevel=2,
            )
        return max(ridge * schedule.prior_decay(count), schedule.floor, floor)

    def _with_renewed_prior(self, schedule: WeightSchedule, joint: Root, weight: float) -> tuple[Root, float]:
        """A joint root whose prior is above the floor: directions without data stay solvable."""
        if schedule.forget >= 1 or weight > (floor := joint.prior_floor()):
            return joint, weight
        weight = RENEWAL * floor
        return joint.flush_tiny().with_prior(weight, self.start, self.unpenalized), weight

    def _with_pending(self, schedule: WeightSchedule, root: Root, donate: bool = False) -> Root:
        pending = self.pending
        weights, decay = schedule.rows(self.count - pending.count, pending.count)
        return root.folded(pending.X, pending.Y, weights, decay, donate)

    def _pays_to_carry(self, rows: int) -> bool:
        """Whether folding rows into the joint root too is cheaper than computing it anew, and worth its memory."""
        d = len(self.start)
        return 3 * rows < d and (d <= NARROW or rows <= max(FEW_ROWS, d // 8))
