"""Made-up facts (subject, relation → object), sentences that state them, and a small transformer that learns them.

sentence:  opening, opening, first name, last name, form, verb → object

Many subjects share a name and no two share both, so that no embedding of a word can hold a fact: what the pair stands
for must be recalled by the layers at the last name or after it. A form (one of FORMS) and a verb (one of VERBS of every
relation) make a phrase. Some phrases of every relation are kept out of training: those are the paraphrases.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, scaled_dot_product_attention

from experiments.networks import seeded
from remanence.arrays import Array

RELATIONS, OBJECTS, OPENINGS, FORMS, VERBS, NAMES = 8, 25, 20, 6, 4, 50
LENGTH, SUBJECT = 6, 3  # words before the object, and the place of the subject's last name
PARAPHRASES = 8  # of the FORMS · VERBS phrases of a relation


@dataclass(frozen=True)
class World:
    """Who has which object in which relation; every subject has two relations."""

    names: Array  # (subjects, 2) first and last, from 0 to NAMES - 1 each
    relations: Array  # (subjects, 2)
    objects: Array  # (subjects, 2) from 0 to OBJECTS - 1 within a relation
    trained: Array  # (RELATIONS, phrases) phrases in the training sentences
    paraphrases: Array  # (RELATIONS, PARAPHRASES) the others

    @classmethod
    def drawn(cls, subjects: int, seed: int) -> "World":
        rng = np.random.default_rng(seed)
        relations = np.stack([rng.permutation(RELATIONS)[:2] for _ in range(subjects)])
        phrases = np.stack([rng.permutation(FORMS * VERBS) for _ in range(RELATIONS)])
        pairs = rng.permutation(NAMES**2)[:subjects]
        return cls(
            np.stack([pairs // NAMES, pairs % NAMES], axis=1),
            relations,
            rng.integers(0, OBJECTS, (subjects, 2)),
            phrases[:, PARAPHRASES:],
            phrases[:, :PARAPHRASES],
        )

    @property
    def subjects(self) -> int:
        return len(self.relations)

    @property
    def words(self) -> int:
        """The size of the vocabulary: first and last names, openings, forms, verbs, objects."""
        return 2 * NAMES + OPENINGS + FORMS + RELATIONS * VERBS + RELATIONS * OBJECTS

    def answer(self, subjects: Array, which: Array, objects: Array | None = None) -> Tensor:
        """The words of the objects of facts (subject, first or second of its relations), or of other objects."""
        found = self.objects[subjects, which] if objects is None else objects
        first = self.words - RELATIONS * OBJECTS
        return torch.from_numpy(first + self.relations[subjects, which] * OBJECTS + found)

    def sentences(self, subjects: Array, which: Array, rng: np.random.Generator, paraphrase: bool = False) -> Tensor:
        """One sentence (LENGTH words) for every fact, with a phrase and openings drawn at random."""
        relation = self.relations[subjects, which]
        phrases = (self.paraphrases if paraphrase else self.trained)[relation]
        phrase = phrases[np.arange(len(subjects)), rng.integers(0, phrases.shape[1], len(subjects))]
        form, verb = phrase % FORMS, phrase // FORMS
        forms = 2 * NAMES + OPENINGS
        openings = 2 * NAMES + rng.integers(0, OPENINGS, (len(subjects), 2))
        first, last = self.names[subjects].T
        phrase_words = [forms + form, forms + FORMS + relation * VERBS + verb]
        return torch.from_numpy(np.stack([*openings.T, first, NAMES + last, *phrase_words], axis=1))

    def all_facts(self, subjects: Array) -> tuple[Array, Array]:
        """Both facts of every subject, as (subjects, which)."""
        return np.repeat(subjects, 2), np.tile([0, 1], len(subjects))


class Block(nn.Module):
    """Attention and a layer of two linear maps, each added to the stream after a normalization."""

    def __init__(self, width: int, inner: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_inner = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.joined = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)

    def forward(self, x: Tensor) -> Tensor:
        n, length, width = x.shape
        parts = self.attention(self.before_attention(x)).view(n, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        seen = scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.joined(seen.transpose(1, 2).reshape(n, length, width))
        return x + self.down(torch.relu(self.up(self.before_inner(x))))


class Transformer(nn.Module):
    """Words (n, LENGTH) in, logits (n, words) of the next word out."""

    def __init__(self, words: int, width: int, inner: int, layers: int, heads: int = 4) -> None:
        super().__init__()
        self.embedding, self.places = nn.Embedding(words, width), nn.Parameter(0.02 * torch.randn(LENGTH, width))
        nn.init.normal_(self.embedding.weight, std=0.5)
        self.blocks = nn.ModuleList(Block(width, inner, heads) for _ in range(layers))
        self.last, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens) + self.places
        for block in self.blocks:
            x = block(x)
        logits: Tensor = self.head(self.last(x[:, -1]))
        return logits


def trained(world: World, width: int, inner: int, layers: int, epochs: int, seed: int, batch: int = 256) -> nn.Module:
    """A transformer that has learned all facts; every epoch states each of them once, in new words."""
    net = seeded(lambda: Transformer(world.words, width, inner, layers), seed)
    rng = np.random.default_rng(seed)
    subjects, which = world.all_facts(np.arange(world.subjects))
    steps = epochs * -(-len(subjects) // batch)
    optimizer = torch.optim.AdamW(net.parameters(), lr=3e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=steps, pct_start=0.1)
    for _ in range(epochs):
        for rows in np.array_split(rng.permutation(len(subjects)), -(-len(subjects) // batch)):
            s, w = subjects[rows], which[rows]
            optimizer.zero_grad()
            torch.autograd.backward(cross_entropy(net(world.sentences(s, w, rng)), world.answer(s, w)))
            optimizer.step()
            schedule.step()
    return net.eval().requires_grad_(False)


def answers(net: nn.Module, sentences: Tensor) -> Tensor:
    """The words that the network answers."""
    with torch.no_grad():
        return torch.cat([net(part).argmax(1) for part in sentences.split(1000)])
