"""TableFeatures: tables of numbers, categories, text, dates and gaps as numbers, also for scikit-learn."""

import warnings
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from remanence.arrays import Array
from remanence.errors import InputError
from remanence.estimators.growing_features import GrowingFeatures
from remanence.estimators.one_value import OneValue
from remanence.tables.encoding.cells import Cells, read_cells
from remanence.tables.encoding.encoding import TableEncoding
from remanence.tables.encoding.frames import columns_of
from remanence.tables.encoding.kinds import check_kinds, guess_kinds
from remanence.validation import check_count, check_memory, check_word

GAPS = ("refuse", "indicator")


class TableFeatures(TransformerMixin, OneValue, BaseEstimator, GrowingFeatures):  # type: ignore[misc]
    """Encoder of tables with columns of any kind, which grows with the values it meets.

    Numbers stay as they are, truth values are 0 and 1, every value of a category is a column, text is hashed, dates are
    calendar parts (year, season, weekday, hour), and lists of numbers are as many columns. A category value that is met
    later is one more column behind the others. It was 0 in all rows before, so an estimator with these features learns
    it as if it had been known from the beginning: `rm.ContinualClassifier(features=rm.TableFeatures())` learns,
    unlearns and merges tables as they are. Values that were never met are 0 in all columns of their category.

    Parameters
    ----------
    columns : dict, optional
        Kinds of columns by name: "number", "truth", "category", "text", "date", "embedding" or "ignored". Others
        are guessed from the first table, and then fixed: see `kinds_`.
    text_width : int
        Columns that the words of a text are hashed to, as by scikit-learn's HashingVectorizer.
    missing : "refuse" or "indicator"
        What to do with missing entries: an InputError, or 0 and a column that is 1 where the entry is missing.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import remanence as rm
    >>> first = pa.table({"price": [1.5, 2.0], "city": ["Rome", "Oslo"]})
    >>> features = rm.TableFeatures().fit(first)
    >>> features.kinds_
    {'price': 'number', 'city': 'category'}
    >>> later = pa.table({"price": [3.0], "city": ["Lima"]})
    >>> features.partial_fit(later).get_feature_names_out().tolist()
    ['price', 'city=Oslo', 'city=Rome', 'city=Lima']
    >>> features.transform(later).tolist()
    [[3.0, 0.0, 0.0, 1.0]]
    >>> model = rm.ContinualRegressor(features=rm.TableFeatures()).fit(first, [1.0, 2.0])
    >>> model.partial_fit(later, [3.0]).predict(later).shape
    (1,)
    """

    encoding_: TableEncoding

    def __init__(
        self, columns: Mapping[str, str] | None = None, text_width: int = 256, missing: str = "refuse"
    ) -> None:
        self.columns = columns
        self.text_width = text_width
        self.missing = missing

    # As a transformer of scikit-learn

    def fit(self, X: Any, y: Any = None) -> Self:
        """Forget everything, and meet the rows of a table.

        Parameters
        ----------
        X : DataFrame, Arrow table, mapping of columns, list of dicts, or array (n, d)

        Returns
        -------
        self
        """
        return self._hand_over(self._met_first(self._blank(), X))

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Meet more rows: values that are new become columns behind the others.

        Parameters
        ----------
        X : DataFrame, Arrow table, mapping of columns, list of dicts, or array (n, d)

        Returns
        -------
        self
        """
        return self._hand_over(self._met_first(self._draft(), X))

    def _met_first(self, draft: Self, X: Any) -> Self:
        begun = draft.begun(X)
        return begun.grown(begun.read(X))

    def transform(self, X: Any) -> Array:
        """The encoded rows of a table, (n, width)."""
        check_is_fitted(self, "encoding_")
        return self.encode(self.read(X))

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """The names of the encoded columns: price, city=Rome, when.monday, note17, price? (missing)."""
        check_is_fitted(self, "encoding_")
        return np.array(self.encoding_.names(), dtype=object)

    @property
    def kinds_(self) -> dict[str, str]:
        """The kind of every column; columns that are not used are not listed."""
        check_is_fitted(self, "encoding_")
        return self.encoding_.kinds

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = tags.input_tags.categorical = True
        tags.input_tags.allow_nan = self.missing == "indicator"
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return "encoding_" in self.__dict__

    def fingerprint(self) -> str:
        """A text that identifies the settings; columns and their values are compared when models are merged."""
        self._check_settings()
        return f"table:{self.text_width}:{self.missing}"

    # As features that grow

    @property
    def width(self) -> int:
        """The number of encoded columns so far."""
        return self.encoding_.width

    def columns_in(self) -> list[str]:
        """The names of the columns that are used."""
        return list(self.encoding_.kinds)

    def begun(self, X: Any) -> Self:
        """These features with the kinds of the columns of a table; the same where they are known."""
        self._check_settings()
        if "encoding_" in self.__dict__:
            return self._draft()
        if isinstance(X, Cells):
            kinds, widths = {n: k for n, k in (self.columns or {}).items() if k != "ignored"}, {}
        else:
            found = guess_kinds(columns_of(X), self.columns or {}, "the table")
            for doubt in found.doubts("the table"):
                warnings.warn(doubt, UserWarning, stacklevel=2)
            kinds, widths = {n: k for n, k in found.kinds.items() if k != "ignored"}, found.widths
        if not kinds:
            raise InputError("expected a table with at least one column that is not ignored, got none")
        return self._with_encoding(TableEncoding.begun(kinds, widths, self.text_width))

    def read(self, X: Any) -> Cells:
        """The rows of a table by the kinds of its columns; missing entries are an InputError where they are refused."""
        encoding = self.encoding_
        if isinstance(X, Cells):
            cells = X
        else:
            columns = columns_of(X, list(encoding.kinds))
            absent = [name for name in encoding.kinds if name not in columns]
            if absent:
                raise InputError(f"expected the columns {list(encoding.kinds)[:12]}, got none named {absent[:8]}")
            cells = read_cells(columns, encoding.kinds, encoding.widths, "the table")
        if not len(cells):
            raise InputError("expected a table with at least one row, got none (0 samples)")
        if np.isinf(cells.numbers).any():
            raise InputError("expected finite numbers, got infinity; correct those entries, or leave the rows out")
        if self.missing == "refuse" and not (whole := cells.complete()).all():
            raise InputError(
                f"expected no missing entries, got some in {int((~whole).sum())} of {len(cells)} rows, the first in "
                f'row {int(whole.argmin()) + 1}; leave those rows out, or use missing="indicator"'
            )
        return cells

    def encode(self, rows: Cells) -> Array:
        """The encoded rows, (n, width)."""
        size = 8.0 * self.width * len(rows)
        check_memory(size, f"{self.width} encoded columns of {len(rows)} rows", "pass fewer rows at once")
        return self.encoding_.transform(rows)

    def grown(self, rows: Cells) -> Self:
        """With the values that are new in these rows."""
        return self._with_encoding(self.encoding_.grown(rows))

    def with_numbers(self, names: list[str]) -> Self:
        """With further columns of numbers behind the others, which have been 0 in all rows."""
        draft = self._draft()
        if self.columns is not None:
            draft.columns = {**self.columns, **dict.fromkeys(names, "number")}
        return draft._with_encoding(self.encoding_.with_numbers(names)) if "encoding_" in self.__dict__ else draft

    def without(self, rows: Cells) -> tuple[Self, Array]:
        """Without these rows, and which encoded columns are left."""
        self.encoding_.check_met(rows)
        left, places = self.encoding_.without(rows)
        return self._with_encoding(left), places

    def merged(self, other: Any) -> tuple[Self, Array]:
        """With the values that others met, and the place of every column among theirs."""
        both, places = self.encoding_.merged(other.encoding_)
        return self._with_encoding(both), places

    def _with_encoding(self, encoding: TableEncoding) -> Self:
        draft = self._draft()
        draft.encoding_ = encoding
        names = list(encoding.kinds)
        draft.n_features_in_, draft.feature_names_in_ = len(names), np.array(names, dtype=object)
        return draft

    def _check_settings(self) -> None:
        check_count(self.text_width, "text_width")
        check_word(self.missing, "missing", GAPS)
        if self.columns is not None:
            if not isinstance(self.columns, Mapping):
                raise InputError(f"expected columns as a dict of name: kind, got {self.columns!r:.60}")
            check_kinds(self.columns)
