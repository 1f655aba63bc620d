"""Subspace: orthonormal whatever it is fed, a projector to rounding, and the same for NumPy and torch."""

import numpy as np
import pytest

from remanence.errors import InputError
from remanence.memory.subspace import Subspace, effective_tolerance, nothing

EPS = np.finfo(float).eps


def skew(U):
    return np.linalg.norm(U.T @ U - np.eye(U.shape[1]))


def random_subspace(rng, d, r):
    return Subspace(np.linalg.qr(rng.standard_normal((d, r)))[0])


def test_it_stays_orthonormal_through_thousands_of_nearly_dependent_vectors():
    rng = np.random.default_rng(0)
    d = 60
    space = nothing(d, np.zeros(1))
    base = rng.standard_normal(d)
    for k in range(4000):
        if space.rank and k % 2:
            v = space.basis @ rng.standard_normal(space.rank)  # inside, but for
            v = v + 10.0 ** rng.uniform(-12, -5) * rng.standard_normal(d) * (rng.random() < 0.05)
        else:
            v = base + 1e-7 * rng.standard_normal(d) * (k % 50 == 0)
        space = space.extended(v[:, None])
        if k % 500 == 0:
            assert skew(space.basis) < 50 * EPS * np.sqrt(d)
    assert 5 < space.rank <= d
    assert skew(space.basis) < 50 * EPS * np.sqrt(d)


@pytest.mark.parametrize("block", [1, 7, 150])
def test_a_basis_of_vectors_of_condition_9e9_projects_to_rounding(block):
    rng = np.random.default_rng(1)
    U, V = np.linalg.qr(rng.standard_normal((200, 150)))[0], np.linalg.qr(rng.standard_normal((150, 150)))[0]
    vectors = U * np.logspace(0, -9.95, 150) @ V.T
    space = nothing(200, vectors)
    for i in range(0, 150, block):
        space = space.extended(vectors[:, i : i + block], 1e-14)
    assert skew(space.basis) < 1e-13
    v = rng.standard_normal(200)
    once = space.away(v)
    assert np.linalg.norm(space.away(once) - once) < 4e-15 * np.linalg.norm(v)
    assert np.linalg.norm(space.basis.T @ once) < 4e-15 * np.linalg.norm(v)
    assert np.linalg.norm(space.away(vectors)) < 1e-8  # what was absorbed does not move


def test_what_is_away_is_orthogonal_and_what_is_inside_is_gone():
    rng = np.random.default_rng(2)
    space = random_subspace(rng, 20, 7)
    v = rng.standard_normal((20, 5))
    expected = v - space.basis @ np.linalg.lstsq(space.basis, v, rcond=None)[0]
    np.testing.assert_allclose(space.away(v), expected, atol=1e-14)
    assert np.linalg.norm(space.away(space.basis @ rng.standard_normal((7, 3)))) < 1e-14


def test_extending_spans_exactly_what_was_there_and_what_came():
    rng = np.random.default_rng(3)
    V = rng.standard_normal((15, 4)) @ rng.standard_normal((4, 9))  # nine vectors of rank four
    space = random_subspace(rng, 15, 3)
    larger = space.extended(V)
    assert larger.rank == 7 == np.linalg.matrix_rank(np.hstack([space.basis, V]))
    np.testing.assert_array_equal(larger.basis[:, :3], space.basis)  # the old directions are untouched
    assert np.linalg.norm(larger.away(V)) < 1e-12 * np.linalg.norm(V)
    assert larger.extended(V).rank == 7
    assert larger.extended(np.zeros((15, 2))).rank == 7
    assert space.rank == 3


def test_a_full_space_cannot_grow():
    full = nothing(4, np.zeros(1)).extended(np.random.default_rng(4).standard_normal((4, 9)))
    assert full.rank == 4 and full.features == 4
    assert full.extended(np.ones((4, 1))).rank == 4


