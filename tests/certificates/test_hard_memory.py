"""The claims about metrics, LMS, APA, ICL, OGD, ORFit and GP hold, and refuse damaged methods and misprints."""

import inspect
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import remanence as rm
from remanence.certificates.claims.linear.metrics import _matrix
from remanence.memory.subspace import Subspace

CLAIMS = {claim.name: claim for claim in rm.certificates.catalogue()}


class Nudged:
    """A method whose weights are a little off."""

    def __init__(self, method, by=1e-6):
        self.method, self.by = method, by
        self.init, self.update, self.track = method.init, method.update, method.track

    def weights(self, state):
        return self.method.weights(state) + self.by


class Tilted(Nudged):
    """ICL whose memory holds directions that are a little off."""

    def update(self, state, X, Y):
        state = self.method.update(state, X, Y)
        U = state.past.basis.copy()
        U[0] += self.by
        return replace(state, past=Subspace(U))

    def __init__(self, by=1e-6):
        self.method, self.by = rm.ICL(), by
        self.init, self.weights = self.method.init, self.method.weights


class Forgetful(Subspace):
    """A memory that protects nothing."""

    def away(self, V):
        return V

    def extended(self, V, tolerance=1e-9):
        return self


def misprinted_projection(data):
    """OGD as printed projects off the new sample too, so that nothing ever moves."""
    still = rm.OGD([0.0] * len(data["X"]))
    return data | {"method": still}


def a_column_short(method, X, Y):
    """The matrix as printed begins with the first task learned; what stands in column 0 is then something else."""
    matrix = _matrix(method, X, Y)
    return replace(matrix, values=np.roll(matrix.values, -1, axis=1))


def read_with(**damaged):
    metrics = {name: getattr(rm.metrics, name) for name in ("average", "forgetting", "backward_transfer", "regret")}
    return lambda data: data | {"read": SimpleNamespace(**metrics | damaged)}


def given(**change):
    """Hands changed arguments to the check, each a function of the data it gets."""
    return lambda data: data | {name: value(data) for name, value in change.items()}


def method(build):
    return given(method=build)


def noisy(data):
    """Answers that the truth does not give, from a start at the truth."""
    return data | {"Y": data["Y"] + 1.0, "start": data["truth"]}


