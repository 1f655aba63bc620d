"""Move new low-rank adapters away from the inputs of a task, so that they cannot change its outputs.

    B = 0:   A ← A (I − U ω Uᵀ)                     (F1)   U, ω: the protected inputs of A; the product B A stays zero
    ω = 1:   A ← A ‖A before‖ / ‖A‖                 (F3)   so that the pair learns as fast as it would have
    A U = 0:   (B + ΔB)(A + ΔA) U = 0               (F2)   if A stays away from U (its own projection), whatever B does

So B needs no memory at all, if the pair acts by its product alone. Layers with the names of adapters may do more (an
activation in between that is not zero at zero, a second use of A's output): those are protected as layers like others.
Once B has learned, so is a pair: A keeps its outputs on earlier inputs, and B its outputs on those of A.
"""

from collections.abc import Iterable
from dataclasses import replace

import torch
from torch import Tensor

from remanence.deep.guards.checks.trial import TrialStep
from remanence.deep.guards.input_recorder import InputRecorder
from remanence.deep.guards.parameter_roles import ParameterRoles
from remanence.deep.guards.projection.protected_directions import ProtectedDirections
from remanence.deep.nn.adapters import AdapterPair
from remanence.deep.nn.distributed import all_or_none, any_process
from remanence.deep.nn.lowrank.lowrank_root import with_targets
from remanence.errors import InputError

Directions = dict[str, ProtectedDirections]


def fresh_pairs(roles: ParameterRoles, known: Directions) -> list[AdapterPair]:
    """Return the pairs whose B is zero and that have no memory yet."""
    return [pair for pair in roles.adapters if pair.is_fresh and roles.aliases[pair.up] not in known]


def product_pairs(
    pairs: list[AdapterPair], roles: ParameterRoles, trials: Iterable[TrialStep], device: torch.device | None
) -> list[AdapterPair]:
    """Return the pairs that act by B A alone: with one of both zero, the other changes no output.

    With a device, all processes of a distributed run find the same pairs.
    """
    if not pairs:
        return []
    with all_or_none(device):
        kept = pairs
        for trial in trials:
            kept = kept if _inert(kept, roles, trial) else [pair for pair in kept if _inert([pair], roles, trial)]
    lost = torch.tensor([pair not in kept for pair in pairs], device="cpu")
    lost = lost if device is None else any_process(lost, device)
    return [pair for pair, gone in zip(pairs, lost.tolist(), strict=True) if not gone]


def _inert(pairs: list[AdapterPair], roles: ParameterRoles, trial: TrialStep) -> bool:
    noise = torch.Generator("cpu").manual_seed(0)
    A: list[Tensor] = [roles.matrices[roles.aliases[pair.down]].weight_parameter for pair in pairs]
    B: list[Tensor] = [roles.matrices[roles.aliases[pair.up]].weight_parameter for pair in pairs]
    return trial.keeps_outputs({p: _random(p, noise) for p in A}) and trial.keeps_outputs(
        {p: torch.zeros_like(p) for p in A} | {p: _random(p, noise) for p in B}
    )


def _random(like: Tensor, noise: torch.Generator) -> Tensor:
    return torch.randn(like.shape, generator=noise, dtype=torch.float32, device="cpu").to(like)


def move_fresh_adapters(
    recorder: InputRecorder, directions: Directions, pairs: Iterable[AdapterPair]
) -> tuple[Directions, dict[Tensor, Tensor]]:
    """Return the directions to protect, and the new values of the A of these fresh pairs.

    The recorder then holds what those A give at their new values, and no inputs of those B.
    """
    roles = recorder.roles
    start: dict[Tensor, Tensor] = {}
    for pair in pairs:
        down, up = roles.aliases[pair.down], roles.aliases[pair.up]
        if down not in directions:
            continue
        A, kept = roles.matrices[down], directions[down]
        values = A.values()
        C, _ = kept.correction(slice(None))
        moved = values - (values @ kept.basis) @ C  # (F1)
        if kept.strength is None and sum(kept.ranks) < kept.basis.shape[0] * kept.basis.shape[1]:
            moved = moved * (values.norm() / moved.norm().clamp(min=torch.finfo(moved.dtype).tiny))  # (F3)
        outputs = torch.zeros_like(kept.outputs) if kept.strength is None else moved @ kept.basis
        directions = {n: d for n, d in directions.items() if n != up} | {down: replace(kept, outputs=outputs)}
        weight = A.weight_parameter
        start[weight] = moved.reshape(weight.shape).to(weight)
        recorder.roots[down] = [
            with_targets(root, W) for root, W in zip(recorder.roots[down], moved.numpy(), strict=True)
        ]
        recorder.roots.pop(up, None)
        recorder.rows.pop(up, None)
    return directions, start


def check_absorbed(roles: ParameterRoles, known: Directions, trained: set[int]) -> None:
    """Raise InputError if adapters are trained that were added to an absorbed layer, or activated, after `absorb`.

    Parameters
    ----------
    trained : set of int
        The ids of the parameters that an optimizer may change.
    """
    late = []
    for pair in roles.adapters:
        names = {roles.aliases[pair.down], roles.aliases[pair.up]}
        beside = any(name.startswith(pair.layer) for name in known if name not in names)
        if beside and not names & known.keys() and any(id(p) in trained for p in pair.up_module.parameters()):
            late.append(pair.down)
    if late:
        raise InputError(
            f"expected adapters that were there when their layers were absorbed, got {', '.join(late[:8])}, which "
            "would change the outputs on earlier inputs; absorb those inputs once more with these adapters active "
            "(while B is zero this changes no output), or name them in free=(…) if earlier inputs are answered without "
            "them"
        )
