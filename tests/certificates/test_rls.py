"""The claims about RLS hold, and refuse damaged methods and misprints."""

import numpy as np
import pytest

import remanence as rm


class Late(rm.RLS):
    """Reports the error of a row after it was learned."""

    def track(self, state, X, Y, donate=False):
        state = self.update(state, X, Y)
        return state, Y - self.predict(state, X)


class Backwards(rm.RLS):
    """Takes the rows of a block in the wrong order."""

    def update(self, state, X, Y, donate=False):
        return super().update(state, X[::-1], Y[::-1])


class Blank(rm.RLS):
    """Does not look at the model it is given to start from."""

    def init(self, features, outputs, start=None):
        return super().init(features, outputs)


class FullHessian(rm.RLS):
    """Takes the inverse Hessian of the whole objective for Φ, as printed."""

    def variance(self, state, X):
        quiet = super().variance(state, np.zeros_like(X))
        return quiet + (super().variance(state, X) - quiet) / 2


class Scaled(rm.RLS):
    """Learns rows that are a little too long."""

    def update(self, state, X, Y, donate=False):
        return super().update(state, (1 + 1e-6) * X, Y)

    def track(self, state, X, Y, donate=False):
        return super().track(state, (1 + 1e-6) * X, Y)


class Amnesiac(rm.RLS):
    """Forgets everything before a new row."""

    def track(self, state, X, Y, donate=False):
        return super().track(self.init(*state.start.shape), X, Y)


class PriorAmongTheData(rm.RLS):
    """Keeps the prior among the rows."""

    def data(self, state):
        return super().data(state).with_prior(self.ridge, state.start)


def method(build):
    """Hands another method to the check, made from the settings it gets."""
    return lambda data: data | {"method": build(data["ridge"], data["forget"])}


DAMAGES = {
    "rls_recursion_minimises_its_objective": method(lambda ridge, forget: rm.RLS(ridge * (1 + 1e-6), forget)),
    "rls_tracks_the_errors_of_the_previous_minimiser": method(Late),
    "rls_learns_the_same_from_rows_and_blocks": method(Backwards),
    "rls_is_centred_at_its_start": method(Blank),
    "rls_averages_the_solutions_of_the_tasks": method(lambda ridge, forget: rm.RLS(ridge, 1 / forget)),
    "rls_settles_when_the_past_weighs_more": method(lambda ridge, forget: rm.RLS(ridge, 1.0)),
    "phi_is_the_inverse_of_half_the_hessian": method(FullHessian),
    "phi_is_updated_by_a_matrix_of_rank_one": method(Scaled),
    "information_adds_up": method(PriorAmongTheData),
    "phi_is_a_soft_projection": method(FullHessian),
    "information_never_shrinks": method(Amnesiac),
    "rls_takes_the_step_that_all_methods_share": method(Scaled),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_the_claim_holds_and_the_damage_is_seen(name, worst):
    assert worst(name).holds, str(worst(name))
    refused = worst(name, DAMAGES[name])
    assert refused.status == "fails", str(refused)
