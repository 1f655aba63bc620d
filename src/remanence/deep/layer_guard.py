"""A guard with one memory a weight matrix; gradient projection and OWM differ only in which directions they protect.

task ends:   features at the new weights → square root of each layer's inputs → directions, strengths → answers held
task runs:   optimizer steps → each matrix keeps the allowed part of its step (restraint.py)
"""

import warnings
from abc import abstractmethod
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import nn

from remanence.deep.cover import cover, held_value
from remanence.deep.guard import Forward, Guard, Keeper, call_model, check_saved, steadied
from remanence.deep.guard_report import GuardReport, LayerReport
from remanence.deep.remembered import Memory, drift, restored, saved
from remanence.deep.restraint import Grip, Hold, Restraint
from remanence.deep.watching import Watch
from remanence.errors import InputError
from remanence.memory.root import Root

FULL = 0.9999  # a softly protected layer comes near 1 and never reaches it


class LayerGuard(Guard):
    """Keeps each layer's answers on the inputs old tasks gave it."""

    def __init__(self, model: nn.Module, frozen: Iterable[str] = (), free: Iterable[str] = ()) -> None:
        super().__init__(model)
        self._cover = cover(self.model, frozen, free)
        self._memory = Memory()

    def absorb(self, batches: Iterable[Any], forward: Forward = call_model) -> GuardReport:
        """Protect the inputs of the task just learned, at the weights of now.

        Parameters
        ----------
        batches : iterable
            Inputs: tensors, tuples of positional inputs or dicts of named ones; each is used and let go.
        forward : callable, optional
            Called as forward(model, batch) where a batch holds more than inputs, for instance labels:
            ``guard.absorb(loader, lambda model, batch: model(batch[0]))``.
        """
        self._warn_if_moved("what they answer now is what will be kept")
        seen = Watch(self._cover)
        first = seen.watch(self.model, batches, forward)
        if self._distributed:
            seen = seen.gathered()
        old = self._memory
        new = replace(
            old,
            tasks=old.tasks + 1,
            restraints=old.restraints | {name: self._restrain(name, roots) for name, roots in seen.roots.items()},
            roots=old.roots
            | {
                name: [mine.merged(root) for mine, root in zip(old.roots.get(name, ()), roots, strict=True)]
                if name in old.roots
                else roots
                for name, roots in seen.roots.items()
            },
            rows=old.rows | {name: old.rows.get(name, 0) + n for name, n in seen.rows.items()},
            held=old.held or {name: held_value(t) for name, t in self._cover.held.items()},
            table_rows={n: used | old.table_rows.get(n, used) for n, used in seen.looked_up.items()},
        )
        new = replace(
            new,
            table_values={n: held_value(self._cover.tables[n].weight)[used] for n, used in new.table_rows.items()},
        )
        self._check(new, first, forward)
        self._memory = new
        full = [name for name, share in self.capacity().items() if share >= FULL]
        if full:
            warnings.warn(self._advice(full), UserWarning, stacklevel=2)
        return self.report()

    def capacity(self) -> dict[str, float]:
        """Of each layer the used part of its input space; 1 means that it cannot learn any more."""
        used = {layer.name: layer.capacity for layer in self.report().layers}
        tables = self._memory.table_rows
        return used | {n: float(tables[n].float().mean()) if n in tables else 0.0 for n in self._cover.tables}

    def report(self) -> GuardReport:
        """Rank, capacity and measured drift of every layer."""
        memory = self._memory
        layers = []
        for name, matrix in self._cover.matrices.items():
            groups, _, inputs = matrix.shape
            if name not in memory.restraints:
                layers.append(LayerReport(name, groups * inputs, 0, 0.0, 0, 0.0))
                continue
            kept, moved = memory.restraints[name], drift(memory.roots[name], matrix.values())
            layers.append(LayerReport(name, groups * inputs, sum(kept.ranks), kept.used, memory.rows[name], moved))
        return GuardReport(type(self).__name__, memory.tasks, tuple(layers))

    def grow(self, name: str, outputs: int) -> None:
        """Give the Linear layer `name` more outputs, in the model and in the memory.

        The new outputs start at zero, and on old inputs they stay there: old answers are not overtaken by new classes.
        The layer gets new parameters, so make a new optimizer afterwards.
        """
        matrix = self._cover.matrices.get(name)
        if matrix is None or not isinstance(matrix.module, nn.Linear):
            linear = [n for n, m in self._cover.matrices.items() if isinstance(m.module, nn.Linear)]
            raise InputError(f"expected the name of a Linear layer to grow, got {name!r}; there are {linear}")
        module = matrix.module
        more = outputs - module.out_features
        if more <= 0:
            raise InputError(f"expected more than the {module.out_features} outputs {name} has, got {outputs}")
        sources = np.r_[np.arange(module.out_features), np.full(more, -1)]
        for key, parameter in list(module.named_parameters(recurse=False)):
            zeros = parameter.new_zeros((more, *parameter.shape[1:]))
            grown = torch.cat([parameter.detach(), zeros])
            setattr(module, key, nn.Parameter(grown, requires_grad=parameter.requires_grad))
        module.out_features = outputs
        memory = self._memory
        if name in memory.restraints:
            kept = memory.restraints[name]
            answers = nn.functional.pad(kept.answers, (0, 0, 0, more))
            roots = [root.with_outputs(sources) for root in memory.roots[name]]
            self._memory = replace(
                memory,
                restraints=memory.restraints | {name: replace(kept, answers=answers)},
                roots=memory.roots | {name: roots},
            )

    @abstractmethod
    def _restrain(self, name: str, roots: list[Root]) -> Restraint:
        """What to hold of a layer from now on, given the square roots of the new task's inputs."""

    def _check(self, memory: Memory, batch: Any, forward: Forward) -> None:
        """Try the new memory on the model before it is kept; nothing to try unless it promises exactness."""

    def _advice(self, full: list[str]) -> str:
        return (
            f"no direction is left in {', '.join(full)}: a full layer cannot learn any more; "
            "make it wider, absorb fewer inputs, or protect only the strong directions (energy below 1)"
        )

    def _attach(self, hooks: ExitStack, optimizers: tuple[torch.optim.Optimizer, ...]) -> list[Keeper]:
        inside = set(self.model.modules())
        gone = [name for name, m in self._cover.matrices.items() if m.module not in inside]
        if gone:
            raise InputError(
                f"expected the layers the guard was made for, but {gone} were replaced; give a head more outputs with "
                "guard.grow(name, outputs), or make a new guard"
            )
        self._warn_if_moved("the first guarded step takes them back")
        if self._memory.tasks:
            steadied(self._cover.steady, hooks)
        return self._keepers(self._memory)

    def _keepers(self, memory: Memory) -> list[Keeper]:
        """Everything that puts parameters back after a step; what no optimizer can move is left out."""
        keepers: list[Keeper] = [
            Grip(self._cover.matrices[name], restraint)
            for name, restraint in memory.restraints.items()
            if restraint.basis.shape[2] and any(p.requires_grad for p in self._cover.matrices[name].parameters)
        ]
        keepers += [Hold(self._cover.held[name], value) for name, value in memory.held.items()]
        for name, used in memory.table_rows.items():
            if used.any():
                weight: Any = self._cover.tables[name].weight
                keepers.append(Hold(weight, memory.table_values[name], used.nonzero()[:, 0]))
        return keepers

    def _warn_if_moved(self, consequence: str) -> None:
        moved = []
        for name, kept in self._memory.restraints.items():
            if kept.strength is None and kept.basis.shape[2]:
                matrix = self._cover.matrices[name]
                values = matrix.values()
                shift = float((values @ kept.basis - kept.answers).abs().max())
                if shift > torch.finfo(matrix.weight.dtype).eps ** 0.5 * float(values.abs().max()):
                    moved.append(name)
        if moved:
            warnings.warn(
                f"{', '.join(moved)} moved outside protect() in directions that old tasks use: old answers have "
                f"changed; {consequence}",
                UserWarning,
                stacklevel=4,
            )

    def state_dict(self) -> dict[str, Any]:
        """Everything the guard remembers: nested dicts of tensors and plain values (no pickle needed to store them)."""
        return {"guard": type(self).__name__, "format": 1, **saved(self._memory)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on exactly where `state_dict` was taken; load the model's own weights separately."""
        self._memory = restored(check_saved(state, type(self).__name__), self._cover)

    def __repr__(self) -> str:
        used = sum(layer.rank for layer in self.report().layers)
        return f"<{type(self).__name__} of {len(self._cover.matrices)} layers, {self._memory.tasks} tasks, rank {used}>"
