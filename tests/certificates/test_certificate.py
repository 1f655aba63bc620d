"""A certificate as a value: what it decides, how it reads, and what rounding and chance are allowed."""

import json
from dataclasses import FrozenInstanceError

import numpy as np
import pytest

import remanence as rm
from remanence.certificates import Certificate
from remanence.certificates.certificate import (
    condition,
    difference,
    interval,
    likely,
    not_applicable,
    rounding,
)

EPS = np.finfo(float).eps


def made(measured=1e-16, allowed=1e-15, **more):
    return Certificate("A is B", "Theorem 0", ("cond 3",), measured, allowed, **more)


@pytest.mark.parametrize(
    ("measured", "allowed", "holds", "strain"),
    [
        (1.0, 2.0, True, 0.5),
        (2.0, 2.0, True, 1.0),
        (np.nextafter(2.0, 3.0), 2.0, False, 1.0),
        (0.0, 0.0, True, 0.0),
        (1e-300, 0.0, False, np.inf),
        (-1.0, 0.0, True, 0.0),
        (np.nan, 1.0, False, np.inf),
        (1.0, np.nan, False, np.inf),
        (np.inf, 1.0, False, np.inf),
    ],
)
def test_it_holds_when_measured_is_within_what_is_allowed(measured, allowed, holds, strain):
    certificate = made(measured, allowed)
    assert certificate.holds is holds and certificate.strain == pytest.approx(strain)
    assert certificate.status == ("holds" if holds else "fails")


def test_what_does_not_apply_neither_holds_nor_fails_and_says_why():
    certificate = made(0.0, 1.0, unmet="T = 2 is below 3")
    assert not certificate.holds and certificate.status == "does not apply"
    assert "does not apply, as T = 2 is below 3" in str(certificate)
    assert np.isnan(not_applicable("why").measured) and not_applicable("why").unmet == "why"


def test_it_reads_as_a_sentence_and_each_kind_in_its_own_way():
    assert str(made()) == "A is B (Theorem 0): holds, error 1.0e-16, rounding allows 1.0e-15; cond 3"
    assert "FAILS, error" in str(made(1.0))
    assert "0.5 ≤ 0.75" in str(made(0.5, 0.75, kind="bound"))
    assert "0.9 is not within 0.75" in str(made(0.9, 0.75, kind="bound"))
    assert "from the expected value, chance allows 2.00e-01" in str(made(0.1, 0.2, kind="statistical"))


def test_it_is_frozen_and_survives_json():
    for certificate in (made(), made(np.nan, np.inf, kind="bound", name="a_is_b", unmet="so")):
        with pytest.raises(FrozenInstanceError):
            certificate.measured = 0.0
        plain = json.loads(json.dumps(certificate.to_dict(), allow_nan=False))
        again = Certificate.from_dict(plain)
        np.testing.assert_equal(again.to_dict(), certificate.to_dict())
    assert {"claim", "source", "kind", "conditions", "measured", "allowed", "holds"} <= made().to_dict().keys()
    with pytest.raises(rm.InputError, match="to_dict"):
        Certificate.from_dict({"claim": "x"})
    with pytest.raises(rm.InputError, match="identity, bound, statistical"):
        made(kind="proof")


def test_rounding_grows_with_condition_and_operations_and_has_no_other_constant():
    assert rounding(1.0, 1) == pytest.approx(EPS / 2)
    assert rounding(1e3, 50) == pytest.approx(1e3 * 25 * EPS)
    assert rounding(1.0, 1e17) == np.inf and rounding(0.0, 10) == 0.0
    with pytest.raises(rm.InputError):
        rounding(-1.0, 10)


def test_long_sums_stay_within_what_is_likely_and_short_ones_within_the_worst_case():
    assert likely(4) == 4 and likely(10_000) == 800
    rng = np.random.default_rng(0)
    for n in (10, 1000, 100_000):
        x = rng.random(n).astype(np.float32)
        summed = np.float32(0)
        for v in x:
            summed += v
        exact = x.sum(dtype=np.float64)
        assert abs(summed - exact) / exact <= np.finfo(np.float32).eps / EPS * rounding(1.0, likely(n))


def test_condition_counts_only_directions_that_are_there():
    assert condition(np.diag([4.0, 2.0, 0.0])) == pytest.approx(2.0)
    assert condition(np.zeros((2, 3))) == 1.0
    assert condition(np.ones((5, 1))) == pytest.approx(1.0)


def test_difference_is_relative_and_passes_nan_on():
    assert difference(np.array([1.0, 1.0]), np.array([1.0, 0.0])) == pytest.approx(1.0)
    assert difference(np.ones(1), np.zeros(1), 4.0) == pytest.approx(0.25)
    assert difference(np.zeros(1), np.zeros(1)) == 0.0
    assert np.isnan(difference(np.array([np.nan]), np.ones(1)))


def test_the_interval_covers_the_mean_and_shrinks_with_more_samples():
    rng = np.random.default_rng(1)
    for _ in range(200):
        samples = rng.beta(0.5, 2.0, 400)
        assert abs(samples.mean() - 0.2) <= interval(samples, 0.0, 1.0, 1e-3)
    few, many = (interval(rng.random(n), 0.0, 1.0) for n in (1000, 100_000))
    assert many < few / 8
    assert interval(rng.random(1000), 0.0, 1.0, 1e-2) < few  # a larger error rate, a narrower interval
    for bad in (np.array([2.0, 0.5]), np.array([0.5]), np.ones((2, 2))):
        with pytest.raises(rm.InputError):
            interval(bad, 0.0, 1.0)
