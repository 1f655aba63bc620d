"""One pass over a task's batches: the inputs of every layer, folded into a square root as they come.

    RᵀR = Σ x xᵀ      Rᵀz = Σ x (W x)ᵀ            (O1)   by layer and group, in float64; no batch is kept

The targets z are the layer's answers at the weights of now: with them the same memory says later how far the layer's
answers on all it has seen have moved.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from remanence.deep.guards.checks.batches import Forward, ask, first_line
from remanence.deep.guards.guard import answering
from remanence.deep.guards.parameter_roles import Cover
from remanence.deep.guards.projection.buffers import buffers_read
from remanence.deep.nn.layers import Matrix, Watched
from remanence.errors import InputError
from remanence.memory.root import Root, empty

FOLD_AT_ONCE = 4096  # rows: a convolution makes thousands of one image


class Watch:
    """What the layers and tables of a model saw of a task."""

    def __init__(self, cover: Cover) -> None:
        self.cover = cover
        self.roots: dict[str, list[Root]] = {}
        self.rows: dict[str, int] = {}
        self.looked_up = {
            n: torch.zeros(len(m.weight), dtype=torch.bool, device="cpu") for n, m in cover.tables.items()
        }
        self.called = dict.fromkeys(cover.norms, False)
        self.read = dict.fromkeys(sorted(cover.read), False)
        self.begun = False
        self._values: dict[str, Tensor] = {}
        self._busy = False

    def watch(self, model: nn.Module, batches: Iterable[Any], forward: Forward) -> Any:
        """Run the model over the batches; returns the first batch, for a check afterwards."""
        first = None
        with ExitStack() as hooks, answering(model):
            for watched in self.cover.watched:
                self._hook(hooks, watched.module, self._see_layer(watched))
            for name, table in self.cover.tables.items():
                self._hook(hooks, table, self._see_table(name))
            for name, norm in self.cover.norms.items():
                self._hook(hooks, norm, self._see_norm(name))
            read = hooks.enter_context(buffers_read({name: self.cover.places[name] for name in self.read}))
            for batch in checked(batches):
                with _outside_vmap():
                    ask(model, batch, forward)
                self.begun = True
                first = batch if first is None and self.seen else first
        self.read |= dict.fromkeys(read, True)
        return first

    def _hook(self, hooks: ExitStack, module: nn.Module, see: Any) -> None:
        hooks.callback(module.register_forward_pre_hook(see, with_kwargs=True).remove)

    @property
    def seen(self) -> bool:
        """Whether any input reached anything that is watched, or came at all where all is held and nothing watched."""
        if not (self.cover.matrices or self.cover.tables):
            return self.begun
        return any(self.rows.values()) or any(bool(used.any()) for used in self.looked_up.values())

    def _see_layer(self, watched: Watched) -> Any:
        def see(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            if self._busy:  # our own call of an attention module: not the user's data
                return
            self._busy = True
            try:
                inputs = watched.rows(*args, **kwargs)
                for matrix in watched.matrices:
                    self._fold(self.cover.matrices[self.cover.aliases[matrix.name]], inputs[matrix.name])
            finally:
                self._busy = False

        return see

    def _see_table(self, name: str) -> Any:
        def see(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            indices = args[0] if args else kwargs["input"]
            self.looked_up[name][indices.detach().flatten().cpu()] = True

        return see

    def _see_norm(self, name: str) -> Any:
        def see(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            self.called[name] = True

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
            Y = X @ values.transpose(1, 2)
            if not (torch.isfinite(X).all() and torch.isfinite(Y).all()):
                raise InputError(
                    f"the inputs or the answers of layer {matrix.name} hold NaN or infinity; look at the batches and "
                    "at the weights before absorbing (nothing was absorbed)"
                )
            for g, root in enumerate(roots):
                roots[g] = root.folded(X[g].numpy(), Y[g].numpy(), donate=True)  # (O1)
        self.rows[matrix.name] += rows.shape[1]

    def gathered(self, device: torch.device) -> "Watch":
        """What was seen by all processes of a distributed run together, the same on each of them."""
        for name, matrix in self.cover.matrices.items():
            groups, outputs, inputs = matrix.shape
            mine = self.roots.get(name) or [empty(inputs, outputs) for _ in range(groups)]
            rows = sum(int(count) for count in everyones(torch.tensor([self.rows.get(name, 0)], device="cpu"), device))
            arrays = [[root.factor, root.target, root.rest] for root in mine]
            found = [[everyones(torch.from_numpy(np.ascontiguousarray(a)), device) for a in r] for r in arrays]
            if rows:
                self.rows[name], self.roots[name] = rows, [_merged(group) for group in found]
        self.looked_up = {name: _anyones(used, device) for name, used in self.looked_up.items()}
        flags = [self.begun, *self.called.values(), *self.read.values()]
        self.begun, *flags = _anyones(torch.tensor(flags, device="cpu"), device).tolist()
        self.called = dict(zip(self.called, flags, strict=False))
        self.read = dict(zip(self.read, flags[len(self.called) :], strict=True))
        return self


def checked(batches: Any) -> Iterable[Any]:
    """Something to take batches from, and not one batch that would come apart into rows."""
    if isinstance(batches, Tensor | Mapping | str) or not isinstance(batches, Iterable):
        raise InputError(
            f"expected a list, a DataLoader or another iterable of batches, got {type(batches).__name__}; "
            "for a single batch pass [batch]"
        )
    return batches


@contextmanager
def _outside_vmap() -> Iterator[None]:
    """What torch says of hooks that look at numbers under vmap, as a refusal."""
    try:
        yield
    except RuntimeError as error:
        if not str(error).startswith("vmap"):
            raise
        raise InputError(
            "expected a model whose layers' inputs can be recorded, got one that calls them under vmap "
            f"({first_line(error)}); call them on the whole batch, or use OGD"
        ) from error


@contextmanager
def together(device: torch.device | None) -> Iterator[None]:
    """All processes of a distributed run do this or none does; where one fails, the others do not wait for it."""
    failure = None
    try:
        yield
    except Exception as error:
        failure = error
    fine = [] if device is None else everyones(torch.tensor([failure is None], device="cpu").byte(), device)
    if failure is not None:
        raise failure
    if not all(bool(f) for f in fine):
        raise InputError("another process could not absorb its share, so nothing was absorbed here either; see there")


def everyones(mine: Tensor, device: torch.device) -> list[Tensor]:
    """The same tensor of every process, in the order of their ranks; it travels on the model's device."""
    import torch.distributed as dist

    local = mine.to(device)
    parts = [torch.empty_like(local) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, local)
    return [part.cpu() for part in parts]


def as_in_the_first(model: nn.Module) -> None:
    """Give every process the buffers of the first, as the next training pass of a distributed model would.

    After a step each process has the running statistics of its own last batch, and answers of its own.
    """
    import torch.distributed as dist

    for buffer in model.buffers():
        dist.broadcast(buffer, 0)


def _anyones(mine: Tensor, device: torch.device) -> Tensor:
    """Which flags are set in any process."""
    return torch.stack(everyones(mine.byte(), device)).amax(0).bool()


def _merged(group: list[list[Tensor]]) -> Root:
    """One root of the factors, targets and rests that each process sent, oldest rank first."""
    whole, *others = (Root(*(np.asfortranarray(a.numpy()) for a in parts)) for parts in zip(*group, strict=True))
    for root in others:
        whole = whole.merged(root, donate=True)
    return whole
