"""The settings with which each task of a stream is trained."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import torch

from remanence.errors import InputError
from remanence.validation import check_count, check_number

MakeOptimizer = Callable[[list[torch.nn.Parameter]], torch.optim.Optimizer]
MakeScheduler = Callable[[torch.optim.Optimizer], Any]


@dataclass(frozen=True)
class TrainingConfig:
    """Validated training settings of `fit_stream` and `joint`."""

    optimizer: MakeOptimizer
    scheduler: MakeScheduler | None
    epochs: int
    batch_size: int
    validation: float
    patience: int | None
    min_lr: float
    grow: str | None
    seed: int
    keep_optimizer: bool = False
    absorb_samples: int | None = None
    scheduler_step: str = "epoch"

    def __post_init__(self) -> None:
        if not callable(self.optimizer) or isinstance(self.optimizer, torch.optim.Optimizer):
            raise InputError(
                f"expected optimizer to be a function of parameters, got {type(self.optimizer).__name__}; "
                "try optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.01)"
            )
        if self.scheduler is not None and not callable(self.scheduler):
            raise InputError(
                f"expected scheduler to be a function of an optimizer, got {type(self.scheduler).__name__}; "
                "try scheduler=lambda optimizer: torch.optim.lr_scheduler.StepLR(optimizer, 10)"
            )
        if self.scheduler_step not in ("epoch", "batch"):
            raise InputError(f"expected scheduler_step to be 'epoch' or 'batch', got {self.scheduler_step!r}")
        check_count(self.epochs, "epochs")
        check_count(self.batch_size, "batch_size")
        check_count(self.seed, "seed", low=0)
        check_number(self.validation, "validation", high=1.0, closed=True, hint="the share of validation rows")
        check_number(self.min_lr, "min_lr", closed=True)
        if self.absorb_samples is not None:
            check_count(self.absorb_samples, "absorb_samples", hint="None absorbs every row of a task")
        if self.patience is not None:
            check_count(self.patience, "patience")
            if not self.validation:
                raise InputError("patience needs validation rows, got validation=0; try validation=0.1")
        if self.keep_optimizer and self.grow is not None:
            raise InputError(
                "grow creates new parameters, which a kept optimizer does not have; drop grow or keep_optimizer"
            )

    def trained_rows(self, rows: int) -> int:
        """Return how many of `rows` rows are used for training; the others are validation rows."""
        return rows - round(self.validation * rows)

    def steps(self, rows: int) -> int:
        """Return the optimizer steps of one epoch over `rows` rows."""
        return -(-self.trained_rows(rows) // self.batch_size)

    def make_optimizer(self, parameters: list[torch.nn.Parameter]) -> torch.optim.Optimizer:
        made = self.optimizer(parameters)
        if not isinstance(made, torch.optim.Optimizer):
            raise InputError(f"expected optimizer(parameters) to return a torch optimizer, got {type(made).__name__}")
        return made

    def make_scheduler(self, optimizer: torch.optim.Optimizer) -> Any:
        """Return the scheduler of an optimizer, or None."""
        made = None if self.scheduler is None else self.scheduler(optimizer)
        if self.scheduler_step == "batch" and isinstance(made, torch.optim.lr_scheduler.ReduceLROnPlateau):
            raise InputError("ReduceLROnPlateau needs the loss of an epoch; use scheduler_step='epoch'")
        return made

    def run_settings(self, parameters: list[torch.nn.Parameter]) -> dict[str, Any]:
        """Return the settings as plain values, which identify the run of a checkpoint."""
        trial = self.make_optimizer(parameters)
        settings = {f.name: getattr(self, f.name) for f in fields(self)}
        settings["optimizer"] = type(trial).__name__
        for i, group in enumerate(trial.param_groups):
            settings |= {f"{name} of parameter group {i}": str(v) for name, v in group.items() if name != "params"}
        settings["scheduler"] = "none" if self.scheduler is None else type(self.make_scheduler(trial)).__name__
        return settings
