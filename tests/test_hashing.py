"""The digests that model files, ledgers and checkpoints depend on, as earlier versions made them."""

import hashlib
from pathlib import Path

import numpy as np
import pytest

from remanence.hashing import content_fingerprint, hash_bytes, new_digest, row_keys, short
from remanence.kernels.row_words import add_words

SOURCE = Path(__file__).parents[1] / "src" / "remanence"


def test_bytes_and_texts_are_hashed_one_after_the_other():
    assert hash_bytes("aü", b"b", memoryview(b"c")) == hashlib.sha256("aübc".encode()).hexdigest()
    assert short(new_digest("a")) == hashlib.sha256(b"a").hexdigest()[:16]


def test_fingerprints_in_old_ledgers_are_those_of_today():
    parts = ("a", b"b", np.arange(3), np.array(["x", "yy"], dtype=object))
    assert content_fingerprint(*parts) == "4d9220c3345e047fecb1e8094b73826db3a82207f616920d953b9b147252f673"


def test_keys_of_rows_are_those_of_today():
    keys = row_keys(np.array([[0.0, 1.0, 2.0], [-0.0, 1.0, 2.0], [0.0, 2.0, 1.0]]), [np.array(["a", "a", "a"])])
    assert keys[0].hex() == "dcf0d73ca7bc0c03e37835336d128108" == keys[1].hex() != keys[2].hex()


def test_the_fingerprint_of_a_network_is_that_of_old_files():
    torch = pytest.importorskip("torch")
    from remanence.deep.nn.tensors import structure

    assert structure(torch.nn.Linear(2, 3)) == "network:801b5ae6d0a17769"


def test_hashes_are_made_in_one_place():
    found = {path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py") if "hashlib" in path.read_text()}
    assert found == {"hashing.py"}


LAYOUTS = [
    np.ascontiguousarray,
    np.asfortranarray,
    lambda X: np.asfortranarray(np.vstack([X, X]))[: len(X)],
    lambda X: np.column_stack([X, X])[:, : X.shape[1]],
    lambda X: np.repeat(X, 2, axis=0)[::2],
    lambda X: X[::-1][::-1],
]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (5, 0), (3, 7), (1023, 2), (1025, 5), (3000, 40)])
def test_the_compiled_loop_makes_the_same_keys_in_every_layout(layout, shape):
    rng = np.random.default_rng(0)
    X = rng.standard_normal(shape) * 10.0 ** rng.integers(-300, 300, shape)
    special = np.array([0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf, 5e-324, -5e-324])
    X.flat[::3] = special[rng.integers(8, size=len(X.flat[::3]))]
    texts = [np.arange(shape[0]).astype(str)]
    slow = row_keys(X, texts)
    given = layout(X)
    np.testing.assert_array_equal(row_keys(given, texts, add_words=add_words), slow)
    k = shape[1] // 2
    np.testing.assert_array_equal(row_keys(given[:, :k], texts, (given[:, k:],), add_words), slow)


def test_keys_of_rows_never_change():
    """Ledgers of model files hold them."""
    X = np.array([[0.0, 1.5, -2.0], [-0.0, 1e300, 5e-324]])
    expected = ["7f7ad2be9e155d2575bd8059c4c2f205", "a9355effcc682959f3272e477d6ae094"]
    for loop in (None, add_words):
        found = row_keys(X, [np.array(["x", "ö"])], add_words=loop)
        assert [key.ljust(16, b"\0").hex() for key in found.tolist()] == expected


def test_the_compiled_loop_takes_only_what_it_can_read():
    factors = np.ones((2, 2), np.uint64)
    for sums, numbers in (
        (np.zeros((2, 3), np.uint64), np.zeros((3, 2), np.float32)),
        (np.zeros((2, 2), np.uint64), np.zeros((3, 2))),
        (np.zeros((2, 3)), np.zeros((3, 2))),
        (np.zeros((2, 3), np.uint64), np.zeros((3, 2), ">f8")),
        (np.zeros((2, 3), np.uint64), np.zeros((3, 3))),
    ):
        with pytest.raises(TypeError):
            add_words(sums, numbers, factors)
