"""A linear regressor that learns incrementally; with RLS also predictive variances, merging and unlearning."""

from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin

from remanence.arrays import Array
from remanence.errors import InputError
from remanence.estimators.base import ContinualEstimator, positive, weighted
from remanence.estimators.conformal import PastErrors, sample_places
from remanence.estimators.input_checks import as_input_error, check_targets
from remanence.estimators.linear_predictor import LinearRegressor
from remanence.estimators.rows.sparse_input import check_width, part_of, parts_of
from remanence.estimators.settings import check_bool
from remanence.memory.posterior import NARROW
from remanence.methods import RLS
from remanence.methods.protocol import Method
from remanence.methods.ridge.left_out_errors import LOO
from remanence.validation import check_word, quiet


class ContinualRegressor(RegressorMixin, LinearRegressor, ContinualEstimator):  # type: ignore[misc]
    """Incremental linear regressor around any method, for one or many outputs.

    Parameters
    ----------
    method : a method value, default RLS()
        How it learns and what it remembers; `method__ridge` and the like reach its settings.
    fit_intercept : bool
        Learn an intercept; RLS does not penalise it, like scikit-learn's Ridge.
    features : transformer, optional
        A frozen encoder: any fitted transformer. It is never trained.
    dtype : "float64" or "float32"
    intervals : "auto", True or False
        Keep the sizes of errors of rows before they are learned, for `predict(X, interval=0.9)`: True those of every
        call of `partial_fit`, which follows drift best; "auto" of a part of them, to save time; False none.
    scale : None or "standard"
        "standard" penalizes the coefficients of standardized columns: the model is that of a StandardScaler fitted on
        everything learned so far in front of the same ridge, whatever the cuts. Coefficients are those of the columns
        as they come. Needs RLS and an intercept.
    grow_features : bool
        Let columns come and go: one that is new in later rows was 0 in all rows before, which is exact, and one that
        is absent is 0. Columns of tables and of dictionaries are known by name, others counted from the left.

    Examples
    --------
    >>> import numpy as np
    >>> import remanence as rm
    >>> X = np.arange(6.0)[:, None]
    >>> model = rm.ContinualRegressor(rm.RLS(ridge=1e-9))
    >>> model = model.partial_fit(X[:3], 2 * X[:3, 0] + 1).partial_fit(X[3:], 2 * X[3:, 0] + 1)
    >>> print(np.round(model.predict([[10.0]]), 4))
    [21.]

    References
    ----------
    Plackett (1950), "Some theorems in least squares" (recursive least squares).
    Gibbs and Candès (2021), "Adaptive conformal inference under distribution shift" (intervals).
    """

    def __init__(
        self,
        method: Method[Any] | None = None,
        fit_intercept: bool = True,
        features: Any = None,
        dtype: str = "float64",
        intervals: Any = "auto",
        scale: str | None = None,
        grow_features: bool = False,
    ) -> None:
        self.method = method
        self.fit_intercept = fit_intercept
        self.features = features
        self.dtype = dtype
        self.intervals = intervals
        self.scale = scale
        self.grow_features = grow_features

    # Learning

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Forget everything and learn these samples.

        Parameters
        ----------
        X : array, sparse matrix, table or list of dictionaries (n, d)
        y : array (n,) or (n, outputs)
        sample_weight : array (n,), optional

        Returns
        -------
        self
        """
        return self._learn(X, y, sample_weight, fresh=True)

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn more samples.

        Parameters
        ----------
        X : array, sparse matrix, table or list of dictionaries (n, d)
        y : array (n,) or (n, outputs)
        sample_weight : array (n,), optional

        Returns
        -------
        self
        """
        return self._learn(X, y, sample_weight, fresh="state_" not in self.__dict__)

    def _learn_in_place(self, X: Any, y: Any) -> Self:
        """`partial_fit` of a model whose arrays nobody else refers to: they are overwritten."""
        return self._learn(X, y, None, fresh="state_" not in self.__dict__, own=True)

    def _learn(self, X: Any, y: Any, sample_weight: Any, fresh: bool, own: bool = False) -> Self:
        self._check_settings()
        draft = self._blank() if fresh else self._now()
        X, Y, weights = draft._check_samples(draft._grow(X, fresh), y, sample_weight, fresh)
        method, unoffset = draft._method(), fresh or not draft.n_seen_
        if fresh:
            check_width(X, method, Y.shape[1])
            draft.state_, draft.n_seen_ = draft._begin(X.shape[1] + int(self.fit_intercept), Y.shape[1]), 0
        keeps = self._keeps_errors()
        if not keeps:
            draft.__dict__.pop("errors_", None)
        for part in parts_of(X, method):
            design = draft._design(part_of(X, part, method), unoffset and not part.start)
            learn, mine = draft._measured if keeps else draft._updated, own or fresh or bool(part.start)
            draft.state_ = learn(draft.state_, design, Y[part], None if weights is None else weights[part], mine)
            draft.n_seen_ += len(design)
        draft.method_ = method
        return self._hand_over(draft)

    def _check_samples(
        self, X: Any, y: Any, sample_weight: Any, fresh: bool = False
    ) -> tuple[Any, Array, Array | None]:
        """Encoded rows, targets and weights of the samples that count: one of weight zero is no sample."""
        X = self._encode(self._check_X(X, fresh), fresh)
        Y, flat = check_targets(y, X.shape[0], self._dtype())
        if fresh:
            self._flat = flat
        elif Y.shape[1] != (outputs := self._method().template(self.state_).shape[1]):
            raise InputError(f"expected y with {outputs} outputs as before, got {Y.shape[1]}")
        return positive(X, Y, self._check_weights(sample_weight, X))

    def _keeps_errors(self) -> bool:
        if isinstance(self.intervals, str):
            return bool(check_word(self.intervals, "intervals", ("auto",)))
        check_bool(self.intervals, "intervals")
        return bool(self.intervals)

    def _measured(self, state: Any, design: Any, Y: Array, weights: Array | None, own: bool) -> Any:
        """The state after learning; `errors_` gains the errors of a sample of these rows without them."""
        method, (n, d) = self._method(), design.shape
        known: PastErrors = getattr(self, "errors_", None) or PastErrors.empty(Y)
        if not self.n_seen_:
            state, errors = self._first_errors(state, design, Y, weights, own)
        else:
            known, errors = PastErrors(known.sizes, known.ranks, known.credit + learning_time(n, d)), None
            price = 5 * measuring_time(d, getattr(method, "ridge", None))
            due = self.intervals != "auto" or known.credit >= price
            if not due and price > learning_time(n, d) * self.n_seen_ / (2 * n):  # growing by half does not earn it
                growth = 4.0 if self.n_seen_ < d else 1.5
                due = passes_a_power(growth, self.n_seen_, self.n_seen_ + n)
                known = known.outgrown(growth, n) if due else known
            if due:
                places = sample_places(n)
                errors = _a_priori(method, state, design[places], Y[places])
            state = self._updated(state, design, Y, weights, own)
        self.errors_ = known if errors is None else known.extended(errors)
        return state

    def _first_errors(self, state: Any, design: Any, Y: Array, weights: Array | None, own: bool) -> Any:
        """Learn the first rows: the state, and errors of a sample as if each of them were left out, or of the second
        half, of wide rows the last eighth, before it is learned."""
        method, (n, d) = self._method(), design.shape
        places = sample_places(n)
        rows, targets = design[places], Y[places]  # copies: learning may overwrite the design
        whole = d <= NARROW or getattr(method, "ridge", None) in LOO  # (which chooses by the whole block)
        if isinstance(method, RLS) and method.forget == 1 and whole and n > 1:
            state = self._updated(state, design, Y, weights, own)
            return state, _left_out(method, state, rows, targets, None if weights is None else weights[places])
        if n < 2 * d or method.task_per_update:
            return self._updated(state, design, Y, weights, own), None
        head = n // 2 if d <= NARROW else n - n // 8
        if d > NARROW:
            places = head + sample_places(n - head)
            rows, targets = design[places], Y[places]
        parts = (None, None) if weights is None else (weights[:head], weights[head:])
        state = self._updated(state, _copied(design[:head]), Y[:head], parts[0], own)
        errors = _a_priori(method, state, rows[places >= head], targets[places >= head])
        return self._updated(state, _copied(design[head:]), Y[head:], parts[1], own), errors

    # Predicting

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The coefficient of determination R² on rows X with targets y."""
        return float(as_input_error(super().score, X, y, sample_weight))

    # Changing

    def unlearn(self, X: Any, y: Any, sample_weight: Any = None, accept_loss: bool = False) -> Self:
        """Remove samples: afterwards the model equals one that never learned them.

        Parameters
        ----------
        X, y, sample_weight
            The samples as they were learned. What they added to the past errors behind `predict(X, interval=…)` fades
            as new rows are learned; it is sizes of errors, no rows.
        accept_loss : bool
            Continue where the removal loses digits, see `precision_loss_`.

        Returns
        -------
        self
        """
        self._soft("unlearn")
        draft = self._now()
        X = draft._met(X)
        draft._remove(*draft._check_samples(X, y, sample_weight), accept_loss=accept_loss)
        draft._shrink(X)
        if not draft.n_seen_:
            draft.__dict__.pop("errors_", None)
        return self._hand_over(draft)

    def merge(self, other: "ContinualRegressor") -> Self:
        """Merge another regressor into this one: afterwards it equals one that learned the samples of both.

        Parameters
        ----------
        other : ContinualRegressor
            With the same settings.

        Returns
        -------
        self
        """
        return self._merge(other)

    def _merge(self, other: "ContinualRegressor", own: bool = False) -> Self:
        """`merge`; with `own`, nobody else refers to the arrays of either model: they are overwritten."""
        self._soft("merge")
        draft = self._now()
        other = draft._check_other(other)
        draft.state_ = draft._merged_state(draft.state_, other, other.state_, own)
        draft.n_seen_ += other.n_seen_
        if "errors_" in draft.__dict__ and "errors_" in other.__dict__:
            draft.errors_ = draft.errors_.merged(other.errors_)
        return self._hand_over(draft)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def learning_time(rows: int, features: int) -> float:
    """About how many microseconds learning takes; a formula, so that what is measured does not depend on a clock."""
    return 60 + rows * (0.2 + 1e-4 * features**2)


def measuring_time(features: int, ridge: Any) -> float:
    """About how many microseconds measuring errors takes: solving for the weights, mostly."""
    return 100 + 1e-4 * features**3 * (5 if ridge == "auto" else 1)


def passes_a_power(base: float, before: int, after: int) -> bool:
    """Whether a power of this base lies above `before` and not above `after`."""
    return bool(base ** np.floor(np.log(after) / np.log(base)) > before)


def _copied(design: Any) -> Any:
    """A copy of rows that learning may overwrite."""
    return np.array(design, order="K") if isinstance(design, np.ndarray) else design


@quiet
def _a_priori(method: Method[Any], state: Any, rows: Any, targets: Array) -> Array | None:
    """The errors of rows before they are learned."""
    try:
        return np.asarray(targets - rows @ method.weights(state))
    except ArithmeticError:  # to learn is possible, to answer is not
        return None


@quiet
def _left_out(method: RLS, state: Any, rows: Array, targets: Array, weights: Array | None) -> Array | None:
    """The errors of learned rows if each had not been learned."""
    try:
        errors = method.left_out(state, weighted(rows, weights), weighted(targets, weights))
    except ArithmeticError:
        return None
    if weights is not None:
        errors = errors / np.sqrt(weights)[:, None]
    return np.asarray(errors[np.isfinite(errors).all(axis=1)])
