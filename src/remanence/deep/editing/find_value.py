"""The value that a layer should answer at one position, so that the whole model answers a target.

It is found by descent on that value (value_search.py). The weights of the model do not change.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from remanence.deep.editing.value_search import Descent, SearchedValues, mean_by_fact, search_values
from remanence.errors import InputError
from remanence.validation import check_count


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
    place = position if isinstance(position, tuple) else (position,)
    loss_of = _one_loss(target if callable(target) else _predicts(target))
    descent = Descent(steps, rate, decay, limit)
    keys, values, losses = search_values(
        model, layer, inputs, place, lambda rows: torch.zeros(rows, dtype=torch.long), loss_of, descent
    )
    return FoundValue(keys[0], values[0], float(losses[0]))


def find_values(
    model: nn.Module,
    layer: str,
    inputs: Any,
    positions: Any,
    targets: Any,
    facts: Any = None,
    *,
    steps: int = 50,
    rate: float = 0.1,
    decay: float = 1e-3,
    limit: float = 4.0,
) -> SearchedValues:
    """Find the values of many facts at once: `find_value` for each, in one descent.

    Parameters
    ----------
    model, layer
        As for `find_value`.
    inputs : tensor, tuple or dict
        One batch. A row whose target is what the model answers now keeps that answer while the fact is changed.
    positions : int or tensor (rows,)
        The place in the layer's output, of all rows or of each.
    targets : tensor (rows,)
        The class or token that the last position of each row should predict.
    facts : tensor (rows,), optional
        The fact 0, 1, … to which each row belongs. By default every row is a fact of its own.
    steps, rate, decay, limit
        As for `find_value`.

    Returns
    -------
    SearchedValues
        `keys` (facts, inputs), `values` (facts, outputs) and `losses` (facts,).

    Examples
    --------
    >>> import torch
    >>> import remanence as rm
    >>> _ = torch.manual_seed(0)
    >>> net = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.Tanh(), torch.nn.Linear(16, 3))
    >>> found = rm.deep.find_values(net, "0", torch.randn(2, 4), (), torch.tensor([2, 0]))
    >>> found.values.shape
    torch.Size([2, 16])

    References
    ----------
    Meng et al. (2023), "Mass-editing memory in a transformer".
    """
    wanted = _integers(targets, "targets")
    owner = torch.arange(len(wanted)) if facts is None else _integers(facts, "facts")
    if len(owner) != len(wanted):
        raise InputError(f"expected a fact for every target, got {len(owner)} facts and {len(wanted)} targets")
    place = positions if isinstance(positions, tuple) else (positions,)
    if any(isinstance(part, Tensor) and part.shape != wanted.shape for part in place):
        raise InputError(f"expected one position, or one for each of {len(wanted)} rows")

    def owners(rows: int) -> Tensor:
        if rows != len(wanted):
            raise InputError(f"expected a target for every row, got {rows} rows and {len(wanted)} targets")
        return owner

    def loss_of(output: Any) -> Tensor:
        logits = _last_logits(output, int(wanted.max()))
        each = nn.functional.cross_entropy(logits, wanted.to(logits.device), reduction="none")
        return mean_by_fact(each[:, None], owner.to(logits.device))[:, 0]

    return search_values(model, layer, inputs, place, owners, loss_of, Descent(steps, rate, decay, limit))


def _predicts(target: Any) -> Callable[[Any], Tensor]:
    """The loss of a class or token at the last position of the output."""
    token = check_count(target.item() if isinstance(target, Tensor) and not target.ndim else target, "target", low=0)

    def loss(output: Any) -> Tensor:
        logits = _last_logits(output, token)
        return nn.functional.cross_entropy(logits, torch.full((len(logits),), token, device=logits.device))

    return loss


def _one_loss(loss_of: Callable[[Any], Any]) -> Callable[[Any], Tensor]:
    def loss(output: Any) -> Tensor:
        found = loss_of(output)
        if not isinstance(found, Tensor) or found.ndim:
            raise InputError(f"expected `target` to give one loss, got {found!r:.60}")
        return found

    return loss


def _last_logits(output: Any, token: int) -> Tensor:
    """Logits (rows, outputs) at the last position."""
    logits = output if isinstance(output, Tensor) else getattr(output, "logits", None)
    if not isinstance(logits, Tensor):
        raise InputError("expected a model that returns logits; otherwise pass as target a function of its output")
    while logits.ndim > 2:
        logits = logits[:, -1]
    if token >= logits.shape[-1]:
        raise InputError(f"expected a target below {logits.shape[-1]}, the number of outputs, got {token}")
    return logits.to(torch.promote_types(logits.dtype, torch.float32))


def _integers(numbers: Any, name: str) -> Tensor:
    found = torch.as_tensor(numbers)
    if found.ndim != 1 or not len(found) or found.is_floating_point() or found.dtype == torch.bool or found.min() < 0:
        raise InputError(f"expected {name} as integers from 0, one per row, got {numbers!r:.60}")
    return found.to("cpu", torch.long)
