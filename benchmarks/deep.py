"""Guarded training of networks: what a guarded step costs beside a bare one, and beside the usual dense projection."""

from collections.abc import Callable
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from statistics import median
from typing import Any
from warnings import catch_warnings, simplefilter

import remanence as rm
from benchmarks.peers import peer
from benchmarks.rows import Benchmark, Effort, Goal, Row
from benchmarks.timing import Measured, measure, one_thread

OLD = 128  # samples absorbed, so at most as many directions a layer
TOGETHER = 4  # steps that are projected together, in rows of their own


@contextmanager
def _torch() -> Any:
    """torch on one thread, and with as many as before afterwards."""
    torch = peer("torch", "deep")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with one_thread():
            yield torch
    finally:
        torch.set_num_threads(before)


def _mlp(torch: Any, width: int, hidden: int) -> Any:
    nn = torch.nn
    torch.manual_seed(0)
    layers = [nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 10)]
    return nn.Sequential(*layers)


def _cnn(torch: Any) -> Any:
    nn = torch.nn
    torch.manual_seed(0)
    convolutions = [nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2), nn.ReLU(), nn.Flatten()]
    return nn.Sequential(*convolutions, nn.Linear(1152, 10))


def _trainer(
    torch: Any, net: Any, optimizer: Any, X: Any, y: Any, steps: int, between: Any = None
) -> Callable[[], Any]:
    def train() -> None:
        for _ in range(steps):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(net(X), y).backward()
            if between is not None:
                between()
            optimizer.step()

    return train


def _dense(torch: Any, net: Any, X: Any) -> Callable[[], None]:
    """As it is usually done: P = I − UUᵀ of each layer's inputs, formed once; G ← G P before the optimizer's step."""
    projectors = []
    with torch.no_grad():
        for layer in net:
            if isinstance(layer, torch.nn.Linear):
                U = torch.linalg.svd(X, full_matrices=False).Vh.T
                projectors.append((layer.weight, torch.eye(X.shape[1]) - U @ U.T))
            X = layer(X)

    def project() -> None:
        for weight, P in projectors:
            weight.grad = weight.grad @ P

    return project


def _products(torch: Any, net: Any, directions: int, steps: int) -> Callable[[], None]:
    """The two thin products of each weight matrix and nothing else: what projecting a step costs at least."""
    from remanence.deep.nn.thin_products import subtract_product, times

    weights = [p.detach().clone() for p in net.parameters() if p.dim() == 2]
    bases = [torch.linalg.qr(torch.randn(W.shape[1], min(directions, W.shape[1])))[0].contiguous() for W in weights]

    def multiply() -> None:
        for _ in range(steps):
            for W, U in zip(weights, bases, strict=True):
                subtract_product(W, times(W, U) * 1e-9, U.mT)

    return multiply


def _square(torch: Any, size: int = 1024) -> Callable[[], Any]:
    """A product of two square matrices, the fastest kind: nothing here multiplies at a higher speed."""
    from remanence.deep.nn.thin_products import times

    A, B = torch.randn(2, size, size)
    return lambda: times(A, B)


def _compare(make: Any, shape: tuple[int, ...], batch: int, dense: bool, effort: Effort) -> Any:
    """Seconds of the same steps bare, guarded and (asked for) with the dense projection; how far old answers moved.

    `dense` also asks for steps that are projected together.
    """
    with _torch() as torch, ExitStack() as guarded:
        noise = torch.Generator().manual_seed(0)
        old, X = (torch.randn(n, *shape, generator=noise) for n in (effort.features(OLD), batch))
        y = torch.randint(10, (batch,), generator=noise)
        names = ("bare", "guarded", *(("dense", "together") if dense else ()))
        nets = {name: make(torch) for name in names}
        optimizers = {name: torch.optim.AdamW(net.parameters()) for name, net in nets.items()}
        before = nets["bare"](old).detach()
        for name in {"guarded", "together"} & nets.keys():
            guard = rm.deep.GradientProjection(nets[name])
            with catch_warnings():
                simplefilter("ignore")  # (full layers are told)
                guard.absorb([old])
            every = TOGETHER if name == "together" else 1
            guarded.enter_context(guard.protect(optimizers[name], every=every))
        between = {"dense": _dense(torch, nets["dense"], old)} if dense else {}
        steps = effort.rows(2 * TOGETHER, TOGETHER)
        calls = {n: _trainer(torch, nets[n], optimizers[n], X, y, steps, between.get(n)) for n in names}
        if dense:
            calls["products"] = _products(torch, nets["bare"], len(old), steps)
            calls["square"] = _square(torch)
        # what is looked for are differences of milliseconds: many short rounds find a quiet moment for every side
        found = measure(calls, replace(effort, rounds=8 * effort.rounds))
        moved = {n: float((nets[n](old) - before).detach().abs().max() / before.abs().max()) for n in names}
        return found, moved, steps


