"""One pass over a task's batches that records the inputs of every layer as a square root of their Gram matrix.

    RᵀR = Σ x xᵀ      Rᵀz = Σ x (W x)ᵀ            (O1)   per layer and group, in float64; no batch is stored

The targets z are the layer's outputs at the current weights: with them the same memory tells later how far the
layer's outputs on everything recorded have drifted.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from remanence.deep.guards.checks.batches import Forward, call_explained, check_batches, first_line
from remanence.deep.guards.checks.padding import RealPositions, real_positions, without_padding
from remanence.deep.guards.parameter_roles import ParameterRoles
from remanence.deep.guards.projection.buffers import record_buffer_reads
from remanence.deep.nn.distributed import all_gather, any_process
from remanence.deep.nn.eval_mode import eval_mode
from remanence.deep.nn.layers import RecordedModule, WeightMatrix
from remanence.deep.nn.lowrank.fast_linear import FastLinear
from remanence.deep.nn.lowrank.input_sketch import InputSketch
from remanence.deep.nn.lowrank.lowrank_root import LayerRoot, LowRankRoot, dropped_energy, empty_root, root_from_arrays
from remanence.errors import InputError

FOLD_AT_ONCE = 4096  # rows: a convolution has thousands per image
SUM_AT_ONCE = 1024  # rows of a sum in float32


class InputRecorder:
    """Records the inputs of a model's layers, embeddings and norms during a task."""

    def __init__(self, roles: ParameterRoles, rank: int | None = None, share: float = 1.0) -> None:
        self.roles, self.rank = roles, rank  # rank: bound of each memory, None for all directions
        self.share = share  # of the energy of the inputs that a bounded memory should hold
        self.roots: dict[str, list[LayerRoot]] = {}
        self._sketches: dict[str, list[InputSketch]] = {}
        self.rows: dict[str, int] = {}
        self.looked_up = {
            n: torch.zeros(len(m.weight), dtype=torch.bool, device="cpu") for n, m in roles.tables.items()
        }
        self.called = dict.fromkeys(roles.norms, False)
        self.read = dict.fromkeys(sorted(roles.read), False)
        self.begun = False
        self._values: dict[str, Tensor] = {}
        self._busy = False
        self._real: RealPositions = {}

    def record(self, model: nn.Module, batches: Iterable[Any], forward: Forward) -> None:
        """Run the model over the batches."""
        with ExitStack() as hooks, eval_mode(model):
            if self.rank is not None:
                hooks.enter_context(FastLinear())
            for recorded in self.roles.recorded:
                self._hook(hooks, recorded.module, self._record_layer(recorded))
            for name, table in self.roles.tables.items():
                if type(table).forward in (nn.Embedding.forward, nn.EmbeddingBag.forward):
                    self._hook(hooks, table, self._record_lookup(name))
                else:
                    hooks.enter_context(Lookups(table.weight, partial(self._add_lookup, name)))
            for name, norm in self.roles.norms.items():
                self._hook(hooks, norm, self._record_norm(name))
            read = hooks.enter_context(record_buffer_reads({name: self.roles.buffers[name] for name in self.read}))
            for batch in check_batches(batches):
                self._real = real_positions(model, batch)
                if any(not bool(real.any()) for real in self._real.values()):
                    raise InputError(
                        "expected batches with inputs, got one of nothing but padding (its attention_mask is zero "
                        "everywhere); leave it out. Nothing was absorbed"
                    )
                with _explain_vmap_errors():
                    call_explained(model, batch, forward)
                self.begun = True
        self.read |= dict.fromkeys(read, True)
        for name, sketches in self._sketches.items():
            self.roots[name] = [s.root(W.numpy()) for s, W in zip(sketches, self._values[name], strict=True)]
        for name, roots in self.roots.items():
            self.roots[name] = [r.within(self.share) if isinstance(r, LowRankRoot) else r for r in roots]

    def _hook(self, hooks: ExitStack, module: nn.Module, hook: Any) -> None:
        hooks.callback(module.register_forward_pre_hook(hook, with_kwargs=True).remove)

    @property
    def seen(self) -> bool:
        """Whether any input reached a recorded module; if nothing is recorded, whether there was any batch."""
        if not (self.roles.matrices or self.roles.tables):
            return self.begun
        return any(self.rows.values()) or any(bool(used.any()) for used in self.looked_up.values())

    def _record_layer(self, recorded: RecordedModule) -> Any:
        def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            if self._busy:  # a call made by `rows` of an attention module, not by the user's model
                return
            self._busy = True
            try:
                inputs = recorded.rows(*args, **kwargs)
                given = next(iter(args or kwargs.values()))
                for matrix in recorded.matrices:
                    rows = inputs[matrix.name]
                    if self._real and recorded.by_position and rows.shape[1] == given[..., 0].numel():
                        rows = without_padding(rows[0].reshape(*given.shape[:-1], -1), self._real, features=1)
                        rows = rows.reshape(1, -1, rows.shape[-1])
                    self._fold(self.roles.matrices[self.roles.aliases[matrix.name]], rows)
            finally:
                self._busy = False

        return hook

    def _record_lookup(self, name: str) -> Any:
        def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            self._add_lookup(name, args[0] if args else kwargs["input"])

        return hook

    def _add_lookup(self, name: str, indices: Tensor) -> None:
        if self._busy:  # recording a layer that shares the table's weight
            return
        self.looked_up[name][without_padding(indices.detach(), self._real).flatten().cpu()] = True

    def _record_norm(self, name: str) -> Any:
        def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            self.called[name] = True

        return hook

    def _fold(self, matrix: WeightMatrix, rows: Tensor) -> None:
        groups, outputs, inputs = matrix.shape
        if matrix.name not in self.rows:
            self.rows[matrix.name] = 0
            self._values[matrix.name] = matrix.values()
            # squares of strengths would cost a float64 model half of its digits
            if self.rank is not None and matrix.weight.dtype is not torch.float64:
                if not bool(torch.isfinite(matrix.weight).all()):
                    _raise_not_finite(matrix.name)
                self._sketches[matrix.name] = [InputSketch(inputs, self.rank) for _ in range(groups)]
            else:
                self.roots[matrix.name] = [empty_root(inputs, outputs, self.rank) for _ in range(groups)]
        if matrix.name in self._sketches:
            self._fold_sketched(matrix, rows)
        else:
            self._fold_exactly(matrix, rows)
        self.rows[matrix.name] += rows.shape[1]

    def _fold_exactly(self, matrix: WeightMatrix, rows: Tensor) -> None:
        roots, values = self.roots[matrix.name], self._values[matrix.name]
        for part in torch.split(rows, FOLD_AT_ONCE, dim=1):
            X = matrix.completed(part)
            Y = X @ values.transpose(1, 2)
            if not (torch.isfinite(X).all() and torch.isfinite(Y).all()):
                _raise_not_finite(matrix.name)
            for g, root in enumerate(roots):
                roots[g] = root.folded(X[g].numpy(), Y[g].numpy(), donate=True)  # (O1)

    def _fold_sketched(self, matrix: WeightMatrix, rows: Tensor) -> None:
        for part in torch.split(rows, SUM_AT_ONCE, dim=1):
            X = matrix.completed(part, rows.device, torch.float32)
            for g, sketch in enumerate(self._sketches[matrix.name]):
                sketch.fold(X[g])
                if not math.isfinite(sketch.energy):  # as soon as one input is not
                    _raise_not_finite(matrix.name)

    def gathered(self, device: torch.device) -> "InputRecorder":
        """Combine the recordings of all processes of a distributed run, identically in each of them."""
        for name, matrix in self.roles.matrices.items():
            groups, outputs, inputs = matrix.shape
            mine = self.roots.get(name) or [empty_root(inputs, outputs, self.rank) for _ in range(groups)]
            rows = sum(int(count) for count in all_gather(torch.tensor([self.rows.get(name, 0)], device="cpu"), device))
            arrays = [(root.factor, root.target, root.rest, np.array([dropped_energy(root)])) for root in mine]
            found = [[all_gather(torch.from_numpy(np.ascontiguousarray(a)), device) for a in r] for r in arrays]
            if rows:
                self.rows[name], self.roots[name] = rows, [_merged(group, self.rank) for group in found]
        self.looked_up = {name: any_process(used, device) for name, used in self.looked_up.items()}
        flags = [self.begun, *self.called.values(), *self.read.values()]
        self.begun, *flags = any_process(torch.tensor(flags, device="cpu"), device).tolist()
        self.called = dict(zip(self.called, flags, strict=False))
        self.read = dict(zip(self.read, flags[len(self.called) :], strict=True))
        return self


