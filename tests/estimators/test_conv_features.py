"""Convolutional features: the definition patch by patch, any order of classes, files, bad images."""

import numpy as np
import pytest
from sklearn.base import clone

import remanence as rm

rng = np.random.default_rng(0)
IMAGES = rng.uniform(0, 255, (30, 9, 8, 3)).astype(np.float32)
ROWS = IMAGES.reshape(30, -1)


def features(**settings):
    return rm.ConvFeatures(**{"filters": 5, "size": 4, "pool": 2, "shape": (9, 8, 3)} | settings)


def slowly(held, images):
    """The features as they are defined, one patch at a time, in float64."""
    W, size, pool = held.filters_.astype(float), held.size, held.pool
    h, w = images.shape[1] - size + 1, images.shape[2] - size + 1
    found = []
    for image in images.astype(float):
        maps = np.empty((h, w, W.shape[1]))
        for i in range(h):
            for j in range(w):
                patch = np.moveaxis(image[i : i + size, j : j + size], 2, 0).ravel()
                patch = (patch - patch.mean()) / np.sqrt(patch.var() + held.floor_)
                maps[i, j] = patch @ W - held.shifts_
        for sign in (1, -1):
            excess = np.maximum(sign * maps - held.threshold, 0)
            for rows in np.array_split(np.arange(h), pool):
                for columns in np.array_split(np.arange(w), pool):
                    found.append(excess[np.ix_(rows, columns)].mean(axis=(0, 1)))
    return np.array(found).reshape(len(images), -1)


@pytest.mark.parametrize("pool", [1, 2])
def test_features_are_the_pooled_thresholded_responses_of_every_patch(pool):
    held = features(pool=pool).fit(ROWS)
    found = held.transform(ROWS)
    assert found.dtype == np.float32 and found.shape == (30, held.width)
    np.testing.assert_allclose(found, slowly(held, IMAGES), atol=2e-5)


def test_whitened_patches_are_the_filters():
    noise = np.repeat(rng.standard_normal((200, 144)), 1, axis=0) @ np.diag(np.linspace(1, 3, 144))
    held = rm.ConvFeatures(40, size=4, pool=1).fit(noise)
    assert np.isfinite(held.filters_).all() and np.linalg.matrix_rank(held.filters_) >= 15
    again = rm.ConvFeatures(40, size=4, pool=1).fit(noise)
    np.testing.assert_array_equal(again.filters_, held.filters_)
    assert again.fingerprint() == held.fingerprint() != rm.ConvFeatures(40, 4, 1, seed=1).fit(noise).fingerprint()


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_the_unit_of_the_pixels_does_not_matter(scale):
    a, b = features().fit(ROWS), features().fit(ROWS * np.float32(scale))
    np.testing.assert_allclose(b.transform(ROWS * np.float32(scale)), a.transform(ROWS), atol=1e-4)


def test_blocks_and_types_do_not_matter():
    held, pixels = features().fit(ROWS), np.round(ROWS).astype(np.uint8)
    whole = held.transform(pixels)
    np.testing.assert_allclose(
        np.concatenate([held.transform(pixels[:7]), held.transform(pixels[7:])]), whole, atol=1e-6
    )
    np.testing.assert_allclose(held.transform(pixels.astype(float)), whole, atol=1e-6)


def test_a_classifier_fits_them_to_its_first_images_and_its_order_of_classes_does_not_matter(tmp_path):
    y = np.arange(30) % 3
    first = np.flatnonzero(y == 0)
    rest = np.flatnonzero(y > 0)
    models = []
    for order in (rest, rest[::-1]):
        model = rm.ContinualClassifier(rm.RLS(0.1), features=features()).partial_fit(ROWS[first], y[first])
        models.append(model.partial_fit(ROWS[order[:9]], y[order[:9]]).partial_fit(ROWS[order[9:]], y[order[9:]]))
    a, b = (model.decision_function(ROWS) for model in models)
    np.testing.assert_allclose(a, b, atol=1e-9)
    held = features().fit(ROWS[first])
    joint = rm.ContinualClassifier(rm.RLS(0.1)).fit(held.transform(ROWS).astype(float), y)
    np.testing.assert_allclose(a, joint.decision_function(held.transform(ROWS).astype(float)), atol=1e-9)
    rm.save(models[0], tmp_path / "m")
    loaded = rm.load(tmp_path / "m")
    np.testing.assert_allclose(loaded.decision_function(ROWS), a, atol=1e-12)
    np.testing.assert_allclose(
        loaded.partial_fit(ROWS[:5], y[:5]).decision_function(ROWS)[0],
        models[0].partial_fit(ROWS[:5], y[:5]).decision_function(ROWS)[0],
    )
    with pytest.raises(rm.InputError, match="another"):
        models[1].set_params(features__seed=4).predict(ROWS)
    assert not hasattr(clone(models[0]), "state_") and not hasattr(models[0].features, "filters_")


def test_images_without_detail_and_one_image():
    for X in (np.zeros((3, 49)), np.full((1, 49), 7.0), np.eye(49)[:1]):
        found = rm.ConvFeatures(3, size=3, pool=2).fit(X).transform(X)
        assert np.isfinite(found).all()


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ({"filters": 0}, "filters"),
        ({"size": 20}, "smaller size"),
        ({"pool": 9}, "smaller size or pool"),
        ({"shape": (5, 5)}, "shape"),
        ({"shape": "square"}, "shape"),
        ({"shape": None}, "shape"),
        ({"threshold": -1}, "threshold"),
        ({"seed": -1}, "seed"),
    ],
)
def test_bad_settings_are_refused(bad, said):
    with pytest.raises(rm.InputError, match=said):
        features(**bad).fit(ROWS)


def test_bad_images_are_refused():
    held = features().fit(ROWS)
    for X in (ROWS[:, :-1], np.full_like(ROWS, np.nan), ROWS[0], [["a"] * 216], np.full_like(ROWS, 1e30)):
        with pytest.raises(rm.InputError):
            held.transform(X)
