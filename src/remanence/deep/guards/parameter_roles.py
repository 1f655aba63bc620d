"""Which rule protects which parameter of a model, so that every parameter is accounted for.

    module                                      rule
    Linear, Conv, ConvTranspose, attention,     a memory of the inputs of each weight matrix (nn/layer_rules.py); also
    RNN/GRU/LSTM, Conv1D of transformers        of weights that are parametrized and can be assigned (weight norm)
    Embedding, EmbeddingBag                     the rows that were looked up are frozen
    an embedding that is also a head            both rules at once: its rows, and the head's outputs; its bias is frozen
    LayerNorm, BatchNorm, PReLU, …, any other   scale, shift and running statistics are frozen
    module of vectors that is called a norm
    pairs of low-rank adapters (LoRA)           A is kept away from earlier inputs, which leaves B free (adapters.py)
    buffers of other modules                    those that a forward pass reads are frozen (projection/buffers.py)
    parameters named in `frozen`                frozen
    parameters named in `free`                  left to the optimizer, not protected

Frozen means: trained during the first task, fixed from the first `absorb` on (a norm: the first that calls it).
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from torch import Tensor, nn

from remanence.deep.guards.projection.buffers import BufferLocation, buffer_locations
from remanence.deep.nn.adapters import AdapterPair, Magnitude, adapter_pairs
from remanence.deep.nn.layer_rules import recorded_modules
from remanence.deep.nn.layers import RecordedModule, WeightMatrix
from remanence.errors import InputError

NORMS = (nn.LayerNorm, nn.GroupNorm, nn.RMSNorm, nn.modules.batchnorm._NormBase, nn.LocalResponseNorm, nn.PReLU)
TABLES = (nn.Embedding, nn.EmbeddingBag)
Table = nn.Embedding | nn.EmbeddingBag


@dataclass(frozen=True)
class ParameterRoles:
    """The parameters of a model, sorted by the rule that protects them."""

    recorded: tuple[RecordedModule, ...]
    matrices: dict[str, WeightMatrix]
    aliases: dict[str, str]  # a matrix → the name of its memory, the same for all matrices that share weights
    tables: dict[str, Table]
    frozen: dict[str, Tensor]
    norms: dict[str, nn.Module]  # and other modules with vectors that are frozen once the module is called
    norm_of: dict[str, str]  # a frozen tensor → its norm; other tensors are frozen after the first task, called or not
    adapters: tuple[AdapterPair, ...]
    magnitudes: dict[str, Magnitude]  # of adapters with a scale of their own, which is kept
    kept: tuple[nn.Parameter, ...]  # all parameters that a rule protects
    buffers: dict[str, BufferLocation]  # outside norms
    read: frozenset[str]  # buffers that are frozen once a forward pass reads them, unless `frozen` names them

    def frozen_norms(self, frozen: Iterable[str]) -> tuple[nn.Module, ...]:
        """Return the norms whose running statistics are frozen, and which therefore use them during training."""
        return tuple(norm for name, norm in self.norms.items() if _inside(name, "running_mean") in set(frozen))


def assign_roles(model: nn.Module, frozen: Iterable[str] = (), free: Iterable[str] = ()) -> ParameterRoles:
    """Sort the parameters of a model by rule; raise InputError if no rule covers one."""
    frozen, free = check_patterns(model, frozen, "frozen"), check_patterns(model, free, "free")
    named = dict(model.named_parameters(remove_duplicate=False))
    _check_wrappers(model)
    _check_parameters(named)
    pinned = {id(p) for n, p in named.items() if matches(n, frozen)}
    unprotected = {id(p) for n, p in named.items() if matches(n, free)} - pinned
    found = list(recorded_modules(model))
    # every input contains the constant one, so if the weight is frozen the bias must be frozen too
    biases = [m.bias_parameter for w in found for m in w.matrices if id(m.weight_parameter) in pinned]
    pinned |= {id(bias) for bias in biases if bias is not None} - unprotected
    tables = {
        name: m
        for name, m in model.named_modules()
        if isinstance(m, TABLES) and id(m.weight) not in pinned and id(m.weight) not in unprotected
    }
    _check_tables(tables)
    tied = {id(m.weight) for m in tables.values()}
    adapters = tuple(adapter_pairs(model))
    alone = tied | {id(pair.up_module.weight) for pair in adapters}
    recorded, matrices, aliases = _merge_shared(_without_named(w, pinned, unprotected, alone) for w in found)
    kept = {id(p) for m in matrices.values() for p in m.parameters}
    frozen_tensors: dict[str, Tensor] = {name: p for name, p in named.items() if id(p) in pinned}
    frozen_tensors |= {name: b for name, b in model.named_buffers() if matches(name, frozen)}
    batch_norms(model)
    norms: dict[str, nn.Module] = {}
    norm_of: dict[str, str] = {}
    for name, (norm, own) in _frozen_once_called(model, matrices).items():
        norms[name] = norm
        norm_of |= {n: name for n in own if n not in frozen_tensors and not matches(n, free)}
        frozen_tensors |= {n: own[n] for n in norm_of if n in own}
    in_norms = set(norms.values())
    buffers = {n: location for n, location in buffer_locations(model).items() if location[0] not in in_norms}
    read = frozenset(n for n in buffers if n not in frozen_tensors and not matches(n, free))
    frozen_tensors |= {n: module.get_buffer(own) for n, (module, own) in buffers.items() if n in read}
    pairs = tuple(pair for pair in adapters if pair.down in aliases and pair.up in aliases)
    magnitudes = {
        pair.magnitude.name: pair.magnitude
        for pair in pairs
        if pair.magnitude is not None and id(pair.magnitude.parameter) not in pinned | unprotected
    }
    scales = {id(magnitude.parameter) for magnitude in magnitudes.values()}
    protected = kept | tied | scales | {id(t) for t in frozen_tensors.values()}
    unassigned = [n for n, p in named.items() if p.requires_grad and id(p) not in protected | unprotected]
    if unassigned:
        raise InputError(
            f"no rule protects {_shortened(unassigned)}{_reason(model, unassigned)}: expected parameters of Linear, "
            "Conv, Embedding, MultiheadAttention, RNN, GRU, LSTM and norm modules; name the others in frozen=(…) to "
            "freeze them after the first task, or in free=(…) to leave them to the optimizer without protection "
            "(patterns such as 'rnn.*' are accepted)"
        )
    parameters = tuple(p for p in model.parameters() if id(p) in protected)
    if not any(p.requires_grad for p in named.values()):
        raise InputError(
            "expected a model with parameters to train, got one in which all are frozen (requires_grad is False): "
            "nothing needs a guard"
        )
    return ParameterRoles(
        recorded,
        matrices,
        aliases,
        tables,
        frozen_tensors,
        norms,
        norm_of,
        pairs,
        magnitudes,
        parameters,
        buffers,
        read,
    )


def _frozen_once_called(
    model: nn.Module, matrices: dict[str, WeightMatrix]
) -> dict[str, tuple[nn.Module, dict[str, Tensor]]]:
    """Return the modules with vectors to freeze once they are called, and those vectors and buffers by full name."""
    found: dict[str, tuple[nn.Module, dict[str, Tensor]]] = {}
    biases = {id(m.bias_parameter) for m in matrices.values()}
    multiplying = {m.module for m in matrices.values()}
    for name, module in model.named_modules():
        if is_norm(module):
            own = {_inside(name, n): t for n, t in (*module.named_parameters(), *module.named_buffers())}
            found[name] = (module, own)
        elif module in multiplying:  # a bias that its matrix leaves out
            bias = module._parameters.get("bias")
            if bias is not None and id(bias) not in biases:
                found[name] = (module, {_inside(name, "bias"): bias})
    return found


def is_norm(module: nn.Module) -> bool:
    """Return whether a module only scales and shifts: a norm of torch, or one of vectors that is called a norm."""
    if isinstance(module, NORMS):
        return True
    plain = not any(True for _ in module.children()) and not any(True for _ in module.buffers())
    parameters = list(module.parameters())
    return "norm" in type(module).__name__.lower() and plain and all(p.dim() <= 1 for p in parameters)


def _reason(model: nn.Module, names: list[str]) -> str:
    """Say why a parameter of a parametrization has no rule."""
    if any(".parametrizations." in f".{name}" for name in names):
        return (
            " (a weight that is computed by a parametrization is protected if it takes any value assigned to it, as "
            "weight_norm does; try torch.nn.utils.parametrize.remove_parametrizations)"
        )
    return ""


def _check_wrappers(model: nn.Module) -> None:
    if any(type(module).__name__ == "FullyShardedDataParallel" for module in model.modules()):
        raise InputError(
            "expected a model with its own parameters, got FullyShardedDataParallel, which flattens them into one and "
            "splits that over processes; use fully_shard (FSDP2), or DistributedDataParallel"
        )


def _check_parameters(named: dict[str, nn.Parameter]) -> None:
    for name, parameter in named.items():
        if nn.parameter.is_lazy(parameter):
            raise InputError(f"{name} has no size yet; run one batch through the model before creating the guard")
        if parameter.is_meta:
            raise InputError(
                f"expected parameters with values, got {name} on the meta device; load its weights first (with "
                "Accelerate: without device_map offloading)"
            )
        if parameter.is_inference():
            raise InputError(
                f"expected parameters to train, got {name} made in inference_mode; make the model outside of it"
            )
        if parameter.is_complex():
            raise InputError(f"expected real parameters, got {name} of {parameter.dtype}")


def _without_named(
    recorded: RecordedModule, pinned: set[int], unprotected: set[int], alone: set[int]
) -> RecordedModule:
    """Remove from a module the matrices and biases that `frozen` and `free` name, and the biases of weights in `alone`.

    If a row of a tied weight is frozen, only the bias could undo what the constant input adds, and it must not change.
    The B of a low-rank adapter is free because its inputs are zero on what was absorbed; the constant input never is.
    """
    out = pinned | unprotected
    left = [m for m in recorded.matrices if not any(id(p) in out for p in m.weight_parameters)]
    return replace(
        recorded,
        matrices=tuple(
            replace(m, bias_name="") if id(m.bias_parameter) in out or id(m.weight_parameter) in alone else m
            for m in left
        ),
    )


def batch_norms(model: nn.Module) -> tuple[nn.Module, ...]:
    """Return the batch norms of a model; raise InputError if one has no running statistics."""
    found = []
    for name, module in model.named_modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            if not module.track_running_stats:
                raise InputError(
                    f"{name} normalizes by batch statistics even in eval mode, so outputs depend on the other samples "
                    "of the batch; set track_running_stats=True, or use GroupNorm or LayerNorm"
                )
            found.append(module)
    return tuple(found)


def _merge_shared(
    found: Iterable[RecordedModule],
) -> tuple[tuple[RecordedModule, ...], dict[str, WeightMatrix], dict[str, str]]:
    """Give layers that share their weights one memory."""
    recorded, matrices, aliases = [], {}, {}
    owner: dict[tuple[int, int | None], WeightMatrix] = {}
    for w in found:
        recorded.append(w)
        for m in w.matrices:
            first = owner.setdefault((id(m.weight_parameter), m.weight_part.start), m)
            aliases[m.name] = first.name
            matrices[first.name] = first
            if [id(p) for p in first.parameters] != [id(p) for p in m.parameters] or first.shape != m.shape:
                raise InputError(
                    f"{first.name} and {m.name} share a weight but not the bias, so one memory cannot protect both; "
                    "untie them, or name weight and biases in frozen=(…)"
                )
    return tuple(recorded), matrices, aliases


def _check_tables(tables: dict[str, Table]) -> None:
    for name, table in tables.items():
        if table.max_norm is not None:
            raise InputError(
                f"{name} rescales its rows in the forward pass (max_norm), so they cannot be protected; drop max_norm"
            )


def _inside(module: str, name: str) -> str:
    return f"{module}.{name}" if module else name


def copy_to_cpu(tensor: Tensor) -> Tensor:
    return tensor.detach().to("cpu", copy=True)


def check_patterns(model: nn.Module, names: Iterable[str], what: str) -> tuple[str, ...]:
    """Return names or patterns of parameters; raise InputError if one matches no parameter of the model."""
    if isinstance(names, str):
        raise InputError(
            f"expected {what} to be a list of names, got the one string {names!r}; try {what}=({names!r},)"
        )
    names_in_model = [name for name, _ in (*model.named_parameters(remove_duplicate=False), *model.named_buffers())]
    for pattern in (given := tuple(names)):
        if not any(matches(name, (pattern,)) for name in names_in_model):
            raise InputError(
                f"expected the names in frozen and free to match parameters of the model, got {pattern!r}; "
                f"the model has {_shortened(names_in_model)}"
            )
    return given


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Return whether a pattern matches the parameter's name or names a module that contains it."""
    return any(fnmatchcase(name, p) or name.startswith(p + ".") for p in patterns)


def _shortened(names: list[str]) -> str:
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
