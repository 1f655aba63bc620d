"""Every kernel beside its slow twin: sizes 1 to 70, both precisions, both builds."""

import numpy as np
import pytest

from . import twins

SIZES = range(1, 71)
DTYPES = [np.float64, np.float32]


def close(found, wanted, dtype, slack=1.0):
    """Equal up to rounding of the largest entry, times `slack`."""
    allowed = slack * 200 * np.finfo(dtype).eps * max(1.0, np.abs(wanted).max(initial=0.0))
    np.testing.assert_allclose(found, wanted, rtol=0, atol=allowed)


def numbers(rng, *shape, dtype=np.float64):
    return rng.standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("normalized", [True, False])
def test_lms(build, dtype, normalized):
    walk = build("filters").lms_walk
    for d in SIZES:
        rng, c = np.random.default_rng(d), 1 + d % 3
        X, Y, W = numbers(rng, 12, d, dtype=dtype), numbers(rng, 12, c, dtype=dtype), numbers(rng, c, d, dtype=dtype)
        X[3] = 0  # changes nothing
        if normalized:
            X[5] *= dtype(1e-25)  # the square underflows in float32
        steps = (rng.uniform(0.1, 1.0, 12) / (1 if normalized else 2 * d)).astype(dtype)
        wanted, errors = twins.lms(W, X, Y, steps, normalized)
        found = np.empty_like(Y)
        assert walk(W, X, Y, steps, normalized, found) == 12
        size = float(np.abs(wanted).max())  # a tiny row moves W far
        close(W, wanted, dtype, 1 + d)
        close(found, errors, dtype, (1 + d) * max(1.0, size))
        X[7, -1] = np.nan
        assert walk(W, X, Y, steps, normalized, found) == 7 or not normalized


