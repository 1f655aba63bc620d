"""Linear layers while inputs are recorded: the values of the plain ones to rounding, and plain ones elsewhere."""

import pytest

torch = pytest.importorskip("torch")
from remanence.deep.nn import thin_products  # noqa: E402
from remanence.deep.nn.lowrank.fast_linear import FastLinear  # noqa: E402

nn = torch.nn


@pytest.fixture
def counted(monkeypatch):
    """The number of layers that the replacement computed."""
    calls = []
    own = thin_products.linear
    monkeypatch.setattr("remanence.deep.nn.lowrank.fast_linear.linear", lambda *args: calls.append(args) or own(*args))
    return calls


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(200, 128), (4, 50, 128), (128,), (0, 128), (3, 128)])
def test_values_to_rounding(shape, bias, counted):
    torch.manual_seed(0)
    layer, X = nn.Linear(128, 96, bias=bias), torch.randn(shape)
    with torch.no_grad():
        plain = layer(X)
        with FastLinear():
            fast = layer(X)
    assert len(counted) == 1 and fast.shape == plain.shape
    torch.testing.assert_close(fast, plain, rtol=1e-5, atol=1e-5)


def test_gradients_other_dtypes_autocast_and_transforms_are_left_alone(counted):
    layer, X = nn.Linear(128, 96), torch.randn(200, 128)
    with FastLinear():
        layer(X).sum().backward()
        with torch.no_grad():
            assert nn.Linear(128, 96).double()(X.double()).dtype is torch.float64
            with torch.autocast("cpu", torch.bfloat16):
                assert layer(X).dtype is torch.bfloat16
            found = torch.func.vmap(layer)(X[:, None])
    assert layer.weight.grad is not None and found.shape == (200, 1, 96) and not counted


def test_wrong_shapes_raise_the_same_error():
    with torch.no_grad(), FastLinear(), pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        nn.functional.linear(torch.randn(200, 128), torch.randn(300, 127))
