"""The fold kernel beside NumPy's QR of all rows: sizes 1 to 70, chunks, tiles, layouts, triangles, both builds."""

from threading import Thread

import numpy as np
import pytest

DTYPES = [np.float64, np.float32]


def gram(*blocks):
    """Sums of squares and products of [X Y]: what every root of these rows has in common."""
    rows = np.concatenate([np.concatenate([a.astype(float) for a in block], axis=1) for block in blocks])
    return rows.T @ rows


def folded(build, R, z, X, Y, scale=None, shrink=1.0, chunk=None, width=8, slots=1, threads=1, in_place=False, **more):
    """[R z] and the rest after folding, with the old ones kept."""
    (n, d), c, dtype = X.shape, Y.shape[1], X.dtype
    chunk = n if chunk is None else chunk
    new = [np.full(a.shape, np.nan, dtype, order="F") for a in (R, z)]
    if in_place:
        X, Y = (np.array(a, order="F") for a in (X, Y))
    B, D = (None, None) if in_place else (np.full((slots, k, chunk + 3), np.nan, dtype) for k in (d, c))
    T = np.full((slots, -(-d // width), width, width), np.nan, dtype)
    rest = np.full((-(-n // chunk), c), np.nan)
    triangle = more.get("triangle", False)
    job = build("fold").Fold(*new, R, z, shrink, X, Y, scale, B, D, T, rest, chunk, triangle)
    helpers = [Thread(target=job.work) for _ in range(threads - 1)]
    for helper in helpers:
        helper.start()
    job.work()
    for helper in helpers:
        helper.join()
    return *new, rest


def triangle(rng, d, dtype):
    return np.asfortranarray(np.triu(rng.standard_normal((d, d))).astype(dtype))


def block(rng, n, d, c, dtype):
    return rng.standard_normal((n, d)).astype(dtype), rng.standard_normal((n, c)).astype(dtype)


def check(found, blocks, rest, dtype):
    R, z, left = found
    assert not np.tril(R, -1).any()
    d, total = len(z), gram(*blocks)
    allowed = 100 * np.finfo(dtype).eps * np.sqrt(len(total)) * max(1.0, np.abs(total).max())
    S = R.astype(float)
    np.testing.assert_allclose(S.T @ S, total[:d, :d], rtol=0, atol=allowed)
    np.testing.assert_allclose(S.T @ z, total[:d, d:], rtol=0, atol=allowed)
    ours = left.sum(axis=0) + (z.astype(float) ** 2).sum(axis=0) + rest
    np.testing.assert_allclose(ours, np.diag(total)[d:], rtol=0, atol=allowed)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [8, 32])
def test_rows_in_one_chunk(build, dtype, width):
    for d in range(1, 71):
        rng = np.random.default_rng(d)
        n, c = 1 + (d * 13) % 50, 1 + d % 11
        R, z = triangle(rng, d, dtype), np.asfortranarray(rng.standard_normal((d, c)).astype(dtype))
        X, Y = block(rng, n, d, c, dtype)
        kept = R.copy(), X.copy()
        found = folded(build, R, z, X, Y, width=width)
        check(found, [(R, z), (X, Y)], 0, dtype)
        assert (kept[0] == R).all() and (kept[1] == X).all()
        used_up = folded(build, R, z, X, Y, width=width, in_place=True)
        for a, b in zip(found, used_up, strict=True):
            assert (a == b).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("slots", [1, 2, 3])
def test_chunks_follow_each_other_with_scales_and_shrinking(build, dtype, slots):
    for d in (1, 7, 8, 9, 33, 70):
        rng, c = np.random.default_rng(d), 3
        R, z = triangle(rng, d, dtype), np.asfortranarray(rng.standard_normal((d, c)).astype(dtype))
        X, Y = block(rng, 83, d, c, dtype)
        scale = rng.uniform(0.5, 2, 83).astype(dtype)
        wanted = [(0.5 * R, 0.5 * z), (scale[:, None] * X, scale[:, None] * Y)]
        layouts = [(X, Y), (np.asfortranarray(X), Y), (np.repeat(X, 2, 1)[:, ::2], Y[::-1][::-1])]
        results = [folded(build, R, z, *rows, scale, 0.5, chunk=20, slots=slots) for rows in layouts]
        check(results[0], wanted, 0, dtype)
        for other in results[1:]:
            for a, b in zip(results[0], other, strict=True):
                assert (a == b).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_triangles(build, dtype):
    for d in range(1, 71, 3):
        rng, c = np.random.default_rng(d), 2
        R, S = triangle(rng, d, dtype), triangle(rng, d, dtype)
        z, t = (np.asfortranarray(rng.standard_normal((d, c)).astype(dtype)) for _ in range(2))
        dirty = np.asfortranarray(S + np.tril(np.full((d, d), np.nan, dtype), -1))  # nothing below is read
        for given in (S, dirty):
            for in_place in (False, True):
                found = folded(build, R, z, given, t, triangle=True, in_place=in_place)
                check(found, [(R, z), (S, t)], 0, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_bits_do_not_depend_on_the_number_of_threads(build, dtype):
    rng = np.random.default_rng(0)
    R, z = triangle(rng, 150, dtype), np.asfortranarray(rng.standard_normal((150, 20)).astype(dtype))
    X, Y = block(rng, 700, 150, 20, dtype)
    one = folded(build, R, z, X, Y, chunk=64, slots=2)
    for threads in (2, 3, 7):
        for a, b in zip(one, folded(build, R, z, X, Y, chunk=64, slots=2, threads=threads), strict=True):
            assert (a == b).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("scale", [0.0, 1e-6, 1e6, "tiny", "huge"])
def test_scales_at_the_edge_of_numbers(build, dtype, scale):
    edge = {np.float64: (1e-200, 1e150), np.float32: (1e-25, 1e15)}[dtype]
    factor = {"tiny": edge[0], "huge": edge[1]}.get(scale, scale)
    rng, d = np.random.default_rng(1), 12
    X, Y = block(rng, 30, d, 2, dtype)
    X = X * dtype(factor)
    X[:, 3] = 0
    zero = [np.zeros(shape, dtype, order="F") for shape in ((d, d), (d, 2))]
    R, z, _ = folded(build, *zero, X, Y)
    unit, ours = X.astype(float) / (factor or 1), R.astype(float) / (factor or 1)
    np.testing.assert_allclose(ours.T @ ours, unit.T @ unit, atol=2000 * np.finfo(dtype).eps)
    assert np.isfinite(z).all() and not R[:, 3].any()


def test_what_does_not_fit_is_refused(build):
    Fold = build("fold").Fold
    rng = np.random.default_rng(0)
    R, z = triangle(rng, 4, float), np.zeros((4, 1), order="F")
    X, Y = block(rng, 6, 4, 1, float)
    B, D, T, rest = np.empty((1, 4, 6)), np.empty((1, 1, 6)), np.empty((1, 1, 8, 8)), np.empty((1, 1))

    def job(**changed):
        given = {"R": R, "z": z, "old_R": None, "old_z": None, "shrink": 1.0, "X": X, "Y": Y, "scale": None, "B": B}
        given |= {"D": D, "T": T, "rest": rest, "chunk": 6, "triangle": False} | changed
        return Fold(*given.values())

    job().work()
    frozen = R.copy(order="F")
    frozen.flags.writeable = False
    for bad in (
        {"R": R[:3]}, {"R": np.ascontiguousarray(R)}, {"R": frozen}, {"z": np.zeros((3, 1), order="F")},
        {"X": X[:, :3]}, {"X": X.astype(np.float32)}, {"Y": Y[:3]}, {"scale": np.ones(5)}, {"B": B[:, :, :4]},
        {"B": None}, {"D": np.empty((1, 1, 5))}, {"T": np.empty((1, 2, 8, 8))}, {"rest": np.empty((2, 1))},
        {"chunk": 0}, {"chunk": 4}, {"triangle": True}, {"X": X[:0], "Y": Y[:0]}, {"old_R": X}, {"R": np.zeros(16)},
    ):  # fmt: skip
        with pytest.raises((TypeError, ValueError)):
            job(**bad)
