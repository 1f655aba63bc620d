"""Orthogonal gradient descent: parameters change only in directions that keep earlier outputs, to first order.

    G ← [G; ∂f(x; θ)/∂θ]          (D1)   gradients of a task's outputs, at the weights after the task
    U = leading right singular vectors of G, at most `rank`                                       (D2)
    Δ ← (I − UUᵀ) Δ               (D3)   Δ: the optimizer's step of all parameters together

A model that is linear in its parameters keeps every earlier output to rounding, for any optimizer. The outputs of a
network change only through its curvature, quadratically in the distance from the weights at which they were absorbed.
What a bounded memory discards is accounted for: along any allowed Δ the earlier outputs change, to first order, by at
most √dropped ‖Δ‖ in total.
"""

import warnings
from collections.abc import Iterable
from contextlib import ExitStack
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from remanence.arrays import Array
from remanence.deep.guards.checks.batches import Forward, call_checked, call_model, check_batches
from remanence.deep.guards.gradient_memory import (
    GradientMemory,
    empty_gradient_memory,
    gather_spectra,
    gradient_spectrum,
    memory_from_state,
    memory_to_state,
    merge_spectra,
)
from remanence.deep.guards.gradient_rows import CHOICES, Of, gradient_rows
from remanence.deep.guards.guard import Guard, check_complete, check_saved, saved_state
from remanence.deep.guards.guard_memory import equals
from remanence.deep.guards.parameter_roles import NORMS, batch_norms, check_patterns, copy_to_cpu, matches
from remanence.deep.guards.projection.buffers import (
    FrozenBuffer,
    buffer_locations,
    changed_outside_message,
    recording_reads,
)
from remanence.deep.guards.projection.guarded_steps import StepProjector
from remanence.deep.guards.projection.parameter_projector import ParameterProjector, restricted
from remanence.deep.guards.projection.protected_directions import FrozenTensor
from remanence.deep.guards.report import GradientReport
from remanence.deep.nn.distributed import broadcast_buffers
from remanence.deep.nn.eval_mode import frozen_batch_norms
from remanence.deep.nn.flat_parameters import FlatParameters
from remanence.errors import InputError
from remanence.validation import check_count