def _raise_not_finite(name: str) -> NoReturn:
    raise InputError(
        f"the inputs or outputs of layer {name} contain NaN or infinity; check the batches and the weights (nothing "
        "was absorbed)"
    )


class Lookups(TorchFunctionMode):
    """Reports the rows of a table that are used, for modules that compute the indices themselves.

    Besides F.embedding: what is taken from a table by indices is taken from the numbers of its rows too. Of a table
    that is used in any other way, all rows are reported.
    """

    def __init__(self, weight: Tensor, report: Callable[[Tensor], None]) -> None:
        super().__init__()
        self.weight, self.report = weight, report

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        found = func(*args, **kwargs)
        if func in (nn.functional.embedding, nn.functional.embedding_bag):
            named = dict(zip(("input", "weight"), args, strict=False)) | kwargs
            if named["weight"] is self.weight:
                self.report(named["input"])
        elif args and args[0] is self.weight and isinstance(found, Tensor):  # (no size, no dtype)
            every = torch.arange(len(self.weight), device=self.weight.device)
            taken = func in (Tensor.__getitem__, Tensor.index_select, torch.index_select)
            rows = func(every[:, None].expand_as(self.weight), *args[1:], **kwargs) if taken else every
            self.report(torch.unique(rows))
        return found


@contextmanager
def _explain_vmap_errors() -> Iterator[None]:
    """Re-raise torch's error about hooks that read values under vmap as InputError."""
    try:
        yield
    except RuntimeError as error:
        if not str(error).startswith("vmap"):
            raise
        raise InputError(
            "expected a model whose layers' inputs can be recorded, got one that calls them under vmap "
            f"({first_line(error)}); call them on the whole batch, or use OGD"
        ) from error


def _merged(group: list[list[Tensor]], rank: int | None) -> LayerRoot:
    """Merge the factors, targets and rests that each process sent into one root, in rank order."""
    sent = [[part.numpy() for part in parts] for parts in zip(*group, strict=True)]
    whole, *others = (root_from_arrays(a, z, rest, rank, float(dropped[0])) for a, z, rest, dropped in sent)
    for root in others:
        whole = whole.merged(root, donate=True)  # type: ignore[arg-type]  # all are of one kind
    return whole