def _row(
    name: str,
    what: str,
    found: Measured,
    moved: dict[str, float],
    steps: int,
    goal: Goal,
    note: str = "",
    side: str = "guarded",
) -> Row:
    return Row(
        name,
        what,
        found.best(side, steps),
        "the same step without a guard",
        found.best("bare", steps),
        goal,
        unit="seconds a step",
        accuracy={"old answers moved by": moved[side], "without a guard by": moved["bare"]},
        rounds=found.pairs(side, "bare", steps, steps),
        note=note,
    )


def _extra(found: Measured, name: str, steps: int) -> float:
    """What a side adds to a bare step: the median over rounds, because two best rounds may differ by luck alone."""
    return max(median(theirs - bare for theirs, bare in found.pairs(name, "bare", steps, steps)), 1e-9)


def _mlp_rows(name: str, batch: int, goal: Goal, dense_goal: Goal, effort: Effort) -> tuple[Row, ...]:
    width, hidden = effort.features(784), effort.features(256)
    found, moved, steps = _compare(lambda torch: _mlp(torch, width, hidden), (width,), batch, True, effort)
    what = f"GradientProjection, {width}-{hidden}-{hidden}-10, AdamW, batch {batch}, {effort.features(OLD)} old samples"
    first, weights = width * hidden, width * hidden + hidden * hidden + hidden * 10
    # a bare step multiplies each weight three times by the batch, the first layer's twice; the projection twice by U
    share = 2 * weights * effort.features(OLD) / (batch * (3 * weights - first))
    bare = found.best("bare", steps)
    least = 1 + found.best("products", steps) / bare
    fastest = 1024**3 / found.best("square")
    limit = 1 + 2 * weights * effort.features(OLD) / fastest / bare
    note = (
        f"the projection needs {share:.2f} times the multiplications of forward and backward; its products alone, "
        f"without biases and outputs, would make it {least:.2f}; at the speed of a product of 1024 × 1024 matrices "
        f"({fastest / 1e9:.0f} billion multiplications a second) {limit:.2f}"
    )
    together = f"{what}: a step, {TOGETHER} of which are projected together"
    return (
        _row(name, f"{what}: a step", found, moved, steps, goal, note),
        _row(f"{name}-together", together, found, moved, steps, goal, side="together"),
        Row(
            f"{name}-dense",
            f"{what}: what it adds to a step",
            _extra(found, "guarded", steps),
            "what G ← G P with the d × d projector of each weight adds",
            _extra(found, "dense", steps),
            dense_goal,
            unit="seconds a step",
            accuracy={"our old answers moved by": moved["guarded"], "theirs by": moved["dense"]},
            note="medians over rounds; theirs leaves the biases free and AdamW's scaling outside",
        ),
    )


def mlp(effort: Effort) -> tuple[Row, ...]:
    """Two thin products per layer are 0.9 of the arithmetic of the bare step; the rest of the step is AdamW.

    A step of AdamW has no structure to use, so W U costs out · in · r multiplications, and subtracting along U as many;
    a basis U with a triangle of zeros would save r / 2 in of both. The note says how far that is from the goal at the
    highest speed of this machine in single precision; products in half precision would move old outputs.
    """
    return _mlp_rows("deep-mlp", 128, Goal("at most", 1.2), Goal("at most", 0.5), effort)


