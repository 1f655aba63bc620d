"""Parameters that FSDP2 (`torch.distributed.fsdp.fully_shard`) splits over the processes of a training run.

Each process holds some rows of every parameter, cut as `torch.chunk` cuts (the last ones may get none):

    rows [r c, (r + 1) c),   c = ⌈n / p⌉             (H1)   of n rows, in process r of p

A module gathers whole parameters for a forward or backward pass and then takes them off again; some keep them until the
next backward pass (`reshard` takes them off). Functions named here accept ordinary tensors too, of which every row is
at hand.
"""

import sys
from typing import Any

import torch
from torch import Tensor, nn

from remanence.errors import InputError


def is_shard(tensor: Tensor) -> bool:
    """Return whether a tensor is split over processes."""
    distributed = sys.modules.get("torch.distributed.tensor")  # takes seconds to import
    return distributed is not None and isinstance(tensor, distributed.DTensor)


def sharded_modules(model: nn.Module) -> list[Any]:
    """Return the modules inside a model that `fully_shard` was called on."""
    fsdp = sys.modules.get("torch.distributed.fsdp")
    kind = getattr(fsdp, "FSDPModule", None)
    return [] if kind is None else [module for module in model.modules() if isinstance(module, kind)]


def is_sharded(model: nn.Module) -> bool:
    """Return whether parameters of a model are split over processes."""
    return bool(sharded_modules(model)) or any(map(is_shard, model.parameters()))


def reshard(model: nn.Module) -> None:
    """Take off whole parameters that modules have kept since their last call; they do not follow the shards."""
    for module in sharded_modules(model):
        module.reshard()


def local(tensor: Tensor) -> Tensor:
    """Return the memory that this process has of a tensor."""
    part: Tensor = getattr(tensor, "_local_tensor", tensor)
    return part


def version(tensor: Tensor) -> int:
    """Return a number that grows whenever a tensor, or what this process has of it, is written to."""
    part = local(tensor)
    return tensor._version if part is tensor else tensor._version + part._version


def own_rows(tensor: Any) -> range:
    """Return the rows of a tensor that this process holds (H1)."""
    rows = len(tensor)
    if not is_shard(tensor):
        return range(rows)
    axis = _sharded_axis(tensor)
    size, rank = tensor.device_mesh.size(axis), tensor.device_mesh.get_local_rank(axis)
    count = -(-rows // size)
    return range(min(rank * count, rows), min((rank + 1) * count, rows))


@torch.no_grad()
def gathered(tensor: Any) -> Tensor:
    """Return a copy of the whole tensor on the device that computes; all processes have to call this together."""
    if not is_shard(tensor):
        return tensor.detach().clone()  # type: ignore[no-any-return]
    from torch.distributed.tensor import DTensor

    mesh, shape, stride = tensor.device_mesh, tensor.shape, tensor.stride()
    part = local(tensor).detach().to(mesh.device_type)  # parameters may be kept on the CPU
    there = DTensor.from_local(part, mesh, tensor.placements, run_check=False, shape=shape, stride=stride)
    whole = there.full_tensor()
    return whole.clone() if whole.untyped_storage().data_ptr() == part.untyped_storage().data_ptr() else whole


@torch.no_grad()
def write(tensor: Tensor, whole: Tensor) -> None:
    """Copy values into a tensor, of which this process takes its own rows."""
    rows = own_rows(tensor) if is_shard(tensor) else None
    local(tensor).copy_(whole if rows is None else whole[rows.start : rows.stop])


def check_whole(model: nn.Module, what: str) -> None:
    """Raise InputError if parameters of a model are split over processes."""
    if "torch.distributed.tensor" not in sys.modules:
        return
    names = [name for name, p in model.named_parameters() if is_shard(p)]
    if names or sharded_modules(model):
        raise InputError(
            f"expected whole parameters, got {names[0] if names else 'some'} sharded over processes (fully_shard): "
            f"{what} needs every weight on each process; train with DistributedDataParallel instead, or use "
            "GradientProjection, OWM or ScaledProjection"
        )


def check_shards(model: nn.Module) -> None:
    """Raise InputError for parameters that are split in other ways than `fully_shard` splits them by default."""
    if not is_sharded(model):
        return
    inside = {p for module in sharded_modules(model) for p in module.parameters()}
    for name, p in model.named_parameters():
        if ".parametrizations." in f".{name}":
            raise InputError(
                f"{name} is sharded over processes, and a weight is computed from it by a parametrization, which a "
                "guard has to write through; remove it (torch.nn.utils.parametrize.remove_parametrizations), or train "
                "with DistributedDataParallel instead"
            )
        if not is_shard(p):
            if p.requires_grad:
                raise InputError(
                    f"expected a model of which all trained parameters are sharded, got {name} whole: its gradients "
                    "are not averaged over the processes; call fully_shard on the whole model last, without "
                    "ignored_params, or freeze it (requires_grad_(False)); after an exception in a forward pass, call "
                    "reset_iter_state() on the sharded model"
                )
        elif p not in inside:
            raise InputError(
                f"expected a model that fully_shard was called on, got a part of one ({name} is sharded by a module "
                "around it, or not by fully_shard); create the guard from the module given to fully_shard"
            )
        else:
            _check_placement(name, p)


def computing_device(model: nn.Module) -> torch.device:
    """Return the device that a model computes on; shards may be kept on another one."""
    parameter: Any = next(model.parameters())
    if not is_shard(parameter):
        return parameter.device  # type: ignore[no-any-return]
    kind = parameter.device_mesh.device_type
    return torch.device(kind) if kind == "cpu" else torch.device(kind, torch.get_device_module(kind).current_device())


def _check_placement(name: str, parameter: Any) -> None:
    world = torch.distributed.get_world_size()
    split = [placement for placement in parameter.placements if not placement.is_replicate()]
    plain = len(split) == 1 and type(split[0]).__name__ == "Shard" and split[0].dim == 0
    if not plain or parameter.device_mesh.size() != world or len(local(parameter)) != len(own_rows(parameter)):
        raise InputError(
            f"expected parameters sharded by rows over all {world} processes (fully_shard, also with replicas), got "
            f"{name} as {parameter.placements} on {parameter.device_mesh}; leave shard_placement_fn and tensor "
            "parallelism out, or train with DistributedDataParallel instead"
        )


def _sharded_axis(tensor: Any) -> int:
    return next(axis for axis, placement in enumerate(tensor.placements) if not placement.is_replicate())
