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
    """The features as they are defined, one patch at a time, in float64, without power and mirror."""
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
            for rows in regions(h, pool, held.overlap):
                for columns in regions(w, pool, held.overlap):
                    found.append(excess[np.ix_(rows, columns)].mean(axis=(0, 1)))
    return np.array(found).reshape(len(images), -1)


def regions(length, pool, overlap):
    """The places of each region: those of a cut into parts, and as many more on both sides as `overlap` says."""
    more = round(overlap / 2 * length / pool)
    return [np.arange(max(0, a[0] - more), min(length, a[-1] + 1 + more)) for a in np.array_split(range(length), pool)]


@pytest.mark.parametrize("overlap", [0.0, 0.7, 3.9])
@pytest.mark.parametrize("pool", [1, 2])
def test_features_are_the_pooled_thresholded_responses_of_every_patch(pool, overlap):
    held = features(pool=pool, overlap=overlap, power=1.0).fit(ROWS)
    found = held.transform(ROWS)
    assert found.dtype == np.float32 and found.shape == (30, held.width)
    np.testing.assert_allclose(found, slowly(held, IMAGES), atol=2e-5)


def test_a_power_and_the_mirror_image():
    plain = features(power=1.0, overlap=0.5).fit(ROWS)
    both = features(power=1.0, overlap=0.5, mirror=True).fit(ROWS)
    mirrored = IMAGES[:, :, ::-1]
    np.testing.assert_allclose(both.transform(ROWS), (slowly(plain, IMAGES) + slowly(plain, mirrored)) / 2, atol=2e-5)
    np.testing.assert_array_equal(both.transform(mirrored.reshape(30, -1)), both.transform(ROWS))
    rooted = features(overlap=0.5, mirror=True).fit(ROWS)
    np.testing.assert_allclose(rooted.transform(ROWS) ** 2, both.transform(ROWS), rtol=1e-5)
    assert len({held.fingerprint() for held in (plain, both, rooted)}) == 3


def test_more_than_one_block_of_images():
    held = rm.ConvFeatures(20, size=4, pool=2, shape=(24, 24)).fit(rng.uniform(0, 1, (40, 576)))
    many = rng.uniform(0, 1, (60, 576))
    np.testing.assert_allclose(held.transform(many)[17], held.transform(many[17:18])[0], atol=1e-3)


def test_whitened_patches_are_the_filters():
    noise = np.repeat(rng.standard_normal((200, 144)), 1, axis=0) @ np.diag(np.linspace(1, 3, 144))
    held = rm.ConvFeatures(40, size=4, pool=1).fit(noise)
    assert np.isfinite(held.filters_).all() and np.linalg.matrix_rank(held.filters_) >= 15
    again = rm.ConvFeatures(40, size=4, pool=1).fit(noise)
    np.testing.assert_array_equal(again.filters_, held.filters_)
    assert again.fingerprint() == held.fingerprint() != rm.ConvFeatures(40, 4, 1, seed=1).fit(noise).fingerprint()


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_the_unit_of_the_pixels_does_not_matter(scale):
    a, b = features(power=1.0).fit(ROWS), features(power=1.0).fit(ROWS * np.float32(scale))
    np.testing.assert_allclose(b.transform(ROWS * np.float32(scale)), a.transform(ROWS), atol=1e-4)


def test_blocks_and_types_do_not_matter():
    held, pixels = features(power=1.0).fit(ROWS), np.round(ROWS).astype(np.uint8)
    whole = held.transform(pixels)
    np.testing.assert_allclose(
        np.concatenate([held.transform(pixels[:7]), held.transform(pixels[7:])]), whole, atol=1e-6
    )
    np.testing.assert_allclose(held.transform(pixels.astype(float)), whole, atol=1e-6)


def test_the_features_of_an_image_do_not_depend_on_the_images_beside_it():
    held = features().fit(ROWS)
    whole, rng = held.transform(ROWS), np.random.default_rng(1)
    for _ in range(60):
        chosen = rng.permutation(len(ROWS))[: rng.integers(1, len(ROWS))]
        assert (held.transform(ROWS[chosen]) == whole[chosen]).all()


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
        ({"overlap": -0.1}, "overlap"),
        ({"overlap": 4}, "overlap"),
        ({"power": 0}, "power"),
        ({"power": 1.5}, "power"),
        ({"power": "half"}, "power"),
        ({"mirror": 1}, "mirror"),
        ({"floor": 0}, "floor"),
        ({"epsilon": 0}, "epsilon"),
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


@pytest.mark.parametrize("shape", [(36, 6, 6), (6, 6, 6, 6), (2, 3, 6, 6, 6)])
def test_images_that_are_not_rows_are_refused_with_what_to_do(shape):
    with pytest.raises(rm.InputError, match="reshape"):
        features().fit(np.zeros(shape))