def _encoder(torch: Any, width: int, layers: int, words: int) -> Any:
    nn = torch.nn
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(width, width // 32, 4 * width, dropout=0.0, batch_first=True, activation="gelu")

    class Encoder(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(words, width)
            self.body = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
            self.head = nn.Linear(width, 10)

        def forward(self, ids: Any) -> Any:
            return self.head(self.body(self.words(ids)).mean(1))

    return Encoder()


def transformer(effort: Effort) -> tuple[Row, ...]:
    """A transformer of MiniLM's size (6 layers of width 384), batch 16 of 32 tokens, 8 old texts of 16 tokens."""
    width, words, batch, tokens = 32 * effort.features(12), effort.rows(30522, 100), 16, 32
    with _torch() as torch, ExitStack() as guarded:
        noise = torch.Generator().manual_seed(0)
        old, X = (torch.randint(words, shape, generator=noise) for shape in ((8, 16), (batch, tokens)))
        y = torch.randint(10, (batch,), generator=noise)
        nets = {name: _encoder(torch, width, 6, words) for name in ("bare", "guarded")}
        optimizers = {name: torch.optim.AdamW(net.parameters(), lr=1e-4) for name, net in nets.items()}
        before = nets["guarded"].eval()(old).detach()
        guard = rm.deep.GradientProjection(nets["guarded"])
        guard.absorb([old])
        guarded.enter_context(guard.protect(optimizers["guarded"]))
        calls = {n: _trainer(torch, nets[n], optimizers[n], X, y, 1) for n in nets}
        found = measure(calls, replace(effort, rounds=2 * effort.rounds))
        moved = {n: float((nets[n].eval()(old) - before).detach().abs().max() / before.abs().max()) for n in nets}
        what = f"GradientProjection, 6 layers of width {width}, AdamW, batch {batch} of {tokens} tokens: a step"
        return (_row("deep-transformer", what, found, moved, 1, Goal("at most", 1.15)),)


def _absorbing(name: str, width: int, rows: int, effort: Effort) -> Row:
    """Absorb rows with a memory of bounded rank, beside one forward pass over the same rows."""
    with _torch() as torch:
        width, batch = effort.features(width), effort.rows(512, 16)
        torch.manual_seed(0)
        nn = torch.nn
        net = nn.Sequential(*(m for _ in range(4) for m in (nn.Linear(width, width), nn.ReLU())), nn.Linear(width, 10))
        batches = torch.randn(effort.rows(rows, 2 * batch), width).split(batch)

        def forward() -> None:
            with torch.no_grad():
                for X in batches:
                    net(X)

        def absorb() -> Any:
            return rm.deep.GradientProjection(net, memory="lowrank").absorb(batches)

        found = measure({"forward": forward, "absorb": absorb}, replace(effort, rounds=min(effort.rounds, 2)))
        layers = found.results["absorb"].layers
        return Row(
            name,
            f"absorb {sum(map(len, batches))} rows with memory='lowrank' (rank 256), 4 layers of width {width}",
            found.best("absorb"),
            "a forward pass over the same rows",
            found.best("forward"),
            Goal("at most", 2),
            unit="seconds",
            accuracy={"least energy kept in a layer": min(layer.kept for layer in layers)},
            rounds=found.pairs("absorb", "forward"),
            note="counts the forward pass inside absorb, which multiplies by oneDNN; what does not grow with the rows "
            "weighs more with fewer",
        )


def absorbing(effort: Effort) -> tuple[Row, ...]:
    """Normal random inputs, as many as 128 texts of 128 words have: all directions are about equally strong."""
    return (
        _absorbing("deep-absorb", 4096, 16384, effort),
        _absorbing("deep-absorb-narrow", 1024, 16384, effort),
    )


def small_batches(effort: Effort) -> tuple[Row, ...]:
    return _mlp_rows("deep-small", 10, Goal("at most"), Goal("at most"), effort)


def convolutions(effort: Effort) -> tuple[Row, ...]:
    """So many images use every direction of both convolutions: the most that a guard can cost here."""
    batch = 32
    found, moved, steps = _compare(_cnn, (1, 16, 16), batch, False, effort)
    what = f"GradientProjection, 2 convolutions, both full, and a linear layer, AdamW, batch {batch}: a step"
    return (_row("deep-cnn", what, found, moved, steps, Goal("at most")),)


BENCHMARKS: dict[str, Benchmark] = {
    "deep-mlp": mlp,
    "deep-small": small_batches,
    "deep-cnn": convolutions,
    "deep-transformer": transformer,
    "deep-absorb": absorbing,
}
