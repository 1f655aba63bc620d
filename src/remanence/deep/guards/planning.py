"""Before training: how much of a new task's gradient a guard leaves, and which setting keeps old accuracy in a budget.

    left = ‖G (I − U ω Uᵀ)‖ / ‖G‖                     (N1)   per layer, G: the gradient of the new task's loss

A setting is chosen by trying: train at each candidate from the loosest to the strictest, from the same weights, until
the old score is within the budget; then halve the gap to the last one outside, on the scale of damping, alpha or
1 − energy, whose useful values differ by factors:

    middle = √(a b)                                   (N2)   the mean if one of them is 0
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from remanence.deep.guards.checks.batches import check_batches
from remanence.deep.guards.parameter_roles import ParameterRoles
from remanence.deep.guards.projection.buffers import buffer_locations
from remanence.deep.guards.projection.guarded_steps import StepProjector
from remanence.deep.nn.sharding.shards import reshard
from remanence.errors import InputError
from remanence.validation import check_number

Loss = Callable[[nn.Module, Any], Tensor]
Trial = tuple[float, float, float]  # a value, and the old and the new score with it


@dataclass(frozen=True)
class GuardChoice:
    """The setting that `guard.choose` found, and what each one it tried gave.

    Parameters
    ----------
    setting : str
        Name of the setting: energy, damping or alpha.
    value : float
        The chosen value; the guard has it now.
    within : bool
        Whether the old score stayed within the budget; if not, the strictest candidate was taken.
    tried : tuple of (value, old score, new score)
        What each candidate gave, in the order they were tried; the new score is NaN if none was asked for.

    Examples
    --------
    >>> import remanence as rm
    >>> print(rm.deep.GuardChoice("energy", 0.95, True, ((0.8, 0.7, 0.9), (0.95, 0.85, 0.88))))
    energy 0.95: within the budget
    energy    old score  new score
    0.8       0.7000     0.9000
    0.95      0.8500     0.8800
    """

    setting: str
    value: float
    within: bool
    tried: tuple[Trial, ...]

    def __str__(self) -> str:
        verdict = "within the budget" if self.within else "no candidate kept the old score within the budget"
        lines = [f"{self.setting} {self.value:g}: {verdict}", f"{self.setting:<9} old score  new score"]
        return "\n".join([*lines, *(f"{v:<9g} {old:<10.4f} {new:.4f}" for v, old, new in self.tried)])


def loosest_within(
    setting: str, values: Iterable[float], allowed: float, refine: int, trial: Callable[[float], Trial]
) -> GuardChoice:
    """Try values from the loosest to the strictest until the old score is allowed, then `refine` values in between."""
    tried: list[Trial] = []
    for value in values:
        tried.append(trial(value))
        if tried[-1][1] >= allowed:
            break
    inside, within = tried[-1][0], tried[-1][1] >= allowed
    if within and len(tried) > 1:
        outside = tried[-2][0]
        for _ in range(refine):
            middle = _between(setting, outside, inside)
            if middle in (outside, inside):  # nothing lies between neighbouring floats
                break
            tried.append(trial(middle))
            inside, outside = (middle, outside) if tried[-1][1] >= allowed else (inside, middle)
    return GuardChoice(setting, inside, within, tuple(tried))


def _between(setting: str, a: float, b: float) -> float:
    """Return the middle of two settings on their scale (N2)."""
    if setting == "energy":
        return 1 - _between("rest", 1 - a, 1 - b)
    return float((a * b) ** 0.5) if a > 0 and b > 0 else (a + b) / 2


class ModelState:
    """The weights, buffers, gradients and modes of a model, to put back after a trial."""

    def __init__(self, model: nn.Module) -> None:
        reshard(model)
        self.model = model
        self.weights = {n: t.detach().clone() if isinstance(t, Tensor) else t for n, t in model.state_dict().items()}
        self.buffers = [
            (module, own, tensor, tensor.detach().clone())  # those that state_dict leaves out, too
            for module, own in buffer_locations(model).values()
            if (tensor := module._buffers[own]) is not None
        ]
        self.gradients = [(p, None if p.grad is None else p.grad.clone()) for p in model.parameters()]
        self.modes = [(module, module.training) for module in model.modules()]

    @torch.no_grad()
    def restore(self) -> None:
        """Put everything back."""
        reshard(self.model)
        for module, own, tensor, value in self.buffers:
            module._buffers[own] = tensor.copy_(value)
        self.model.load_state_dict(self.weights)
        for parameter, gradient in self.gradients:
            parameter.grad = None if gradient is None else gradient.clone()
        for module, mode in self.modes:
            module.training = mode


def model_loss(model: nn.Module, batch: Any) -> Tensor:
    """Return the loss that a model computes from a batch with labels, as those of transformers do."""
    output = model(**batch) if isinstance(batch, Mapping) else None
    loss = getattr(output, "loss", None)
    if not isinstance(loss, Tensor):
        raise InputError(
            "expected dict batches with labels for a model that returns its loss, got something else; "
            "pass loss=lambda model, batch: …"
        )
    return loss


def gradient_left(
    model: nn.Module, roles: ParameterRoles, projectors: list[StepProjector], batches: Iterable[Any], loss: Loss
) -> dict[str, float]:
    """Return the share of the gradient of each layer and embedding that the projectors leave (N1)."""
    parameters = [p for p in roles.kept if p.requires_grad]
    before = [p.grad for p in parameters]
    total = [torch.zeros_like(p) for p in parameters]
    seen = 0
    for batch in check_batches(batches):
        value = loss(model, batch)
        if not isinstance(value, Tensor) or value.numel() != 1:
            raise InputError(f"expected loss to return one number, got {type(value).__name__}")
        if not (value.requires_grad and bool(value.isfinite())):
            raise InputError(
                f"expected a finite loss that depends on the parameters, got {float(value):g} "
                f"{'with' if value.requires_grad else 'without'} gradients; check the batches, and that loss does not "
                "use no_grad, detach or item"
            )
        found = torch.autograd.grad(value, parameters, allow_unused=True)
        total = [t if g is None else t + g for t, g in zip(total, found, strict=True)]
        seen += 1
    if not seen:
        raise InputError("expected at least one batch to preview, got none; was a generator used up?")
    try:
        for p, g in zip(parameters, total, strict=True):
            p.grad = g.clone()
        with torch.no_grad():
            for projector in projectors:
                projector.project_gradient()
        left = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
    finally:
        for p, own in zip(parameters, before, strict=True):
            p.grad = own
    sizes = {
        id(p): (float(a.double().square().sum()), float(b.double().square().sum()))
        for p, a, b in zip(parameters, left, total, strict=True)
    }
    owners = {name: matrix.parameters for name, matrix in roles.matrices.items()}
    owners |= {name: list(table.parameters()) for name, table in roles.tables.items() if name not in owners}
    return {name: _share([sizes[id(p)] for p in own if id(p) in sizes]) for name, own in owners.items()}


def _share(sizes: list[tuple[float, float]]) -> float:
    whole = sum(total for _, total in sizes)
    return float((sum(left for left, _ in sizes) / whole) ** 0.5) if whole else 0.0


def check_budget(budget: float) -> float:
    """Return the budget, a share of the old score."""
    return check_number(budget, "budget", closed=True, high=1.0, hint="0.01 allows a loss of 1 % of the old score")


def check_callables(**given: Any) -> None:
    """Raise InputError for an argument of `choose` that cannot be called."""
    for name, value in given.items():
        if not callable(value):
            raise InputError(f"expected {name} to be a function, got {type(value).__name__}; try {name}=lambda: …")


def as_number(score: Callable[[], Any], name: str) -> Callable[[], float]:
    """Return a function of the user that raises InputError if it returns no number."""

    def checked() -> float:
        found = score()
        try:
            return float(found)
        except (TypeError, ValueError, RuntimeError) as error:
            raise InputError(f"expected {name} to return a number, got {type(found).__name__}") from error

    return checked
