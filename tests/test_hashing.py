"""The digests that model files, ledgers and checkpoints depend on, as earlier versions made them."""

import hashlib
from pathlib import Path

import numpy as np
import pytest

from remanence.hashing import content_fingerprint, hash_bytes, new_digest, row_keys, short

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
