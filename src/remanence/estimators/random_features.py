"""Random features: a wide nonlinear view of the data that needs no training and no storage.

φ(x) = a(x B + b),   B ~ N(0, 1/d), b ~ N(0, 1), both drawn anew from the seed                (RF)
"""

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from remanence.checks import Array, check_count
from remanence.errors import InputError
from remanence.estimators.validation import refused_as_input_error

_ACTIVATIONS = {
    "relu": lambda H: np.maximum(H, 0, out=H),
    "tanh": lambda H: np.tanh(H, out=H),
    "cos": lambda H: np.cos(H, out=H),
    "identity": lambda H: H,
}


class RandomFeatures(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A frozen random layer, the same wherever it is made: only width, seed and activation are kept.

    Parameters
    ----------
    width : int
        The number of features it gives.
    seed : int
    activation : "relu", "tanh", "cos" or "identity"
    scale : float
        Multiplies the input; larger makes the features more nonlinear ("tanh", "cos").
    """

    def __init__(self, width: int = 1000, seed: int = 0, activation: str = "relu", scale: float = 1.0) -> None:
        self.width = width
        self.seed = seed
        self.activation = activation
        self.scale = scale

    def fit(self, X: Any, y: Any = None) -> Self:
        """Note the number of columns; nothing else is learned."""
        check_count(self.width, "width")
        check_count(self.seed, "seed", low=0)
        if self.activation not in _ACTIVATIONS:
            raise InputError(f"expected activation to be one of {sorted(_ACTIVATIONS)}, got {self.activation!r}")
        refused_as_input_error(validate_data, self, X, dtype=(np.float64, np.float32))
        self._layer()
        return self

    def transform(self, X: Any) -> Array:
        """φ(X), (n, width), in the precision of X."""
        check_is_fitted(self, "n_features_in_")
        X = refused_as_input_error(validate_data, self, X, reset=False, dtype=(np.float64, np.float32))
        B, b = self._layer()
        H = X @ B.astype(X.dtype, copy=False)  # (RF)
        H += b
        return np.asarray(_ACTIVATIONS[self.activation](H))

    def _layer(self) -> tuple[Array, Array]:
        """B and b, drawn anew where they are not at hand: they are never part of a copy or a file."""
        key = (self.n_features_in_, self.width, self.seed, self.scale)
        if getattr(self, "_drawn", (None,))[0] != key:
            rng = np.random.default_rng(self.seed)
            B = rng.standard_normal((self.n_features_in_, self.width)) * (self.scale / np.sqrt(self.n_features_in_))
            self._drawn = (key, B, rng.standard_normal(self.width))
        return self._drawn[1], self._drawn[2]

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in super().__getstate__().items() if k != "_drawn"}

    def fingerprint(self) -> str:
        """What tells this layer from another."""
        return f"random:{self.width}:{self.seed}:{self.activation}:{self.scale:g}"

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """random0, random1, …"""
        check_is_fitted(self, "n_features_in_")
        return np.array([f"random{i}" for i in range(self.width)], dtype=object)
