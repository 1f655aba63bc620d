"""Guard with one memory per weight matrix; its subclasses differ in which directions they protect.

task ends:   record each layer's inputs → square root of their Gram matrix → directions, strengths, outputs to keep
task runs:   optimizer steps → each matrix keeps the allowed part of its step (protected_directions.py)
"""

import math
import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.modules.linear import NonDynamicallyQuantizableLinear

from remanence.deep.guards.checks.batch_kinds import BatchKinds
from remanence.deep.guards.checks.batches import Forward, call_model, check_batches
from remanence.deep.guards.checks.memory_bounds import memory_bounds
from remanence.deep.guards.checks.same_memory import check_same_memory
from remanence.deep.guards.checks.trial import TrialStep
from remanence.deep.guards.fresh_adapters import check_absorbed, fresh_pairs, move_fresh_adapters, product_pairs
from remanence.deep.guards.guard import Guard, check_complete, check_saved, saved_state
from remanence.deep.guards.guard_memory import (
    GuardMemory,
    add_task,
    changed_buffers,
    drift,
    grow_outputs,
    memory_from_state,
    memory_to_state,
    missing_names,
    moved_names,
)
from remanence.deep.guards.input_recorder import InputRecorder
from remanence.deep.guards.parameter_roles import ParameterRoles, assign_roles, check_patterns
from remanence.deep.guards.planning import (
    GuardChoice,
    Loss,
    ModelState,
    Trial,
    as_number,
    check_budget,
    check_callables,
    gradient_left,
    loosest_within,
    model_loss,
)
from remanence.deep.guards.projection.buffers import FrozenBuffer, buffer_locations, changed_outside_message
from remanence.deep.guards.projection.guarded_steps import StepProjector
from remanence.deep.guards.projection.protected_directions import FrozenTensor, ProtectedDirections
from remanence.deep.guards.projection.sharded_layers import projector_of
from remanence.deep.guards.report import GuardReport, LayerReport
from remanence.deep.nn.adapters import KeptMagnitude
from remanence.deep.nn.distributed import all_gather, all_or_none, broadcast_buffers
from remanence.deep.nn.eval_mode import frozen_batch_norms
from remanence.deep.nn.heads import add_outputs
from remanence.deep.nn.lowrank.lowrank_root import LayerRoot, LowRankRoot
from remanence.deep.nn.sharding.shards import check_whole, computing_device, is_sharded, write
from remanence.deep.nn.sharding.whole_parameters import whole_parameters
from remanence.errors import InputError
from remanence.validation import check_count, check_number

FULL = 0.9999  # a softly protected layer approaches 1 without reaching it

ByLayer = float | Mapping[str, float]  # one number for all layers, or one per layer name


