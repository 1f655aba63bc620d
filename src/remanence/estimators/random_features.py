"""Random features: a wide nonlinear layer with random weights, which needs no training and no storage.

    φ(x) = a(s x B + b),   B ~ N(0, 1/d), b ~ N(0, 1), both drawn anew from the seed                          (RF)
    s = 2^(k/2) nearest to m √d / σ,   σ² = ½ median ‖xᵢ − xⱼ‖² over pairs of rows of the first block         (S)

The scale s weighs the rows against the random bias b, which is of size 1 whatever the rows are. With (S) the inputs of
the activation vary by about m between rows, m of MARGIN. So round a number says little about the rows it came from, and
two blocks of the same data mostly lead to the same one, of standardised data nearly always.
"""

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from remanence.arrays import Array
from remanence.estimators.input_checks import as_input_error, check_container
from remanence.estimators.one_value import OneValue
from remanence.memory.sparse.sparse_rows import is_sparse
from remanence.validation import check_count, check_memory, check_number, check_word

_ACTIVATIONS = {
    "relu": lambda H: np.maximum(H, 0, out=H),
    "tanh": lambda H: np.tanh(H, out=H),
    "cos": lambda H: np.cos(H, out=H),
    "fourier": lambda H: np.cos(H, out=H),  # the bias is uniform in [0, 2π)
    "identity": lambda H: H,
}
MARGIN = {"relu": 2**0.5, "tanh": 0.5**0.5, "cos": 0.5, "fourier": 0.5, "identity": 1.0}  # m
ENOUGH = 1024  # rows of the first block that (S) looks at, evenly spaced
ACTIVATIONS = tuple(_ACTIVATIONS)


