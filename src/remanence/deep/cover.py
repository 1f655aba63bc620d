"""Which rule keeps which parameter of a model, so that none moves unseen.

    Linear, Conv1d/2d/3d, MultiheadAttention    a memory of the inputs of each weight matrix (layers.py)
    Embedding, EmbeddingBag                     the rows that were looked up are held
    LayerNorm, GroupNorm, BatchNorm, …          scale, shift and running statistics are held
    what `frozen` names                         held
    what `free` names                           left to the optimizer: its part in old answers is not protected

Held means: free during the first task, kept to the bit from the first `absorb` on.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

import torch
from torch import Tensor, nn

from remanence.deep.layers import Matrix, Watched, watched_in
from remanence.errors import InputError

NORMS = (nn.LayerNorm, nn.GroupNorm, nn.RMSNorm, nn.modules.batchnorm._NormBase, nn.LocalResponseNorm)
TABLES = (nn.Embedding, nn.EmbeddingBag)
Table = nn.Embedding | nn.EmbeddingBag


@dataclass(frozen=True)
class Cover:
    """The parameters of a model, sorted by what keeps them."""

    watched: tuple[Watched, ...]
    matrices: dict[str, Matrix]
    aliases: dict[str, str]  # a layer that shares its weights → the name its memory goes by
    tables: dict[str, Table]
    held: dict[str, Tensor]
    steady: tuple[nn.Module, ...]  # batch norms: they answer with their running statistics once these are held


def unwrapped(model: nn.Module) -> nn.Module:
    """The user's own module behind `torch.compile` and DistributedDataParallel: same parameters, hooks that fire."""
    from torch._dynamo.eval_frame import OptimizedModule

    while True:
        if isinstance(model, OptimizedModule):
            model = model._orig_mod
        elif isinstance(model, nn.parallel.DistributedDataParallel | nn.DataParallel):
            model = model.module
        else:
            return model


def cover(model: nn.Module, frozen: Iterable[str] = (), free: Iterable[str] = ()) -> Cover:
    """Sort the parameters of a model; refuse one that no rule knows."""
    frozen, free = patterns(model, frozen, "frozen"), patterns(model, free, "free")
    named = dict(model.named_parameters(remove_duplicate=False))
    watched, matrices, aliases = _without_twins(
        w for w in watched_in(model) if not all(matches(n, (*frozen, *free)) for n in _names(named, w))
    )
    kept = {id(p) for m in matrices.values() for p in m.parameters}
    tables = {
        name: m
        for name, m in model.named_modules()
        if isinstance(m, TABLES) and not matches(f"{name}.weight", (*frozen, *free))
    }
    held: dict[str, Tensor] = {name: p for name, p in named.items() if matches(name, frozen)}
    for name, module in model.named_modules():
        if isinstance(module, NORMS):
            own = {f"{name}.{n}" if name else n: t for n, t in (*module.named_parameters(), *module.named_buffers())}
            held |= {n: t for n, t in own.items() if not matches(n, free)}
    _check_tables(tables, kept)
    known = kept | {id(m.weight) for m in tables.values()} | {id(t) for t in held.values()}
    lost = [n for n, p in named.items() if p.requires_grad and id(p) not in known and not matches(n, free)]
    if lost:
        raise InputError(
            f"no rule keeps {_few(lost)}: expected parameters of Linear, Conv, Embedding, MultiheadAttention and norm "
            "modules; name the others in frozen=(…) to hold them after the first task, or in free=(…) to leave them "
            "to the optimizer without protection (patterns such as 'rnn.*' are understood)"
        )
    return Cover(watched, matrices, aliases, tables, held, batch_norms(model))


def batch_norms(model: nn.Module) -> tuple[nn.Module, ...]:
    """The batch norms of a model; refused where one has no running statistics to answer with."""
    found = []
    for name, module in model.named_modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            if not module.track_running_stats:
                raise InputError(
                    f"{name} normalises by the statistics of the batch even in eval mode, so an old answer depends "
                    "on what else is in its batch; give it track_running_stats=True, or use GroupNorm or LayerNorm"
                )
            found.append(module)
    return tuple(found)


def _without_twins(found: Iterable[Watched]) -> tuple[tuple[Watched, ...], dict[str, Matrix], dict[str, str]]:
    """Layers that share their weights share one memory."""
    watched, matrices, aliases = [], {}, {}
    owner: dict[tuple[int, int | None], Matrix] = {}
    for w in found:
        watched.append(w)
        for m in w.matrices:
            first = owner.setdefault((id(m.parameters[0]), m.part.start), m)
            aliases[m.name] = first.name
            matrices[first.name] = first
            if [id(p) for p in first.parameters] != [id(p) for p in m.parameters] or first.shape != m.shape:
                raise InputError(
                    f"{first.name} and {m.name} share a weight but not the bias, so no one memory keeps both; "
                    "untie them, or name the weight in frozen=(…)"
                )
    return tuple(watched), matrices, aliases


def _check_tables(tables: dict[str, Table], kept: set[int]) -> None:
    for name, table in tables.items():
        if table.max_norm is not None:
            raise InputError(f"{name} rescales its rows while it answers (max_norm), so they cannot be kept; drop it")
        if id(table.weight) in kept:
            raise InputError(
                f"{name}.weight is also the weight of another layer, and no one rule keeps both uses; "
                f"untie them, or name it in frozen=('{name}.weight',)"
            )


def held_value(tensor: Tensor) -> Tensor:
    return tensor.detach().to("cpu", copy=True)


def _names(named: dict[str, nn.Parameter], watched: Watched) -> list[str]:
    own = {id(p) for m in watched.matrices for p in m.parameters}
    return [name for name, p in named.items() if id(p) in own]


def patterns(model: nn.Module, names: Iterable[str], what: str) -> tuple[str, ...]:
    """Names or patterns of parameters; refused where one names no parameter of the model."""
    if isinstance(names, str):
        raise InputError(
            f"expected {what} to be a list of names, got the one string {names!r}; try {what}=({names!r},)"
        )
    known = [name for name, _ in model.named_parameters(remove_duplicate=False)]
    for pattern in (given := tuple(names)):
        if not any(matches(name, (pattern,)) for name in known):
            raise InputError(
                f"expected the names in frozen and free to match parameters of the model, got {pattern!r}; "
                f"the model has {_few(known)}"
            )
    return given


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Whether a parameter is meant: by its own name, by a pattern, or by the module it stands in."""
    return any(fnmatchcase(name, p) or name.startswith(p + ".") for p in patterns)


def _few(names: list[str]) -> str:
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def outputs_of(answer: object) -> list[Tensor]:
    """Every tensor of real numbers in whatever a model answers."""
    from torch.utils._pytree import tree_leaves

    return [t.detach() for t in tree_leaves(answer) if isinstance(t, Tensor) and torch.is_floating_point(t)]
