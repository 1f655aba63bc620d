"""Tests that every module of claims shares: its claims hold, and they fail for a damaged method or damaged data.

The test file of a module has a table DAMAGES: name of a claim → function of the keyword arguments of its check that
returns them with a damage: a broken method, a misprinted formula, a perturbed input. `test_catalogue.py` finds the
tables.
"""

from itertools import islice

import numpy as np
import pytest

import remanence as rm

CLAIMS = {claim.name: claim for claim in rm.certificates.catalogue()}


@pytest.fixture
def worst():
    """The worst certificate of a claim over a few of its data sets, each damaged first if a damage is given."""

    def find(name, damage=None, seed=0, instances=12):
        claim = CLAIMS[name]
        data = islice(claim.instances(np.random.default_rng(seed)), instances)
        found = [claim.check(**(given if damage is None else damage(given))) for given in data]
        applicable = [certificate for certificate in found if not certificate.unmet]
        assert applicable, f"{name}: no data set meets its conditions"
        return max(applicable, key=lambda certificate: certificate.strain)

    return find
