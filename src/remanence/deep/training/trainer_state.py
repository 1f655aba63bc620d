"""Convert the state of a trainer to nested dicts of tensors and plain values and back, for checkpoints."""

from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch
from torch import nn

from remanence.deep.guards.report import GradientReport, GuardReport, LayerReport
from remanence.deep.training.checkpoint import check_same_run, read_checkpoint, write_checkpoint
from remanence.deep.training.trainer import Trainer

SHARE = 20  # within a task, saving takes at most 1/20 of the time


def trainer_to_state(trainer: Trainer) -> dict[str, Any]:
    """Return the state of a trainer between two epochs."""
    return {
        "done": trainer.done,
        "record": [(torch.from_numpy(column), seconds) for column, seconds in trainer.record],
        "losses": trainer.losses,
        "validation_losses": trainer.validation_losses,
        "reports": [asdict(report) for report in trainer.reports],
        "seconds": trainer.seconds.tolist(),
        "outputs": _head(trainer).out_features if trainer.config.grow else None,
        "model": trainer.model.state_dict(),
        "best": trainer.best,
        "optimizer": trainer.optimizer.state_dict() if trainer.optimizer is not None else None,
        "scheduler": trainer.scheduler.state_dict() if trainer.scheduler is not None else None,
        "guard": trainer.guard.state_dict() if trainer.guard is not None else None,
    }


def restore_trainer(trainer: Trainer, state: dict[str, Any]) -> None:
    """Restore a saved state into a trainer with the same settings."""
    if state["outputs"] is not None:
        trainer.widen(state["outputs"])
    trainer.model.load_state_dict(state["model"])
    if trainer.guard is not None:
        trainer.guard.load_state_dict(state["guard"])
    if state["optimizer"] is not None:
        trainer.make_optimizer()
        if trainer.scheduler is not None:
            trainer.scheduler.load_state_dict(state["scheduler"])
        assert trainer.optimizer is not None
        trainer.optimizer.load_state_dict(state["optimizer"])
    trainer.best = state["best"]
    trainer.done = state["done"]
    trainer.record[:] = [(column.numpy(), seconds) for column, seconds in state["record"]]
    trainer.losses, trainer.validation_losses = state["losses"], state["validation_losses"]
    trainer.reports = [_report(report) for report in state["reports"]]
    trainer.seconds = np.array(state["seconds"])


class Checkpoints:
    """Saves a trainer after its epochs, at limited cost, and after each task."""

    def __init__(self, trainer: Trainer, path: Path, run: dict[str, Any]) -> None:
        self.trainer, self.path, self.run = trainer, path, run
        self.ended, self.cost = -np.inf, 0.0
        self.verified = False

    def begin(self) -> None:
        """Resume from the file, if there is one, and save from now on."""
        state = read_checkpoint(self.path)
        if state is not None:
            check_same_run(self.path, state["run"], self.run)
            restore_trainer(self.trainer, state)
        self.trainer.save = self.save

    def save(self, task_ends: bool) -> None:
        start = perf_counter()
        if not task_ends and start - self.ended < SHARE * self.cost:
            return
        write_checkpoint(self.path, {"run": self.run, **trainer_to_state(self.trainer)}, verify=not self.verified)
        self.verified = True
        self.ended = perf_counter()
        self.cost = self.ended - start


def _head(trainer: Trainer) -> nn.Linear:
    layer = trainer.model.get_submodule(str(trainer.config.grow))
    assert isinstance(layer, nn.Linear)
    return layer


def _report(saved: dict[str, Any]) -> GuardReport | GradientReport:
    if "layers" not in saved:
        return GradientReport(**saved)
    return GuardReport(saved["kind"], saved["tasks"], tuple(LayerReport(**layer) for layer in saved["layers"]))
