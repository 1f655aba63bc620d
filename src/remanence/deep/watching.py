"""One pass over a task's batches: the inputs of every layer, folded into a square root as they come.

    RᵀR = Σ x xᵀ      Rᵀz = Σ x (W x)ᵀ            (O1)   by layer and group, in float64; no batch is kept

The targets z are the layer's answers at the weights of now: with them the same memory says later how far the layer's
answers on all it has seen have moved.
"""

from collections.abc import Iterable
from contextlib import ExitStack
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from remanence.deep.cover import Cover
from remanence.deep.guard import Forward, answering
from remanence.deep.layers import Matrix, Watched
from remanence.errors import InputError
from remanence.memory.root import Root, empty

FOLD_AT_ONCE = 4096  # rows: a convolution makes thousands of one image


class Watch:
    """What the layers and tables of a model saw of a task."""

    def __init__(self, cover: Cover) -> None:
        self.cover = cover
        self.roots: dict[str, list[Root]] = {}
        self.rows: dict[str, int] = {}
        self.looked_up = {n: torch.zeros(len(m.weight), dtype=torch.bool) for n, m in cover.tables.items()}
        self._values: dict[str, Tensor] = {}
        self._busy = False

    def watch(self, model: nn.Module, batches: Iterable[Any], forward: Forward) -> Any:
        """Run the model over the batches; returns the first batch, for a check afterwards."""
        first = None
        with ExitStack() as hooks, answering(model):
            for watched in self.cover.watched:
                hooks.callback(
                    watched.module.register_forward_pre_hook(self._see_layer(watched), with_kwargs=True).remove
                )
            for name, table in self.cover.tables.items():
                hooks.callback(table.register_forward_pre_hook(self._see_table(name), with_kwargs=True).remove)
            for batch in batches:
                first = batch if first is None else first
                forward(model, batch)
        if first is None:
            raise InputError("expected at least one batch of inputs to absorb, got none; was a generator used up?")
        return first

    def _see_layer(self, watched: Watched) -> Any:
        def see(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            if self._busy:  # our own call of an attention module: not the user's data
                return
            self._busy = True
            try:
                for name, rows in watched.rows(*args, **kwargs).items():
                    self._fold(self.cover.matrices[self.cover.aliases[name]], rows)
            finally:
                self._busy = False

        return see

    def _see_table(self, name: str) -> Any:
        def see(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            indices = args[0] if args else kwargs["input"]
            self.looked_up[name][indices.detach().flatten().cpu()] = True

        return see

    def _fold(self, matrix: Matrix, rows: Tensor) -> None:
        groups, outputs, inputs = matrix.shape
        if matrix.name not in self.roots:
            self.roots[matrix.name] = [empty(inputs, outputs) for _ in range(groups)]
            self.rows[matrix.name] = 0
            self._values[matrix.name] = matrix.values()
        roots, values = self.roots[matrix.name], self._values[matrix.name]
        for part in torch.split(rows, FOLD_AT_ONCE, dim=1):
            X = matrix.completed(part)
            if not torch.isfinite(X).all():
                raise InputError(
                    f"the inputs of layer {matrix.name} hold NaN or infinity; look at the batches and at the weights "
                    "before absorbing (nothing was absorbed)"
                )
            Y = X @ values.transpose(1, 2)
            for g, root in enumerate(roots):
                roots[g] = root.folded(X[g].numpy(), Y[g].numpy(), donate=True)  # (O1)
        self.rows[matrix.name] += rows.shape[1]

    def gathered(self) -> "Watch":
        """What was seen by all processes of a distributed run together, the same on each of them."""
        import torch.distributed as dist

        for name, matrix in self.cover.matrices.items():
            groups, outputs, inputs = matrix.shape
            mine = self.roots.get(name) or [empty(inputs, outputs) for _ in range(groups)]
            count = everyones(torch.tensor([self.rows.get(name, 0)]), matrix.weight.device)
            parts = [
                [
                    everyones(torch.from_numpy(np.ascontiguousarray(a)), matrix.weight.device)
                    for a in (r.factor, r.target, r.rest)
                ]
                for r in mine
            ]
            if sum(int(c) for c in count):
                self.rows[name] = sum(int(c) for c in count)
                self.roots[name] = [_merged(group, dist.get_world_size()) for group in parts]
        for name, used in self.looked_up.items():
            flags = everyones(used.to(torch.uint8), self.cover.tables[name].weight.device)
            self.looked_up[name] = torch.stack(flags).amax(0).bool()
        return self


def everyones(mine: Tensor, device: torch.device) -> list[Tensor]:
    """The same tensor of every process, in the order of their ranks; it travels on the model's device."""
    import torch.distributed as dist

    local = mine.to(device)
    parts = [torch.empty_like(local) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, local)
    return [part.cpu() for part in parts]


def _merged(group: list[list[Tensor]], world: int) -> Root:
    roots = [Root(*(np.asfortranarray(a[rank].numpy()) for a in group)) for rank in range(world)]
    whole = roots[0]
    for root in roots[1:]:
        whole = whole.merged(root, donate=True)
    return whole
