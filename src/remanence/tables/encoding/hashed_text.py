"""Text as counts of hashed words, as scikit-learn's HashingVectorizer makes them."""

from collections.abc import Sequence
from functools import cache
from typing import Any

from remanence.arrays import Array


@cache
def _vectorizer(width: int) -> Any:
    from sklearn.feature_extraction.text import HashingVectorizer

    return HashingVectorizer(  # every setting is named: model files depend on them
        n_features=width,
        analyzer="word",
        lowercase=True,
        ngram_range=(1, 1),
        token_pattern=r"(?u)\b\w\w+\b",
        norm="l2",
        alternate_sign=True,
        binary=False,
    )


def hashed_text(texts: Sequence[str], width: int) -> Array:
    """The hashed words of texts, (n, width), every row of length 1 or 0."""
    found: Array = _vectorizer(width).transform(texts).toarray()
    return found