class LayerGuard(Guard):
    """Keeps each layer's outputs on the inputs that earlier tasks gave it."""

    takes_shards = True
    tuned: ClassVar[tuple[str, tuple[float, ...]]]  # the setting that `choose` picks, and candidates, loosest first

    def __init__(
        self,
        model: nn.Module,
        frozen: Iterable[str] = (),
        free: Iterable[str] = (),
        memory: str = "full",
        rank: float | None = None,
        max_bytes: int | None = None,
    ) -> None:
        super().__init__(model)
        self._frozen, self._free = (
            check_patterns(self.model, frozen, "frozen"),
            check_patterns(self.model, free, "free"),
        )
        self._roles = self._assigned_roles()
        self._rank, self._share = memory_bounds(memory, rank, max_bytes, self._roles.matrices.values())
        self._memory = GuardMemory()

    def absorb(self, batches: Iterable[Any], forward: Forward = call_model) -> GuardReport:
        """Protect the outputs on the inputs of the task just learned, at the current weights.

        If several processes train a model together, each absorbs its own batches, as many as it has, with the buffers
        of the first process, and all of them get the same memory of all batches. Create the guard from the
        DistributedDataParallel model, or from the one that `fully_shard` was called on, which `absorb` gathers.

        Parameters
        ----------
        batches : iterable
            Batches of inputs: tensors, tuples of positional inputs or dicts of named inputs; none is stored. For a
            loader of (inputs, labels) pass ``(x for x, y in loader)``. Positions that are zero in the `attention_mask`
            of a dict are padding, which is not protected.
        forward : callable, optional
            Called as forward(model, batch) if a batch holds more than inputs, for example labels:
            ``guard.absorb(loader, lambda model, batch: model(batch[0]))``.

        Returns
        -------
        GuardReport
            Rank, capacity and drift of every layer.
        """
        self._roles = self._current_roles()
        self._project_pending()
        with self._whole() as shards:
            new, report = self._absorbed(batches, forward, shards)
        self._memory = new
        self._reattach()
        full = [name for name, share in self.capacity().items() if share >= FULL and self._is_trainable(name)]
        if full:
            warnings.warn(self._full_message(full), UserWarning, stacklevel=2)
        return report

    def _absorbed(
        self, batches: Iterable[Any], forward: Forward, shards: Mapping[Tensor, Tensor]
    ) -> tuple[GuardMemory, GuardReport]:
        """Return the memory with these batches, and its report; new adapters are moved, also their shards."""
        self._warn_if_moved("their current outputs will be protected", stacklevel=4)
        device = next(self.model.parameters()).device if self._distributed or shards else None
        if device is not None:
            broadcast_buffers(self.model)
        recorder = InputRecorder(self._roles, self._rank, self._share)
        kinds = BatchKinds(self.model)
        with all_or_none(device), kinds.watch():
            recorder.record(self.model, kinds.sorted(check_batches(batches)), forward)
        if device is not None:
            recorder = recorder.gathered(device)
        if not recorder.seen:
            raise InputError(
                "expected batches that reach the guarded layers, got none that did; are they empty, or are the layers "
                "not called as modules?"
                if recorder.begun
                else "expected at least one batch of inputs to absorb, got none; was a generator used up?"
            )
        found = {name: self._directions_to_protect(name, roots) for name, roots in recorder.roots.items()}

        def trials() -> Iterator[TrialStep]:  # one after the other: each has a copy of the weights
            return (TrialStep(self.model, self._roles, batch, forward) for batch in kinds.batches)

        fresh = fresh_pairs(self._roles, self._memory.directions)
        fresh = product_pairs(fresh, self._roles, trials(), device)
        found, start = move_fresh_adapters(recorder, found, fresh)
        new = add_task(self._memory, recorder, found)
        with all_or_none(device):
            for trial in trials():
                trial.run(self._projectors(new), self._is_exact, start)
        _move(start, shards)
        return new, self._report(new)

    def capacity(self) -> dict[str, float]:
        """Return the used share of each layer's input space, 0 to 1; a layer at 1 cannot learn any more."""
        used = {}
        for name, matrix in self._roles.matrices.items():
            groups, _, inputs = matrix.shape
            kept = self._memory.directions.get(name)
            used[name] = 0.0 if kept is None else kept.used / (groups * inputs)
        tables = self._memory.table_rows
        return used | {n: float(tables[n].float().mean()) if n in tables else 0.0 for n in self._roles.tables}

    def _is_trainable(self, name: str) -> bool:
        """Return whether a layer or embedding has parameters that require gradients."""
        found = self._roles.matrices.get(name)
        parameters = self._roles.tables[name].parameters() if found is None else found.parameters
        return any(p.requires_grad for p in parameters)

    def report(self) -> GuardReport:
        """Return rank, capacity and measured drift of every layer as a `GuardReport`.

        If the parameters are sharded (`fully_shard`), all processes have to call this together.
        """
        with self._whole():
            return self._report(self._memory)

    def _report(self, memory: GuardMemory) -> GuardReport:
        layers = []
        for name, matrix in self._roles.matrices.items():
            groups, _, inputs = matrix.shape
            if name not in memory.directions:
                layers.append(LayerReport(name, groups * inputs, 0, 0.0, 0, 0.0))
                continue
            kept, moved = memory.directions[name], drift(memory.roots[name], matrix.values())
            shares = [root.kept for root in memory.roots[name] if isinstance(root, LowRankRoot)]
            counts = (groups * inputs, sum(kept.ranks), kept.used, memory.rows[name])
            layers.append(LayerReport(name, *counts, moved, min(shares, default=1.0)))
        return GuardReport(type(self).__name__, memory.tasks, tuple(layers))

    def grow(self, name: str, outputs: int) -> None:
        """Add outputs to a Linear layer, in the model and in the memory.

        The new outputs are zero, and stay zero on earlier inputs, so new classes do not win on old samples. The layer
        gets new parameters, so create a new optimizer afterwards.

        Parameters
        ----------
        name : str
            Name of the Linear layer.
        outputs : int
            Total number of outputs afterwards.
        """
        matrix = self._roles.matrices.get(name)
        layer = None if matrix is None else matrix.module
        if not isinstance(layer, nn.Linear):
            linear = [n for n, m in self._roles.matrices.items() if isinstance(m.module, nn.Linear)]
            raise InputError(f"expected the name of a Linear layer to grow, got {name!r}; there are {linear}")
        if list(self._roles.aliases.values()).count(name) > 1 or isinstance(layer, NonDynamicallyQuantizableLinear):
            raise InputError(f"another part of the model shares {name}, so it cannot grow alone; untie them first")
        check_whole(self.model, "grow")
        more = check_count(outputs, "outputs") - layer.out_features
        if more <= 0:
            raise InputError(f"expected more than the {layer.out_features} outputs {name} has, got {outputs}")
        self._memory = grow_outputs(self._memory, self._roles, name, more)
        add_outputs(layer, outputs)
        self._roles = assign_roles(self.model, self._frozen, self._free)
        self._reattach()

    def preview(self, batches: Iterable[Any], loss: Loss = model_loss) -> dict[str, float]:
        """Return how much of a new task's gradient is left after projection, by layer, before any training.

        Parameters
        ----------
        batches : iterable
            Batches of the new task.
        loss : callable, optional
            Called as loss(model, batch); by default dict batches are passed to the model, which returns its loss.

        Returns
        -------
        dict of str to float
            Length of the projected gradient relative to the gradient: 0 cannot learn, 1 is unrestricted.
        """
        self._roles = self._current_roles()
        with self._whole():
            return gradient_left(self.model, self._roles, self._projectors(self._memory), batches, loss)

    def choose(
        self,
        train: Callable[[], Any],
        old_score: Callable[[], float],
        *,
        budget: float = 0.01,
        new_score: Callable[[], float] | None = None,
        candidates: Iterable[float] | None = None,
        refine: int | None = None,
    ) -> GuardChoice:
        """Choose the loosest setting that loses at most a share of the old score, by trying.

        The model is trained from its current weights at one candidate after the other, until the old score is within
        the budget. Then the gap between that candidate and the last one outside the budget is halved a few times.
        Afterwards model and optimizer states inside `train` are not used further: the model has the weights, buffers,
        gradients and modes it had before, and the guard has the chosen setting for all tasks so far. (The A of adapters
        whose B is zero moves to where this setting has it, which changes no output.)

        Parameters
        ----------
        train : callable
            Trains the model on the new task inside `protect`, with an optimizer of its own; may be a short run.
        old_score : callable
            Returns the score on rows of earlier tasks that were kept aside, larger is better.
        budget : float
            Allowed loss: the share of the old score before training (of its size, if that is negative).
        new_score : callable, optional
            Returns the score on the new task, for the record.
        candidates : iterable of float, optional
            Values of energy (`GradientProjection`), damping (`OWM`) or alpha (`ScaledProjection`), loosest first.
        refine : int, optional
            How many values to try between candidates; by default 3, or none if candidates are given.

        Returns
        -------
        GuardChoice
            The value, and what every candidate gave.
        """
        name, default = self.tuned
        values = tuple(default if candidates is None else candidates)
        more = (3 if candidates is None else 0) if refine is None else check_count(refine, "refine", low=0)
        check_callables(train=train, old_score=old_score, **({} if new_score is None else {"new_score": new_score}))
        old_score, new_score = as_number(old_score, "old_score"), new_score and as_number(new_score, "new_score")
        share, score = check_budget(budget), check_number(self._mean(old_score), "old_score", low=-math.inf)
        allowed = score - share * abs(score)
        if not values or not self._memory.tasks:
            raise InputError("expected candidates and an absorbed task to choose by, got none")
        start = ModelState(self.model)
        before, memory = getattr(self, name), self._memory

        def trial(value: float) -> Trial:
            self._reprotect(name, value, memory)
            train()
            found = value, self._mean(old_score), float("nan") if new_score is None else self._mean(new_score)
            start.restore()
            return found

        try:
            choice = loosest_within(name, values, allowed, more, trial)
            self._reprotect(name, choice.value, memory)
        except BaseException:
            start.restore()
            setattr(self, name, before)
            self._memory = memory
            raise
        finally:
            self._reattach()
        return choice

    def _mean(self, score: Callable[[], float]) -> float:
        """Return the mean of a score over the processes of a distributed run, so that all of them choose the same."""
        if not (self._distributed or is_sharded(self.model)):
            return score()
        device = computing_device(self.model)
        with all_or_none(device, "failed to compute a score, so nothing was chosen here either"):
            found = torch.tensor([score()], dtype=torch.float64, device="cpu")
        return float(torch.stack(all_gather(found, device)).mean())

    def _reprotect(self, name: str, value: float, memory: GuardMemory) -> None:
        with self._whole() as shards:
            self._protect_anew(name, value, memory, shards)

    @torch.no_grad()
    def _protect_anew(self, name: str, value: float, memory: GuardMemory, shards: Mapping[Tensor, Tensor]) -> None:
        """Protect the tasks so far anew at another setting, from the inputs that a memory recorded."""
        setattr(self, name, value)
        self._memory = GuardMemory()
        recorder = InputRecorder(self._roles, self._rank, self._share)
        recorder.roots, recorder.rows = dict(memory.roots), dict(memory.rows)
        directions = {n: self._directions_to_protect(n, roots) for n, roots in memory.roots.items()}
        directions, start = move_fresh_adapters(recorder, directions, fresh_pairs(self._roles, memory.directions))
        _move(start, shards)
        self._memory = replace(memory, directions=directions, roots=recorder.roots, rows=recorder.rows)

    @property
    def _memory_settings(self) -> dict[str, Any]:
        """Settings of a memory of bounded rank; none for a full one, as in files of earlier versions."""
        bound = self._rank if self._share == 1.0 else self._share
        return {} if bound is None else {"memory": "lowrank", "rank": bound}

    def _for_layers(self, given: ByLayer, name: str, otherwise: float, **limits: Any) -> dict[str, float]:
        """Return a setting by layer name; settings may change between tasks, and layers may be added."""
        layers = list(self._roles.matrices)
        values = given if isinstance(given, Mapping) else dict.fromkeys(layers, given)
        unknown = [layer for layer in values if layer not in layers]
        if unknown:
            raise InputError(f"expected {name} for layers among {layers}, got it for {unknown}")
        checked = {layer: check_number(value, name, **limits) for layer, value in values.items()}
        return dict.fromkeys(layers, otherwise) | checked

    @abstractmethod
    def _directions_to_protect(self, name: str, roots: list[LayerRoot]) -> ProtectedDirections:
        """Return the directions of a layer to protect, given the square roots of the new task's inputs."""

    @property
    def _is_exact(self) -> bool:
        """Whether outputs on earlier inputs are kept to rounding."""
        return False

    def _full_message(self, full: list[str]) -> str:
        return (
            f"no direction is left in {', '.join(full)}: a layer without free directions cannot learn any more; "
            "make it wider, absorb fewer inputs, or protect only the strong directions (energy below 1)"
        )

    def _current_roles(self) -> ParameterRoles:
        """Return the roles of the current parameters; heads may be added, but absorbed layers must still exist."""
        now = self._assigned_roles()
        gone = missing_names(self._memory, self._roles, now)
        if gone:
            raise InputError(
                f"expected the layers that were absorbed, but {', '.join(gone)} was replaced or removed; add outputs "
                "to a head with guard.grow(name, outputs), or create a new guard"
            )
        return now

    def _assigned_roles(self) -> ParameterRoles:
        self._check_shards()
        roles = assign_roles(self.model, self._frozen, self._free)
        if roles.magnitudes and is_sharded(self.model):
            raise InputError(
                f"{next(iter(roles.magnitudes))} follows the norms of weights that are sharded over processes "
                "(fully_shard), which no process has; use LoRA without DoRA, or train with DistributedDataParallel "
                "instead"
            )
        return roles

    @contextmanager
    def _whole(self) -> Iterator[dict[Tensor, Tensor]]:
        """Run a block on whole parameters, with their roles; yield the shards by whole parameter, if there are any.

        All processes have to enter the block together. Shards, and their roles, are back afterwards.
        """
        if not is_sharded(self.model):
            yield {}
            return
        self._check_shards()
        own = self._roles
        with whole_parameters(self.model) as shards:
            self._roles = assign_roles(self.model, self._frozen, self._free)
            try:
                yield shards
            finally:
                self._roles = own

    def _attach(self, hooks: ExitStack, optimizers: tuple[torch.optim.Optimizer, ...]) -> list[StepProjector]:
        self._roles = self._current_roles()
        trained = {id(p) for o in optimizers for group in o.param_groups for p in group["params"] if p.requires_grad}
        if is_sharded(self.model):
            check_same_memory(self._memory, computing_device(self.model))
        check_absorbed(self._roles, self._memory.directions, trained)
        self._warn_if_moved("the first guarded step restores them", stacklevel=5)
        frozen_batch_norms(self._roles.frozen_norms(self._memory.frozen), hooks)
        return self._projectors(self._memory)

    def _projectors(self, memory: GuardMemory) -> list[StepProjector]:
        """Return everything that restores parameters after a step."""
        projectors: list[StepProjector] = [
            projector
            for name, directions in memory.directions.items()
            if directions.basis.shape[2]
            and (projector := projector_of(self._roles.matrices[name], directions)) is not None
        ]
        buffers = buffer_locations(self.model)  # by location: also those of norms may be replaced by other tensors
        for name, value in memory.frozen.items():
            if name in buffers:
                warns = name in self._roles.read or name in self._roles.norm_of
                projectors.append(FrozenBuffer(name, buffers[name], value, warns))
            else:
                projectors.append(FrozenTensor(name, self._roles.frozen[name], value))
        for name, used in memory.table_rows.items():
            if used.any():
                weight = self._roles.tables[name].weight
                projectors.append(FrozenTensor(name, weight, memory.table_values[name], used.nonzero()[:, 0]))
        projectors += [KeptMagnitude(self._roles.magnitudes[name], scale) for name, scale in memory.scales.items()]
        return projectors

    def _can_learn(self, parameters: set[int]) -> bool:
        frozen = {id(self._roles.frozen[name]) for name in self._memory.frozen}
        frozen |= {id(self._roles.tables[n].weight) for n, used in self._memory.table_rows.items() if used.all()}
        full: set[int] = set()
        rest: set[int] = set()  # a parameter may contain several matrices
        for name, matrix in self._roles.matrices.items():
            kept = self._memory.directions.get(name)
            whole = kept is not None and kept.strength is None and sum(kept.ranks) == matrix.groups * kept.shape[2]
            (full if whole else rest).update(map(id, matrix.parameters))
        fixed = frozen | (full - rest)
        return any(p.requires_grad and id(p) in parameters and id(p) not in fixed for p in self.model.parameters())

    def _warn_if_moved(self, consequence: str, stacklevel: int) -> None:
        names = list(moved_names(self._memory, self._roles))
        if names:
            warnings.warn(
                f"{', '.join(names)} changed outside protect() in directions that earlier tasks use, so outputs on "
                f"earlier inputs have changed; {consequence}",
                UserWarning,
                stacklevel=stacklevel,
            )
        buffers = changed_buffers(self._memory, self._roles)
        if buffers:
            warnings.warn(changed_outside_message(buffers, consequence), UserWarning, stacklevel=stacklevel)

    def state_dict(self) -> dict[str, Any]:
        """Return the guard's memory as nested dicts of tensors and plain values (can be stored without pickle)."""
        return saved_state(type(self).__name__, memory_to_state(self._memory))

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a memory returned by `state_dict`; load the model's own weights separately."""
        roles = self._assigned_roles()
        saved = check_saved(state, type(self).__name__)
        memory = memory_from_state(saved, roles, self._rank)
        check_complete(saved)
        self._roles, self._memory = roles, memory
        self._reattach()

    def __repr__(self) -> str:
        used = sum(sum(kept.ranks) for kept in self._memory.directions.values())
        return f"<{type(self).__name__} of {len(self._roles.matrices)} layers, {self._memory.tasks} tasks, rank {used}>"


def _move(start: Mapping[Tensor, Tensor], shards: Mapping[Tensor, Tensor]) -> None:
    """Give parameters new values, also their shards if they have been gathered."""
    for parameter, value in start.items():
        write(parameter, value)
        if parameter in shards:
            write(shards[parameter], value)
