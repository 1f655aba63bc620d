"""Per-sample gradients of a batch's outputs by all parameters, one row each, for orthogonal gradient descent.

of="logits"    ∂f_k(x; θ)/∂θ                for every output k: c rows per sample
of="label"     ∂f_y(x; θ)/∂θ                for the output of the sample's label y
of="loss"      ∂ℓ(f(x; θ), y)/∂θ            cross-entropy for labels, ½‖y − f‖² for targets (n, c)
a function     ∂of(f(x; θ), y)/∂θ           a scalar function of the outputs (c,) and the label or target y
"""

from collections.abc import Callable, Iterator
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map

from remanence.deep.guards.checks.batches import Forward
from remanence.deep.nn.eval_mode import eval_mode
from remanence.deep.nn.flat_parameters import FlatParameters
from remanence.deep.nn.outputs import as_input_error, check_output
from remanence.errors import InputError

Score = Callable[[Tensor, Tensor], Tensor]  # outputs (c,) and label or target of a sample → a scalar
CHOICES = ("logits", "label", "loss")
Of = Literal["logits", "label", "loss"] | Score
AT_ONCE = 16_000_000  # gradient entries computed at once


class IndexedModel(nn.Module):
    """A model as a function of row indices into one batch, so that any calling convention can be vectorized."""

    def __init__(self, model: nn.Module, inputs: Any, forward: Forward) -> None:
        super().__init__()
        self.model, self._inputs, self._call = model, inputs, forward

    def forward(self, places: Tensor) -> Any:
        picked = tree_map(lambda t: t.index_select(0, places.to(t.device)), self._inputs)
        return self._call(self.model, picked)


def gradient_rows(model: nn.Module, names: tuple[str, ...], batch: Any, forward: Forward, of: Of) -> Iterator[Tensor]:
    """Yield the gradients of a batch by the named parameters in pieces, (rows, D) in float64 on the CPU."""
    inputs, given = (batch, None) if of == "logits" else _pair(batch)
    n = _length(inputs)
    with eval_mode(model), as_input_error(tree_leaves(inputs)[0]):
        outputs = check_output(forward(model, inputs), n)
    targets = None if of == "logits" else _check_targets(given, outputs, of)
    flat = FlatParameters(IndexedModel(model, inputs, forward), names=[f"model.{name}" for name in names])
    rows_each = outputs.shape[1] if targets is None else 1
    for places in torch.split(torch.arange(n), max(1, AT_ONCE // (rows_each * flat.size))):
        if targets is None:
            rows = flat.linearized(places)[1].flatten(0, 1)
        else:
            rows = flat.gradients(places, _score(of, targets), targets[places])
        rows = rows.to("cpu", torch.float64)
        if not torch.isfinite(rows).all():
            raise InputError(
                "the gradients of the outputs contain NaN or infinity; check the batches and the weights (nothing was "
                "absorbed)"
            )
        yield rows


def _pair(batch: Any) -> tuple[Any, Any]:
    if not isinstance(batch, tuple | list) or len(batch) != 2:
        raise InputError(
            f"expected batches of (inputs, labels) for gradients of a label or a loss, got {_what(batch)}; "
            'pass pairs, or create the guard with of="logits", which needs no labels'
        )
    return batch[0], batch[1]


def _length(inputs: Any) -> int:
    leaves = tree_leaves(inputs)
    lengths = {t.shape[0] if isinstance(t, Tensor) and t.dim() else None for t in leaves}
    if len(lengths) != 1 or None in lengths or 0 in lengths:
        raise InputError(
            f"expected tensors of inputs with one row per sample and equal lengths, got {_what(inputs)}; pass one "
            "sample as x[None], and leave out empty batches"
        )
    return int(leaves[0].shape[0])


def _check_targets(given: Any, outputs: Tensor, of: Of) -> Tensor:
    """Return the labels or targets of a batch as a tensor, or raise InputError."""
    try:
        targets = torch.as_tensor(given, device=outputs.device)
    except (TypeError, ValueError, RuntimeError):
        raise InputError(f"expected labels as a tensor or an array, got {type(given).__name__}") from None
    n, c = outputs.shape
    whole = not (targets.is_floating_point() or targets.is_complex() or targets.dtype == torch.bool)
    if callable(of):
        if not targets.dim() or len(targets) != n:
            raise InputError(
                f"expected one label or target for each of the {n} samples, got shape {tuple(targets.shape)}"
            )
    elif whole and targets.shape == (n,):
        if int(targets.min()) < 0 or int(targets.max()) >= c:
            raise InputError(
                f"expected labels from 0 to {c - 1}, one for each output, "
                f"got {int(targets.min())} to {int(targets.max())}"
            )
        targets = targets.long()
    elif of == "label" or not targets.is_floating_point() or targets.shape != (n, c):
        real = "" if of == "label" else f", or real targets ({n}, {c})"
        raise InputError(f"expected integer labels ({n},){real}, got {tuple(targets.shape)} of {targets.dtype}")
    else:
        targets = targets.to(outputs.dtype)
        if not torch.isfinite(targets).all():
            raise InputError("the targets contain NaN or infinity; drop or impute those samples before absorbing")
    return targets


def _score(of: Of, targets: Tensor) -> Score:
    if callable(of):
        return of
    if of == "label":
        return lambda outputs, label: outputs.gather(0, label[None])[0]
    if targets.is_floating_point():
        return lambda outputs, target: (outputs - target).square().sum() / 2
    return lambda outputs, label: nn.functional.cross_entropy(outputs[None], label[None])


def _what(thing: Any) -> str:
    if isinstance(thing, Tensor):
        return f"a tensor {tuple(thing.shape)}"
    if isinstance(thing, tuple | list):
        return f"{type(thing).__name__} of {', '.join(_what(t) for t in thing[:3]) or 'nothing'}"
    return type(thing).__name__
