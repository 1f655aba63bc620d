"""Edits in sequence on a transformer of made-up facts: the same edits and values searched alike for every method."""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import remanence as rm
from experiments.facts import LENGTH, World, answers
from experiments.published_edits import AlphaEdit, Memit, Published, Rome, second_moment
from remanence.arrays import Array
from remanence.deep import find_values

LAYER, PLACE = "blocks.1.down", LENGTH - 1  # the last layer at the last word, where subject and relation have met
CONTEXTS, STEPS, RATE, DECAY, LIMIT = 3, 20, 0.2, 1e-3, 2.0
ROUNDS, FACTOR = (
    8,
    1.5,
)  # of other weights after every batch, for edits less sure than the margin or much surer
SURER = 4  # how many times less probable than the margin allows other answers are where weights become less
LEAST, MOST = 1e-3, 1e6  # weights
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

    def stated(self, rows: Array) -> list[Tensor]:
        """CONTEXTS sentences for every edit, in which it is searched."""
        rng = np.random.default_rng((self.seed, int(rows[0])))
        first, subjects = np.zeros(len(rows), int), self.subjects[rows]
        return [self.world.sentences(subjects, first, rng) for _ in range(CONTEXTS)]

    def wanted(self, rows: Array) -> Tensor:
        """The words to be answered."""
        return self.world.answer(self.subjects[rows], np.zeros(len(rows), int), self.objects[rows])

    def searched(self, net: nn.Module, rows: Array) -> tuple[Tensor, Tensor]:
        """Keys and values of some edits on a network."""
        facts = torch.arange(len(rows)).repeat(CONTEXTS)
        options = {"steps": STEPS, "rate": RATE, "decay": DECAY, "limit": LIMIT}
        stated, wanted = torch.cat(self.stated(rows)), self.wanted(rows).repeat(CONTEXTS)
        keys, values, _ = find_values(net, LAYER, stated, PLACE, wanted, facts, **options)
        return keys, values


@dataclass(frozen=True)
class Stated:
    """The sentences in which edits were searched, up to the edited layer: all that is left to compute anew.

    The layer stands in the last block, and its output at the last word is added to the stream that `last` normalizes.
    """

    keys: Tensor  # (CONTEXTS, edits, inputs)
    rest: Tensor  # (CONTEXTS, edits, width) of the stream, without what the layer adds
    wanted: Tensor  # (edits,)

    @classmethod
    def of(cls, net: nn.Module, sentences: list[Tensor], wanted: Tensor) -> "Stated":
        keys: list[Tensor] = []
        rest: list[Tensor] = []

        def layer(_: nn.Module, args: tuple[Tensor, ...], output: Tensor) -> None:
            keys.append(args[0][:, PLACE])
            rest.append(-output[:, PLACE])

        hooks = [
            net.get_submodule(LAYER).register_forward_hook(layer),
            net.get_submodule("last").register_forward_pre_hook(lambda _, args: rest[-1].add_(args[0])),
        ]
        with torch.no_grad():
            for part in sentences:
                net(part)
        for hook in hooks:
            hook.remove()
        return cls(torch.stack(keys), torch.stack(rest), wanted)

    def sure(self, net: nn.Module) -> Array:
        """The least probability of the new answer of each edit."""
        layer, last, head = (net.get_submodule(name) for name in (LAYER, "last", "head"))
        with torch.no_grad():
            probabilities = head(last(self.rest + layer(self.keys))).softmax(-1)
        wanted = self.wanted.expand(len(self.keys), -1)[..., None]
        return probabilities.gather(-1, wanted)[..., 0].amin(0).numpy()


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

    def __init__(self, net: nn.Module) -> None:
        self.net = copy.deepcopy(net)

    def make(self, rows: Array) -> None:
        raise NotImplementedError

    def sequence(self, count: int, batch: int, at: dict[int, Callable[[], Any]]) -> list[Any]:
        """Make so many edits, batch after batch, and call what is to be done after some numbers of them."""
        found = []
        for rows in batches(count, batch):
            self.make(rows)
            if (done := int(rows[-1]) + 1) in at:
                found.append(at[done]())
        return found


class PublishedRun(Run):
    """The change is added to the present weights; values are searched on them, unless those of the first are given."""

    def __init__(self, net: nn.Module, edits: Edits, method: Published, given: "Values | None" = None) -> None:
        super().__init__(net)
        self.edits, self.method, self.given, self.broken = edits, method, given, False

    def make(self, rows: Array) -> None:
        layer = self.net.get_submodule(LAYER)
        try:
            if not self.broken:
                keys, values = self.edits.searched(self.net, rows) if self.given is None else self.given[int(rows[0])]
                for some in range(len(rows)) if isinstance(self.method, Rome) else [slice(None)]:
                    part = slice(some, some + 1) if isinstance(some, int) else some
                    missing = values[part] - layer(keys[part])
                    weight(self.net).add_(self.method.change(keys[part], missing))
        except (rm.InputError, torch.linalg.LinAlgError):  # weights that overflowed: no loss to descend on
            self.broken = True


class EditorRun(Run):
    """One Editor, in which every batch has a name, with the values of the first network.

    After every batch, edits whose answer is less sure than the margin get FACTOR times their weight, and those that are
    much surer give as much back, in a few rounds: no answer is changed further than it must be. Judged in the sentences
    in which they were searched, this reaches earlier edits too, which only an editor that remembers them can.
    """

    def __init__(
        self,
        net: nn.Module,
        edits: Edits,
        absorbed: dict[str, Any],
        given: "Values",
        margin: float,
        settings: dict[str, Any],
    ) -> None:
        super().__init__(net)
        self.editor = rm.deep.Editor(self.net, LAYER, **settings)
        self.editor.load_state_dict(absorbed)
        self.edits, self.given, self.margin = edits, given, margin
        self.rows: list[Array] = []  # of every batch
        self.stated: list[Stated] = []
        self.weights = np.ones(0)  # of their edits

    def make(self, rows: Array) -> None:
        self.write(rows, np.ones(len(rows)))
        for _ in range(ROUNDS):
            sure = np.concatenate([stated.sure(self.net) for stated in self.stated])
            surer = 1 - sure < (1 - self.margin) / SURER
            factors = np.where(sure < self.margin, FACTOR, np.where(surer, 1 / FACTOR, 1.0))
            new = np.clip(factors * self.weights, LEAST, MOST)
            if (new == self.weights).all():
                return
            self.weights = new
            self.editor.reweigh({named(int(some[0])): new[some] for some in self.rows})

    def write(self, rows: Array, weights: Array) -> None:
        """Make one batch of edits, with these weights."""
        first = int(rows[0])
        self.editor.edit(*self.given[first], named(first), weights)
        self.rows.append(rows)
        self.stated.append(Stated.of(self.net, self.edits.stated(rows), self.edits.wanted(rows)))
        self.weights = np.append(self.weights, weights)


Values = dict[int, tuple[Tensor, Tensor]]  # keys and values of batches, by their first row


def batches(count: int, batch: int) -> list[Array]:
    """Rows 0 to count - 1 in batches."""
    return [np.arange(start, min(start + batch, count)) for start in range(0, count, batch)]


def named(first: int) -> str:
    """The name of the edit of a batch that begins with this row."""
    return f"edit {first}"


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
