"""Orthogonal gradient descent: the parameters may move in any direction that changes no old answer, to first order.

    G ← [G; ∂f(x; θ)/∂θ]          (D1)   gradients of the answers of a task, at the weights after it
    U = leading right singular vectors of G, at most `rank`                                       (D2)
    Δ ← (I − UUᵀ) Δ               (D3)   of the optimizer's own step, all parameters together

A model that is linear in its parameters keeps every old answer to rounding, whatever made the step; in a network the
old answers move only by the curvature, with the square of the distance walked. What a bounded memory lets go is
counted: along any allowed Δ the old answers move, to first order, by at most √dropped ‖Δ‖ in all.
"""

import warnings
from collections.abc import Iterable
from contextlib import ExitStack
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from remanence.arrays import Array
from remanence.deep.guards.checks.batches import Forward, ask, call_model
from remanence.deep.guards.gradient_memory import (
    GradientMemory,
    joined,
    nothing_absorbed,
    of_all_processes,
    restored,
    saved,
    spectrum_of,
)
from remanence.deep.guards.gradient_rows import KINDS, Of, gradient_rows
from remanence.deep.guards.guard import Guard, check_saved, steadied
from remanence.deep.guards.guard_memory import same
from remanence.deep.guards.input_recorder import as_in_the_first, checked
from remanence.deep.guards.parameter_roles import NORMS, batch_norms, held_value, matches, patterns
from remanence.deep.guards.projection.buffers import HeldBuffer, outside_text, places_of_buffers, recording
from remanence.deep.guards.projection.guarded_steps import Keeper
from remanence.deep.guards.projection.parameter_projector import VectorGrip, restricted
from remanence.deep.guards.projection.protected_directions import Hold
from remanence.deep.guards.report import GradientReport
from remanence.deep.nn.flat_parameters import Flat
from remanence.errors import InputError
from remanence.validation import check_count


