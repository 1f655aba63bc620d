"""Descent on the output of one layer at chosen places, for many facts at once, while the weights stay.

    minimise over δ:  loss(model with h ← h + δ)  +  decay ‖δ‖² / ‖h‖²  +  penalty,     ‖δ‖ ≤ limit ‖h‖     (FV)

h is the layer's output at the place. Every row of a batch belongs to a fact, and all rows of a fact share its δ. δ is
measured in units of ‖h‖, and Adam treats every number by itself, so that facts searched together find what each would
find alone. The penalty compares what the model answers to other inputs with and without δ.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from remanence.deep.editing.edited_layer import EditedLayer, by_position, check_called_once, layer_input
from remanence.deep.guards.checks.batches import call_explained, call_model
from remanence.deep.nn.eval_mode import eval_mode
from remanence.deep.nn.wrappers import unwrap
from remanence.errors import InputError
from remanence.validation import check_count, check_number


class Descent(NamedTuple):
    """How long, how fast, and how far a value may move."""

    steps: int
    rate: float
    decay: float
    limit: float

    def checked(self) -> "Descent":
        check_count(self.steps, "steps")
        check_number(self.rate, "rate")
        check_number(self.limit, "limit")
        check_number(self.decay, "decay", closed=True)
        return self


class SearchedValues(NamedTuple):
    """Keys (facts, inputs), values (facts, outputs), both averaged over the rows of a fact, and losses."""

    keys: Tensor
    values: Tensor
    losses: Tensor


class SearchedInputs(NamedTuple):
    """Inputs of the model, and where in the layer's output the value of a fact stands in them.

    `place` indexes the axes of the layer's output between rows and features, by numbers or by a tensor of one number
    per row; `facts(rows)` says to which fact each row belongs.
    """

    inputs: Any
    place: tuple[Any, ...]
    facts: Callable[[int], Tensor]


class KeptAnswers(NamedTuple):
    """Inputs whose answers should stay, and the penalty on outputs without and with δ."""

    asked: SearchedInputs
    penalty: Callable[[Any, Any], Tensor]


def search_values(
    model: nn.Module,
    layer: str,
    asked: SearchedInputs,
    loss_of: Callable[[Any], Tensor],
    descent: Descent,
    kept: KeptAnswers | None = None,
) -> SearchedValues:
    """Solve (FV); `loss_of` gives one loss, or one per fact."""
    steps, rate, decay, limit = descent.checked()
    model = unwrap(model)
    module = EditedLayer(model, layer).module
    seen: dict[str, Tensor] = {}
    calls, now = 0, asked
    with eval_mode(model), torch.inference_mode(False), torch.enable_grad(), _frozen(model):

        def run(which: SearchedInputs) -> Any:
            nonlocal calls, now
            calls, now = 0, which
            output = call_explained(model, tree_map(_differentiable, which.inputs), call_model)
            check_called_once(layer, calls)
            return output

        def add(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Tensor) -> Tensor:
            nonlocal calls
            calls += 1
            shape, place, given = output.shape, now.place, layer_input(args, kwargs)
            if len(place) == 1:
                given, output = by_position(given, now.inputs), by_position(output, now.inputs)
            index = row_index(place, len(output), output.device)
            try:
                key, value = given[index].detach(), output[index].detach()
            except (IndexError, TypeError):
                raise InputError(f"expected a position within {tuple(output.shape[1:-1])}, got {place}") from None
            if value.ndim != 2:
                raise InputError(
                    f"expected a position with {output.ndim - 2} indices, as the layer's output "
                    f"{tuple(output.shape)} has axes between rows and features, got {place}"
                )
            owner = now.facts(len(value)).to(value.device)
            if not seen:
                seen["owner"] = owner
                exact = torch.promote_types(value.dtype, torch.float32)  # steps of Adam underflow in half precision
                seen["size"] = mean_by_fact(value.to(exact).norm(dim=1, keepdim=True), seen["owner"])
                seen["size"][seen["size"] == 0] = 1.0
                seen["change"] = torch.zeros(len(seen["size"]), value.shape[1]).to(seen["size"]).requires_grad_()
            seen["key"], seen["value"] = key, value
            output = output.clone()
            output[index] = (output[index] + (seen["size"] * seen["change"])[owner]).to(output.dtype)
            return output.reshape(shape)

        hook = module.register_forward_hook(add, with_kwargs=True)
        try:
            _checked_loss(loss_of(run(asked)))
            change = seen["change"]
            if kept is not None:
                with torch.no_grad():
                    before = run(kept.asked)
            optimizer = torch.optim.Adam([change], lr=rate / change.shape[1] ** 0.5)
            for _ in range(steps):
                optimizer.zero_grad()
                loss = _checked_loss(loss_of(run(asked))).sum() + decay * change.square().sum()
                if kept is not None:
                    loss = loss + kept.penalty(before, run(kept.asked))
                torch.autograd.backward(loss)
                optimizer.step()
                with torch.no_grad():
                    length = change.norm(dim=1, keepdim=True).clamp_min(limit)
                    change *= limit / length
            with torch.no_grad():
                loss = _checked_loss(loss_of(run(asked)))
        finally:
            hook.remove()
        keys, values = (mean_by_fact(seen[part], seen["owner"]) for part in ("key", "value"))
        return SearchedValues(keys, values + seen["size"] * change.detach(), loss.detach().reshape(-1))


def row_index(place: tuple[Any, ...], rows: int, device: torch.device) -> tuple[Any, ...]:
    """The index of a place in every row: of all rows alike, or by a tensor of one number per row."""
    by_row = any(isinstance(part, Tensor) for part in place)
    return (torch.arange(rows, device=device) if by_row else slice(None), *place)


def mean_by_fact(rows: Tensor, owner: Tensor) -> Tensor:
    """Means (facts, …) of rows by the fact they belong to."""
    count = torch.bincount(owner)
    if not bool((count > 0).all()):
        raise InputError(f"expected a row for every fact, got none for fact {int((count == 0).nonzero()[0])}")
    total = torch.zeros(len(count), rows.shape[1]).to(rows)
    return total.index_add_(0, owner, rows) / count[:, None].to(rows)


def _checked_loss(loss: Any) -> Tensor:
    if not isinstance(loss, Tensor) or loss.ndim > 1 or not torch.isfinite(loss).all():
        raise InputError(f"expected `target` to give a finite loss, got {loss!r:.60}")
    return loss


def _differentiable(part: Any) -> Any:
    """A tensor through which gradients can be computed, wherever it was made."""
    return part.clone() if isinstance(part, Tensor) and part.is_inference() else part


@contextmanager
def _frozen(model: nn.Module) -> Iterator[None]:
    """The model's parameters without gradients."""
    wanted = {p: p.requires_grad for p in model.parameters()}
    if any(p.is_inference() for p in (*wanted, *model.buffers())):
        raise InputError(
            "expected a model through which gradients can be computed, got weights made in inference mode; load or "
            "build the model outside of torch.inference_mode()"
        )
    try:
        for p in wanted:
            p.requires_grad_(False)
        yield
    finally:
        for p, flag in wanted.items():
            p.requires_grad_(flag)
