"""Random features: a wide nonlinear layer with random weights, which needs no training and no storage.

φ(x) = a(x B + b),   B ~ N(0, 1/d), b ~ N(0, 1), both drawn anew from the seed                (RF)
"""

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from remanence.arrays import Array
from remanence.estimators.input_checks import as_input_error, check_container
from remanence.estimators.one_value import OneValue
from remanence.estimators.settings import check_word
from remanence.validation import check_count, check_memory, check_number

_ACTIVATIONS = {
    "relu": lambda H: np.maximum(H, 0, out=H),
    "tanh": lambda H: np.tanh(H, out=H),
    "cos": lambda H: np.cos(H, out=H),
    "identity": lambda H: H,
}


class RandomFeatures(TransformerMixin, OneValue, BaseEstimator):  # type: ignore[misc]
    """Random nonlinear features of the rows, determined by their width, seed and activation alone.

    Parameters
    ----------
    width : int
        The number of features.
    seed : int
        Seed of the random weights.
    activation : "relu", "tanh", "cos" or "identity"
    scale : float
        Factor of the weights; a larger one makes "tanh" and "cos" more nonlinear.

    Examples
    --------
    >>> import numpy as np
    >>> import remanence as rm
    >>> rm.RandomFeatures(50, seed=1).fit(np.eye(4)).transform(np.eye(4)).shape
    (4, 50)
    >>> model = rm.ContinualClassifier(features=rm.RandomFeatures(500))

    References
    ----------
    Rahimi and Recht (2007), "Random features for large-scale kernel machines" ("cos").
    McDonnell et al. (2023), "RanPAC: random projections and pre-trained models for continual learning" ("relu").
    """

    def __init__(self, width: int = 1000, seed: int = 0, activation: str = "relu", scale: float = 1.0) -> None:
        self.width = width
        self.seed = seed
        self.activation = activation
        self.scale = scale

    def fit(self, X: Any, y: Any = None) -> Self:
        """Set the number of columns; nothing else is learned."""
        self._check_settings()
        check_container(X)
        draft = self._blank()
        X = as_input_error(validate_data, draft, X, dtype=(np.float64, np.float32))
        size = 8.0 * float(self.width) * X.shape[1]
        check_memory(size, f"{self.width} random features of {X.shape[1]} columns", "use a smaller width")
        draft._layer()
        return self._hand_over(draft)

    def _check_settings(self) -> None:
        check_count(self.width, "width")
        check_count(self.seed, "seed", low=0)
        check_word(self.activation, "activation", tuple(_ACTIVATIONS))
        check_number(self.scale, "scale", low=-np.inf)

    def transform(self, X: Any) -> Array:
        """The features φ(X), (n, width), in the dtype of X."""
        check_is_fitted(self, "n_features_in_")
        self._check_settings()
        check_container(X)
        X = as_input_error(validate_data, self, X, reset=False, dtype=(np.float64, np.float32))
        size = float(X.itemsize) * float(self.width) * len(X)
        check_memory(size, f"{self.width} random features of {len(X)} rows", "transform fewer rows at once")
        B, b = self._layer()
        H = X @ B.astype(X.dtype, copy=False)  # (RF)
        H += b
        return np.asarray(_ACTIVATIONS[self.activation](H))

    def _layer(self) -> tuple[Array, Array]:
        """B and b, generated from the seed when needed: they are never part of a copy or a file."""
        key = (self.n_features_in_, self.width, self.seed, self.scale)
        drawn: tuple[Any, ...] = getattr(self, "_drawn", (None,))  # read once: another thread may draw as well
        if drawn[0] != key:
            rng = np.random.default_rng(self.seed)
            B = rng.standard_normal((self.n_features_in_, self.width)) * (self.scale / np.sqrt(self.n_features_in_))
            self._drawn = drawn = (key, B, rng.standard_normal(self.width))
        return drawn[1], drawn[2]

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in super().__getstate__().items() if k != "_drawn"}

    def fingerprint(self) -> str:
        """A text that identifies this layer."""
        self._check_settings()
        return f"random:{self.width}:{self.seed}:{self.activation}:{self.scale:g}"

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """The names random0, random1, …"""
        check_is_fitted(self, "n_features_in_")
        return np.array([f"random{i}" for i in range(self.width)], dtype=object)
