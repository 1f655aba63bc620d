"""Test a new memory with a trial step before it is accepted: recorded inputs must explain the model's outputs.

    θ → θ + Δ,  Δ the allowed part of a random step
    hard memories      θ + Δ everywhere: outputs on the batch must not change                               (T1)
    every memory       θ inside calls of a parameter's own modules, θ + cΔ elsewhere: the same              (T2)

(T1) is the guarantee itself, which only a memory of every direction gives. (T2) tests the assumption behind all of
them: a weight acts only through calls of its own modules, whose inputs were recorded. Elsewhere it has no effect at
all, so (T2) changes weights by ten times their size and allows a last digit: what moves outputs by less than the
tolerance of (T1) in one step adds up over a training.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn

from remanence.deep.guards.checks.batch_kinds import own_copy
from remanence.deep.guards.checks.batches import Forward
from remanence.deep.guards.checks.model_outputs import checked_outputs, float_outputs
from remanence.deep.guards.checks.padding import real_positions, without_padding
from remanence.deep.guards.checks.random_state import RandomState
from remanence.deep.guards.parameter_roles import ParameterRoles
from remanence.deep.guards.projection.guarded_steps import StepProjector
from remanence.deep.nn.eval_mode import eval_mode
from remanence.errors import InputError

FAR = 10.0  # size of the change of (T2), relative to the weight

Values = dict[Tensor, Tensor]


class TrialStep:
    """The outputs of a model on one batch, at the current weights and after a step that a memory allows."""

    def __init__(self, model: nn.Module, roles: ParameterRoles, batch: Any, forward: Forward) -> None:
        self.model, self.roles = model, roles
        self.batch, self.forward, self.real = batch, forward, real_positions(model, batch)
        self.random = RandomState(model)  # not that of the recording: inputs made of random numbers explain no outputs
        self.now: Values = {p: p.detach().clone() for p in roles.kept}

    @torch.no_grad()
    def run(self, projectors: Sequence[StepProjector], exact: bool, start: Values) -> None:
        """Raise InputError if the step changes the outputs; the parameters are restored in any case.

        The step begins at the values in `start`, for the parameters that the memory has moved.
        """
        self.exact = exact
        with eval_mode(self.model):
            try:
                self.before, self.again = self.outputs(), self.outputs()
                self._check_repeatable()
                if start:
                    _write(start)
                    moved = self._moved(self.outputs())
                    if moved is not None:
                        self._raise(start, *moved)
                stepped = self._allowed_step(projectors)
                moved = self._moved(self.outputs()) if exact else None
                moved = moved or self._moved_outside(stepped)
                if moved is not None:
                    self._raise(stepped, *moved)
            finally:
                _write(self.now)

    @torch.no_grad()
    def keeps_outputs(self, values: Values) -> bool:
        """Return whether the outputs would stay if some parameters had other values; they keep their own."""
        with eval_mode(self.model):
            try:
                self.before = self.again = self.outputs()
                _write(values)
                return self._moved(self.outputs()) is None
            finally:
                _write(self.now)

    def outputs(self) -> list[Tensor]:
        """Return what the model returns now, each time with the same random numbers."""
        with self.random.fixed():
            found = checked_outputs(self.forward, self.model, own_copy(self.batch))
        return [without_padding(t, self.real) for t in found]

    def _check_repeatable(self) -> None:
        """Raise InputError if two calls differ, by numbers that another library draws."""
        if len(self.before) != len(self.again) or not all(map(_close, self.before, self.again)):
            raise InputError(
                "expected a model that returns the same for a batch each time in eval mode, got outputs that differ "
                "from call to call: random numbers cannot be kept; leave them out in eval mode. Nothing was absorbed"
            )

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

    def _moved_outside(self, stepped: Values) -> tuple[float, float] | None:
        """Return how far the outputs change with parameters outside of their own modules, if at all (T2)."""
        far = {p: value for p in stepped if (value := _far(self.now[p], stepped[p])) is not None}
        before = self._outputs_outside({p: self.now[p] for p in far})  # with the same hooks, so with the same bits
        after = self._outputs_outside(far)
        if len({len(found) for found in (self.before, before, after)}) > 1:
            return math.inf, 0.0
        for a, b, c, d in zip(self.before, self.again, before, after, strict=True):
            allowed = 2 * self._rounding(c) * _largest(c) + 10 * _distance(a, b)
            if not (moved := _distance(c, d)) <= allowed:
                return moved, allowed
        return None

    def _outputs_outside(self, stepped: Values) -> list[Tensor]:
        """Return the outputs if these parameters have other values except in calls of their own modules."""
        _write(self.now)
        _write(stepped)
        names = {module: name for name, module in self.model.named_modules()}
        with ExitStack() as hooks:
            for module, own in self._owners().items():
                inside = {p: self.now[p] for p in own if p in stepped}
                outside = {p: stepped[p] for p in inside}
                # the last hook before the call and the first after it, inside any hooks of the user
                enter = module.register_forward_pre_hook(lambda *_, values=inside: _write(values))
                # (T1) has seen what a replaced forward does
                restore = _restore_hook(names[module], outside, compares=not self.exact)
                leave = module.register_forward_hook(restore, prepend=True, with_kwargs=True)
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
        if len(after) != len(self.before):
            return math.inf, 0.0
        for a, b, c in zip(self.before, self.again, after, strict=True):
            allowed = self._rounding(a) ** 0.5 * _largest(a) + 10 * _distance(a, b)
            if not (moved := _distance(a, c)) <= allowed:
                return moved, allowed
        return None

    def _rounding(self, output: Tensor) -> float:
        """Return the relative rounding of an output: of its own type or of the weights it is computed from."""
        return max(float(torch.finfo(t.dtype).eps) for t in (*self.roles.kept, output))

    def _raise(self, stepped: Values, moved: float, allowed: float) -> None:
        found = f"a trial step that the memory allows changed the outputs by {moved:.1e} (tolerance {allowed:.1e})"
        named = [(name, p) for name, p in self.model.named_parameters() if p in stepped]
        lost = [name for name, p in named if self._moved_outside({p: stepped[p]}) is not None]
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


def _restore_hook(name: str, outside: Values, compares: bool) -> Callable[..., None]:
    def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        if "forward" in vars(module) and outside and compares:
            try:
                own = float_outputs(type(module).forward(module, *args, **kwargs))
            except (RuntimeError, TypeError, ValueError):  # inputs that only the new forward takes
                own = []
            found = float_outputs(output)
            if len(own) != len(found) or not all(map(_close, own, found)):
                raise InputError(
                    f"{name} computes something else than {type(module).__name__} does, because its forward was "
                    "replaced, so its inputs do not explain its outputs; make it a class of its own, and name its "
                    "parameters in frozen=(…) or free=(…). Nothing was absorbed"
                )
        _write(outside)

    return hook


def _far(now: Tensor, stepped: Tensor) -> Tensor | None:
    """Return a value far away in the direction of a step, or None for a parameter that moved by rounding alone."""
    working = torch.promote_types(now.dtype, torch.float32)
    step = stepped.to(working) - now.to(working)
    size, length = float(now.to(working).norm()), float(step.norm())
    if length <= 64 * torch.finfo(now.dtype).eps * size:
        return None
    return (now.to(working) + step * (FAR * (size or 1.0) / length)).to(now)


def _largest(tensor: Tensor) -> float:
    """Return the largest finite size of an entry, and at least a tiny number."""
    found = tensor[torch.isfinite(tensor)].abs()
    return max(float(found.max()), 1e-30) if found.numel() else 1e-30


def _distance(a: Tensor, b: Tensor) -> float:
    """Return the largest difference; entries that are equal do not differ, nor do infinite ones or two NaN."""
    if a.shape != b.shape:
        return math.inf
    other = (a != b) & ~(a.isnan() & b.isnan())
    return float((a[other] - b[other]).abs().max()) if bool(other.any()) else 0.0


def _close(a: Tensor, b: Tensor) -> bool:
    eps = max(torch.finfo(t.dtype).eps for t in (a, b))
    return bool(_distance(a, b) <= eps**0.5 * _largest(a))


def _write(values: Values) -> None:
    for parameter, value in values.items():
        parameter.data.copy_(value)  # unseen by autograd, which the model itself may use to compute its outputs
