"""Claims about methods that the paper cites hold, and refuse damaged methods."""

import numpy as np
import pytest

import remanence as rm
from remanence.certificates.catalogue import PACKAGES
from remanence.memory.growing.new_columns import with_column

CLAIMS = [c for c in rm.certificates.catalogue() if PACKAGES[c.module] == "further"]


def given(**change):
    return lambda data: data | change


class Forgetful(rm.TaskDictionary):
    """Forgets the first rows of a task when more of them come."""

    def update(self, state, X, Y, donate=False, task=None):
        if task is not None:
            state, task = self.without_task(state, task), None
        return rm.TaskDictionary.update(self, state, X, Y, donate, task)


class NeverLooks(rm.WindowRLS):
    """Rotates rows out without asking how many digits that took."""

    def _accurate(self, *given):
        return True


DAMAGES = {
    "kernel_rls_is_kernel_ridge_regression": given(method=rm.KernelRLS(tolerance=0.0, ridge=0.1 + 1e-6)),
    "kernel_rls_returns_to_its_prior": given(method=rm.KernelRLS(tolerance=0.0, ridge=0.1, forget=0.9 + 1e-6)),
    "kernel_lms_errors_solve_a_triangular_system": given(method=rm.KernelLMS(step=0.5 + 1e-6, tolerance=0.0)),
    "complex_rls_is_complex_least_squares": given(method=rm.RLS(0.1 + 1e-6)),
    "complex_lms_takes_conjugates": given(method=rm.LMS(0.5 + 1e-6)),
    "window_rls_is_least_squares_over_the_window": given(method=rm.WindowRLS(9, 0.1 + 1e-6)),
    "block_lms_is_that_of_the_time_domain": given(method=rm.BlockLMS(6, 0.01 + 1e-7, 4, normalized=False)),
    "irregular_times_are_a_grid_with_gaps": lambda data: data | {"times": data["times"] + 1e-6},
    "unscented_is_the_kalman_filter_on_linear_functions": given(bend=1e-6),
    "switching_models_are_found": lambda data: data | {"Y": data["Y"] + 1e-6 * np.sign(data["X"][:, :1])},
    "switching_samples_are_told_apart": lambda data: data | {"method": rm.Switching(modes=1)},
    "streaming_svd_is_the_svd_of_all_rows": given(method=rm.StreamingSVD(99, forget=1 - 1e-6)),
    "petrels_solves_least_squares_per_column": lambda data: data | {"method": rm.PETRELS(2, 0.95, 0.1 + 1e-6)},
    "grouse_moves_along_a_geodesic": lambda data: data | {"method": rm.GROUSE(2, 0.7 + 1e-6)},
    "dictionary_of_tasks_is_ridge_regression": given(method=rm.TaskDictionary(3, 0.05, 0.1 + 1e-6)),
    "old_tasks_of_a_dictionary_may_get_more_rows": lambda data: data | {"method": Forgetful(3, 0.05, 0.1)},
    "units_added_one_by_one_equal_a_refit": given(add=lambda root, X, Y, h, ridge: with_column(root, X, Y, h, 0.0)),
    "conv_features_are_pooled_responses": given(
        method=rm.ConvFeatures(4, size=3, pool=2, threshold=0.25 + 1e-3, overlap=0.6, power=1.0, mirror=True)
    ),
    "periodic_features_are_a_model_for_every_phase": lambda data: (
        data | {"method": rm.PeriodicFeatures(data["period"] + 1e-6, (data["period"] - 1) // 2)}
    ),
    "merged_svds_are_the_svd_of_all_rows": lambda data: (
        data | {"method": rm.StreamingSVD(rank=max(1, data["X"].shape[1] - 1))}
    ),
}


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.name)
def test_claims_hold_and_refuse_damage(claim):
    stream, refused = claim.instances(np.random.default_rng(0)), 0
    for data in (next(stream) for _ in range(12)):
        held = claim.check(**data)
        assert held.holds, held
        refused += not claim.check(**DAMAGES[claim.name](data)).holds
    assert refused


def test_a_window_that_loses_digits_is_noticed():
    [claim] = [c for c in CLAIMS if c.name == "window_rls_is_least_squares_over_the_window"]
    data = [next(stream) for stream in [claim.instances(np.random.default_rng(1))] for _ in range(40)]
    assert all(claim.check(**one).holds for one in data)
    assert any(not claim.check(**one, method=NeverLooks(9, 0.1)).holds for one in data)
