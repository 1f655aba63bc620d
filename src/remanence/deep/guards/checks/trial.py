"""Test a new memory with a trial step before it is accepted: recorded inputs must explain the model's outputs.

    θ → θ + Δ,  Δ the allowed part of a random step
    hard memories      θ + Δ everywhere: outputs on the batch must not change                               (T1)
    every memory       θ inside calls of a parameter's own modules, θ + Δ elsewhere: the same               (T2)

(T1) is the guarantee itself, which only a memory of every direction gives. (T2) tests the assumption behind soft and
partial memories too: a weight acts only through calls of its own modules, whose inputs were recorded. It needs no free
direction and allows only rounding, because a weight that is used nowhere else has no effect at all.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn

from remanence.deep.guards.checks.batches import Forward
from remanence.deep.guards.checks.padding import real_positions, without_padding
from remanence.deep.guards.parameter_roles import ParameterRoles, float_outputs
from remanence.deep.guards.projection.guarded_steps import StepProjector
from remanence.deep.nn.eval_mode import eval_mode
from remanence.errors import InputError

Values = dict[Tensor, Tensor]


class TrialStep:
    """The outputs of a model on one batch, at the current weights and after a step that a memory allows."""

    def __init__(self, model: nn.Module, roles: ParameterRoles, batch: Any, forward: Forward) -> None:
        self.model, self.roles = model, roles
        real = real_positions(model, batch)
        self.outputs: Callable[[], list[Tensor]] = lambda: [
            without_padding(t, real) for t in float_outputs(forward(model, batch))
        ]
        self.now: Values = {p: p.detach().clone() for p in roles.kept}

    @torch.no_grad()
    def run(self, projectors: Sequence[StepProjector], exact: bool, start: Values) -> None:
        """Raise InputError if the step changes the outputs; the parameters are restored in any case.

        The step begins at the values in `start`, for the parameters that the memory has moved.
        """
        with eval_mode(self.model):
            try:
                self.before, self.again = self.outputs(), self.outputs()
                if start:
                    _write(start)
                    moved = self._moved(self.outputs())
                    if moved is not None:
                        self._raise(start, *moved)
                stepped = self._allowed_step(projectors)
                moved = self._moved(self.outputs()) if exact else self._moved(self._outputs_outside(stepped))
                if moved is not None:
                    self._raise(stepped, *moved)
            finally:
                _write(self.now)

    def _allowed_step(self, projectors: Iterable[StepProjector]) -> Values:
        """Change every parameter at random and project; return the changed values and leave them in place."""
        noise = torch.Generator("cpu").manual_seed(0)
        for parameter in self.roles.kept:
            if parameter.requires_grad:
                working = parameter.dtype if parameter.dtype.itemsize >= 4 else torch.float32
                size = 0.1 * float(parameter.to(working).norm()) / max(parameter.numel(), 1) ** 0.5 or 0.01
                step = torch.randn(parameter.shape, generator=noise, dtype=working, device="cpu").mul_(size)
                parameter.add_(step.to(parameter))
        for projector in projectors:
            projector.project_step()
        return {p: p.detach().clone() for p, value in self.now.items() if not torch.equal(p, value)}

    def _outputs_outside(self, stepped: Values) -> list[Tensor]:
        """Return the outputs if these parameters have changed everywhere except in calls of their own modules (T2)."""
        _write(self.now)
        _write(stepped)
        names = {module: name for name, module in self.model.named_modules()}
        with ExitStack() as hooks:
            for module, own in self._owners().items():
                inside = {p: self.now[p] for p in own if p in stepped}
                outside = {p: stepped[p] for p in inside}
                # the last hook before the call and the first after it, inside any hooks of the user
                enter = module.register_forward_pre_hook(lambda *_, values=inside: _write(values))
                leave = module.register_forward_hook(
                    _restore_hook(names[module], outside), prepend=True, with_kwargs=True
                )
                hooks.callback(enter.remove)
                hooks.callback(leave.remove)
            return self.outputs()

    def _owners(self) -> dict[nn.Module, list[Tensor]]:
        """Return the modules whose calls show what their parameters do."""
        owners: dict[nn.Module, list[Tensor]] = {
            w.module: [p for m in w.matrices for p in m.parameters] for w in self.roles.recorded
        }
        for module in (*self.roles.tables.values(), *self.roles.norms.values()):
            owners[module] = list(module.parameters())
        for magnitude in self.roles.magnitudes.values():
            owners[magnitude.module] = [*owners.get(magnitude.module, []), magnitude.parameter]
        return owners

    def _moved(self, after: list[Tensor]) -> tuple[float, float] | None:
        """Return how far the outputs changed and what rounding allows, if it is more."""
        coarsest = max((float(torch.finfo(t.dtype).eps) for t in (*self.roles.kept, *self.before)), default=0.0)
        for a, b, c in zip(self.before, self.again, after, strict=True):
            if a.numel():
                allowed = coarsest**0.5 * max(float(a.abs().max()), 1e-30) + 10 * float((a - b).abs().max())
                moved = float((c - a).abs().max())
                if not moved <= allowed:
                    return moved, allowed
        return None

    def _raise(self, stepped: Values, moved: float, allowed: float) -> None:
        found = f"a trial step that the memory allows changed the outputs by {moved:.1e} (tolerance {allowed:.1e})"
        named = [(name, p) for name, p in self.model.named_parameters() if p in stepped]
        lost = [name for name, p in named if self._moved(self._outputs_outside({p: stepped[p]})) is not None]
        if lost:
            raise InputError(
                f"{found}: {', '.join(lost[:8])} acts outside its module's own call (F.linear(x, layer.weight), "
                "x @ layer.weight, layer.forward(x)), where its inputs are not recorded, so the outputs cannot be "
                "protected; call the module itself, or name it in frozen=(…) or free=(…). Nothing was absorbed"
            )
        raise InputError(
            f"{found}, so they cannot be protected: some weight is used in a way its module's own forward does not "
            "show (random numbers in eval mode, a replaced forward of one layer), or the inputs differ in size by more "
            "than this precision resolves; name such parameters in frozen=(…) or free=(…), or use double(). Nothing "
            "was absorbed"
        )


def _restore_hook(name: str, outside: Values) -> Callable[..., None]:
    def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        if "forward" in vars(module) and outside:
            own = float_outputs(type(module).forward(module, *args, **kwargs))
            if not all(map(_close, own, float_outputs(output))):
                raise InputError(
                    f"{name} computes something else than {type(module).__name__} does, because its forward was "
                    "replaced, so its inputs do not explain its outputs; make it a class of its own, and name its "
                    "parameters in frozen=(…) or free=(…). Nothing was absorbed"
                )
        _write(outside)

    return hook


def _close(a: Tensor, b: Tensor) -> bool:
    if a.shape != b.shape or not a.numel():
        return a.shape == b.shape
    eps = max(torch.finfo(t.dtype).eps for t in (a, b))
    return bool((a - b).abs().max() <= eps**0.5 * a.abs().max())


def _write(values: Values) -> None:
    for parameter, value in values.items():
        parameter.copy_(value)