DAMAGES = {
    "error_matrix_is_what_it_says": given(run=lambda data: a_column_short),
    "metrics_are_what_they_say": read_with(forgetting=lambda matrix, t: rm.metrics.forgetting(matrix, t) * (t - 1) / t),
    "forgetting_is_at_most_the_error": read_with(forgetting=lambda matrix, t: 1.01 * rm.metrics.forgetting(matrix, t)),
    "unit_steps_forget_all_of_their_error": method(lambda data: rm.LMS(0.99)),
    "regret_adds_up_the_errors_before_learning": read_with(
        regret=lambda matrix: len(matrix.values) * matrix.values[-1, -2]  # as printed: Σ_{i≤t} ε_t²
    ),
    "hard_memory_does_not_forget": method(lambda data: rm.LMS()),
    "lms_solves_its_constrained_problem": method(lambda data: rm.LMS(data["step"], normalized=False)),
    "lms_leaves_a_share_of_the_error": method(lambda data: rm.LMS(data["step"], normalized=False)),
    "lms_distance_is_multiplied_by_a_matrix": method(lambda data: rm.LMS(data["step"] * (1 - 1e-6))),
    "lms_never_moves_away_from_the_truth": method(lambda data: rm.LMS([2.1] * len(data["X"]))),
    "mean_error_is_at_most_the_distance": noisy,
    "lms_errors_add_up_to_the_way_gone": method(lambda data: rm.LMS(data["step"] * (1 - 1e-6))),
    "lms_contracts_in_expectation": method(lambda data: rm.LMS(0.7 * data["step"])),
    "lms_contracts_to_the_minimum_norm_solution": method(lambda data: rm.LMS(0.7 * data["step"])),
    "lms_contracts_on_the_sphere": method(lambda data: rm.LMS(0.9 * data["step"])),
    "two_recurring_tasks_contract_exactly": method(lambda data: rm.LMS(1 - 1e-6)),
    "two_recurring_tasks_err_exactly": method(lambda data: rm.LMS(1 - 1e-6)),
    "two_recurring_tasks_err_at_most": method(lambda data: rm.LMS(0.1)),
    "alternating_steps_end_at_the_third_sample": method(lambda data: rm.LMS()),
    "terminating_steps_end_exactly": method(lambda data: rm.LMS([*rm.steps.terminating(data["X"])[:-1], 1 - 1e-6])),
    "recurring_tasks_lead_to_the_minimum_norm_solution": method(lambda data: rm.LMS(0.9 * data["step"])),
    "apa_solves_its_constrained_problem": method(lambda data: rm.APA(data["buffer"] + 1)),
    "apa_answers_its_buffer_exactly": method(lambda data: rm.APA(data["buffer"], step=1 - 1e-6)),
    "apa_without_a_buffer_is_lms": method(lambda data: rm.APA(buffer=1)),
    "apa_of_everything_is_the_minimum_norm_solution": method(lambda data: rm.APA(buffer=3)),
    "apa_of_everything_is_icl": given(other=lambda data: rm.LMS()),
    "icl_with_a_buffer_is_apa": method(lambda data: rm.APA(data["buffer"] + 1)),
    "apa_never_moves_away_from_the_truth": method(lambda data: rm.APA(data["buffer"], step=[2.1] * len(data["X"]))),
    "apa_ends_recurring_tasks_after_one_round": method(lambda data: rm.APA(buffer=max(0, len(data["X"]) - 2))),
    "icl_solves_its_constrained_problem": method(lambda data: rm.LMS()),
    "icl_is_the_minimum_norm_solution": method(lambda data: Nudged(rm.ICL())),
    "icl_keeps_the_oldest_answers": method(lambda data: rm.APA(buffer=None)),
    "hard_memory_reaches_the_solution_nearest_its_start": given(methods=lambda data: (rm.ICL(), rm.LMS())),
    "minimum_norm_solution_lies_in_the_span": given(best=lambda data: rm.min_norm(data["X"], data["Y"]) + 1e-6),
    "memory_basis_is_orthonormal": method(lambda data: Tilted()),
    "memory_basis_gives_the_projection": method(lambda data: Tilted()),
    "projection_loses_one_rank_a_sample": method(lambda data: Tilted()),
    "projections_are_nested": method(lambda data: Tilted()),
    "ogd_never_moves_old_answers": method(lambda data: rm.LMS(data["given"], normalized=False)),
    "ogd_leaves_a_share_of_the_error": misprinted_projection,
    "projected_gradient_still_descends": given(step=lambda data: 2.01),
    "orfit_is_ogd_with_the_exact_step": given(other=lambda data: lambda steps: rm.OGD([g * (1 + 1e-6) for g in steps])),
    "orfit_is_icl": given(methods=lambda data: (rm.ORFit(), rm.ORFit(rank=2))),
    "orfit_is_the_minimum_norm_solution": method(lambda data: rm.ORFit(rank=2)),
    "gp_of_one_layer_is_ogd": given(memory=lambda data: Forgetful(np.zeros((data["X"].shape[1], 0)))),
    "projected_layers_keep_old_features": given(memory=lambda data: lambda d, like: Forgetful(np.zeros((d, 0)))),
    "linearised_icl_meets_every_linearised_answer": method(lambda data: rm.LMS()),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_the_claim_holds_and_the_damage_is_seen(name, worst):
    assert worst(name).holds, str(worst(name))
    refused = worst(name, DAMAGES[name])
    assert refused.status == "fails", str(refused)


class Lost(rm.ICL):
    """A method whose weights stop being numbers after two samples."""

    def weights(self, state):
        return super().weights(state) * (np.nan if state.past.rank >= 2 else 1.0)


TAKES_A_METHOD = [name for name in DAMAGES if "method" in inspect.signature(CLAIMS[name].check).parameters]
MEMORY = ("memory_basis", "projection_loses", "projections_are")
LOOKS_AT_MEMORY = [name for name in TAKES_A_METHOD if name.startswith(MEMORY)]
# These hand the weights on as data, and what is no number is refused at the door.
HANDS_WEIGHTS_ON = ["icl_with_a_buffer_is_apa", "linearised_icl_meets_every_linearised_answer"]


@pytest.mark.parametrize("name", TAKES_A_METHOD)
def test_what_is_no_number_never_holds(name, worst):
    damage = method(lambda data: Tilted(np.nan) if name in LOOKS_AT_MEMORY else Lost())
    if name in HANDS_WEIGHTS_ON:
        with pytest.raises(rm.InputError, match=r"NaN|finite"):
            worst(name, damage)
        return
    refused = worst(name, damage)
    assert refused.status == "fails" and refused.strain == np.inf, str(refused)
