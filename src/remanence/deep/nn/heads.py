"""Output layers for growing problems: one head per task, or one head that gets more outputs."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from remanence.errors import InputError
from remanence.validation import check_count


class MultiHead(nn.Module):
    """A shared trunk with one Linear head per task.

    ``model(x, task)`` returns the outputs of that task's head, ``model(x)`` those of all heads side by side. Training
    on one task does not change the heads of the others.

    Parameters
    ----------
    trunk : torch.nn.Module
        Maps a batch to features of shape (n, features).
    features : int
        Number of features the trunk returns.
    outputs : sequence of int
        Number of outputs of each task's head.
    bias : bool
        Whether the heads have a bias.

    Examples
    --------
    >>> import torch, remanence as rm
    >>> net = rm.deep.MultiHead(torch.nn.Linear(4, 8), features=8, outputs=[2, 3])
    >>> x = torch.zeros(5, 4)
    >>> net(x, task=1).shape, net(x).shape
    (torch.Size([5, 3]), torch.Size([5, 5]))
    """

    def __init__(self, trunk: nn.Module, features: int, outputs: Sequence[int], bias: bool = True) -> None:
        super().__init__()
        if isinstance(outputs, int) or not len(outputs):
            raise InputError(
                f"expected outputs to list the number of outputs of every task, got {outputs!r}; try [2, 2, 2]"
            )
        widths = [check_count(n, "every number of outputs") for n in outputs]
        self.trunk = trunk
        self.heads = nn.ModuleList(nn.Linear(check_count(features, "features"), n, bias) for n in widths)

    @property
    def widths(self) -> list[int]:
        """Number of outputs of each head."""
        return [int(head.out_features) for head in self.heads]  # type: ignore[arg-type]

    def forward(self, x: Tensor, task: int | None = None) -> Tensor:
        """Compute the outputs of one head or of all heads.

        Parameters
        ----------
        x : Tensor of shape (n, …)
            A batch of inputs.
        task : int, optional
            Which head to use; by default all of them.

        Returns
        -------
        Tensor of shape (n, outputs)
            Outputs of the task's head, or of all heads side by side.
        """
        features = self.trunk(x)
        if task is None:
            return torch.cat([head(features) for head in self.heads], dim=1)
        outputs: Tensor = self.heads[task](features)
        return outputs


def add_outputs(layer: nn.Linear, outputs: int) -> None:
    """Widen a Linear layer to `outputs` outputs, replacing its parameters; the new weights and biases are zero."""
    more = outputs - layer.out_features
    for key, parameter in list(layer.named_parameters(recurse=False)):
        zeros = parameter.new_zeros((more, *parameter.shape[1:]))
        grown = torch.cat([parameter.detach(), zeros])
        setattr(layer, key, nn.Parameter(grown, requires_grad=parameter.requires_grad))
    layer.out_features = outputs
