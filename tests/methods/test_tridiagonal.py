"""The tridiagonal form: its sums are those of the eigenvalues, and the ridge chosen with it is the same."""

import numpy as np
import pytest
from experiments.automatic_ridge import problem

import remanence as rm
from remanence.methods import ridge_choice
from remanence.methods.ridge.tridiagonal import Tridiagonal


@pytest.mark.parametrize("d, c, spread", [(2, 1, 0.0), (7, 3, 2.0), (40, 2, 5.0)])
def test_sums_over_eigenvalues(d, c, spread):
    rng = np.random.default_rng(d)
    F = np.triu(rng.standard_normal((d, d)) + 3 * np.eye(d)) * np.logspace(0, -spread, d)
    z = rng.standard_normal((d, c))
    U, s, _ = np.linalg.svd(F)
    form, ridges = Tridiagonal.of(F, z), s[0] ** 2 * np.array([1e-9, 1e-4, 1.0, 1e3])
    k, p2 = ridges[:, None] / (s**2 + ridges[:, None]), (U.T @ z) ** 2
    expected = (k**2 @ p2, k @ p2, k.sum(axis=1), np.log(k).sum(axis=1))
    for found, wanted in zip(form.sums(ridges), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5 if spread == 5 else 1e-7)
        np.testing.assert_allclose(found[1:], wanted[1:], rtol=1e-10)
    np.testing.assert_allclose(form.extremes(), (s[-1] ** 2, s[0] ** 2), atol=1e-14 * s[0] ** 2, rtol=0)


def test_the_choice_is_that_by_eigenvectors(monkeypatch):
    decided = 0
    for seed in range(1000, 1060):
        _, X, y, _, _ = problem(seed)
        found = []
        for wide in (1e9, 0):
            monkeypatch.setattr(ridge_choice, "WIDE", wide)
            method = rm.RLS("auto")
            found.append(method.ridge_of(method.update(method.init(X.shape[1], 1), X, y[:, None])))
        assert found[1] == pytest.approx(found[0], rel=1e-5), problem(seed)[0]
        decided += found[1] != found[0]
    assert decided > 5  # (rounding tells that the form was used)


def test_where_leverage_decides_it_is_computed():
    rng = np.random.default_rng(0)
    common, trace = rng.standard_normal((2, 400))
    X = np.column_stack([common, common + 1e-5 * trace])
    factor = np.linalg.qr(X)[1]
    y = common + 0.15 * trace + 0.7 * rng.standard_normal(400)
    gap = np.linalg.qr(np.column_stack([X, y]))[1][:2, 2:]
    rest = np.array([(y**2).sum() - (gap**2).sum()])
    assert ridge_choice._without_eigenvectors(factor, gap, rest, 400) is None
