"""verify: every claim holds, one certificate each, and a damaged method is found by the claims about it."""

import sys
from types import ModuleType

import numpy as np
import pytest

import remanence as rm
from remanence.certificates import catalogue, verify
from remanence.certificates.certificate import Evidence, not_applicable
from remanence.certificates.verify import worst_case

MODULE = sys.modules["remanence.certificates.catalogue"]


SEEDS = [(0, 10), *(pytest.param(seed, 3, marks=pytest.mark.sweep) for seed in range(1, 10))]


@pytest.mark.parametrize(("seed", "instances"), SEEDS)
def test_every_claim_holds(seed, instances):
    found = verify(seed, instances, progress=False)
    assert len(found) == len(catalogue()) >= 40
    assert [c.name for c in found] == [claim.name for claim in catalogue()]
    assert all(c.holds for c in found), [str(c) for c in found if not c.holds]
    assert len({c.claim for c in found}) == len(found)


def test_all_three_kinds_are_there_and_statistical_ones_name_their_error_rate():
    kinds = [claim.kind for claim in catalogue()]
    assert set(kinds) == {"identity", "bound", "statistical"}
    for claim in catalogue():
        if claim.kind == "statistical":
            assert any("error rate" in condition for condition in claim.conditions), claim.name


def test_a_claim_alone_finds_what_it_finds_among_all():
    name = "icl_is_the_minimum_norm_solution"
    alone, again = verify(5, 6, [name]), verify(5, 6, [name, "lms_solves_its_constrained_problem", name])
    assert alone == again[:1] and len(again) == 2
    assert verify(6, 6, [name]) != alone


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"claims": ["icl_is_minimum_norm_solution"]}, "did you mean icl_is_the_minimum_norm_solution"),
        ({"claims": ["xyzzy"]}, "see remanence.certificates.catalogue"),
        ({"claims": "icl_is_the_minimum_norm_solution"}, "list of names"),
        ({"seed": -1}, "seed"),
        ({"instances": 0}, "instances"),
    ],
)
def test_bad_use_is_refused_with_advice(arguments, said):
    with pytest.raises(rm.InputError, match=said):
        verify(**arguments)


def test_a_method_that_is_damaged_where_it_lives_is_seen(monkeypatch):
    """The claims call the public methods: damage the walk that ICL, OGD and ORFit share."""
    import remanence.methods.icl as home

    whole = home.walk
    monkeypatch.setattr(home, "walk", lambda W, *rest: _nudged(whole(W, *rest)))
    found = verify(0, 4, ["icl_is_the_minimum_norm_solution", "icl_solves_its_constrained_problem", "orfit_is_icl"])
    assert [c.status for c in found] == ["fails"] * 3
    assert verify(0, 4, ["lms_solves_its_constrained_problem"])[0].holds


def _nudged(result):
    W, past, errors = result
    return W * (1 + 1e-7), past, errors


@pytest.fixture
def registered():
    """A module for claims that only a test defines; removed afterwards."""
    module = ModuleType("remanence.certificates.made_up")
    sys.modules[module.__name__] = module
    before = dict(MODULE._CLAIMS)

    def add(statement, check, instances, **more):
        check.__module__ = module.__name__
        return MODULE.claim(statement, source="nowhere", instances=instances, **more)(check)

    yield add
    MODULE._CLAIMS.clear()
    MODULE._CLAIMS.update(before)
    del sys.modules[module.__name__]


def test_the_worst_case_is_kept_and_one_that_applies_goes_first(registered):
    def some_claim(value):
        """Holds below 1."""
        return not_applicable("value is 0") if value == 0 else Evidence(value, 1.0, (f"value {value}",))

    data = [{"value": v} for v in (0, 0.2, 0.9, 0.5)]
    registered("Some claim", some_claim, lambda rng: iter(data))
    known = MODULE._CLAIMS["some_claim"]
    assert worst_case(known, 0, 10).measured == 0.9
    assert worst_case(known, 0, 2).measured == 0.2
    assert worst_case(known, 0, 1).unmet == "value is 0"
    data[1] = {"value": np.nan}
    assert not worst_case(known, 0, 10).holds


def test_a_claim_is_registered_once_under_its_own_words_and_on_a_line_of_the_map(registered):
    def first_claim():
        """Always holds."""
        return Evidence(0.0, 1.0)

    def second_claim():
        """Always holds."""
        return Evidence(0.0, 1.0)

    check = registered("First", first_claim, lambda rng: [{}], edge=("LMS", "APA"), kind="bound", conditions=("c",))
    assert check() == rm.certificates.Certificate("First", "nowhere", ("c",), 0.0, 1.0, "bound", "first_claim")
    assert MODULE._CLAIMS["first_claim"].edge == ("APA", "LMS") and MODULE._CLAIMS["first_claim"].module == "made_up"
    with pytest.raises(AssertionError, match="two claims are named"):
        registered("Other words", first_claim, lambda rng: [{}])
    with pytest.raises(AssertionError, match="claimed twice"):
        registered("First", second_claim, lambda rng: [{}])
    with pytest.raises(AssertionError, match="no edge between"):
        registered("Second", second_claim, lambda rng: [{}], edge=("LMS", "KF"))


def test_a_module_whose_extra_is_missing_is_left_out_and_one_that_is_missing_is_not(monkeypatch):
    def without_extra(name):
        raise rm.MissingDependency(f"{name} needs something")

    monkeypatch.setattr(MODULE, "MODULES", (*MODULE.MODULES, "no_such_module"))
    monkeypatch.setitem(MODULE.PACKAGES, "no_such_module", "linear")
    with pytest.raises(ModuleNotFoundError):
        catalogue()
    monkeypatch.setattr(MODULE, "import_module", without_extra)
    assert len(catalogue()) >= 40
