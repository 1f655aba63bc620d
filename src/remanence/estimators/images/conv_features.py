"""Convolutional features without training: random patches of the first images as filters, whitened and pooled.

The equations are in patches.py. Only the first images are looked at, so that a classifier over these features that
learns by least squares is one that has seen all images at once, whatever the order of its classes.
"""

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from remanence.arrays import Array
from remanence.errors import InputError
from remanence.estimators.images.patches import Pooling, learned_filters, pooled_responses
from remanence.estimators.input_checks import as_input_error, check_container
from remanence.estimators.one_value import OneValue
from remanence.hashing import new_digest, short
from remanence.validation import check_count, check_memory, check_number, check_result, quiet

MOST = 4.0  # of overlap, in lengths of a region; beyond it regions are nearly the whole image

BEFORE = (
    0.0,
    1.0,
    False,
    0.005,
    0.1,
)  # overlap, power, mirror, floor and epsilon of features that files of earlier versions hold


class ConvFeatures(TransformerMixin, OneValue, BaseEstimator):  # type: ignore[misc]
    """Features of images: responses to random whitened patches of the first images, soft-thresholded and pooled.

    Passed to an estimator unfitted, they are fitted to the images of its first call and stay as they are, also in its
    file. Images are rows of pixels, (n, H·W) or (n, H·W·C) with `shape`.

    Parameters
    ----------
    filters : int
        The number of patches; features are 2·filters·pool² many.
    size : int
        Height and width of a patch.
    pool : int
        Responses are averaged over pool × pool regions.
    seed : int
        Seed of the choice of patches.
    shape : tuple, optional
        (H, W) or (H, W, C) of an image, the colours last. By default images are square, of one colour, or of three.
    threshold : float
        Responses of less than this, in either direction, count as none.
    overlap : float
        Regions are longer by this share of their length, up to the border of the image. 0 cuts the image into regions.
    power : float
        The exponent of every feature, between 0 and 1. Below 1 weak responses count for more, 1 changes nothing.
    mirror : bool
        Average the features of an image and of its mirror image: for photographs, not for letters and digits.
    floor : float
        Patches of a variance far below this share of the mean variance of patches count as having no detail.
    epsilon : float
        ε, beside variances of normalised patches of about 1; larger values whiten less.

    Examples
    --------
    >>> import numpy as np, remanence as rm
    >>> images = np.random.default_rng(0).uniform(0, 255, (20, 12 * 12))
    >>> features = rm.ConvFeatures(filters=8, size=4, pool=2).fit(images)
    >>> features.transform(images).shape
    (20, 64)
    >>> model = rm.ContinualClassifier(features=rm.ConvFeatures(100))

    References
    ----------
    Coates, Ng and Lee (2011), "An analysis of single-layer networks in unsupervised feature learning", AISTATS.
    Coates and Ng (2011), "The importance of encoding versus training with sparse coding and vector quantization", ICML.
    """

    summary = "random whitened patches of the first images as filters, their responses pooled"
    cost = "2fq per pixel, f filters of q pixels"
    memory = "fq"
    linear = False
    task_per_update = False

    def __init__(
        self,
        filters: int = 100,
        size: int = 6,
        pool: int = 3,
        seed: int = 0,
        shape: tuple[int, ...] | None = None,
        threshold: float = 0.6,
        overlap: float = 0.5,
        power: float = 0.5,
        mirror: bool = False,
        floor: float = 0.1,
        epsilon: float = 0.1,
    ) -> None:
        self.filters = filters
        self.size = size
        self.pool = pool
        self.seed = seed
        self.shape = shape
        self.threshold = threshold
        self.overlap = overlap
        self.power = power
        self.mirror = mirror
        self.floor = floor
        self.epsilon = epsilon

    @property
    def width(self) -> int:
        """The number of features."""
        return 2 * int(self.filters) * int(self.pool) ** 2

    @quiet
    def fit(self, X: Any, y: Any = None) -> Self:
        """Take the filters from these images."""
        self.check_settings()
        draft = self._blank()
        images = draft._images(X, reset=True)
        size = 4.0 * self.filters * self.size**2 * images.shape[3]
        check_memory(size, f"{self.filters} filters of {self.size} × {self.size} pixels", "use fewer filters")
        rng = np.random.default_rng(self.seed)
        found = learned_filters(images, self.filters, self.size, float(self.floor), float(self.epsilon), rng)
        check_result(*found[:2])
        draft.filters_, draft.shifts_, draft.floor_ = found
        return self._hand_over(draft)

    @quiet
    def transform(self, X: Any) -> Array:
        """The features (n, 2·filters·pool²) of images, in float32."""
        check_is_fitted(self, "filters_")
        held = self._draft()
        held.check_settings()
        images = held._images(X, reset=False)
        size = 4.0 * held.width * len(images)
        check_memory(size, f"{held.width} features of {len(images)} images", "transform fewer images at once")
        learned = (held.filters_, held.shifts_, held.floor_)
        numbers = (float(held.overlap), float(held.threshold), float(held.power))
        found = pooled_responses(images, *learned, held.size, Pooling(held.pool, *numbers, bool(held.mirror)))
        if not np.isfinite(found).all():
            raise InputError("expected pixels whose squares are numbers in float32, got larger or smaller ones")
        return found

    def check_settings(self) -> None:
        """Raise InputError where a setting cannot be used."""
        check_count(self.filters, "filters")
        check_count(self.size, "size", hint="height and width of a patch")
        check_count(self.pool, "pool", hint="regions along each side")
        check_count(self.seed, "seed", low=0)
        check_number(self.threshold, "threshold", closed=True)
        check_number(self.overlap, "overlap", high=MOST, closed=True, hint="a share of the length of a region")
        check_number(
            self.power, "power", high=np.nextafter(1.0, 2.0), hint="an exponent, 1 leaves features as they are"
        )
        check_number(self.floor, "floor", hint="a share of the mean variance of patches, like 0.1")
        check_number(self.epsilon, "epsilon", hint="0.1 whitens strongly, 1 hardly")
        if not isinstance(self.mirror, (bool, np.bool_)):
            raise InputError(f"expected mirror to be True or False, got {self.mirror!r:.60}")
        known = self.shape
        if known is not None:
            if not isinstance(known, (tuple, list)) or len(known) not in (2, 3):
                raise InputError(f"expected shape (H, W) or (H, W, C) of an image, got {known!r:.60}")
            for length in known:
                check_count(length, "shape")

    def to_be_fitted(self) -> bool:
        """Whether an estimator is to fit these features to its first rows."""
        return "filters_" not in vars(self)

    def fingerprint(self) -> str:
        """A text that identifies these features; before they are fitted it ends in "auto"."""
        self.check_settings()
        shown = "auto"
        if not self.to_be_fitted():
            digest = new_digest()
            for part in (self.filters_, self.shifts_, np.float64(self.floor_)):
                digest.update(np.ascontiguousarray(part).tobytes())
            shown = short(digest)
        shape = "x".join(map(str, self.shape or ())) or "square"
        known = (self.overlap, self.power, self.mirror, self.floor, self.epsilon)
        more = "" if known == BEFORE else "".join(f":{float(value):g}" for value in known)
        return f"conv:{self.filters}:{self.size}:{self.pool}:{self.seed}:{shape}:{self.threshold:g}{more}:{shown}"

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """The names conv0, conv1, …"""
        check_is_fitted(self, "filters_")
        return np.array([f"conv{i}" for i in range(self.width)], dtype=object)

    # Helpers

    def _images(self, X: Any, reset: bool) -> Array:
        """The rows as images (n, H, W, C)."""
        check_container(X)
        if len(given := getattr(X, "shape", ())) > 2:
            raise InputError(
                f"expected images as rows of H·W·C numbers, the colours last, got shape {tuple(given)}; "
                "pass X.reshape(len(X), -1), after np.moveaxis(X, 1, -1) if the colours come first"
            )
        rows = as_input_error(validate_data, self, X, reset=reset, dtype=(np.float32, np.float64, np.uint8))
        height, width, colours = self._lengths(rows.shape[1])
        low = self.size + self.pool - 1
        if min(height, width) < low:
            raise InputError(
                f"expected images of at least {low} × {low} pixels for patches of {self.size} in {self.pool} regions, "
                f"got {height} × {width}; use a smaller size or pool"
            )
        return np.asarray(rows).reshape(-1, height, width, colours)

    def _lengths(self, pixels: int) -> tuple[int, int, int]:
        """Height, width and colours of images of so many numbers."""
        if self.shape is not None:
            height, width, colours = (*self.shape, 1)[:3]
            if height * width * colours == pixels:
                return height, width, colours
            raise InputError(f"expected images of shape {tuple(self.shape)}, got rows of {pixels} numbers")
        for colours in (1, 3):
            side = round((pixels / colours) ** 0.5)
            if side * side * colours == pixels:
                return side, side, colours
        raise InputError(f"expected square images of one or three colours, got rows of {pixels} numbers; pass shape=")
