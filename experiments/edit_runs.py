"""Edits in sequence on a transformer of made-up facts: the same edits and values searched alike for every method."""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import remanence as rm
from experiments.facts import SUBJECT, World, answers
from experiments.published_edits import AlphaEdit, Memit, Published, Rome, second_moment
from remanence.arrays import Array
from remanence.deep import find_values

LAYER = "blocks.0.down"
CONTEXTS, STEPS, RATE, DECAY = 3, 20, 0.2, 1e-3
SCORED = ("efficacy", "paraphrase", "neighbourhood")


@dataclass(frozen=True)
class Edits:
    """New objects for the first facts of some subjects, and the subjects whose facts must stay."""

    world: World
    subjects: Array
    objects: Array
    others: Array
    seed: int

    @classmethod
    def drawn(cls, world: World, subjects: Array, others: Array, seed: int) -> "Edits":
        """Every new object is another one of the same relation."""
        shift = np.random.default_rng(seed).integers(1, world.objects.max() + 1, len(subjects))
        return cls(world, subjects, (world.objects[subjects, 0] + shift) % (world.objects.max() + 1), others, seed)

    def searched(self, net: nn.Module, rows: Array, limit: float) -> Any:
        """Keys and values of some edits on the present network.

        A fact is searched in CONTEXTS sentences, and in one about the subject's other relation, whose present answer
        stays.
        """
        rng = np.random.default_rng((self.seed, int(rows[0])))
        first = np.zeros(len(rows), int)
        subjects = self.subjects[rows]
        stated = [self.world.sentences(subjects, first, rng) for _ in range(CONTEXTS)]
        stays = self.world.sentences(subjects, first + 1, rng)
        wanted = self.world.answer(subjects, first, self.objects[rows])
        targets = torch.cat([*[wanted] * CONTEXTS, answers(net, stays)])
        facts = torch.arange(len(rows)).repeat(CONTEXTS + 1)
        options = {"steps": STEPS, "rate": RATE, "decay": DECAY, "limit": limit}
        return find_values(net, LAYER, torch.cat([*stated, stays]), SUBJECT, targets, facts, **options)


@dataclass(frozen=True)
class Figures:
    """Shares of right answers, and of the answers to all facts never edited that became others."""

    efficacy: float
    paraphrase: float
    neighbourhood: float  # other subjects
    other_relation: float  # of the subjects edited
    changed: float
    norm: float  # of the layer's weights, relative to the first

    @property
    def score(self) -> float:
        """The harmonic mean of efficacy, paraphrase and neighbourhood, by which settings are chosen."""
        parts = [getattr(self, name) for name in SCORED]
        return len(parts) / sum(1 / part for part in parts) if min(parts) > 0 else 0.0


class Questions:
    """The sentences by which a network is judged, drawn once, and its answers before any edit."""

    def __init__(self, net: nn.Module, edits: Edits) -> None:
        self.edits, world = edits, edits.world
        rng = np.random.default_rng(edits.seed + 1000)
        first = np.zeros(len(edits.subjects), int)
        self.asked = [world.sentences(edits.subjects, first, rng, paraphrase) for paraphrase in (False, True)]
        self.wanted = world.answer(edits.subjects, first, edits.objects)
        self.known = world.answer(edits.subjects, first)
        others, which = world.all_facts(edits.others)
        self.near, self.near_right = world.sentences(others, which, rng), world.answer(others, which)
        self.same = world.sentences(edits.subjects, first + 1, rng)
        self.same_right = world.answer(edits.subjects, first + 1)
        self.before = [answers(net, part) for part in (self.near, self.same)]
        self.first = weight(net).norm()

    def judged(self, net: nn.Module, rows: Array) -> Figures:
        """The figures once these edits are made."""
        efficacy, paraphrase = (share(answers(net, part[rows]), self.wanted[rows]) for part in self.asked)
        near, same = answers(net, self.near), answers(net, self.same[rows])
        changed = torch.cat([near != self.before[0], same != self.before[1][rows]]).double().mean()
        return Figures(
            efficacy,
            paraphrase,
            share(near, self.near_right),
            share(same, self.same_right[rows]),
            float(changed),
            float(weight(net).norm() / self.first),
        )


def weight(net: nn.Module) -> Tensor:
    """The weights that are edited, (outputs, inputs)."""
    found: Tensor = net.get_submodule(LAYER).weight
    return found


def preserved_keys(net: nn.Module, batches: list[Tensor]) -> Tensor:
    """The inputs of the layer at every word of some sentences, (n, d)."""
    keys: list[Tensor] = []
    hook = net.get_submodule(LAYER).register_forward_pre_hook(lambda _, args: keys.append(args[0].flatten(0, 1)))
    with torch.no_grad():
        for batch in batches:
            net(batch)
    hook.remove()
    return torch.cat(keys)


class Run:
    """Edits made in sequence by one method on its own copy of the network."""

    def __init__(self, net: nn.Module, edits: Edits, limit: float) -> None:
        self.net, self.edits, self.limit = copy.deepcopy(net), edits, limit

    def make(self, rows: Array) -> None:
        raise NotImplementedError

    def sequence(self, count: int, batch: int, at: dict[int, Callable[[], Any]]) -> list[Any]:
        """Make so many edits, batch after batch, and call what is to be done after some numbers of them."""
        found = []
        for start in range(0, count, batch):
            self.make(np.arange(start, min(start + batch, count)))
            if (done := min(start + batch, count)) in at:
                found.append(at[done]())
        return found


class PublishedRun(Run):
    """Values are searched on the present network, and the change is added to its weights."""

    def __init__(self, net: nn.Module, edits: Edits, limit: float, method: Published, one_by_one: bool) -> None:
        super().__init__(net, edits, limit)
        self.method, self.one_by_one, self.broken = method, one_by_one, False

    def make(self, rows: Array) -> None:
        for some in np.split(rows, len(rows)) if self.one_by_one else [rows]:
            if self.broken:
                return
            try:
                keys, values, _ = self.edits.searched(self.net, some, self.limit)
                missing = values - self.net.get_submodule(LAYER)(keys)
                weight(self.net).add_(self.method.change(keys, missing))
            except (rm.InputError, torch.linalg.LinAlgError):  # weights that overflowed: no loss to descend on
                self.broken = True


class EditorRun(Run):
    """One Editor, in which every batch has a name; values are searched on the present network."""

    def __init__(
        self, net: nn.Module, edits: Edits, limit: float, batches: list[Tensor], settings: dict[str, Any], weight: float
    ) -> None:
        super().__init__(net, edits, limit)
        self.editor = rm.deep.Editor(self.net, LAYER, **settings)
        self.editor.absorb(batches)
        self.weight = weight
        self.searched: dict[str, tuple[Tensor, Tensor]] = {}

    def make(self, rows: Array) -> None:
        keys, values, _ = self.edits.searched(self.net, rows, self.limit)
        name = f"edit {rows[0]}"
        self.searched[name] = keys, values
        self.editor.edit(keys, values, name, self.weight)


def published(name: str, C: Tensor, setting: tuple[float, ...]) -> Published:
    """A published method by its name."""
    kinds: dict[str, Any] = {"ROME": Rome, "MEMIT": Memit, "AlphaEdit": AlphaEdit}
    made: Published = kinds[name](C, *setting)
    return made


def moment(net: nn.Module, batches: list[Tensor]) -> Tensor:
    """C of the published methods."""
    return second_moment(preserved_keys(net, batches))


def share(found: Tensor, right: Tensor) -> float:
    """How many answers are right, as a share."""
    return float((found == right).double().mean())