@pytest.mark.parametrize("dtype", DTYPES)
def test_apa(build, dtype):
    walk = build("filters").apa_walk
    for d in SIZES:
        rng, c, buffer = np.random.default_rng(d), 1 + d % 2, min(d // 4, 9)
        X, Y, W = numbers(rng, 16, d, dtype=dtype), numbers(rng, 16, c, dtype=dtype), numbers(rng, c, d, dtype=dtype)
        steps, first = np.full(16, 0.7, dtype), d % 3
        wanted, errors = twins.apa(W, X, Y, steps, buffer, first)
        found = np.empty_like(Y)
        assert walk(W, X, Y, first, buffer, steps, found, 0, 1e-9) == 16
        close(W, wanted, dtype, 100)
        close(found[: 16 - first], errors, dtype, 100)


def test_apa_stops_at_dependent_rows(build):
    X = np.ones((5, 4))
    X[:3] = np.eye(3, 4)
    W, errors, Y = np.zeros((1, 4)), np.empty((5, 1)), np.ones((5, 1))
    assert build("filters").apa_walk(W, X, Y, 0, 1, np.ones(5), errors, 0, 1e-6) == 4  # row 4 is row 3


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("fade", [1.0, 0.95])
def test_rotations(build, dtype, fade):
    rotate = build("rotations").rotate_rows
    for d in SIZES:
        rng, c, n = np.random.default_rng(d), 1 + d % 5, 8
        R = np.triu(numbers(rng, d, d)) / np.sqrt(d) + 2 * np.eye(d)
        R, z, X, Y = (a.astype(dtype) for a in (R, numbers(rng, d, c), numbers(rng, n, d), numbers(rng, n, c)))
        weights, fades = rng.uniform(0.5, 2, n).astype(dtype), np.full(n, fade, dtype)
        weights[-1], fades[-1] = 0, 1  # an odd last row has a companion that weighs nothing
        given = [a.astype(float) for a in (R, z, np.ones(c), X, Y, weights, fades)]
        S, b, rest, errors = twins.fold(*given)
        left, found = np.ones(c), np.empty_like(Y)
        rotate(R, z, left, X, Y, weights, fades, found)
        assert not np.tril(R, -1).any()
        close(R.T.astype(float) @ R, S, dtype, 5)
        close(R.T.astype(float) @ z, b, dtype, 5)
        close(left, rest, dtype, 100)
        close(found, errors, dtype, 100)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("panel", [1, 5, 16])
def test_reflections_keep_every_product_of_columns(build, dtype, panel):
    reflect = build("reflections").reflect_rows
    for d in SIZES:
        rng, c, n = np.random.default_rng(d), d % 4, 1 + (7 * d) % 19
        R = np.triu(numbers(rng, d, d)) / np.sqrt(d) + 2 * np.eye(d)
        z, X, Y = (numbers(rng, *shape, dtype=dtype) for shape in ((d, c), (n, d), (n, c)))
        R, z = np.asfortranarray(R.astype(dtype)), np.asfortranarray(z)
        X[:, d // 2] = 0  # nothing to reflect
        E = np.asfortranarray(np.hstack([X, Y, np.eye(n)]).astype(dtype))
        S, b, energy = twins.gram(R, z, X, Y)
        reflect(R, z, E, panel)
        assert not np.tril(R, -1).any()
        R, z, left, share = (a.astype(float) for a in (R, z, E[:, d : d + c], E[:, d + c :]))
        close(R.T @ R, S, dtype, 5)
        close(R.T @ z, b, dtype, 5)
        close(z.T @ z + left.T @ left, energy, dtype, 5)
        on_top = np.linalg.solve(R.T, X.T.astype(float))  # what became of the zeros above the identity
        close(share.T @ share, np.eye(n) - on_top.T @ on_top, dtype, 20)
        close(left.T @ share, Y.T - z.T @ on_top, dtype, 20)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("power", [-300, -160, 0, 160, 300])
def test_reflections_of_tiny_and_huge_numbers(build, dtype, power):
    scale = dtype(10.0 ** (power if dtype is np.float64 else power / 10))
    rng = np.random.default_rng(0)
    R, z, E = (
        np.asfortranarray(a.astype(dtype)) for a in (np.triu(rng.standard_normal((9, 9))), *rng.random((2, 9, 9)))
    )
    one, other = [a.copy(order="F") for a in (R, z[:, :0], E)], [scale * a for a in (R, z[:, :0], E)]
    for arrays in (one, other):
        build("reflections").reflect_rows(*(np.asfortranarray(a) for a in arrays[:2]), np.asfortranarray(arrays[2]), 4)
    np.testing.assert_allclose(other[0] / scale, one[0], rtol=0, atol=200 * np.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("forget", [1.0, 0.97])
def test_weights_with_pending_rows(build, dtype, forget):
    live = build("rotations").live_rows
    for d in SIZES:
        rng, c, room = np.random.default_rng(d), 1 + d % 3, 7
        R = np.asfortranarray(np.triu(numbers(rng, d, d)) / d + 2 * np.eye(d)).astype(dtype)
        W0, X, Y = (numbers(rng, *s, dtype=dtype) for s in ((d, c), (room, d), (room, c)))
        S, C = np.empty((d, room), dtype, order="F"), np.zeros((room, room), dtype, order="F")
        U, W = np.empty((room, c), dtype), np.empty((d, c), dtype)
        scales, done = np.array([forget, 0.5, np.inf, 0, 1, 1e30], dtype), 0
        for k in (1, 2, room):  # rows arrive; images of the first ones are kept
            done = live(R, W0, X, Y, S, C, U, done, k, scales, W)
            assert done == k
            wanted = twins.weights_with(*(a.astype(float) for a in (R, W0, X[:k], Y[:k])), forget, 0.5)
            close(W, wanted, dtype, 20)
        assert live(R, W0, X, Y, S, C, U, room, 2, scales, W) == 2  # an older state asks for a prefix
        close(W, twins.weights_with(*(a.astype(float) for a in (R, W0, X[:2], Y[:2])), forget, 0.5), dtype, 20)
        X[0, 0] = np.nan
        scales[2], scales[3] = np.inf, 0
        assert live(R, W0, X, Y, S, C, U, 0, 1, scales, W) == 0


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("form", ["covariance", "root"])
def test_kalman(build, form, constant):
    filters, smoothers, informed = (
        build("kalman_filter"),
        build("kalman_smoother"),
        build("kalman_information").informed,
    )
    for d in SIZES:
        rng, T, m = np.random.default_rng(d), 6, 1 + (d * 7) % 11
        length = 1 if constant else T
        A, X = numbers(rng, length, d, d) / np.sqrt(d), numbers(rng, length, m, d)
        root_Q = 0.1 * numbers(rng, length, d, d) / np.sqrt(d) + 0.5 * np.eye(d)
        root_R = 0.1 * numbers(rng, length, m, m) / np.sqrt(m) + np.eye(m)
        Q, R = root_Q @ root_Q.transpose(0, 2, 1), root_R @ root_R.transpose(0, 2, 1)
        root, mean, Y = np.tril(numbers(rng, d, d)) / np.sqrt(d) + np.eye(d), numbers(rng, d), numbers(rng, T, m)
        Y[2, 0], Y[3] = np.nan, np.nan
        cov, there = root @ root.T, ~np.isnan(Y)
        least_Q, least_R = np.full(length, 0.01), np.full(length, 0.1)
        predicted, filtered = np.empty((2, T, d, d))
        G, W, logdet, kinds, slack = (
            np.empty((T, m, d)), np.empty((T, m, m)), np.empty(T), np.empty((T, m), np.int64), np.empty((T, m)),
        )  # fmt: skip
        rooted = form == "root"
        filters.covariances(
            A, Q, X, R, root_Q, root_R, least_Q, least_R, cov, root, there, rooted, constant, 4.0,
            predicted, filtered, G, W, logdet, kinds, slack,
        )  # fmt: skip
        before, after, logliks = np.empty((1, T, d)), np.empty((1, T, d)), np.empty((1, T))
        filters.means(A, X, Y[None], mean, G, W, logdet, kinds, slack, before, after, logliks)
        stacks = [np.broadcast_to(s, (T, *s.shape[1:])) for s in (A, Q, X, R)]
        wanted = twins.kalman(*stacks, mean, cov, Y)
        for found, right in zip((before[0], after[0], predicted, filtered, logliks[0]), wanted, strict=False):
            close(found, right, np.float64, 100)
        smooth, (tight, L) = np.empty((1, T, d)), np.empty((2, T, d, d))
        worst = smoothers.smoothed_covariances(A, Q, least_Q, filtered, predicted, constant, 4.0, tight, L[:-1])
        smoothers.smoothed_means(L[:-1], after, before, smooth)
        close(smooth[0], wanted[5], np.float64, 1000)
        close(tight, wanted[6], np.float64, 1000)
        assert np.isfinite(worst) and (filtered == filtered.transpose(0, 2, 1)).all()
        innovations = np.where(there, Y - np.einsum("tij,tj->ti", stacks[2], before[0]), 0)
        w = np.einsum("tij,tj->ti", W, innovations)
        assert informed(A, X, G, W, kinds, w, after[0], filtered, predicted, np.inf, smooth[0], tight)
        close(smooth[0], wanted[5], np.float64, 1000)
        close(tight, wanted[6], np.float64, 1000)
        assert (tight == tight.transpose(0, 2, 1)).all()
        assert not informed(A, X, G, W, kinds, w, after[0], filtered, predicted, 0.0, smooth[0], tight)