class RandomFeatures(TransformerMixin, OneValue, BaseEstimator):  # type: ignore[misc]
    """Random nonlinear features of the rows, determined by their width, seed, activation and scale alone.

    Parameters
    ----------
    width : int
        The number of features.
    seed : int
        Seed of the random weights.
    activation : "relu", "tanh", "cos", "fourier" or "identity"
        "fourier" is "cos" with a bias that is uniform in [0, 2π), as for the Gaussian kernel.
    scale : "auto" or float
        Factor of the weights, in proportion to the random bias; a larger one makes "tanh" and "cos" more nonlinear.
        "auto" sets it from the spread of the rows that `fit` is given, for an estimator those of its first call, and
        it stays: `scale_`. Models that are merged need the same one: pass a number, or features fitted before.

    Examples
    --------
    >>> import numpy as np
    >>> import remanence as rm
    >>> rm.RandomFeatures(50, seed=1).fit(np.eye(4)).transform(np.eye(4)).shape
    (4, 50)
    >>> X = np.random.default_rng(0).standard_normal((100, 16))
    >>> [round(rm.RandomFeatures(50).fit(rows).scale_, 2) for rows in (X, X / 100)]
    [1.41, 128.0]
    >>> model = rm.ContinualClassifier(features=rm.RandomFeatures(500))

    References
    ----------
    Rahimi and Recht (2007), "Random features for large-scale kernel machines" ("cos").
    McDonnell et al. (2023), "RanPAC: random projections and pre-trained models for continual learning" ("relu").
    """

    def __init__(self, width: int = 1000, seed: int = 0, activation: str = "relu", scale: Any = "auto") -> None:
        self.width = width
        self.seed = seed
        self.activation = activation
        self.scale = scale

    def fit(self, X: Any, y: Any = None) -> Self:
        """Set the number of columns and, where it is "auto", the scale; nothing else is learned."""
        self._check_settings()
        check_container(X, sparse=True)
        draft = self._blank()
        X = as_input_error(validate_data, draft, X, dtype=(np.float64, np.float32), accept_sparse="csr")
        size = 8.0 * float(self.width) * X.shape[1]
        check_memory(size, f"{self.width} random features of {X.shape[1]} columns", "use a smaller width")
        draft.scale_ = _scale_of(X, MARGIN[self.activation]) if self.scale == "auto" else float(self.scale)
        draft._layer()
        return self._hand_over(draft)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _check_settings(self) -> None:
        check_count(self.width, "width")
        check_count(self.seed, "seed", low=0)
        check_word(self.activation, "activation", tuple(_ACTIVATIONS))
        if not (isinstance(self.scale, str) and self.scale == "auto"):
            check_number(self.scale, "scale", hint='"auto" sets it from the first rows')

    def transform(self, X: Any) -> Array:
        """The features φ(X), (n, width), in the dtype of X."""
        check_is_fitted(self, "n_features_in_")
        self._check_settings()
        check_container(X, sparse=True)
        checks = {"reset": False, "dtype": (np.float64, np.float32), "accept_sparse": "csr"}
        X = as_input_error(validate_data, self, X, **checks)
        size = float(X.dtype.itemsize) * float(self.width) * X.shape[0]
        check_memory(size, f"{self.width} random features of {X.shape[0]} rows", "transform fewer rows at once")
        B, b = self._layer()
        H = np.asarray(X @ B.astype(X.dtype, copy=False))  # (RF)
        H += b
        return np.asarray(_ACTIVATIONS[self.activation](H))

    def _layer(self) -> tuple[Array, Array]:
        """B and b, generated from the seed when needed: they are never part of a copy or a file."""
        scale, fourier = self._scale(), self.activation == "fourier"
        key = (self.n_features_in_, self.width, self.seed, scale, fourier)
        drawn: tuple[Any, ...] = getattr(self, "_drawn", (None,))  # read once: another thread may draw as well
        if drawn[0] != key:
            rng = np.random.default_rng(self.seed)
            B = rng.standard_normal((self.n_features_in_, self.width)) * (scale / np.sqrt(self.n_features_in_))
            b = rng.uniform(0, 2 * np.pi, self.width) if fourier else rng.standard_normal(self.width)
            self._drawn = drawn = (key, B, b)
        return drawn[1], drawn[2]

    def to_be_fitted(self) -> bool:
        """Whether an estimator is to fit these features to its first rows."""
        return not self.has_scale()

    def has_scale(self) -> bool:
        """Whether these features were fitted with scale="auto": an estimator then takes them as they are."""
        return self.scale == "auto" and hasattr(self, "scale_")

    def _scale(self) -> Any:
        """The scale in force; "auto" before the first rows."""
        return getattr(self, "scale_", "auto") if isinstance(self.scale, str) else self.scale

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in super().__getstate__().items() if k != "_drawn"}

    def fingerprint(self) -> str:
        """A text that identifies this layer; where the scale is not set yet, it ends in "auto"."""
        self._check_settings()
        scale = self._scale()
        shown = scale if isinstance(scale, str) else f"{scale:g}"
        return f"random:{self.width}:{self.seed}:{self.activation}:{shown}"

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """The names random0, random1, …"""
        check_is_fitted(self, "n_features_in_")
        return np.array([f"random{i}" for i in range(self.width)], dtype=object)


def _scale_of(X: Any, margin: float) -> float:
    """The scale (S) for rows like these, dense or sparse."""
    X = X[:: -(-X.shape[0] // ENOUGH)].astype(np.float64)
    X = X.toarray() if is_sparse(X) else X
    size = float(np.abs(X).max())
    if not size > 0:
        return 1.0
    X /= size  # no square overflows
    shifts = {len(X) // 2, len(X) // 3} - {0}
    apart = np.array([np.linalg.norm(X - np.roll(X, k, axis=0), axis=1) for k in shifts]) / np.sqrt(2)
    apart = apart[apart > 0]
    spread = np.median(apart if len(apart) else np.linalg.norm(X, axis=1))  # one row, or equal ones: their length
    exponent = np.log2(margin * np.sqrt(X.shape[1])) - np.log2(spread) - np.log2(size)
    twos, odd = divmod(int(np.clip(np.round(2 * exponent), -2000, 2000)), 2)
    return float(np.ldexp(np.sqrt(2.0) if odd else 1.0, twos))
