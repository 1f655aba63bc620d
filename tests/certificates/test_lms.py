"""The claims about LMS hold, and refuse damaged methods and misprints."""

import pytest

import remanence as rm


def with_method(method):
    """Hands another method to the check, made from the data it gets."""
    return lambda data: data | {"method": method(data)}


DAMAGES = {
    "lms_solves_its_constrained_problem": with_method(lambda data: rm.LMS(data["step"], normalized=False)),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_the_claim_holds_and_the_damage_is_seen(name, worst):
    assert worst(name).holds, str(worst(name))
    refused = worst(name, DAMAGES[name])
    assert refused.status == "fails", str(refused)
