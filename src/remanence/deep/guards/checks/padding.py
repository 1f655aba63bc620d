"""Which positions of a batch are padding: they count neither as inputs to protect nor as outputs.

Batches that are dicts may carry `attention_mask` (batch, length) as tokenizers return it, and `decoder_attention_mask`.
A tensor whose first two axes are those of a mask is taken to have one row for each position. If batch and length are
equal the axes cannot be told apart, and every position counts.
"""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

MASKS = ("attention_mask", "decoder_attention_mask")
DECODER_INPUTS = ("decoder_input_ids", "decoder_inputs_embeds")

RealPositions = dict[tuple[int, ...], Tensor]  # by (batch, length): True where there is no padding


def real_positions(model: nn.Module, batch: Any) -> RealPositions:
    """Return the positions of a batch that are no padding, for every shape that has padding."""
    if not isinstance(batch, Mapping):
        return {}
    found: RealPositions = {}
    for mask in (batch.get(name) for name in MASKS):
        if isinstance(mask, Tensor) and mask.dim() == 2:
            shape, real = tuple(mask.shape), mask.detach() != 0
            found[shape] = found[shape] | real if shape in found else real
    if MASKS[1] not in batch:  # a decoder without a mask of its own uses every position
        decodes = bool(getattr(getattr(model, "config", None), "is_encoder_decoder", False))
        for name in (*DECODER_INPUTS, *(("labels",) if decodes else ())):
            found.pop(tuple(batch[name].shape[:2]) if isinstance(batch.get(name), Tensor) else (), None)
    return {shape: real for shape, real in found.items() if shape[0] != shape[1] and not bool(real.all())}


def without_padding(tensor: Tensor, real: RealPositions, features: int = 0) -> Tensor:
    """Return the rows of a tensor at real positions; a tensor of another shape as it is.

    So many of the last axes are features, which may be as many as there are positions.
    """
    for axes in ((0, 1), (0, 2)):  # (batch, length, …), or (batch, heads, length, …) as in attention
        if tensor.dim() - features <= axes[1]:
            continue
        if (mask := real.get((tensor.shape[0], tensor.shape[axes[1]]))) is not None:
            return tensor.transpose(1, axes[1])[mask.to(tensor.device)]
    return tensor
