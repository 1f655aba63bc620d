"""The value that a layer should answer at one position, so that the whole model answers a target.

    minimise over δ:  loss(model with h ← h + δ)  +  decay ‖δ‖² / ‖h‖²,     ‖δ‖ ≤ limit ‖h‖                (FV)

h is the layer's output at the position. The weights of the model do not change.
"""

from collections.abc import Callable
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from remanence.deep.editing.edited_layer import EditedLayer
from remanence.deep.guards.checks.batches import call_model
from remanence.deep.nn.eval_mode import full_precision
from remanence.deep.nn.wrappers import unwrap
from remanence.errors import InputError
from remanence.validation import check_count, check_number


class FoundValue(NamedTuple):
    """The key of a layer at a position, the value it should answer, and the loss then."""

    key: Tensor  # (inputs,)
    value: Tensor  # (outputs,)
    loss: float


def find_value(
    model: nn.Module,
    layer: str,
    inputs: Any,
    position: Any,
    target: Any,
    *,
    steps: int = 50,
    rate: float = 0.1,
    decay: float = 1e-3,
    limit: float = 4.0,
) -> FoundValue:
    """Find what a layer should answer at one position for the model to answer a target.

    Parameters
    ----------
    model : torch module
        Plain, or a causal or masked model of transformers.
    layer : str
        The name of the layer that will be edited.
    inputs : tensor, tuple or dict
        One batch; several rows are contexts of the same fact, and the value must work in all of them.
    position : int or tuple
        Where in the layer's output the value stands: an index of the axes between the first (rows) and the last, such
        as the token's place. () where the layer's output has none.
    target : int or callable
        A class or token that the last position of the output should predict, or a function of the model's output that
        returns a loss.
    steps, rate : int, float
        Of the descent (Adam); a step moves the value by about `rate` times its size.
    decay, limit : float
        Penalty on the squared size of the change, and its largest size, both relative to the present value.

    Returns
    -------
    FoundValue
        `key`, `value` (averaged over the rows) and `loss`.

    Examples
    --------
    >>> import torch
    >>> import remanence as rm
    >>> _ = torch.manual_seed(0)
    >>> net = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.Tanh(), torch.nn.Linear(16, 3))
    >>> x = torch.randn(1, 4)
    >>> found = rm.deep.find_value(net, "0", x, (), target=2)
    >>> editor = rm.deep.Editor(net, "0")
    >>> editor.absorb([torch.randn(50, 4)])
    >>> editor.edit(found.key[None], found.value[None], name="x is 2", weight=float("inf"))
    >>> int(net(x).argmax())
    2

    References
    ----------
    Meng et al. (2022), "Locating and editing factual associations in GPT".
    """
    check_count(steps, "steps")
    for value, name in ((rate, "rate"), (limit, "limit")):
        check_number(value, name)
    check_number(decay, "decay", closed=True)
    model = unwrap(model)
    module = EditedLayer(model, layer).module
    place = position if isinstance(position, tuple) else (position,)
    loss_of = target if callable(target) else _predicts(target)
    seen: dict[str, Tensor] = {}
    with _frozen(model), full_precision(), torch.enable_grad():
        change: Tensor | None = None

        def add(_: nn.Module, args: tuple[Any, ...], output: Tensor) -> Tensor:
            nonlocal change
            index = (slice(None), *place)
            try:
                key, value = args[0][index].detach(), output[index].detach()
            except IndexError:
                raise InputError(f"expected a position within {tuple(output.shape[1:-1])}, got {place}") from None
            if value.ndim != 2:
                raise InputError(
                    f"expected a position with {output.ndim - 2} indices, as the layer's output "
                    f"{tuple(output.shape)} has axes between rows and features, got {place}"
                )
            seen["key"], seen["value"] = key, value
            if change is None:
                change = torch.zeros_like(value[0], requires_grad=True)
            output = output.clone()
            output[index] = output[index] + change
            return output

        hook = module.register_forward_hook(add)
        try:
            loss = _checked_loss(loss_of(call_model(model, inputs)))
            if change is None:
                raise InputError(f"the model did not call layer {layer!r} on these inputs")
            size = float(seen["value"].norm(dim=1).mean()) or 1.0
            optimizer = torch.optim.Adam([change], lr=rate * size / len(change) ** 0.5)
            for _ in range(steps):
                optimizer.zero_grad()
                loss = _checked_loss(loss_of(call_model(model, inputs)))
                torch.autograd.backward(loss + decay * change.square().sum() / size**2)
                optimizer.step()
                with torch.no_grad():
                    if (length := float(change.norm())) > limit * size:
                        change *= limit * size / length
            with torch.no_grad():
                loss = _checked_loss(loss_of(call_model(model, inputs)))
        finally:
            hook.remove()
        return FoundValue(seen["key"].mean(dim=0), (seen["value"] + change.detach()).mean(dim=0), float(loss))


def _predicts(target: Any) -> Callable[[Any], Tensor]:
    """The loss of a class or token at the last position of the output."""
    token = check_count(target, "target", low=0)

    def loss(output: Any) -> Tensor:
        logits = output if isinstance(output, Tensor) else getattr(output, "logits", None)
        if not isinstance(logits, Tensor):
            raise InputError("expected a model that returns logits; otherwise pass as target a function of its output")
        while logits.ndim > 2:
            logits = logits[:, -1]
        if token >= logits.shape[-1]:
            raise InputError(f"expected a target below {logits.shape[-1]}, the number of outputs, got {token}")
        return nn.functional.cross_entropy(logits, torch.full((len(logits),), token, device=logits.device))

    return loss


def _checked_loss(loss: Any) -> Tensor:
    if not isinstance(loss, Tensor) or loss.ndim or not torch.isfinite(loss):
        raise InputError(f"expected `target` to give a finite loss, got {loss!r:.60}")
    return loss


@contextmanager
def _frozen(model: nn.Module) -> Any:
    """The model in eval mode, its parameters without gradients."""
    modes = {module: module.training for module in model.modules()}
    wanted = {p: p.requires_grad for p in model.parameters()}
    try:
        for module in modes:
            module.training = False
        for p in wanted:
            p.requires_grad_(False)
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode
        for p, flag in wanted.items():
            p.requires_grad_(flag)
