"""The last layer where tasks or classes keep coming: one head a task, or one head that grows."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from remanence.errors import InputError
from remanence.validation import check_count


class MultiHead(nn.Module):
    """A shared trunk and a Linear head for every task; a head that a task does not use is not touched by it.

    Called as model(x, task) it answers with the head of that task, as model(x) with all heads side by side.

    Parameters
    ----------
    trunk : torch.nn.Module
        Gives features (n, features).
    features : int
        The width of what the trunk gives.
    outputs : sequence of int
        The outputs of each task's head.
    bias : bool
        Whether the heads have a bias.
    """

    def __init__(self, trunk: nn.Module, features: int, outputs: Sequence[int], bias: bool = True) -> None:
        super().__init__()
        if isinstance(outputs, int) or not len(outputs):
            raise InputError(f"expected outputs to list the outputs of every task, got {outputs!r}; try [2, 2, 2]")
        widths = [check_count(n, "every number of outputs") for n in outputs]
        self.trunk = trunk
        self.heads = nn.ModuleList(nn.Linear(check_count(features, "features"), n, bias) for n in widths)

    @property
    def widths(self) -> list[int]:
        """The outputs of each head."""
        return [int(head.out_features) for head in self.heads]  # type: ignore[arg-type]

    def forward(self, x: Tensor, task: int | None = None) -> Tensor:
        """The answers of one head (n, outputs of the task), or of all of them (n, outputs of all tasks)."""
        features = self.trunk(x)
        if task is None:
            return torch.cat([head(features) for head in self.heads], dim=1)
        answers: Tensor = self.heads[task](features)
        return answers


def add_outputs(layer: nn.Linear, outputs: int) -> None:
    """Widen a Linear layer to `outputs`; the new ones answer zero. It gets new parameters."""
    more = outputs - layer.out_features
    for key, parameter in list(layer.named_parameters(recurse=False)):
        zeros = parameter.new_zeros((more, *parameter.shape[1:]))
        grown = torch.cat([parameter.detach(), zeros])
        setattr(layer, key, nn.Parameter(grown, requires_grad=parameter.requires_grad))
    layer.out_features = outputs
