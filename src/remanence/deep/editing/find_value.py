"""The value that a layer should answer at one position, so that the whole model answers a target.

It is found by descent on that value (value_search.py). The weights of the model do not change.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from remanence.deep.editing.value_search import (
    Descent,
    KeptAnswers,
    SearchedInputs,
    SearchedValues,
    mean_by_fact,
    search_values,
)
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
    answer_at: Any = None,
    keep: tuple[Any, ...] | None = None,
    keep_weight: float = 0.0625,
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
    position : int, tensor (rows,) or tuple
        Where in the layer's output the value stands: an index of the axes between the first (rows) and the last, such
        as the token's place, for all rows or for each. () where the layer's output has none.
    target : int or callable
        A class or token that the model should predict, or a function of the model's output that returns a loss.
    answer_at : int or tensor (rows,), optional
        The position of the output that should predict the target: that of the mask token, for a masked model. By
        default the last one, without those that "attention_mask" of a dict leaves out.
    keep : tuple (inputs, position) or (inputs, position, answer_at), optional
        Other inputs whose answer should stay as it is, such as "<subject> is a", and where in them the value stands.
    keep_weight : float
        Of the Kullback-Leibler divergence between these answers before and with the value.
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
    if callable(target) and answer_at is not None:
        raise InputError("expected answer_at with a class or token as target; a function chooses its own positions")
    loss_of = _one_loss(target if callable(target) else _predicts(target, _answers(model, inputs, answer_at)))
    descent = Descent(steps, rate, decay, limit)
    kept = None if keep is None else _kept(model, keep, keep_weight)
    keys, values, losses = search_values(model, layer, SearchedInputs(inputs, place, _one_fact), loss_of, descent, kept)
    return FoundValue(keys[0], values[0], float(losses[0]))


def find_values(
    model: nn.Module,
    layer: str,
    inputs: Any,
    positions: Any,
    targets: Any,
    facts: Any = None,
    *,
    answer_at: Any = None,
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
        The class or token that each row should predict.
    facts : tensor (rows,), optional
        The fact 0, 1, … to which each row belongs. By default every row is a fact of its own.
    answer_at, steps, rate, decay, limit
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

    answers = _answers(model, inputs, answer_at)

    def loss_of(output: Any) -> Tensor:
        logits = _logits(output, answers, int(wanted.max()))
        each = nn.functional.cross_entropy(logits, wanted.to(logits.device), reduction="none")
        return mean_by_fact(each[:, None], owner.to(logits.device))[:, 0]

    return search_values(
        model, layer, SearchedInputs(inputs, place, owners), loss_of, Descent(steps, rate, decay, limit)
    )


def _one_fact(rows: int) -> Tensor:
    return torch.zeros(rows, dtype=torch.long)


def _answers(model: nn.Module, inputs: Any, answer_at: Any) -> Tensor | None:
    """The position, or that of each row, at which the model answers; None: the last."""
    if answer_at is not None:
        places = _tensor(answer_at)
        if places is None or places.ndim > 1 or places.is_floating_point() or places.dtype == torch.bool:
            raise InputError(f"expected answer_at as an integer, or one per row, got {answer_at!r:.60}")
        return places
    if isinstance(model, nn.Module) and any(type(m).__name__.endswith("ForMaskedLM") for m in model.modules()):
        raise InputError("expected answer_at, the position of the mask token, with a masked model, got none")
    given = inputs if isinstance(inputs, Mapping) else {}
    mask = given.get("decoder_attention_mask" if "decoder_input_ids" in given else "attention_mask")
    if not isinstance(mask, Tensor) or mask.ndim != 2:
        return None
    from_end = torch.arange(mask.shape[1], device=mask.device) - mask.shape[1]
    return from_end.expand_as(mask).masked_fill(~mask.bool(), -mask.shape[1]).amax(1)


def _kept(model: nn.Module, keep: tuple[Any, ...], weight: float) -> KeptAnswers:
    """The penalty on what the model answers to other inputs."""
    check_number(weight, "keep_weight")
    if not isinstance(keep, tuple) or len(keep) not in (2, 3):
        raise InputError(f"expected keep as (inputs, position) or (inputs, position, answer_at), got {keep!r:.60}")
    inputs, position = keep[:2]
    answers = _answers(model, inputs, *(keep[2:] or (None,)))

    def penalty(before: Any, now: Any) -> Tensor:
        old, new = (_logits(output, answers, 0).log_softmax(-1) for output in (before, now))
        return weight * nn.functional.kl_div(new, old, log_target=True, reduction="batchmean")

    return KeptAnswers(
        SearchedInputs(inputs, position if isinstance(position, tuple) else (position,), _one_fact), penalty
    )


def _predicts(target: Any, answers: Tensor | None) -> Callable[[Any], Tensor]:
    """The loss of a class or token."""
    token = check_count(target.item() if isinstance(target, Tensor) and not target.ndim else target, "target", low=0)

    def loss(output: Any) -> Tensor:
        logits = _logits(output, answers, token)
        return nn.functional.cross_entropy(logits, torch.full((len(logits),), token, device=logits.device))

    return loss


def _one_loss(loss_of: Callable[[Any], Any]) -> Callable[[Any], Tensor]:
    def loss(output: Any) -> Tensor:
        found = loss_of(output)
        if not isinstance(found, Tensor) or found.ndim:
            raise InputError(f"expected `target` to give one loss, got {found!r:.60}")
        return found

    return loss


def _logits(output: Any, answers: Tensor | None, token: int) -> Tensor:
    """Logits (rows, outputs) at some positions, or at the last."""
    logits = output if isinstance(output, Tensor) else getattr(output, "logits", None)
    if not isinstance(logits, Tensor) or logits.ndim < 2:
        raise InputError(
            "expected a model that returns logits, for every row of the inputs; otherwise pass as target a function of "
            "its output"
        )
    if answers is not None and logits.ndim == 3:
        try:
            logits = logits[torch.arange(len(logits), device=logits.device), answers.to(logits.device)]
        except IndexError:
            raise InputError(
                f"expected a position of the answer within {logits.shape[1]}, or one for each of {len(logits)} rows, "
                f"got {answers.tolist()}"
            ) from None
    while logits.ndim > 2:
        logits = logits[:, -1]
    if token >= logits.shape[-1]:
        raise InputError(f"expected a target below {logits.shape[-1]}, the number of outputs, got {token}")
    return logits.to(torch.promote_types(logits.dtype, torch.float32))


def _integers(numbers: Any, name: str) -> Tensor:
    found = _tensor(numbers)
    if found is None or found.ndim != 1 or found.is_floating_point() or found.dtype == torch.bool:
        raise InputError(f"expected {name} as integers from 0, one per row, got {numbers!r:.60}")
    if not len(found) or found.min() < 0:
        raise InputError(f"expected {name} as integers from 0, one per row, got {numbers!r:.60}")
    return found.to("cpu", torch.long)


def _tensor(numbers: Any) -> Tensor | None:
    """Numbers as a tensor; None where they are none."""
    try:
        return torch.as_tensor(numbers)
    except (RuntimeError, TypeError, ValueError):
        return None
