"""Find the user's own module inside `torch.compile` and data-parallel wrappers."""

import sys

from torch import nn


def wrapper_chain(model: nn.Module) -> list[nn.Module]:
    """Return the model and, in order, what is inside its `torch.compile` and data-parallel wrappers."""
    compiler = sys.modules.get(
        "torch._dynamo.eval_frame"
    )  # takes seconds to import; already imported if anything was compiled
    found = [model]
    while True:
        if compiler is not None and isinstance(found[-1], compiler.OptimizedModule):
            found.append(found[-1]._orig_mod)
        elif isinstance(found[-1], nn.parallel.DistributedDataParallel | nn.DataParallel):
            found.append(found[-1].module)
        else:
            return found


def unwrap(model: nn.Module) -> nn.Module:
    """Return the user's own module behind all wrappers; it has the same parameters, and its hooks fire."""
    return wrapper_chain(model)[-1]
