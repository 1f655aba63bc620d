"""Guard callback for the Trainer of Hugging Face transformers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, Subset
from transformers import TrainerCallback

from remanence.deep.guards.guard import Guard
from remanence.deep.integrations.attached_guard import AttachedGuard, Batches
from remanence.deep.training.checkpoint import read_checkpoint, write_checkpoint
from remanence.errors import InputError

FILE = "guard.remanence"  # beside the weights in each checkpoint folder


class TrainerGuardCallback(TrainerCallback):  # type: ignore[misc]
    """Trainer callback that guards every optimizer step, absorbs at the end and stores the guard in checkpoints.

    The guard is attached to the optimizer inside Accelerate's wrapper. Each checkpoint folder gets a file with the
    guard's memory; a resumed run continues with it. If several processes train, each absorbs its own batches and all
    get the same memory.

    Parameters
    ----------
    guard : Guard
        A guard of the model that is given to the Trainer.
    absorb : "train", Dataset, iterable of batches or callable, optional
        What to protect once training has ended: "train" takes the training batches, a dataset is batched as the
        Trainer's own, a callable returns batches. None absorbs nothing; call `absorb_now` or `guard.absorb` yourself.
    forward : callable, optional
        Called as forward(model, batch) to absorb a batch; by default the batch is moved to the model's device and
        passed without its labels.

    Examples
    --------
    >>> import torch, remanence as rm
    >>> model = torch.nn.Linear(4, 2)
    >>> callback = rm.deep.integrations.huggingface.GuardCallback(rm.deep.GradientProjection(model), absorb="train")
    >>> # Trainer(model, args, train_dataset=…, callbacks=[callback]).train()
    """

    def __init__(self, guard: Guard, absorb: Any = None, forward: Callable[..., Any] | None = None) -> None:
        if isinstance(absorb, str) and absorb != "train":
            raise InputError(f"expected absorb to be 'train', a dataset, batches or a function, got {absorb!r}")
        self.attached = AttachedGuard(guard, None, forward)
        self.guard, self.source = guard, absorb

    def absorb_now(self, batches: Batches) -> Any:
        """Absorb batches at once, also in the middle of training.

        Parameters
        ----------
        batches : iterable
            Batches as a DataLoader of the Trainer returns them; labels are left out.

        Returns
        -------
        GuardReport or GradientReport
            What is protected now.
        """
        return self.attached.absorb(batches)

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step:  # a resumed run
            self._resume(args, state)
        self.attached.begin(kwargs["model"], [kwargs["optimizer"]])

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        folder = _folder(args, state)
        if state.is_world_process_zero and folder.is_dir():
            write_checkpoint(folder / FILE, {"memory": self.guard.state_dict()})

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.attached.source = lambda: self._batches(args, kwargs.get("train_dataloader"))
        self.attached.end()

    def _resume(self, args: Any, state: Any) -> None:
        given = args.resume_from_checkpoint
        folders = [Path(given)] if isinstance(given, str) else []
        for folder in (*folders, _folder(args, state)):
            saved = read_checkpoint(folder / FILE) if folder.is_dir() else None
            if saved is not None:
                self.guard.load_state_dict(saved["memory"])
                return
        if not self.guard._memory.tasks:
            raise InputError(
                f"expected {FILE} in the checkpoint that the run resumes from, got none, and the guard has no memory; "
                "load the guard first (rm.load, or guard.load_state_dict), or resume without this callback"
            )

    def _batches(self, args: Any, loader: Any) -> Any:
        """Return the batches to absorb at the end of training."""
        source = self.source
        if isinstance(source, str):
            return loader
        if callable(source) and not hasattr(source, "__getitem__"):
            return source()
        if hasattr(source, "__getitem__") and hasattr(source, "__len__") and not isinstance(source, list | tuple):
            mine: Any = source
            if self.guard._distributed:
                rank, world = torch.distributed.get_rank(), torch.distributed.get_world_size()
                mine = Subset(source, range(rank, len(source), world))
            return DataLoader(mine, args.per_device_eval_batch_size, collate_fn=getattr(loader, "collate_fn", None))
        return source


GuardCallback = TrainerGuardCallback


def _folder(args: Any, state: Any) -> Path:
    return Path(args.output_dir) / f"checkpoint-{state.global_step}"