class OGD(Guard):
    """Guard that keeps earlier outputs fixed to first order, for any model and any torch optimizer.

    The parameters are kept, to rounding, along the gradients of earlier outputs. A model that is linear in its
    parameters (a linear head on fixed features) therefore keeps every earlier output exactly, however long it is
    trained.

    The outputs of a nonlinear network are kept only near the weights at which they were absorbed. Beyond that they
    change quadratically with the distance: ten times the distance changes them about a hundred times as much, and a
    small network, which has to move far to learn, forgets accordingly. A bounded `rank` and of="label" or "loss"
    protect less from the start. `report()` accounts for what the memory discarded, not for curvature: measure that on
    validation data, or use `GradientProjection`, which is exact at any distance.

    Parameters
    ----------
    model : torch.nn.Module
        Maps a batch to outputs (n, c). All kinds of parameters are protected. The running statistics of batch norms are
        frozen after the first task and then used during training too; buffers of other modules are frozen once a
        forward pass has read them.
    rank : int, optional
        Number of directions to remember, D numbers each; by default all of them. A full memory keeps the strongest
        ones, and `report()` says how much it discarded.
    of : "logits", "label", "loss" or a function of outputs (c,) and label
        What is protected: every output, the output of each sample's own label (the usual choice for many classes: one
        direction per sample), or the loss. All but "logits" need batches of (inputs, labels).
    frozen, free : names or patterns of parameters
        `frozen` parameters do not change after the first task; `free` ones are left to the optimizer, unprotected.

    References
    ----------
    Farajtabar, Azizan, Mott and Li (2020), "Orthogonal gradient descent for continual learning", AISTATS.

    Examples
    --------
    >>> import torch, remanence as rm
    >>> net = torch.nn.GRUCell(3, 4).double()  # its new state as a function of the input
    >>> guard = rm.deep.OGD(net, rank=50)
    >>> optimizer = torch.optim.SGD(net.parameters(), lr=1e-4)
    >>> first, second = torch.randn(2, 5, 3, dtype=torch.float64)
    >>> print(guard.absorb([first]))
    OGD after 1 tasks: 20 directions of 108 parameters (at most 50), 100.00% of the squared length of 20 gradients
    >>> before = net(first)
    >>> with guard.protect(optimizer):
    ...     net(second).square().sum().backward()
    ...     optimizer.step()
    >>> bool((net(first) - before).abs().max() < 1e-6)
    True

    Far from the weights at which they were absorbed, outputs change:

    >>> optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    >>> with guard.protect(optimizer):
    ...     for _ in range(100):
    ...         optimizer.zero_grad()
    ...         (net(second) - 1).square().sum().backward()
    ...         optimizer.step()
    >>> bool((net(first) - before).abs().max() > 1e-2)
    True
    """

    def __init__(
        self,
        model: nn.Module,
        rank: int | None = None,
        of: Of = "logits",
        *,
        frozen: Iterable[str] = (),
        free: Iterable[str] = (),
    ) -> None:
        super().__init__(model)
        if not callable(of) and of not in CHOICES:
            raise InputError(f"expected of to be one of {', '.join(CHOICES)} or a function, got {of!r}")
        self.rank = None if rank is None else check_count(rank, "rank", hint="None keeps every direction")
        self.of, self.takes_targets = of, of != "logits"
        self._frozen, self._free = (
            check_patterns(self.model, frozen, "frozen"),
            check_patterns(self.model, free, "free"),
        )
        named = dict(self.model.named_parameters())
        self._flat = FlatParameters(
            self.model,
            [n for n, p in named.items() if p.requires_grad and not matches(n, (*self._frozen, *self._free))],
        )
        self._batch_norms = batch_norms(self.model)
        self._frozen_parameters: dict[str, Tensor] = {n: p for n, p in named.items() if matches(n, self._frozen)}
        self._buffer_locations = buffer_locations(self.model)
        of_norms = {n for n, place in self._buffer_locations.items() if isinstance(place[0], NORMS)}
        self._frozen_buffers = of_norms | {n for n in self._buffer_locations if matches(n, self._frozen)}
        self._read_buffers = {n for n in self._buffer_locations if not matches(n, self._free)} - self._frozen_buffers
        self._memory = empty_gradient_memory(self._flat.size)

    @property
    def settings(self) -> dict[str, Any]:
        return {"rank": self.rank, "of": self.of, "frozen": self._frozen, "free": self._free}

    @property
    def _bound(self) -> int:
        return min(self.rank or self._flat.size, self._flat.size)

    def absorb(self, batches: Iterable[Any], forward: Forward = call_model) -> GradientReport:
        """Protect the outputs on the task just learned, at the current weights.

        Parameters
        ----------
        batches : iterable
            With of="logits" batches of inputs: tensors, tuples of positional inputs or dicts of named inputs, one row
            per sample. Otherwise pairs (inputs, labels), as a DataLoader gives them. None is stored.
        forward : callable, optional
            Called as forward(model, inputs) if the model needs another call than model(inputs).

        Returns
        -------
        GradientReport
            Number of directions and the share of the gradients they represent.
        """
        self._check_model()
        self._project_pending()
        self._warn_if_moved("its current outputs will be protected")
        names, size = self._flat.names, self._flat.size
        if self._distributed:
            broadcast_buffers(self.model)
        read: set[str] = set()
        places = {n: self._buffer_locations[n] for n in self._read_buffers}
        call = recording_reads(lambda model, batch: call_checked(model, batch, forward), places, read)
        pieces = (G for batch in check_batches(batches) for G in gradient_rows(self.model, names, batch, call, self.of))
        new, rows = gradient_spectrum(pieces, size, self._bound)  # (D1)
        if not rows:
            raise InputError("expected at least one batch of inputs to absorb, got none; was a generator used up?")
        device = next(self.model.parameters()).device
        found, rows = gather_spectra(new, rows, device) if self._distributed else ([new], rows)
        old = self._memory
        whole = merge_spectra(old.spectrum, found, self._bound)  # (D2)
        fixed = old.frozen or {
            n: copy_to_cpu(t) for n, t in (self._frozen_parameters | self._buffers(self._frozen_buffers)).items()
        }
        changing = read | (old.frozen.keys() & self._read_buffers)
        frozen = fixed | {n: copy_to_cpu(t) for n, t in self._buffers(changing).items()}
        self._memory = GradientMemory(whole, whole.basis.T @ self._vector(), old.tasks + 1, old.rows + rows, frozen)
        self._reattach()
        if whole.rank == self._bound:
            warnings.warn(self._full_message(), UserWarning, stacklevel=2)
        return self.report()

    def capacity(self) -> dict[str, float]:
        """Return the used share of the memory; at 1 new directions replace weak ones, or nothing can be learned."""
        return {"parameters": self.report().capacity}

    def report(self) -> GradientReport:
        """Return the number of protected directions and the share of the gradients they represent."""
        past, spectrum = self._memory, self._memory.spectrum
        seen = spectrum.kept() + spectrum.dropped
        share = spectrum.kept() / seen if seen else 1.0
        size = self._flat.size
        return GradientReport("OGD", past.tasks, size, spectrum.rank, self._bound, past.rows, spectrum.dropped, share)

    def _attach(self, hooks: ExitStack, optimizers: tuple[torch.optim.Optimizer, ...]) -> list[StepProjector]:
        self._check_model()
        past, flat = self._memory, self._flat
        guarded = {id(p) for o in optimizers for group in o.param_groups for p in group["params"]}
        moving = {n: p for n, p in flat.parameters().items() if p.requires_grad and id(p) in guarded}
        whole = len(moving) == len(flat.names)
        self._warn_if_moved("the first guarded step restores them" if whole else "they keep their current values")
        if past.tasks:
            frozen_batch_norms(self._batch_norms, hooks)
        projectors: list[StepProjector] = [
            FrozenBuffer(name, self._buffer_locations[name], value, name in self._read_buffers)
            if name in self._buffer_locations
            else FrozenTensor(name, self._frozen_parameters[name], value)
            for name, value in past.frozen.items()
        ]
        if past.spectrum.rank and whole:
            projectors.append(ParameterProjector(moving.values(), past.spectrum.basis, past.anchor))
        elif past.spectrum.rank and moving:  # parameters of no optimizer do not change, so the others carry all of it
            basis = restricted(past.spectrum.basis, places := [flat.places[name] for name in moving])
            vector = self._vector()
            projectors.append(
                ParameterProjector(moving.values(), basis, basis.T @ np.concatenate([vector[p] for p in places]))
            )
        return projectors

    def _can_learn(self, parameters: set[int]) -> bool:
        if self._memory.spectrum.rank < self._flat.size:
            return True
        free = (p for n, p in self.model.named_parameters() if matches(n, self._free))
        return any(p.requires_grad and id(p) in parameters for p in free)

    def _buffers(self, names: Iterable[str]) -> dict[str, Tensor]:
        """Return the current buffers, by name."""
        found = {name: self._buffer_locations[name][0]._buffers[self._buffer_locations[name][1]] for name in names}
        return {name: buffer for name, buffer in found.items() if buffer is not None}

    def _vector(self) -> Array:
        return self._flat.vector().to("cpu", torch.float64).numpy()

    def _precision(self) -> float:
        return max(float(torch.finfo(p.dtype).eps) for p in self._flat.parameters().values())

    def _check_model(self) -> None:
        """Raise InputError if parameters were replaced, or others made trainable, since the guard was created."""
        self._check_shards()
        named = dict(self.model.named_parameters())
        changed = [n for n, shape in self._flat.shapes.items() if n not in named or tuple(named[n].shape) != shape]
        covered = {*self._flat.names, *self._frozen_parameters}
        fresh = [n for n, p in named.items() if p.requires_grad and n not in covered and not matches(n, self._free)]
        if changed or fresh:
            what = f"{changed[0]} was replaced" if changed else f"{fresh[0]} was added or made trainable"
            raise InputError(
                f"expected the parameters the guard was created for, but {what}; give the model all its layers and "
                "outputs before creating the guard"
            )

    def _warn_if_moved(self, consequence: str) -> None:
        vector, past = self._vector(), self._memory
        shift = np.linalg.norm(past.spectrum.basis.T @ vector - past.anchor)
        if shift > self._precision() ** 0.5 * np.linalg.norm(vector):
            warnings.warn(
                "the parameters changed outside protect() in directions that earlier tasks use, so outputs on earlier "
                f"inputs have changed; {consequence}",
                UserWarning,
                stacklevel=4,
            )
        now = self._buffers(past.frozen.keys() & self._read_buffers)
        changed = [n for n, t in now.items() if t.shape == past.frozen[n].shape and not equals(t, past.frozen[n])]
        if changed:
            warnings.warn(changed_outside_message(changed, consequence), UserWarning, stacklevel=4)

    def _full_message(self) -> str:
        if self._bound == self._flat.size:
            return "no direction is left: the model cannot learn any more; make it wider, absorb less, or set rank"
        return (
            f"the memory is full: its {self._bound} directions represent {self.report().kept:.2%} of the gradients "
            "seen and weaker ones are discarded; raise rank, absorb fewer samples, or use one direction per sample "
            "(of='label')"
        )

    def state_dict(self) -> dict[str, Any]:
        """Return the guard's memory as tensors and plain values (can be stored without pickle)."""
        return saved_state("OGD", memory_to_state(self._memory, self._flat.shapes))

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a memory returned by `state_dict`; load the model's own weights separately."""
        saved = check_saved(state, "OGD")
        memory = memory_from_state(saved, self._flat.shapes, self._needed(), set(self._buffer_locations), self._bound)
        check_complete(saved)
        self._memory = memory
        self._reattach()

    def _needed(self) -> set[str]:
        """Names that every saved state contains; other buffers only if a forward pass read them."""
        return {
            *self._frozen_parameters,
            *(n for n in self._frozen_buffers if isinstance(self._buffer_locations[n][0], NORMS)),
        }

    def __repr__(self) -> str:
        memory = self._memory
        return f"<OGD of {self._flat.size} parameters, {memory.tasks} tasks, rank {memory.spectrum.rank}>"
