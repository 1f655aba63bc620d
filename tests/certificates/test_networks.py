"""The claims about guards and online learners hold, and refuse what is damaged; they need torch."""

import importlib.util
from contextlib import contextmanager
from dataclasses import replace

import pytest

import remanence as rm
from remanence.certificates.method_map import EDGES

TORCH = importlib.util.find_spec("torch") is not None


def given(**change):
    """Hands changed arguments to the check."""
    return lambda data: data | change


def projecting_gradients(guard):
    """A guard that projects the gradient before the step instead of the step: what everybody does first."""

    class Projecting(guard):
        @contextmanager
        def protect(self, *optimizers):
            with super().protect(*optimizers):
                projectors, hooks, _ = self._blocks[-1]
                for optimizer in optimizers:
                    optimizer._optimizer_step_post_hooks.clear()
                    hooks.callback(
                        optimizer.register_step_pre_hook(
                            rm.deep.guards.guard._with_projected_gradients(projectors, True)
                        ).remove
                    )
                yield
                projectors.clear()

    return Projecting


def with_adam(damage):
    return lambda data: damage(data) | {"optimizer": "AdamW"}


def forgets_half(net, energy):
    """Reports half of the drift."""
    guard = rm.deep.GradientProjection(net, energy)
    whole = guard.report
    halved = lambda report: replace(report, layers=tuple(replace(r, drift=r.drift / 2) for r in report.layers))
    guard.report = lambda: halved(whole())
    return guard


def tells_less(net, rank):
    """Counts only a part of what it lets go."""
    guard = rm.deep.OGD(net, rank)
    whole = guard.report
    guard.report = lambda: replace(whole(), dropped=whole().dropped / 100)
    return guard


def halfway_back(net, layer, **settings):
    """Undoes half of an edit."""
    editor = rm.deep.Editor(net, layer, **settings)
    whole = editor.undo

    def undo(name):
        before = net[0].weight.detach().clone()
        whole(name)
        with importlib.import_module("torch").no_grad():
            net[0].weight.lerp_(before, 0.5)
        editor._present = editor.layer.present()

    editor.undo = undo
    return editor


def damages():
    """Built only where torch is installed: without it the catalogue has none of these claims."""
    deep = rm.deep
    return {
        "gem_makes_the_nearest_step": given(guard=lambda net: rm.deep.GEM(net, slack=1.0)),
        "constrained_learning_follows_the_augmented_lagrangian": given(
            guard=lambda net: deep.Constrained(net, slack=0.01 + 1e-5, penalty=1.0, step=0.1)
        ),
        "guarded_networks_keep_old_features": with_adam(given(guard=projecting_gradients(deep.GradientProjection))),
        "guard_of_one_layer_is_ogd": given(guard=lambda net: deep.GradientProjection(net, energy=0.5)),
        "reported_drift_is_measured_drift": given(guard=forgets_half),
        "weak_guards_bound_what_is_forgotten": given(
            guard=lambda net, energy: deep.GradientProjection(net, energy / 4)
        ),
        "owm_tends_to_gp": given(soft=lambda net, damping: deep.OWM(net, 10 * damping)),
        "owm_lets_through_the_phi_of_rls": given(guard=lambda net, damping: deep.OWM(net, (1 + 1e-6) * damping)),
        "ogd_moves_no_old_answer_to_first_order": with_adam(given(guard=projecting_gradients(deep.OGD))),
        "ogd_keeps_the_answers_of_linear_models": given(guard=lambda net: deep.OGD(net, rank=1)),
        "ogd_moves_two_layers_by_the_square": given(guard=lambda net: deep.OGD(net, rank=1)),
        "ogd_bounds_what_a_full_memory_forgets": given(guard=tells_less),
        "ebp_of_one_layer_is_rls": given(learner=lambda net, *settings: deep.EBP(net, *settings, step=1 - 1e-6)),
        "linearised_rls_of_one_layer_is_rls": given(
            learner=lambda net, ridge, forget: deep.LinearizedRLS(net, (1 + 1e-6) * ridge, forget)
        ),
        "ebp_is_owm_with_a_step": given(guard=lambda net, damping: deep.OWM(net, (1 + 1e-6) * damping)),
        "linearised_rls_of_networks_is_their_extended_filter": given(
            other=lambda net, **settings: deep.EKF(net, **settings | {"drift": 1e-6})
        ),
        "extended_filter_of_one_layer_is_the_filter": given(
            learner=lambda net, **settings: deep.EKF(net, **settings | {"noise": (1 + 1e-6) * settings["noise"]})
        ),
        "edits_solve_least_squares": given(
            make=lambda net, layer, strength, ridge: deep.Editor(
                net, layer, strength=(1 + 1e-6) * strength, ridge=ridge
            )
        ),
        "undone_edits_were_never_made": given(make=halfway_back),
        "hard_preservation_keeps_answers": given(
            make=lambda net, layer, preserve, ridge: deep.Editor(net, layer, "soft", ridge=ridge)
        ),
        "orfit_of_one_layer_is_icl": given(learner=lambda net: deep.ORFit(net, rank=1)),
        "orfit_meets_each_sample_to_first_order": given(learner=lambda net: deep.ORFit(net, rank=1)),
    }


DAMAGES = damages() if TORCH else {}


@pytest.mark.parametrize("name", DAMAGES)
def test_the_claim_holds_and_the_damage_is_seen(name, worst):
    found = worst(name)
    assert found.holds, str(found)
    refused = worst(name, DAMAGES[name])
    assert refused.status == "fails", str(refused)


@pytest.mark.skipif(not TORCH, reason="needs torch")
def test_every_line_of_the_map_is_checked_by_a_claim():
    checked = {claim.edge for claim in rm.certificates.catalogue()}
    assert [edge for edge in EDGES if edge not in checked] == []


@pytest.mark.skipif(not TORCH, reason="needs torch")
@pytest.mark.parametrize("name", ["guarded_networks_keep_old_features", "ogd_moves_no_old_answer_to_first_order"])
def test_projecting_the_gradient_is_enough_for_plain_steps_and_for_nothing_else(name, worst):
    """The damage is the projection in the wrong place, not something else."""
    damage = DAMAGES[name]
    plain = worst(name, lambda data: damage(data) | {"optimizer": "SGD"})
    assert plain.measured < 1e-12
    with_decay = worst(name, lambda data: damage(data) | {"optimizer": "SGD with momentum and decay"})
    assert with_decay.measured > 1e-4