class OGD(Guard):
    """Guards any torch optimizer so that old answers do not move to first order, whatever the model is made of.

    What it holds: the parameters along the gradients of the old answers, to rounding. So a model that is linear in its
    parameters (a linear head on fixed features) keeps every old answer exactly, however far it is trained.

    What it does not hold: the answers of a network far from where they were absorbed. They move by the curvature, with
    the square of the distance walked: ten times the distance moves them about a hundred times as far, and in a small
    network, which has to walk far to learn, they move as far as the new task asks. A bounded `rank` and of="label" or
    "loss" hold less from the start. `report()` counts what the memory let go, not the curvature: measure that on rows
    kept aside, or use `GradientProjection`, which is exact at any distance.

    Parameters
    ----------
    model : torch.nn.Module
        Answers a batch with (n, c). Parameters of every kind are protected. The running statistics of batch norms are
        held after the first task, and they then answer with them during training too; buffers of other modules are held
        once an answer has read them.
    rank : int, optional
        How many directions to remember, D numbers each; by default all there are. A full memory keeps the strongest
        ones, and `report()` says how much it let go.
    of : "logits", "label", "loss" or a function of outputs (c,) and label
        What must not move: every output, the output of each sample's own label (the usual choice for many classes:
        one direction a sample), or the loss. All but "logits" need batches of (inputs, labels).
    frozen, free : names or patterns of parameters
        `frozen` ones are held after the first task; `free` ones are left to the optimizer, unprotected.

    Examples
    --------
    >>> import torch, remanence as rm
    >>> net = torch.nn.GRUCell(3, 4).double()  # its new state as a function of the input
    >>> guard = rm.deep.OGD(net, rank=50)
    >>> optimizer = torch.optim.SGD(net.parameters(), lr=1e-4)
    >>> first, second = torch.randn(2, 5, 3, dtype=torch.float64)
    >>> print(guard.absorb([first]))
    OGD after 1 tasks: 20 directions of 108 parameters, room for 50, holding 100.00% of 20 gradients
    >>> before = net(first)
    >>> with guard.protect(optimizer):
    ...     net(second).square().sum().backward()
    ...     optimizer.step()
    >>> bool((net(first) - before).abs().max() < 1e-6)
    True

    Far from there it no longer holds:

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
        if not callable(of) and of not in KINDS:
            raise InputError(f"expected of to be one of {', '.join(KINDS)} or a function, got {of!r}")
        self.rank = None if rank is None else check_count(rank, "rank", hint="None keeps every direction")
        self.of = of
        self._frozen, self._free = patterns(self.model, frozen, "frozen"), patterns(self.model, free, "free")
        named = dict(self.model.named_parameters())
        self._flat = Flat(
            self.model,
            [n for n, p in named.items() if p.requires_grad and not matches(n, (*self._frozen, *self._free))],
        )
        self._steady = batch_norms(self.model)
        self._held: dict[str, Tensor] = {n: p for n, p in named.items() if matches(n, self._frozen)}
        self._places = places_of_buffers(self.model)
        of_norms = {n for n, place in self._places.items() if isinstance(place[0], NORMS)}
        self._held_buffers = of_norms | {n for n in self._places if matches(n, self._frozen)}
        self._read_buffers = {n for n in self._places if not matches(n, self._free)} - self._held_buffers
        self._memory = nothing_absorbed(self._flat.size)

    @property
    def settings(self) -> dict[str, Any]:
        return {"rank": self.rank, "of": self.of, "frozen": self._frozen, "free": self._free}

    @property
    def _bound(self) -> int:
        return min(self.rank or self._flat.size, self._flat.size)

    def absorb(self, batches: Iterable[Any], forward: Forward = call_model) -> GradientReport:
        """Protect what the model answers to the task just learned, at the weights of now.

        Parameters
        ----------
        batches : iterable
            With of="logits" inputs: tensors, tuples of positional inputs or dicts of named ones, one sample a row.
            Otherwise pairs (inputs, labels), as a DataLoader gives them. Each is used and let go.
        forward : callable, optional
            Called as forward(model, inputs) where the model is called in another way.
        """
        self._check_model()
        self._warn_if_moved("what it answers now is what will be kept")
        names, size = self._flat.names, self._flat.size
        if self._distributed:
            as_in_the_first(self.model)
        read: set[str] = set()
        places = {n: self._places[n] for n in self._read_buffers}
        call = recording(lambda model, batch: ask(model, batch, forward), places, read)
        pieces = (G for batch in checked(batches) for G in gradient_rows(self.model, names, batch, call, self.of))
        new, rows = spectrum_of(pieces, size, self._bound)  # (D1)
        if not rows:
            raise InputError("expected at least one batch of inputs to absorb, got none; was a generator used up?")
        device = next(self.model.parameters()).device
        found, rows = of_all_processes(new, rows, device) if self._distributed else ([new], rows)
        old = self._memory
        whole = joined(old.spectrum, found, self._bound)  # (D2)
        fixed = old.held or {n: held_value(t) for n, t in (self._held | self._buffers(self._held_buffers)).items()}
        changing = read | (old.held.keys() & self._read_buffers)
        held = fixed | {n: held_value(t) for n, t in self._buffers(changing).items()}
        self._memory = GradientMemory(whole, whole.basis.T @ self._vector(), old.tasks + 1, old.rows + rows, held)
        self._renew()
        if whole.rank == self._bound:
            warnings.warn(self._advice(), UserWarning, stacklevel=2)
        return self.report()

    def capacity(self) -> dict[str, float]:
        """The used part of the memory; 1 means that new directions push out weak ones, or that nothing can move."""
        return {"parameters": self.report().capacity}

    def report(self) -> GradientReport:
        """How many directions are protected, and how much of the gradients seen they hold."""
        past, spectrum = self._memory, self._memory.spectrum
        seen = spectrum.kept() + spectrum.dropped
        share = spectrum.kept() / seen if seen else 1.0
        size = self._flat.size
        return GradientReport("OGD", past.tasks, size, spectrum.rank, self._bound, past.rows, spectrum.dropped, share)

    def _attach(self, hooks: ExitStack, optimizers: tuple[torch.optim.Optimizer, ...]) -> list[Keeper]:
        self._check_model()
        past, flat = self._memory, self._flat
        theirs = {id(p) for o in optimizers for group in o.param_groups for p in group["params"]}
        moving = {n: p for n, p in flat.parameters().items() if p.requires_grad and id(p) in theirs}
        whole = len(moving) == len(flat.names)
        self._warn_if_moved("the first guarded step takes them back" if whole else "they stay where they are now")
        if past.tasks:
            steadied(self._steady, hooks)
        keepers: list[Keeper] = [
            HeldBuffer(name, self._places[name], value, name in self._read_buffers)
            if name in self._places
            else Hold(name, self._held[name], value)
            for name, value in past.held.items()
        ]
        if past.spectrum.rank and whole:
            keepers.append(VectorGrip(moving.values(), past.spectrum.basis, past.anchor))
        elif past.spectrum.rank and moving:  # what no optimizer moves stays to the bit, so the others carry all of it
            basis = restricted(past.spectrum.basis, places := [flat.places[name] for name in moving])
            vector = self._vector()
            keepers.append(VectorGrip(moving.values(), basis, basis.T @ np.concatenate([vector[p] for p in places])))
        return keepers

    def _room(self, theirs: set[int]) -> bool:
        if self._memory.spectrum.rank < self._flat.size:
            return True
        free = (p for n, p in self.model.named_parameters() if matches(n, self._free))
        return any(p.requires_grad and id(p) in theirs for p in free)

    def _buffers(self, names: Iterable[str]) -> dict[str, Tensor]:
        """Buffers as they are now, by name."""
        found = {name: self._places[name][0]._buffers[self._places[name][1]] for name in names}
        return {name: buffer for name, buffer in found.items() if buffer is not None}

    def _vector(self) -> Array:
        return self._flat.vector().to("cpu", torch.float64).numpy()

    def _precision(self) -> float:
        return max(float(torch.finfo(p.dtype).eps) for p in self._flat.parameters().values())

    def _check_model(self) -> None:
        """The parameters the guard was made for are there, and no others may move."""
        named = dict(self.model.named_parameters())
        changed = [n for n, shape in self._flat.shapes.items() if n not in named or tuple(named[n].shape) != shape]
        covered = {*self._flat.names, *self._held}
        fresh = [n for n, p in named.items() if p.requires_grad and n not in covered and not matches(n, self._free)]
        if changed or fresh:
            what = f"{changed[0]} was replaced" if changed else f"{fresh[0]} may move now and could not then"
            raise InputError(
                f"expected the parameters the guard was made for, but {what}; give the model all its layers and "
                "outputs before making the guard"
            )

    def _warn_if_moved(self, consequence: str) -> None:
        vector, past = self._vector(), self._memory
        shift = np.linalg.norm(past.spectrum.basis.T @ vector - past.anchor)
        if shift > self._precision() ** 0.5 * np.linalg.norm(vector):
            warnings.warn(
                "the parameters moved outside protect() in directions that old tasks use: old answers have changed; "
                f"{consequence}",
                UserWarning,
                stacklevel=4,
            )
        now = self._buffers(past.held.keys() & self._read_buffers)
        changed = [n for n, t in now.items() if t.shape == past.held[n].shape and not same(t, past.held[n])]
        if changed:
            warnings.warn(outside_text(changed, consequence), UserWarning, stacklevel=4)

    def _advice(self) -> str:
        if self._bound == self._flat.size:
            return "no direction is left: the model cannot learn any more; make it wider, absorb less, or set a rank"
        return (
            f"the memory is full: its {self._bound} directions hold {self.report().kept:.2%} of the gradients seen, "
            "weaker ones are let go; raise rank, absorb fewer samples, or remember one direction a sample (of='label')"
        )

    def state_dict(self) -> dict[str, Any]:
        """Everything the guard remembers: tensors and plain values (no pickle needed to store them)."""
        return {"guard": "OGD", "format": 1, **saved(self._memory, self._flat.shapes)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on exactly where `state_dict` was taken; load the model's own weights separately."""
        self._memory = restored(
            check_saved(state, "OGD"), self._flat.shapes, self._needed(), set(self._places), self._bound
        )
        self._renew()

    def _needed(self) -> set[str]:
        """The names that every saved state holds; other buffers only if an answer read them."""
        return {*self._held, *(n for n in self._held_buffers if isinstance(self._places[n][0], NORMS))}

    def __repr__(self) -> str:
        memory = self._memory
        return f"<OGD of {self._flat.size} parameters, {memory.tasks} tasks, rank {memory.spectrum.rank}>"
