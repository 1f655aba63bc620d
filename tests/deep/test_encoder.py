"""A frozen torch module as the features of a classifier."""

import numpy as np
import pytest

import remanence as rm

torch = pytest.importorskip("torch")
nn = torch.nn


def network():
    torch.manual_seed(0)
    layers = [
        torch.nn.Conv2d(1, 6, 3),
        torch.nn.BatchNorm2d(6),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(216, 20),
    ]
    return torch.nn.Sequential(*layers)


def images(n=30):
    return np.random.default_rng(0).standard_normal((n, 1, 8, 8)).astype(np.float32)


def test_features_are_those_of_the_module_in_eval_mode_whatever_the_batch():
    net, X = network(), images()
    expected = net.eval()(torch.as_tensor(X)).detach().numpy()
    net.train()
    net[1].eval()
    for size in (1, 7, 64):
        np.testing.assert_allclose(rm.deep.Encoder(net, batch_size=size).transform(X), expected, atol=1e-5)
    assert net.training and not net[1].training, "the modes of the modules are put back"


def test_a_layer_can_be_named_and_flat_inputs_shaped():
    net, X = network(), images()
    inner = rm.deep.Encoder(net, layer="2").transform(X)
    assert inner.shape == (30, 6 * 36) and inner.min() == 0
    np.testing.assert_allclose(
        rm.deep.Encoder(net, layer="2", shape=(1, 8, 8)).transform(X.reshape(30, 64)), inner, atol=1e-6
    )
    for bad in (
        rm.deep.Encoder(net, layer="none"),
        rm.deep.Encoder(net, shape=(3, 3)),
        rm.deep.Encoder(net, batch_size=0),
    ):
        with pytest.raises(rm.InputError):
            bad.transform(X)


def test_nothing_is_hooked_or_recorded_afterwards():
    net = network()
    rm.deep.Encoder(net, layer="2").transform(images())
    assert not net[2]._forward_hooks
    assert all(p.grad is None for p in net.parameters())


def test_another_encoder_raises_an_error():
    net, X = network(), images()
    y = np.arange(30) % 3
    model = rm.ContinualClassifier(features=rm.deep.Encoder(net)).partial_fit(X, y)
    model.partial_fit(X, y)
    answers = model.predict(X)
    with torch.no_grad():
        net[4].bias[0] += 1e-3
    with pytest.raises(rm.InputError, match="encoder"):
        model.predict(X)
    with torch.no_grad():
        net[4].bias[0] -= 1e-3
    twin = network()
    assert rm.deep.Encoder(twin).fingerprint() == rm.deep.Encoder(network()).fingerprint()
    assert rm.deep.Encoder(twin).fingerprint() != rm.deep.Encoder(twin, layer="2").fingerprint()
    model.features = rm.deep.Encoder(twin)
    np.testing.assert_array_equal(model.predict(X), answers)


def test_modules_and_inputs_in_bfloat16():
    rows = torch.randn(5, 3, generator=torch.Generator().manual_seed(0)).bfloat16()
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh()).bfloat16()
    found = rm.deep.Encoder(net).transform(rows)
    assert found.dtype == np.float32 and np.array_equal(found, net(rows).detach().float().numpy())


@pytest.mark.parametrize(
    ("module", "message"),
    [
        ("net", "expected a torch module to encode with, got str"),
        (nn.Linear(3, 2, device="meta"), "meta device"),
        (nn.GRU(3, 2), "returns a tensor with a row for each of 4 inputs, got <class 'tuple'>"),
        (nn.Flatten(0), r"got of shape \(12,\)"),
        (nn.Linear(5, 2), "mat1 and mat2 shapes"),
    ],
)
def test_modules_that_do_not_encode_rows_raise_an_error(module, message):
    with pytest.raises(rm.InputError, match=message):
        rm.deep.Encoder(module).transform(np.zeros((4, 3)))
