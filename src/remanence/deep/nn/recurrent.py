"""Rules for recurrent layers: the inputs and previous hidden states that their matrices multiply, over the time steps.

    gates_t = W_ih x_t + b_ih + W_hh h_{t−1} + b_hh        (R1)   every gate of RNN, GRU and LSTM

The hidden states are the outputs of a layer shifted by one step. Layers are run one by one, because a layer's input is
the output of the layer below, which torch computes inside one call.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from remanence.deep.nn.layers import InputRows, RecordedModule, WeightMatrix


def recurrent(name: str, module: Any) -> RecordedModule:
    """The matrices of RNN, GRU or LSTM: two per layer and direction."""
    parts = [
        WeightMatrix(f"{name}.{kind}{suffix}", module, 1, f"weight_{kind}{suffix}", _bias(module, f"{kind}{suffix}"))
        for suffix in _suffixes(module)
        for kind in ("ih", "hh")
    ]

    def rows(input: Tensor | PackedSequence, hx: Any = None) -> InputRows:
        return {f"{name}.{own}": x[None] for own, x in _walk(module, input, hx).items()}

    return RecordedModule(module, tuple(parts), rows)


def cell(name: str, module: Any) -> RecordedModule:
    """The two matrices of RNNCell, GRUCell or LSTMCell."""
    parts = [WeightMatrix(f"{name}.{kind}", module, 1, f"weight_{kind}", _bias(module, kind)) for kind in ("ih", "hh")]

    def rows(input: Tensor, hx: Any = None) -> InputRows:
        state = hx[0] if isinstance(hx, tuple) else hx
        state = input.new_zeros(*input.shape[:-1], module.hidden_size) if state is None else state
        found = zip(parts, (input, state), strict=True)
        return {part.name: x.reshape(1, -1, x.shape[-1]) for part, x in found}

    return RecordedModule(module, tuple(parts), rows)


def _bias(module: Any, kind: str) -> str:
    return f"bias_{kind}" if module.bias else ""


def _suffixes(module: Any) -> list[str]:
    directions = ("", "_reverse") if module.bidirectional else ("",)
    return [f"_l{k}{direction}" for k in range(module.num_layers) for direction in directions]


def _walk(module: Any, input: Tensor | PackedSequence, hx: Any) -> InputRows:
    """Return the rows (n, inputs) of every matrix of a call, by its name inside the module (R1)."""
    sequence, lengths, states = _padded(module, input, hx)
    steps = torch.arange(len(sequence), device=sequence.device)[:, None]
    valid = steps < lengths.to(sequence.device)  # (T, n)
    last = steps == lengths.to(sequence.device) - 1
    directions = 2 if module.bidirectional else 1
    found: InputRows = {}
    for k in range(module.num_layers):
        mine = [state[k * directions : (k + 1) * directions] for state in states]
        output = _one_layer(module, k, sequence, lengths, mine)
        for j in range(directions):
            suffix = f"_l{k}" + ("_reverse" if j else "")
            hidden = output.reshape(*output.shape[:2], directions, -1)[:, :, j]  # (T, n, h)
            start = mine[0][j][None]
            if j == 0:
                before = torch.cat([start, hidden[:-1]])
            else:
                before = torch.where(last[:, :, None], start, torch.cat([hidden[1:], start]))
            found |= {f"ih{suffix}": sequence[valid], f"hh{suffix}": before[valid]}
        sequence = output
    return found


def _padded(module: Any, input: Tensor | PackedSequence, hx: Any) -> tuple[Tensor, Tensor, list[Tensor]]:
    """Return the input (T, n, inputs), the length of each of the n sequences, and the first states (layers, n, h)."""
    states = None if hx is None else list(hx) if isinstance(hx, tuple) else [hx]
    if isinstance(input, PackedSequence):
        sequence, lengths = pad_packed_sequence(input)
    else:
        single = input.dim() == 2
        sequence = input[:, None] if single else input.transpose(0, 1) if module.batch_first else input
        states = [state[:, None] for state in states] if single and states else states
        lengths = torch.full((sequence.shape[1],), len(sequence), device="cpu")
    if states is None:
        layers = module.num_layers * (2 if module.bidirectional else 1)
        count = 2 if isinstance(module, nn.LSTM) else 1
        states = [sequence.new_zeros(layers, sequence.shape[1], module.hidden_size) for _ in range(count)]
    return sequence, lengths, states


def _one_layer(module: Any, k: int, sequence: Tensor, lengths: Tensor, states: list[Tensor]) -> Tensor:
    """Run one layer of the module alone, (T, n, directions × h); padded steps are zero."""
    options: dict[str, Any] = {"nonlinearity": module.nonlinearity} if isinstance(module, nn.RNN) else {}
    like = sequence[..., :1]
    alone = type(module)(
        sequence.shape[-1], module.hidden_size, bias=module.bias, bidirectional=module.bidirectional, **options
    ).to(like)
    weights = {n: getattr(module, n.replace("_l0", f"_l{k}")) for n, _ in alone.named_parameters()}
    first = tuple(states) if isinstance(module, nn.LSTM) else states[0]
    packed = pack_padded_sequence(sequence, lengths, enforce_sorted=False)
    output = torch.func.functional_call(alone, weights, (packed, first))[0]
    return pad_packed_sequence(output, total_length=len(sequence))[0]
