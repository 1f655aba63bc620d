"""Claims about features that are not trained: patches of the first images, and waves of a known period.

z = (pᵀw − mean(p) Σw) / √(var(p) + floor) − mᵀw
pooled: means over regions of max(z − a, 0) and max(−z − a, 0), also of the mirror image
φ(t, x) = [1, x] ⊗ [1, cos 2πkt/p, sin 2πkt/p, …]
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.certificates.catalogue import claim
from remanence.certificates.certificate import Evidence, difference, rounding
from remanence.certificates.instances.data import Generator, Instance

SIZE, POOL, THRESHOLD, OVERLAP = 3, 2, 0.25, 0.6
SINGLE = float(np.finfo(np.float32).eps / np.finfo(np.float64).eps)  # features of images are computed in float32


def small_images(rng: Generator) -> Iterator[Instance]:
    """Square images of one colour, of contrasts from 1e-2 to 1e2."""
    while True:
        n, side = int(rng.integers(2, 6)), int(rng.integers(6, 10))
        yield {"images": rng.uniform(0, 1, (n, side, side)) * 10 ** rng.uniform(-2, 2)}


def _pooled(held: Any, image: Array) -> Array:
    """The features of an image as they are defined, patch by patch."""
    places = len(image) - SIZE + 1
    maps = np.empty((places, places, held.filters_.shape[1]))
    for i, j in np.ndindex(places, places):
        patch = image[i : i + SIZE, j : j + SIZE].ravel()
        patch = (patch - patch.mean()) / np.sqrt(patch.var() + held.floor_)
        maps[i, j] = patch @ held.filters_.astype(float) - held.shifts_
    wider, half = round(OVERLAP / 2 * places / POOL), (places + 1) // 2
    bands = np.arange(0, min(half + wider, places)), np.arange(max(half - wider, 0), places)
    excess = [np.maximum(sign * maps - THRESHOLD, 0) for sign in (1, -1)]
    return np.concatenate(
        [part[np.ix_(rows, columns)].mean(axis=(0, 1)) for part in excess for rows in bands for columns in bands]
    )


@claim(
    "Convolutional features are means over overlapping regions of the thresholded responses of every normalised patch",
    source="Coates, Ng and Lee (2011); Coates and Ng (2011)",
    instances=small_images,
    conditions=(f"patches of {SIZE} × {SIZE}", f"threshold {THRESHOLD}", "power 1", "both mirror images", "float32"),
)
def conv_features_are_pooled_responses(images: Array, method: Any = None) -> Evidence:
    """Features of all images at once, against a loop over patches in float64."""
    from sklearn.base import clone

    from remanence.estimators import ConvFeatures

    rows = images.reshape(len(images), -1)
    own = ConvFeatures(4, SIZE, POOL, threshold=THRESHOLD, overlap=OVERLAP, power=1.0, mirror=True)
    held = clone(method or own).fit(rows)
    exact = np.stack([(_pooled(held, image) + _pooled(held, image[:, ::-1])) / 2 for image in images])
    # What cancels in a response are numbers of the size of its filter's weights, not of the response.
    lengths = float(np.abs(held.filters_).sum(axis=0).max())
    scale = float(np.linalg.norm(exact)) + lengths * np.sqrt(exact.size)
    return Evidence(difference(held.transform(rows), exact, scale), rounding(SINGLE, 4 * SIZE**2))


def whole_periods(rng: Generator) -> Iterator[Instance]:
    """Rows at whole time steps, enough of every phase of an odd period, and rows of the next period."""
    while True:
        harmonics, d = int(rng.integers(1, 4)), int(rng.integers(1, 4))
        period = 2 * harmonics + 1
        steps = period * (d + 4)
        X = np.column_stack([np.arange(steps + period), rng.standard_normal((steps + period, d))])
        yield {"X": X, "Y": rng.standard_normal((steps, 1)), "period": period}


@claim(
    "A linear model on periodic features is a linear model of its own for every phase of the period",
    source="De Silva et al. (2023), prospective learning; completes recurring tasks",
    instances=whole_periods,
    conditions=("whole time steps", "an odd period, all of its harmonics"),
)
def periodic_features_are_a_model_for_every_phase(X: Array, Y: Array, period: int, method: Any = None) -> Evidence:
    """Predictions of the next period by least squares over all rows, against least squares over each phase alone."""
    from remanence.estimators import PeriodicFeatures

    features = method or PeriodicFeatures(period, (period - 1) // 2)
    F, steps = features.fit(X).transform(X), len(Y)
    found = F[steps:] @ np.linalg.lstsq(F[:steps], Y, rcond=None)[0]
    rows, phase = np.concatenate([np.ones((len(X), 1)), X[:, 1:]], axis=1), np.arange(len(X)) % period
    exact, kappa = np.empty_like(found), 1.0
    for k in range(period):
        learned, later = np.flatnonzero(phase[:steps] == k), steps + np.flatnonzero(phase[steps:] == k)
        exact[later - steps] = rows[later] @ np.linalg.lstsq(rows[learned], Y[learned], rcond=None)[0]
        kappa = max(kappa, float(np.linalg.cond(rows[learned])) ** 2)
    return Evidence(difference(found, exact), rounding(kappa, 4 * F.size), (f"cond² {kappa:.0e}",))
