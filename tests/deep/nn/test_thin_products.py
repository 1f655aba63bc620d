"""Products on both paths agree with float64 to rounding, whatever size, dtype and memory order."""

import pytest

torch = pytest.importorskip("torch")
from remanence.deep.nn import thin_products  # noqa: E402


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(4, 6, 3), (96, 200, 64), (96, 200, 8), (2, 30, 40, 5)])
def test_products_agree_with_float64(shape, dtype):
    *groups, outputs, inputs, r = shape
    noise = torch.Generator().manual_seed(0)
    W, U = (torch.randn(*groups, *s, generator=noise, dtype=dtype) for s in ((outputs, inputs), (inputs, r)))
    D = thin_products.times(W, U)
    tolerance = 8 * torch.finfo(dtype).eps * inputs
    assert torch.allclose(D.double(), W.double() @ U.double(), atol=tolerance, rtol=0)
    left = (W.double() - D.double() @ U.double().mT) / inputs
    for C in (U.mT, U.mT.contiguous()):
        changed = W.clone()
        thin_products.subtract_product(changed, D, C)
        assert torch.allclose(changed.double() / inputs, left, atol=tolerance, rtol=0)


def test_large_products_take_the_fast_path(monkeypatch):
    W, U = torch.ones(96, 200), torch.ones(200, 64)
    assert thin_products._fast(W, U) == (thin_products._ONEDNN is not None)
    assert not any(thin_products._fast(*pair) for pair in ((W.double(), U.double()), (W[:4], U), (W[None], U[None])))
    monkeypatch.setattr(thin_products, "_ONEDNN", None)
    assert torch.equal(thin_products.times(W, U), W @ U)
