"""What RLS has learned: least squares over weighted rows (RLSState) or exact constraints (ExactState, forget=0).

Both have the interface that RLS calls: `learned`, `tracked`, `weights`, `folded_state`, `with_outputs`,
`precision_loss` and `representative_rows`. What only least squares can do goes through `as_least_squares`, which
ExactState refuses.
"""

from dataclasses import dataclass

import numpy as np

from remanence.arrays import Array, squared_sum
from remanence.memory.forgetting import WeightSchedule
from remanence.memory.posterior import NARROW, Cache, Posterior
from remanence.memory.root import Root, prior_diagonal, take_outputs
from remanence.memory.tracking import errors_beside_priors, is_narrow
from remanence.memory.variances import column_variances
from remanence.methods.precision import precision_loss, usual_energy, warn_of_large_rows
from remanence.methods.ridge_choice import best_ridge
from remanence.validation import check_result

BLOCK = 8  # rows from which on a block is checked for size at once; fewer are a live stream, and must stay quick


@dataclass(frozen=True, slots=True)
class RLSState(Posterior):
    """Square-root information of the data, pending rows, and the prior."""

    def as_least_squares(self, call: str) -> "RLSState":
        return self

    def learned(
        self, schedule: WeightSchedule, X: Array, Y: Array, donate: bool = False, scratch: bool = False
    ) -> "RLSState":
        """With the rows X, Y: pending while they fit into the buffer, folded in otherwise."""
        pending, buffer, n = self.pending, self.pending.buffer, len(X)
        if n < len(buffer.X) - pending.count and not buffer.ill_conditioned:
            if n >= BLOCK:
                self._check_size(schedule, X, Y)
            if not donate:
                self.sharing.shared = True
            rows = pending.appended(X, Y)
            return RLSState(
                self.data,
                rows,
                self.start,
                self.count + n,
                self.ridge,
                self.unpenalized,
                Cache(),
                self.sharing,
                self.scaled,
            )
        self._check_before_folding(schedule, X, Y)
        return self.folded(schedule, X, Y, donate, scratch=scratch)

    def tracked(self, schedule: WeightSchedule, X: Array, Y: Array, donate: bool = False) -> tuple["RLSState", Array]:
        """With the rows X, Y, and the error of every row before it was learned."""
        if self.is_recursive(schedule):
            self._check_before_folding(schedule, X, Y)
            return Posterior.tracked(self, schedule, X, Y, donate)
        if not is_narrow(self.start):
            state, errors = self, np.empty_like(Y)
            for i in range(len(X)):  # the prior is another one at every row: a fit per row
                errors[i] = Y[i] - X[i] @ state.weights(schedule)
                state = state.learned(schedule, X[i : i + 1], Y[i : i + 1])
            return state, errors

        def prior(i: int, data: Root) -> Array:
            ridge = self._chosen_ridge(schedule, data, self.count + i) if self.ridge == "auto" else float(self.ridge)
            weight = self.prior_weights(schedule, ridge, data, self.count + i)
            return prior_diagonal(weight, len(self.start), self.unpenalized, data.rounding_floor(), data.dtype)

        self._check_before_folding(schedule, X, Y)
        weights, decay = np.ones(len(X)), min(schedule.forget, 1.0)
        if schedule.forget > 1:
            weights[:] = schedule.rows(self.count, len(X))[0]
        start = self.start.astype(self.data.dtype, copy=False)
        errors = errors_beside_priors(self.all_rows(schedule), X, Y, weights, decay, start, prior)
        check_result(errors)
        return self.folded(schedule, X, Y, donate), errors

    def weights(self, schedule: WeightSchedule) -> Array:
        """The weights (d, c); do not write to them."""
        W = self.cache.weights
        if W is None:
            W = self.cache.weights = self.solve(schedule, self.ridge_in_force(schedule))
        return W

    def ridge_in_force(self, schedule: WeightSchedule) -> float:
        """The ridge λ: the setting, or with "auto" the one of ridge_choice.py."""
        if self.ridge != "auto":
            return float(self.ridge)
        if self.cache.ridge is None:
            self.cache.ridge = self._chosen_ridge(schedule, self.all_rows(schedule), self.count)
        return float(self.cache.ridge)

    def _chosen_ridge(self, schedule: WeightSchedule, data: Root, count: int) -> float:
        """The ridge that "auto" is after `count` rows, `data`."""
        scales = np.sqrt(column_variances(data)) if self.scaled else None
        return best_ridge(data, self.start, self.unpenalized, schedule.effective_count(count), scales)

    def folded_state(self, schedule: WeightSchedule) -> "RLSState":
        """Without pending rows."""
        if not self.pending.count:
            return self
        data = self.all_rows(schedule)
        check_result(np.diag(data.factor), data.target)
        return self.with_data(schedule, data, self.count)

    def with_outputs(self, schedule: WeightSchedule, sources: Array, donate: bool = False) -> "RLSState":
        """With output j taken from output sources[j], or new where that is -1."""
        given = donate and not self.sharing.shared
        data = (self.own_rows(schedule, True) if given else self.shared_rows(schedule)).with_outputs(sources)
        prior, start = (self.ridge, self.unpenalized), take_outputs(self.start, sources)
        return self.from_data(schedule, data, start, self.count, *prior, shared=not given, scaled=self.scaled)

    def precision_loss(self, schedule: WeightSchedule) -> float:
        """A bound of the relative error that removals left in the predictions."""
        if self.data.lost is None:
            return 0.0
        keeps = len(self.start) <= NARROW
        if keeps and self.is_recursive(schedule):
            self.attach_base(schedule)  # the weights are asked for next
        joint = self.joint_root(schedule, self.ridge_in_force(schedule), keep=keeps)
        return precision_loss(joint, self.data.lost)

    def representative_rows(self, schedule: WeightSchedule) -> tuple[Array, Array]:
        """Rows with the Gram matrix of all rows, and the size of what was rounded per column."""
        factor = self.shared_rows(schedule).factor
        return factor, np.abs(factor).max(axis=0)  # rotations mix rows, never columns

    def _check_before_folding(self, schedule: WeightSchedule, X: Array, Y: Array) -> None:
        if len(X) >= BLOCK:
            self._check_size(schedule, X, Y)
        elif self.pending.count:  # rows that came one by one
            self._check_size(schedule, self.pending.X, self.pending.Y)

    def _check_size(self, schedule: WeightSchedule, X: Array, Y: Array) -> None:
        """Warn of rows that are so large that they can hardly be removed again."""
        if schedule.forget != 1 or self.count == self.pending.count:
            return
        prior = 0.0 if self.ridge == "auto" or self.scaled else float(self.ridge)
        buffer, x, y = self.pending.buffer, squared_sum(X), squared_sum(Y)
        if buffer.usual_energy is None or not (x <= buffer.usual_energy[0] and y <= buffer.usual_energy[1]):
            buffer.usual_energy = usual_energy(self.data, prior)
        if not (x <= buffer.usual_energy[0] and y <= buffer.usual_energy[1]):
            warn_of_large_rows(self.data, X, Y, prior)
