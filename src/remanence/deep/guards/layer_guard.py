"""A guard with one memory a weight matrix; gradient projection and OWM differ only in which directions they protect.

task ends:   features at the new weights → square root of each layer's inputs → directions, strengths → answers held
task runs:   optimizer steps → each matrix keeps the allowed part of its step (restraint.py)
"""

import warnings
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from typing import Any

import torch
from torch import nn
from torch.nn.modules.linear import NonDynamicallyQuantizableLinear

from remanence.deep.guards.checks.batches import Forward, call_model
from remanence.deep.guards.checks.trial import Trial
from remanence.deep.guards.guard import Guard, check_saved, steadied
from remanence.deep.guards.guard_memory import (
    Memory,
    changed_buffers,
    drift,
    extended,
    grown,
    moved,
    replaced,
    restored,
    saved,
)
from remanence.deep.guards.input_recorder import Watch, as_in_the_first, together
from remanence.deep.guards.parameter_roles import Cover, cover, patterns
from remanence.deep.guards.projection.buffers import HeldBuffer, outside_text
from remanence.deep.guards.projection.guarded_steps import Keeper
from remanence.deep.guards.projection.layer_projector import Grip
from remanence.deep.guards.projection.protected_directions import Hold, Restraint
from remanence.deep.guards.report import GuardReport, LayerReport
from remanence.deep.nn.heads import add_outputs
from remanence.errors import InputError
from remanence.memory.root import Root
from remanence.validation import check_count, check_number

FULL = 0.9999  # a softly protected layer comes near 1 and never reaches it

ByLayer = float | Mapping[str, float]  # one number for all layers, or numbers by their names


