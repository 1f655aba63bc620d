"""Guard callback for the Trainer of Lightning."""

from collections.abc import Callable
from typing import Any

from lightning.pytorch.callbacks import Callback

from remanence.deep.guards.guard import Guard
from remanence.deep.integrations.attached_guard import AttachedGuard, Batches


class LightningGuardCallback(Callback):  # type: ignore[misc]
    """Lightning callback that guards every optimizer step, absorbs at the end and is part of checkpoints.

    Parameters
    ----------
    guard : Guard
        A guard of the LightningModule, or of a module inside it.
    absorb : "train", iterable of batches or callable, optional
        What to protect once training has ended: "train" takes the training batches, a callable returns batches. None
        absorbs nothing; call `absorb_now` or `guard.absorb` yourself.
    forward : callable, optional
        Called as forward(model, batch) to absorb a batch, with the guarded model; by default the batch is moved to the
        model's device and passed without its labels (the last element of a tuple).

    Examples
    --------
    >>> import torch, remanence as rm
    >>> model = torch.nn.Linear(4, 2)
    >>> callback = rm.deep.integrations.lightning.GuardCallback(rm.deep.GradientProjection(model), absorb="train")
    >>> # Trainer(callbacks=[callback]).fit(module, loader)
    """

    def __init__(self, guard: Guard, absorb: Any = None, forward: Callable[..., Any] | None = None) -> None:
        self.attached = AttachedGuard(guard, None, forward)
        self.guard, self.source = guard, absorb

    def absorb_now(self, batches: Batches) -> Any:
        """Absorb batches at once, also in the middle of training.

        Parameters
        ----------
        batches : iterable
            Batches as the training loader returns them.

        Returns
        -------
        GuardReport or GradientReport
            What is protected now.
        """
        return self.attached.absorb(batches)

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        self.attached.begin(pl_module, trainer.optimizers)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        train = isinstance(self.source, str)
        self.attached.source = trainer.train_dataloader if train else self.source
        self.attached.end()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self.attached.abandon(exception)

    def state_dict(self) -> dict[str, Any]:
        """Return the guard's memory, which Lightning stores in its checkpoints."""
        return {"memory": self.guard.state_dict()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the guard's memory from a checkpoint."""
        self.guard.load_state_dict(state_dict["memory"])


GuardCallback = LightningGuardCallback