def test_the_tolerance_is_relative_to_the_vector_and_never_below_rounding():
    space = Subspace(np.eye(3)[:, :1])
    for size in (1e-100, 1.0, 1e100):
        v = size * np.array([[1.0], [1e-6], [0.0]])
        assert space.extended(v, 1e-5).rank == 1
        assert space.extended(v, 1e-7).rank == 2
    assert effective_tolerance(1e-30, np.zeros(1)) == 64 * EPS
    assert effective_tolerance(1e-9, np.zeros(1, np.float32)) == 64 * np.finfo(np.float32).eps
    assert effective_tolerance(1e-3, np.zeros(1)) == 1e-3


@pytest.mark.parametrize("energy", [0.3, 0.9, 0.99, 0.999999])
def test_extending_to_an_energy_takes_the_fewest_directions_that_hold_it(energy):
    rng = np.random.default_rng(5)
    V = rng.standard_normal((20, 12)) * np.logspace(0, -3, 12)
    space = random_subspace(rng, 20, 3)
    larger = space.extended_to(V, energy)
    total = np.sum(V**2)

    def outside(basis):
        return np.sum((V - basis @ (basis.T @ V)) ** 2)

    assert outside(larger.basis) <= (1 - energy) * total * (1 + 1e-9)
    left = np.linalg.svd(V - space.basis @ (space.basis.T @ V))[1] ** 2  # the fewest there can be: leading directions
    fewest = next(k for k in range(13) if left[k:].sum() <= (1 - energy) * total)
    assert larger.rank == 3 + fewest
    assert skew(larger.basis) < 1e-13


@pytest.mark.parametrize("energy", [0.3, 0.99, 1.0])
@pytest.mark.parametrize("known", [0, 3])
def test_columns_that_are_orthogonal_need_no_decomposition(energy, known):
    rng = np.random.default_rng(8)
    V = np.linalg.qr(rng.standard_normal((20, 6)))[0] * [5.0, 4.0, 1.0, 0.5, 1e-20, 0.0]
    space = random_subspace(rng, 20, known)
    fast, slow = (space.extended_to(V, energy, 1e-9, decomposed).basis for decomposed in (True, False))
    np.testing.assert_allclose(fast @ fast.T, slow @ slow.T, atol=1e-12)


def test_an_energy_that_is_already_held_adds_nothing_and_full_energy_adds_all():
    rng = np.random.default_rng(6)
    space = random_subspace(rng, 10, 4)
    inside = space.basis @ rng.standard_normal((4, 6))
    assert space.extended_to(inside, 0.999).rank == 4
    assert space.extended_to(rng.standard_normal((10, 3)), 1.0).rank == 7
    for bad in (0.0, -1.0, 1.1, np.nan, "all"):
        with pytest.raises(InputError, match="energy"):
            space.extended_to(inside, bad)


def test_torch_tensors_give_what_numpy_gives():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(7)
    first, second = rng.standard_normal((12, 5)), rng.standard_normal((12, 6)) * np.logspace(0, -4, 6)
    second[:, 3] = first[:, 0]
    mine = nothing(12, first).extended(first)
    theirs = nothing(12, torch.tensor(first)).extended(torch.tensor(first))
    v = rng.standard_normal((12, 2))
    for name, change in {
        "none": lambda s, V: s,
        "extended": lambda s, V: s.extended(V),
        "energy": lambda s, V: s.extended_to(V, 0.999),
        "all": lambda s, V: s.extended_to(V, 1.0),
    }.items():
        a, b = change(mine, second), change(theirs, torch.tensor(second))
        assert a.rank == b.rank and b.features == 12, name
        assert isinstance(b.basis, torch.Tensor) and b.basis.dtype == torch.float64
        np.testing.assert_allclose(a.away(v), b.away(torch.tensor(v)).numpy(), atol=1e-13, err_msg=name)
    single = nothing(12, torch.zeros(1)).extended(torch.tensor(first, dtype=torch.float32))
    assert single.basis.dtype == torch.float32 and single.rank == 5


def test_float32_stays_float32():
    space = nothing(6, np.zeros(1, np.float32)).extended(np.eye(6, dtype=np.float32)[:, :2] * 3)
    assert space.basis.dtype == np.float32
    assert space.away(np.ones(6, np.float32)).dtype == np.float32