class LayerGuard(Guard):
    """Keeps each layer's answers on the inputs old tasks gave it."""

    def __init__(self, model: nn.Module, frozen: Iterable[str] = (), free: Iterable[str] = ()) -> None:
        super().__init__(model)
        self._frozen, self._free = patterns(self.model, frozen, "frozen"), patterns(self.model, free, "free")
        self._cover = cover(self.model, self._frozen, self._free)
        self._memory = Memory()

    def absorb(self, batches: Iterable[Any], forward: Forward = call_model) -> GuardReport:
        """Protect the inputs of the task just learned, at the weights of now.

        Where several processes train a DistributedDataParallel model, make the guard of that: each process absorbs its
        own share, at the buffers of the first, and all of them end with the same memory of all shares.

        Parameters
        ----------
        batches : iterable
            Inputs: tensors, tuples of positional inputs or dicts of named ones; each is used and let go. Of a loader
            of (inputs, labels) pass ``(x for x, y in loader)``.
        forward : callable, optional
            Called as forward(model, batch) where a batch holds more than inputs, for instance labels:
            ``guard.absorb(loader, lambda model, batch: model(batch[0]))``.
        """
        self._cover = self._covered()
        self._warn_if_moved("what they answer now is what will be kept", stacklevel=3)
        device = next(self.model.parameters()).device if self._distributed else None
        if device is not None:
            as_in_the_first(self.model)
        seen = Watch(self._cover)
        with together(device):
            first = seen.watch(self.model, batches, forward)
        if device is not None:
            seen = seen.gathered(device)
        if not seen.seen:
            raise InputError(
                "expected batches that reach the guarded layers, got none that did; are they empty, or are layers not "
                "called as modules?"
                if seen.begun
                else "expected at least one batch of inputs to absorb, got none; was a generator used up?"
            )
        new = extended(self._memory, seen, {name: self._restrain(name, roots) for name, roots in seen.roots.items()})
        with together(device):
            if first is not None:
                Trial(self.model, self._cover, first, forward).run(self._keepers(new), self._exact)
        self._memory = new
        self._renew()
        full = [name for name, share in self.capacity().items() if share >= FULL and self._learns(name)]
        if full:
            warnings.warn(self._advice(full), UserWarning, stacklevel=2)
        return self.report()

    def capacity(self) -> dict[str, float]:
        """Of each layer the used part of its input space; 1 means that it cannot learn any more."""
        used = {layer.name: layer.capacity for layer in self.report().layers}
        tables = self._memory.table_rows
        return used | {n: float(tables[n].float().mean()) if n in tables else 0.0 for n in self._cover.tables}

    def _learns(self, name: str) -> bool:
        """Whether a layer or table asks for gradients at all."""
        found = self._cover.matrices.get(name)
        parameters = self._cover.tables[name].parameters() if found is None else found.parameters
        return any(p.requires_grad for p in parameters)

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
        layer = None if matrix is None else matrix.module
        if not isinstance(layer, nn.Linear):
            linear = [n for n, m in self._cover.matrices.items() if isinstance(m.module, nn.Linear)]
            raise InputError(f"expected the name of a Linear layer to grow, got {name!r}; there are {linear}")
        if list(self._cover.aliases.values()).count(name) > 1 or isinstance(layer, NonDynamicallyQuantizableLinear):
            raise InputError(f"another part of the model uses {name} too, so it cannot grow alone; untie them first")
        more = check_count(outputs, "outputs") - layer.out_features
        if more <= 0:
            raise InputError(f"expected more than the {layer.out_features} outputs {name} has, got {outputs}")
        self._memory = grown(self._memory, self._cover, name, more)
        add_outputs(layer, outputs)
        self._cover = cover(self.model, self._frozen, self._free)
        self._renew()

    def _for_layers(self, given: ByLayer, name: str, otherwise: float, **limits: Any) -> dict[str, float]:
        """A setting by layer, as it is now: settings may change between tasks, and layers may be added."""
        layers = list(self._cover.matrices)
        values = given if isinstance(given, Mapping) else dict.fromkeys(layers, given)
        unknown = [layer for layer in values if layer not in layers]
        if unknown:
            raise InputError(f"expected {name} for layers among {layers}, got it for {unknown}")
        checked = {layer: check_number(value, name, **limits) for layer, value in values.items()}
        return dict.fromkeys(layers, otherwise) | checked

    @abstractmethod
    def _restrain(self, name: str, roots: list[Root]) -> Restraint:
        """What to hold of a layer from now on, given the square roots of the new task's inputs."""

    @property
    def _exact(self) -> bool:
        """Whether old answers are promised to rounding."""
        return False

    def _advice(self, full: list[str]) -> str:
        return (
            f"no direction is left in {', '.join(full)}: a full layer cannot learn any more; "
            "make it wider, absorb fewer inputs, or protect only the strong directions (energy below 1)"
        )

    def _covered(self) -> Cover:
        """The model's parameters as they are now: it may have got new heads, but must still have what is remembered."""
        now = cover(self.model, self._frozen, self._free)
        gone = replaced(self._memory, self._cover, now)
        if gone:
            raise InputError(
                f"expected the layers that were absorbed, but {', '.join(gone)} was replaced or removed; give a head "
                "more outputs with guard.grow(name, outputs), or make a new guard"
            )
        return now

    def _attach(self, hooks: ExitStack, optimizers: tuple[torch.optim.Optimizer, ...]) -> list[Keeper]:
        self._cover = self._covered()
        self._warn_if_moved("the first guarded step takes them back", stacklevel=5)
        steadied(self._cover.steady(self._memory.held), hooks)
        return self._keepers(self._memory)

    def _keepers(self, memory: Memory) -> list[Keeper]:
        """Everything that puts parameters back after a step."""
        keepers: list[Keeper] = [
            Grip(self._cover.matrices[name], restraint)
            for name, restraint in memory.restraints.items()
            if restraint.basis.shape[2]
        ]
        for name, value in memory.held.items():
            if name in self._cover.places:
                says = name in self._cover.read
                keepers.append(HeldBuffer(name, self._cover.places[name], value, says))
            else:
                keepers.append(Hold(name, self._cover.held[name], value))
        for name, used in memory.table_rows.items():
            if used.any():
                weight = self._cover.tables[name].weight
                keepers.append(Hold(name, weight, memory.table_values[name], used.nonzero()[:, 0]))
        return keepers

    def _room(self, theirs: set[int]) -> bool:
        held = {id(self._cover.held[name]) for name in self._memory.held}
        held |= {id(self._cover.tables[n].weight) for n, used in self._memory.table_rows.items() if used.all()}
        full: set[int] = set()
        rest: set[int] = set()  # a parameter may have several matrices in it
        for name, matrix in self._cover.matrices.items():
            kept = self._memory.restraints.get(name)
            whole = kept is not None and kept.strength is None and sum(kept.ranks) == matrix.groups * kept.shape[2]
            (full if whole else rest).update(map(id, matrix.parameters))
        stuck = held | (full - rest)
        return any(p.requires_grad and id(p) in theirs and id(p) not in stuck for p in self.model.parameters())

    def _warn_if_moved(self, consequence: str, stacklevel: int) -> None:
        names = list(moved(self._memory, self._cover))
        if names:
            warnings.warn(
                f"{', '.join(names)} moved outside protect() in directions that old tasks use: old answers have "
                f"changed; {consequence}",
                UserWarning,
                stacklevel=stacklevel,
            )
        buffers = changed_buffers(self._memory, self._cover)
        if buffers:
            warnings.warn(outside_text(buffers, consequence), UserWarning, stacklevel=stacklevel)

    def state_dict(self) -> dict[str, Any]:
        """Everything the guard remembers: nested dicts of tensors and plain values (no pickle needed to store them)."""
        return {"guard": type(self).__name__, "format": 1, **saved(self._memory)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on exactly where `state_dict` was taken; load the model's own weights separately."""
        self._cover = cover(self.model, self._frozen, self._free)
        self._memory = restored(check_saved(state, type(self).__name__), self._cover)
        self._renew()

    def __repr__(self) -> str:
        used = sum(layer.rank for layer in self.report().layers)
        return f"<{type(self).__name__} of {len(self._cover.matrices)} layers, {self._memory.tasks} tasks, rank {used}>"
