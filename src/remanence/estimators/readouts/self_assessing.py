"""Learning a block while answering some of its rows with a model that has not learned them."""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from remanence.arrays import Array
from remanence.errors import NumericalError
from remanence.estimators.base import ContinualEstimator
from remanence.estimators.linear_predictor import LinearClassifier
from remanence.estimators.readouts.assessment import NOTHING, Assessment
from remanence.estimators.readouts.budget import (
    ASKING,
    FIRST_ROWS,
    GROWTH,
    Budget,
    is_another,
    price_of_row,
    price_of_solving,
    spread,
)
from remanence.estimators.readouts.probe import (
    AskedRows,
    Readouts,
    answers_without,
    count_answers,
    readouts_of,
    weighs_all_alike,
)
from remanence.methods import RLS
from remanence.methods.banks.by_class import ByClassState
from remanence.methods.least_squares import SoftMethod

NO_BUDGET = Budget(0.0, 0.0)  # of a model from a file of an earlier version


@dataclass(frozen=True, slots=True)
class Block:
    """Rows to learn, as the method receives them."""

    design: Any  # (n, d), an array or SparseRows
    targets: Array  # (n, c)
    labels: Any  # (n,), or LabelSets
    weights: Array | None  # (n,)

    def part(self, rows: slice) -> "Block":
        weights = None if self.weights is None else self.weights[rows]
        return Block(self.design[rows], self.targets[rows], self.labels[rows], weights)

    def asked(self, first: int, most: int, classes: int) -> AskedRows:
        """At most so many of the rows from the first one on, copied."""
        chosen = first + spread(len(self.labels) - first, most, classes)
        return AskedRows.of(self.design, self.labels, self.weights, chosen)


class SelfAssessing(LinearClassifier, ContinualEstimator):
    """The part of the classifier that learns rows and keeps count of answers to rows before they were learned.

    What it learns is what it would learn without that. `assessment_` are the sums; `_earlier` is a readout that can
    answer rows that come before the next solve, in memory only; `_budget` is the work that may be spent.
    """

    calibrate: bool
    assessment_: Assessment
    _earlier: Readouts | None
    _budget: Budget
    _on_credit = True  # whether rows of a first block are answered even where learning it has not earned that
    offset_: Array

    def _teach(self, state: Any, block: Block, classes: Array, counts: Array, fresh: bool, own: bool) -> None:
        """Learn a block, with the state and the counts (after it) of these classes.

        `fresh`: it is the first one. `own`: the state is referenced nowhere else and may be overwritten.
        """
        if fresh:
            self.assessment_, self._earlier, self._budget = NOTHING, None, Budget()
        method = self._method()
        if not self.calibrate or not isinstance(block.labels, np.ndarray):
            self.state_, self._earlier = self._learned(state, block, own), None
        elif isinstance(method, RLS) and weighs_all_alike(method):
            self._teach_then_ask(method, state, block, classes, counts, fresh, own)
        elif method.task_per_update:  # a block is one task, not to be cut; its rows are answered by no one
            self.state_ = self._learned(state, block, own)
        else:
            self._ask_then_teach(state, block, classes, counts, fresh, own)

    def _teach_then_ask(
        self, method: RLS, state: Any, block: Block, classes: Array, counts: Array, fresh: bool, own: bool
    ) -> None:
        n, (d, c) = len(block.labels), (block.design.shape[1], len(classes))
        seen, before = int(counts.sum()), self._assessment()
        budget = self.__dict__.get("_budget", NO_BUDGET).earned(n, d)
        earlier = self.__dict__.get("_earlier")
        roots = len(state.members) if isinstance(state, ByClassState) else 1
        solving = roots * price_of_solving(d)
        due = seen - before.solved >= GROWTH * seen and budget.solving >= solving
        another = self._on_credit and is_another(seen, before.solved, d)
        if due or another:
            row = price_of_row(d, c, True)
            rows = block.asked(0, max(budget.affordable(row), FIRST_ROWS if another else 1), c)
            budget = budget.spent(solving, ASKING + len(rows.labels) * row)
        elif earlier is not None and earlier.offset is self.__dict__.get("offset_"):
            most = budget.affordable(price_of_row(d, c, False))
            if most >= min(n, 16):
                rows = block.asked(0, most, c)
                before = count_answers(before, earlier.answers(rows), seen - n, len(earlier.classes))
                budget = budget.spent(0.0, ASKING + len(rows.labels) * price_of_row(d, c, False))
        self.state_ = self._learned(state, block, own)
        if due or another:
            try:
                before = self._ask_without(method, before.outdated(seen), rows, classes, counts)
            except NumericalError:  # the weights are not determined: those who ask for them will be told
                self._earlier = None
            before = replace(before, solved=seen)
        self.assessment_, self._budget = before, budget

    def _ask_without(
        self, method: RLS, before: Assessment, rows: AskedRows, classes: Array, counts: Array
    ) -> Assessment:
        """Count answers of the new state to rows of the block, each without that row; pending rows stay shared."""
        state, offset = self.state_, self.__dict__.get("offset_")
        if not isinstance(state, ByClassState):
            state = method.settled(state)
        self._earlier = readouts_of(method, state, classes, counts, offset, self.readout != "ridge")
        answers = answers_without(method, state, self._earlier, rows, counts)
        return count_answers(before, answers, int(counts.sum()), int((counts > 0).sum()))

    def _ask_then_teach(self, state: Any, block: Block, classes: Array, counts: Array, fresh: bool, own: bool) -> None:
        method, offset = self._method(), self.__dict__.get("offset_")
        n, (d, c) = len(block.labels), (block.design.shape[1], len(classes))
        before, row = self._assessment(), price_of_row(d, c, False)
        budget = self.__dict__.get("_budget", NO_BUDGET).earned(n, d)
        solving = price_of_solving(d) if isinstance(method, SoftMethod) else 0.0
        affordable = budget.solving >= solving and budget.affordable(row) >= min(n, 16)
        due = affordable or (fresh and self._on_credit)
        first = n // 2 if fresh else 0  # of a first block, the rows of the second half
        if due:
            rows = block.asked(first, max(budget.affordable(row), FIRST_ROWS if fresh else 1), c)
            budget = budget.spent(solving, ASKING + len(rows.labels) * row)
        if first:
            head, block = block.part(slice(first)), block.part(slice(first, None))
            state = self._learned(state, head, True)
        counts = counts - np.bincount(np.searchsorted(classes, block.labels), minlength=c)
        if due and counts.any():
            try:
                found = readouts_of(method, state, classes, counts, offset, self.readout != "ridge")
                before = count_answers(before, found.answers(rows), int(counts.sum()), len(found.classes))
            except NumericalError:  # the weights are not determined: those who ask for them will be told
                pass
        self.state_ = self._learned(state, block, own)
        self.assessment_, self._budget = before, budget

    def _learned(self, state: Any, block: Block, own: bool) -> Any:
        return self._updated(state, block.design, block.targets, block.weights, own=own)

    def settled(self) -> Self:
        attributes = self.__dict__
        if "state_" in attributes:
            attributes.update(_earlier=None)  # a file does not hold it
        return super().settled()

    def _reassess(self, assessment: Assessment) -> None:
        """Replace the sums, after rows went out or another model came in; nothing else may remember rows."""
        self.assessment_, self._earlier = assessment, None
