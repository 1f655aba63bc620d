"""The list of claims: complete, unique, and each with a damage that it refuses."""

import importlib.util
import sys
from pathlib import Path

import pytest

import remanence as rm
from remanence.certificates.catalogue import MODULES, NEED_TORCH, left_out

CLAIMS = rm.certificates.catalogue()


def damages():
    """The tables of all test files in this folder, as one."""
    found = {}
    for path in sorted(Path(__file__).parent.glob("test_*.py")):
        if "\nDAMAGES" in path.read_text(encoding="utf-8"):
            spec = importlib.util.spec_from_file_location(f"damages_of_{path.stem}", path)
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            assert not found.keys() & module.DAMAGES.keys()
            found |= module.DAMAGES
    return found


def test_every_claim_has_a_damage_that_it_refuses():
    assert damages().keys() == {claim.name for claim in CLAIMS}


def test_names_and_statements_are_unique_and_modules_in_order():
    assert len({claim.name for claim in CLAIMS}) == len({claim.statement for claim in CLAIMS}) == len(CLAIMS)
    places = [MODULES.index(claim.module) for claim in CLAIMS]
    assert places == sorted(places)
    assert {claim.module for claim in CLAIMS} == set(MODULES) - left_out().keys()


def test_without_torch_the_claims_about_networks_are_left_out_and_the_reason_is_told(monkeypatch):
    module = sys.modules["remanence.certificates.catalogue"]
    whole = module.import_module

    def without_torch(name):
        if name == "remanence.deep":
            raise rm.MissingDependency("needs torch")
        return whole(name)

    monkeypatch.setattr(module, "import_module", without_torch)
    assert left_out() == dict.fromkeys(NEED_TORCH, "needs torch")


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.name)
def test_every_claim_says_what_it_claims_and_how_it_is_checked(claim):
    assert claim.check.__doc__ and claim.source and claim.statement[0].isupper() and not claim.statement.endswith(".")
    assert claim.check.__name__ == claim.name
