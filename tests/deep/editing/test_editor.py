"""The editor solves its least-squares problem, equals the published closed forms, and undoes edits exactly."""

import copy

import numpy as np
import pytest

import remanence as rm

torch = pytest.importorskip("torch")
mpmath = pytest.importorskip("mpmath")


def keys(rng, n, d, spread=1e3):
    return rng.standard_normal((n, d)) * np.logspace(0, -np.log10(spread), d)


def layer(d, c, seed=0, dtype=torch.float64, bias=True):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(d, c, bias=bias).to(dtype))


def tensor(array):
    return torch.from_numpy(np.ascontiguousarray(array))


def weights(net):
    return net[0].weight.detach().double().numpy().T.copy()


def precise(M):
    return mpmath.matrix(np.asarray(M).tolist())


def plain(M):
    return np.array(M.tolist(), float)


@pytest.fixture
def problem():
    rng = np.random.default_rng(3)
    d, c, n = 9, 4, 3
    K0, K, V = keys(rng, 60, d), keys(rng, n, d), rng.standard_normal((n, c))
    net = layer(d, c, bias=False)
    mpmath.mp.dps = 60
    W0 = weights(net)
    C = precise(K0).T * precise(K0) / len(K0)
    return net, K0, K, V, W0, C, precise(V) - precise(K) * precise(W0)


def edited(net, K0, K, V, weight=1.0, **settings):
    editor = rm.deep.Editor(net, "0", **settings)
    editor.absorb([tensor(K0)])
    editor.edit(tensor(K), tensor(V), "e", weight)
    return editor


def close(net, W0, D, tolerance=1e-8):
    D = plain(D)
    np.testing.assert_allclose(weights(net) - W0, D, atol=tolerance * np.abs(D).max())


def test_memit_is_soft_with_a_strength(problem):
    net, K0, K, V, W0, C, T = problem
    edited(net, K0, K, V, strength=20.0, ridge=0.0)
    k = precise(K)
    close(net, W0, mpmath.inverse(20 * C + k.T * k) * k.T * T)


def test_rome_and_emmet_are_soft_with_exact_edits(problem):
    net, K0, K, V, W0, C, T = problem
    inverse = mpmath.inverse(C)
    for rows in (slice(0, 1), slice(0, 3)):
        net[0].weight.data = tensor(W0.T.copy())
        edited(net, K0, K[rows], V[rows], weight=np.inf, ridge=0.0)
        k = precise(K[rows])
        close(net, W0, inverse * k.T * mpmath.inverse(k * inverse * k.T) * precise(plain(T)[rows]))
        np.testing.assert_allclose(K[rows] @ weights(net), V[rows], atol=1e-9)


def test_alphaedit_is_hard_with_ridge_one(problem):
    net, K0, K, V, W0, _, T = problem
    few = K0[:5] * np.logspace(0, -1, 5)[:, None]
    editor = edited(net, few, K, V, preserve="hard", ridge=1.0)
    F = precise(few)
    P = mpmath.eye(9) - F.T * mpmath.inverse(F * F.T) * F
    k = precise(K)
    close(net, W0, P * k.T * mpmath.inverse(k * P * k.T + mpmath.eye(3)) * T)
    np.testing.assert_allclose(few @ weights(net), few @ W0, atol=1e-12)
    assert editor.report().preserved_moved < 1e-12


def test_alphaedit_in_sequence_spares_strong_keys_alone(problem):
    """The published recursion: each batch is added to the weights of then, with the keys of the batches before it."""
    net, K0, K, V, W0, C, T = problem
    values, vectors = mpmath.eigsy(C)
    strong = sorted(range(9), key=lambda i: -values[i])[:4]
    P = mpmath.eye(9) - sum((vectors[:, i] * vectors[:, i].T for i in strong), mpmath.zeros(9))
    D, earlier = mpmath.zeros(9, 4), mpmath.zeros(9)
    for rows in (slice(0, 2), slice(2, 3)):
        k = precise(K[rows])
        earlier += k.T * k
        D += mpmath.inverse(P * earlier + mpmath.eye(9)) * P * k.T * (precise(plain(T)[rows]) - k * D)
    total = [float(sum(values[i] for i in strong[:r]) / sum(values)) for r in (3, 4)]
    editor = rm.deep.Editor(net, "0", "hard", ridge=1.0, energy=sum(total) / 2)  # above that of three directions
    editor.absorb([tensor(K0)])
    editor.edit(K[:2], V[:2], "first")
    editor.edit(K[2:], V[2:], "second")
    close(net, W0, D)


def check_undone_edits(n, d, preserve, weight, dtype, allowed):
    """Half of n edits undone at random, against an editor that never made them; then all of them."""
    rng = np.random.default_rng(5)
    c = 12
    absorbed, rows, values = keys(rng, 20, d, 10.0), keys(rng, n, d, 10.0), rng.standard_normal((n, c))
    nets = [layer(d, c, dtype=dtype) for _ in range(2)]
    editors = [rm.deep.Editor(net, "0", preserve) for net in nets]
    for editor in editors:
        editor.absorb([tensor(absorbed).to(dtype)])
    first = weights(nets[0])
    undone = set(rng.permutation(n)[: n // 2].tolist())
    for i in range(n):
        editors[0].edit(rows[i : i + 1], values[i : i + 1], f"{i}", weight)
    for i in rng.permutation(sorted(undone)):
        editors[0].undo(f"{i}")
    for i in range(n):
        if i not in undone:
            editors[1].edit(rows[i : i + 1], values[i : i + 1], f"{i}", weight)
    assert np.abs(weights(nets[0]) - weights(nets[1])).max() <= allowed
    for i in range(n):
        if i not in undone:
            editors[0].undo(f"{i}")
    assert (weights(nets[0]) == first).all()


@pytest.mark.parametrize(("preserve", "weight"), [("soft", 1.0), ("soft", np.inf), ("hard", 1.0), ("hard", np.inf)])
@pytest.mark.parametrize(("dtype", "allowed"), [(torch.float64, 1e-9), (torch.float32, 1e-5)])
def test_half_of_many_edits_undone_at_random_equal_those_never_made(preserve, weight, dtype, allowed):
    check_undone_edits(40, 64, preserve, weight, dtype, allowed)


@pytest.mark.sweep
@pytest.mark.parametrize("preserve", ["soft", "hard"])
@pytest.mark.parametrize(("dtype", "allowed"), [(torch.float64, 1e-9), (torch.float32, 1e-5)])
def test_half_of_a_thousand_edits_undone_at_random_equal_those_never_made(preserve, dtype, allowed):
    check_undone_edits(1000, 128, preserve, 1.0, dtype, allowed)


def test_hard_preservation_holds_in_both_precisions():
    rng = np.random.default_rng(0)
    for dtype, allowed in ((torch.float64, 1e-9), (torch.float32, 1e-4)):
        net = layer(30, 5, dtype=dtype)
        old = torch.from_numpy(keys(rng, 12, 30)).to(dtype)
        editor = rm.deep.Editor(net, "0", "hard")
        editor.absorb([old])
        before = net(old).detach()
        editor.edit(rng.standard_normal((3, 30)), 10 * rng.standard_normal((3, 5)), "a")
        assert (net(old) - before).abs().max() < allowed


@pytest.mark.parametrize(("dtype", "allowed"), [(torch.float64, 1e-9), (torch.float32, 1e-4), (torch.bfloat16, 0.03)])
@pytest.mark.parametrize("rank", [None, 14])
def test_rounding_of_keys_takes_no_room_from_hard_preservation(dtype, allowed, rank):
    """Many keys of few directions, which rounding spreads a little over all others."""
    rng = np.random.default_rng(1)
    net = layer(30, 5, dtype=dtype)
    old = tensor(rng.standard_normal((200, 12)) @ rng.standard_normal((12, 30))).to(dtype)
    editor = rm.deep.Editor(net, "0", "hard", rank=rank)
    editor.absorb([old])
    K, V = (tensor(rng.standard_normal((3, n))).to(dtype) for n in (30, 5))
    before = net(old).detach().double()
    editor.edit(K, V, "a", np.inf)
    assert float((net(K).detach() - V).abs().max()) < allowed
    assert float((net(old).detach().double() - before).norm() / before.norm()) < allowed


@pytest.mark.parametrize("weight", [1.0, np.inf])
@pytest.mark.parametrize("gap", [0.0, 1e-13, 1e-9])
def test_hard_preservation_without_room_moves_nothing(weight, gap):
    """Keys that span the layer, or all but a direction of this size, leave no edit that keeps the answers."""
    rng = np.random.default_rng(0)
    net, old = layer(20, 4), rng.standard_normal((200, 20))
    old[:, -1] *= gap
    editor = rm.deep.Editor(net, "0", "hard")
    editor.absorb([tensor(old)])
    key, before = old[:1] + 1e-10 * rng.standard_normal((1, 20)), weights(net)
    try:
        editor.edit(key, 5 + rng.standard_normal((1, 4)), "a", weight)
    except rm.InputError as problem:
        assert "preserved exactly" in str(problem) and (weights(net) == before).all()
    assert np.abs(old @ weights(net) - old @ before).max() <= 1e-9 * np.abs(old @ before).max() * len(old)


def test_low_rank_keys_approach_all_keys_and_say_what_they_keep():
    rng = np.random.default_rng(1)
    K0, K, V = keys(rng, 200, 20, 1e4), keys(rng, 2, 20, 1e4), rng.standard_normal((2, 3))
    nets = [layer(20, 3) for _ in range(3)]
    reports = [
        edited(net, K0, K, V, strength=5.0, ridge=1e-3, rank=rank).report()
        for net, rank in zip(nets, (None, 20, 8), strict=True)
    ]
    np.testing.assert_allclose(weights(nets[0]), weights(nets[1]), atol=1e-9)
    assert 0.9 < reports[2].kept_energy < 1 and reports[0].kept_energy == 1.0


def test_a_memory_of_limited_rank_counts_what_it_leaves_out():
    """Answers outside of its directions move too, and cannot be promised to stay."""
    rng = np.random.default_rng(4)
    K0 = rng.standard_normal((400, 20)) * np.r_[np.full(6, 30.0), np.ones(14)]
    net = layer(20, 3)
    start = weights(net)
    editor = edited(net, K0, rng.standard_normal((2, 20)), rng.standard_normal((2, 3)), strength=0.1, rank=6)
    told, moved = editor.report().preserved_moved, np.linalg.norm(K0 @ (weights(net) - start))
    assert told == pytest.approx(moved / np.linalg.norm(K0 @ start), rel=0.2)
    assert editor.edits()["e"].cost == pytest.approx(told, rel=1e-9)
    halves = [rm.deep.Editor(layer(20, 3), "0", rank=6) for _ in range(2)]
    for half, rows in zip(halves, (K0[:200], K0[200:]), strict=True):
        half.absorb([tensor(rows)])
    halves[0].merge(halves[1])
    kept = halves[0].state_dict()["preserved"]
    np.testing.assert_allclose(kept["dropped"] + float((kept["strength"] ** 2).sum()), (K0**2).sum(), rtol=1e-12)
    for energy, room in ((1.0, False), (0.99999, False), (0.9, True)):
        net = layer(20, 3)
        start = weights(net)
        hard = rm.deep.Editor(net, "0", "hard", rank=6, energy=energy)
        hard.absorb([tensor(K0)])
        if room:
            hard.edit(rng.standard_normal((1, 20)), np.ones((1, 3)), "a")
            continue
        with pytest.raises(rm.InputError, match="larger rank"):
            hard.edit(rng.standard_normal((1, 20)), np.ones((1, 3)), "a")
        assert (weights(net) == start).all() and not hard.edits()
    few = rm.deep.Editor(layer(20, 3), "0", "hard", rank=6)
    few.absorb([tensor(K0[:5])])
    few.edit(rng.standard_normal((1, 20)), np.ones((1, 3)), "a")
    assert few.report().preserved_moved < 1e-9


def test_merged_editors_equal_one():
    rng = np.random.default_rng(2)
    K0, K, V = keys(rng, 100, 10), keys(rng, 4, 10), rng.standard_normal((4, 3))
    nets = [layer(10, 3) for _ in range(3)]
    whole, a, b = (rm.deep.Editor(net, "0") for net in nets)
    whole.absorb([tensor(K0)])
    a.absorb([tensor(K0[:40])])
    b.absorb([tensor(K0[40:])])
    for editor, rows in ((whole, range(4)), (a, (0, 1)), (b, (2, 3))):
        for i in rows:
            editor.edit(K[i : i + 1], V[i : i + 1], f"{i}")
    a.merge(b)
    np.testing.assert_allclose(weights(nets[1]), weights(nets[0]), atol=1e-9)
    with pytest.raises(rm.InputError, match="different names"):
        a.merge(b)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_without_edits_the_layer_is_as_it_was(dtype):
    rng = np.random.default_rng(6)
    net = layer(8, 3, dtype=dtype)
    editor = rm.deep.Editor(net, "0")
    editor.absorb([tensor(rng.standard_normal((40, 8))).to(dtype)])
    first = weights(net)
    editor.edit(rng.standard_normal((2, 8)), rng.standard_normal((2, 3)), "a", 50.0)
    present = weights(net)
    assert (first != present).any()
    with editor.without_edits():
        assert (weights(net) == first).all()
        with pytest.raises(rm.InputError):
            editor.undo("a")
    assert (weights(net) == present).all() and list(editor.edits()) == ["a"]
    with pytest.raises(KeyError), editor.without_edits():
        raise KeyError
    assert (weights(net) == present).all()
    editor.undo("a")
    assert (weights(net) == first).all()


def test_edits_that_are_reweighed_are_those_made_with_these_weights():
    rng = np.random.default_rng(7)
    K0, K, V = keys(rng, 50, 8, 10.0), keys(rng, 3, 8, 10.0), rng.standard_normal((3, 4))
    nets = [layer(8, 4) for _ in range(2)]
    editors = [rm.deep.Editor(net, "0") for net in nets]
    for editor, given in zip(editors, (((1.0, 1.0), 1.0), ((3.0, 9.0), 40.0)), strict=True):
        editor.absorb([tensor(K0)])
        editor.edit(K[:2], V[:2], "a", given[0])
        editor.edit(K[2:], V[2:], "b", given[1])
    editors[0].reweigh({"a": (3.0, 9.0), "b": 40.0})
    np.testing.assert_array_equal(weights(nets[0]), weights(nets[1]))
    before = weights(nets[0])
    for refused in ({"c": 1.0}, {"a": 0.0}, {"a": (1.0, 2.0, 3.0)}, {"a": np.nan}, {"b": 2.0, "a": -1.0}, ["a"]):
        with pytest.raises(rm.InputError):
            editors[0].reweigh(refused)
        assert (weights(nets[0]) == before).all()
    editors[0].undo("b")
    editors[1].undo("b")
    np.testing.assert_array_equal(weights(nets[0]), weights(nets[1]))


def test_an_answer_that_is_kept_is_an_edit_to_what_it_was():
    rng = np.random.default_rng(8)
    nets = [layer(8, 4) for _ in range(2)]
    kept, K, V = rng.standard_normal((2, 8)), rng.standard_normal((3, 8)), rng.standard_normal((3, 4))
    answers, first = nets[0](tensor(kept)).detach().numpy(), weights(nets[0])
    editors = [rm.deep.Editor(net, "0") for net in nets]
    for editor in editors:
        editor.absorb([tensor(rng.standard_normal((50, 8)))])
    for editor in editors[:1]:
        editor.edit(K, V, "a", 10.0)
        assert np.abs(nets[0](tensor(kept)).detach().numpy() - answers).max() > 0.01
        editor.keep(kept, "b", np.inf)
        np.testing.assert_allclose(nets[0](tensor(kept)).detach().numpy(), answers, atol=1e-12)
        editor.undo("a")
        np.testing.assert_array_equal(weights(nets[0]), first)
    with pytest.raises(rm.InputError):
        editors[0].keep(kept[:, :3], "c")


def test_edits_that_are_strengthened_have_these_weights():
    rng = np.random.default_rng(9)
    K0, K, V = keys(rng, 50, 8, 10.0), keys(rng, 3, 8, 10.0), rng.standard_normal((3, 4))
    nets = [layer(8, 4) for _ in range(2)]
    editors = [rm.deep.Editor(net, "0") for net in nets]
    for editor, given in zip(editors, ((1.0, (2.0, 5.0)), (3.0, (2.0, 15.0))), strict=True):
        editor.absorb([tensor(K0)])
        editor.edit(K[:1], V[:1], "a", given[0])
        editor.edit(K[1:], V[1:], "b", given[1])
    editors[0].strengthen({"a": True, "b": torch.tensor([False, True])}, 3.0)
    np.testing.assert_array_equal(weights(nets[0]), weights(nets[1]))
    editors[0].strengthen({"a": False, "b": np.array([False, False])})
    np.testing.assert_array_equal(weights(nets[0]), weights(nets[1]))
    for refused in ({"c": True}, {"a": 1.0}, {"a": np.array([True, False])}, {"b": [True]}, ["a"]):
        with pytest.raises(rm.InputError):
            editors[0].strengthen(refused)
    for factor in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(rm.InputError):
            editors[0].strengthen({"a": True}, factor)
    np.testing.assert_array_equal(weights(nets[0]), weights(nets[1]))


@pytest.mark.parametrize("preserve", ["soft", "hard"])
@pytest.mark.parametrize("weights_of", [(1.0, 5.0), (1.0, np.inf)])
def test_the_list_of_edits_says_what_undoing_each_would_move(preserve, weights_of):
    rng = np.random.default_rng(11)
    K0 = keys(rng, 6 if preserve == "hard" else 60, 12, 10.0)
    net, energy = layer(12, 4), 0.9 if preserve == "hard" else 1.0
    start = weights(net)
    editor = rm.deep.Editor(net, "0", preserve, energy=energy)
    editor.absorb([tensor(K0)])
    for name, n in (("a", 1), ("b", 3), ("c", 2)):
        editor.edit(rng.standard_normal((n, 12)), rng.standard_normal((n, 4)), name, weights_of[n % 2])
    state, whole = copy.deepcopy(editor.state_dict()), weights(net)
    for name, told in editor.edits().items():
        twin = layer(12, 4)
        twin[0].weight.data = tensor(whole.T)
        other = rm.deep.Editor(twin, "0", preserve, energy=energy)
        other.load_state_dict(state)
        other.undo(name)
        moved = whole - weights(twin)
        assert told.size == pytest.approx(np.linalg.norm(moved) / np.linalg.norm(start), rel=1e-7)
        assert told.cost == pytest.approx(np.linalg.norm(K0 @ moved) / np.linalg.norm(K0 @ start), rel=1e-7)


def test_edits_made_together_are_solved_once_or_not_at_all():
    rng = np.random.default_rng(10)
    K0, K, V = keys(rng, 50, 8, 10.0), keys(rng, 4, 8, 10.0), rng.standard_normal((4, 4))
    nets = [layer(8, 4) for _ in range(2)]
    editors = [rm.deep.Editor(net, "0") for net in nets]
    for editor in editors:
        editor.absorb([tensor(K0)])
        editor.edit(K[:1], V[:1], "a")
    first = weights(nets[0])
    with editors[0].together():
        editors[0].edit(K[1:2], V[1:2], "b")
        editors[0].undo("a")
        editors[0].keep(K[2:3], "c", 3.0)
        assert (weights(nets[0]) == first).all() and list(editors[0].edits()) == ["b", "c"]
    editors[1].undo("a")
    editors[1].edit(K[1:2], V[1:2], "b")
    editors[1].keep(K[2:3], "c", 3.0)
    np.testing.assert_array_equal(weights(nets[0]), weights(nets[1]))
    before = weights(nets[0])
    with pytest.raises(rm.InputError, match="in force"), editors[0].together():
        editors[0].undo("b")
        editors[0].undo("b")
    with pytest.raises(rm.InputError, match="contradict"), editors[0].together():
        editors[0].edit(K[3:], V[3:], "d", np.inf)
        editors[0].edit(K[3:], -V[3:], "e", np.inf)
    with pytest.raises(rm.InputError, match="within another"), editors[0].together(), editors[0].together():
        pass
    assert (weights(nets[0]) == before).all() and list(editors[0].edits()) == ["b", "c"]
    editors[0].undo("b")
    editors[0].undo("c")
    editors[0].edit(K[:1], V[:1], "a")
    assert (weights(nets[0]) == first).all()


def test_blocks_refuse_what_they_could_not_take_back():
    """An edit made without edits would be lost with the block; keys absorbed within a block that fails would stay."""
    rng = np.random.default_rng(12)
    nets = [layer(8, 4) for _ in range(2)]
    editors = [rm.deep.Editor(net, "0") for net in nets]
    for editor in editors:
        editor.absorb([tensor(rng.standard_normal((50, 8)))])
    first, state = weights(nets[0]), editors[0].state_dict()["preserved"]["triangle"].clone()
    for _ in range(2):  # without edits in force, and with one
        with editors[0].without_edits(), pytest.raises(rm.InputError, match="after the block without edits"):
            editors[0].edit(rng.standard_normal((1, 8)), np.ones((1, 4)), "lost")
        assert "lost" not in editors[0].edits()
        editors[0].edit(rng.standard_normal((1, 8)), np.ones((1, 4)), f"{len(editors[0].edits())}")
    present = weights(nets[0])
    saved = editors[0].state_dict()
    with editors[0].without_edits(), pytest.raises(rm.InputError, match="after the block without edits"):
        editors[0].state_dict()  # of which no weights are
    for call in (
        lambda: editors[0].merge(editors[1]),
        lambda: editors[0].absorb([tensor(first.T)]),
        lambda: editors[0].state_dict(),
        lambda: editors[0].load_state_dict(saved),
    ):
        with pytest.raises(rm.InputError, match="within one"), editors[0].together():
            for name in list(editors[0].edits()):
                editors[0].undo(name)
            call()
    assert (weights(nets[0]) == present).all() and list(editors[0].edits()) == ["0", "1"]
    assert (editors[0].state_dict()["preserved"]["triangle"] == state).all()
    editors[0].undo("0")
    editors[0].undo("1")
    assert (weights(nets[0]) == first).all()


def test_weights_of_another_machine_differ_by_rounding():
    rng = np.random.default_rng(13)
    net = layer(8, 4)
    editor = rm.deep.Editor(net, "0")
    editor.absorb([tensor(rng.standard_normal((50, 8)))])
    start = weights(net)
    editor.edit(rng.standard_normal((2, 8)), rng.standard_normal((2, 4)), "a")
    for apart, same in ((1e-11, True), (1e-6, False)):
        twin = layer(8, 4)
        twin[0].weight.data = tensor(weights(net).T * (1 + apart))
        other = rm.deep.Editor(twin, "0")
        if same:
            other.load_state_dict(editor.state_dict())
            other.undo("a")
            assert (weights(twin) == start).all()
        else:
            with pytest.raises(rm.InputError, match="saved with"):
                other.load_state_dict(editor.state_dict())


def test_a_conv1d_is_a_linear_layer_transposed():
    conv1d = pytest.importorskip("transformers.pytorch_utils").Conv1D
    rng = np.random.default_rng(0)
    net = torch.nn.Sequential(conv1d(3, 6)).double()
    editor = rm.deep.Editor(net, "0")
    editor.absorb([torch.from_numpy(rng.standard_normal((40, 6)))])
    key, value = rng.standard_normal((1, 6)), rng.standard_normal((1, 3))
    editor.edit(key, value, "a", np.inf)
    np.testing.assert_allclose(net(tensor(key)).detach().numpy(), value, atol=1e-10)


def test_padding_is_not_absorbed():
    class Padded(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.out = torch.nn.Linear(4, 2)

        def forward(self, x, attention_mask):
            return self.out(x)

    net, x = Padded(), torch.randn(2, 5, 4)
    editor = rm.deep.Editor(net, "out")
    editor.absorb([{"x": x, "attention_mask": torch.tensor([[1, 1, 1, 0, 0], [1, 0, 0, 0, 0]])}])
    assert editor.report().absorbed == 4
    with pytest.raises(rm.InputError, match="mask of shape"):
        editor.absorb([{"x": x, "attention_mask": None}], mask=lambda batch: [True] * 10)
    assert editor.report().absorbed == 4


def test_bad_use_is_refused_and_changes_nothing():
    rng = np.random.default_rng(0)
    net = layer(6, 3)
    editor = rm.deep.Editor(net, "0")
    editor.absorb([tensor(rng.standard_normal((30, 6)))])
    editor.edit(rng.standard_normal((1, 6)), rng.standard_normal((1, 3)), "a")
    before, key, value = weights(net), rng.standard_normal((1, 6)), rng.standard_normal((1, 3))
    refused = [
        lambda: editor.undo("b"),
        lambda: editor.edit(key, value, "a"),
        lambda: editor.edit(key, value, ""),
        lambda: editor.edit(key[:, :5], value, "c"),
        lambda: editor.edit(key, value[:, :2], "c"),
        lambda: editor.edit(key[0], value[0], "c"),
        lambda: editor.edit(key * np.nan, value, "c"),
        lambda: editor.edit(tensor(key) + 1j, value, "c"),
        lambda: editor.edit(tensor(key).to_sparse(), value, "c"),
        lambda: editor.edit(key, torch.empty(1, 3, device="meta"), "c"),
        lambda: editor.merge(editor),
        lambda: editor.edit(key, value, "c", weight=-1.0),
        lambda: editor.edit(key, value, "c", weight=5e-324),
        lambda: editor.edit(key, value, "c", weight="much"),
        lambda: editor.edit([["a"] * 6], value, "c"),
        lambda: editor.edit(key[:0], value[:0], "c"),
        lambda: editor.edit(key, value, 3),
        lambda: editor.undo(["a"]),
        lambda: editor.edit(np.repeat(key, 2, 0), np.array([[1.0, 2, 3], [3, 2, 1]]), "c", weight=np.inf),
        lambda: editor.absorb([tensor(key)]),
        lambda: rm.deep.Editor(net, "1"),
        lambda: rm.deep.Editor(torch.nn.Sequential(torch.nn.ReLU()), "0"),
        lambda: rm.deep.Editor(torch.nn.Sequential(torch.nn.LazyLinear(3)), "0"),
        lambda: rm.deep.Editor(net, "0", "firm"),
        lambda: rm.deep.Editor(net, "0", energy=0.0),
        lambda: rm.deep.Editor(net, "0", rank=0),
        lambda: rm.deep.Editor(net, "0", strength=-1.0),
    ]
    for call in refused:
        with pytest.raises(rm.InputError):
            call()
        assert (weights(net) == before).all() and list(editor.edits()) == ["a"]
    editor.undo("a")
    with pytest.raises(rm.InputError, match="in force"):
        editor.undo("a")
    with torch.no_grad():
        net[0].weight += 1
    with pytest.raises(rm.InputError, match="outside"):
        editor.edit(key, value, "d")


def made(net, name="0"):
    editor = rm.deep.Editor(net, name)
    editor.absorb([torch.randn(30, 6, dtype=next(net.parameters()).dtype)])
    return editor


def test_a_layer_changed_from_outside_is_noticed():
    """Weights, bias and the module itself: an edit or an undo would be another than the one asked for."""
    key, value = np.ones((1, 6)), np.ones((1, 3))

    def replaced(net):
        net[0] = copy.deepcopy(net[0])

    for change in (lambda net: net[0].weight.add_(1), lambda net: net[0].bias.add_(1), replaced):
        net = layer(6, 3)
        editor = made(net)
        editor.edit(key, value, "a")
        with torch.no_grad():
            change(net)
        before = weights(net)
        for call in (lambda e=editor: e.undo("a"), lambda e=editor: e.edit(2 * key, value, "b")):
            with pytest.raises(rm.InputError, match="make a new Editor"):
                call()
        assert (weights(net) == before).all() and list(editor.edits()) == ["a"]


@pytest.mark.parametrize(("begun", "used"), [(torch.float64, torch.float32), (torch.float32, torch.bfloat16)])
def test_a_model_moved_to_lower_precision_can_still_be_edited(begun, used):
    net = layer(6, 3, dtype=begun)
    editor, first = made(net), net[0].weight.detach().clone()
    editor.edit(np.ones((1, 6)), np.ones((1, 3)), "a")
    net.to(used)
    editor.edit(np.arange(6.0)[None], np.ones((1, 3)), "b")
    editor.undo("a")
    editor.undo("b")
    assert (net[0].weight == first.to(used)).all()
    net.to(torch.float64)
    editor.edit(np.ones((1, 6)), np.ones((1, 3)), "a")
    editor.undo("a")


def test_edits_that_overflow_in_the_precision_of_the_layer_are_refused():
    net = layer(6, 3, dtype=torch.float16)
    editor, before = made(net), weights(net)
    with pytest.raises(rm.InputError, match=r"overflow in torch\.float16"):
        editor.edit(1e-3 * np.ones((1, 6)), 1e4 * np.ones((1, 3)), "a", np.inf)
    assert (weights(net) == before).all() and not editor.edits()


def test_layers_that_cannot_be_edited_are_refused_with_a_reason():
    class Adapter(torch.nn.Module):
        def __init__(self, inside):
            super().__init__()
            self.base_layer = inside

    net = torch.nn.Sequential(torch.nn.Embedding(6, 3), torch.nn.Linear(3, 6, bias=False))
    net[1].weight = net[0].weight
    with pytest.raises(rm.InputError, match=r"also '0\.weight'"):
        rm.deep.Editor(net, "1")
    wrapped = torch.nn.Sequential(Adapter(torch.nn.Linear(6, 3)))
    with pytest.raises(rm.InputError, match=r"name '0\.base_layer'"):
        rm.deep.Editor(wrapped, "0")
    rm.deep.Editor(wrapped, "0.base_layer")


def test_weights_that_are_not_the_layers_own_are_refused():
    """Shared memory, weights computed in every call, and numbers that no edit can be added to."""
    for share in (
        lambda a: a.weight.data,
        lambda a: a.weight.data.clone().t().contiguous().t(),
        lambda a: a.weight.data.t(),
    ):
        net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
        net[1].weight.data = share(net[0])
        if net[1].weight.data_ptr() == net[0].weight.data_ptr():
            with pytest.raises(rm.InputError, match=r"also '1\.weight'"):
                rm.deep.Editor(net, "0")
        else:
            rm.deep.Editor(net, "0")
    whole = torch.randn(8, 4)
    net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
    net[0].weight.data, net[1].weight.data = whole[:4], whole[4:]  # side by side in one buffer
    rm.deep.Editor(net, "0")
    with pytest.warns(FutureWarning, match="weight_norm"):
        normed = torch.nn.utils.weight_norm(torch.nn.Linear(4, 3))
    lost = torch.nn.Linear(4, 3)
    lost.weight.data[0, 0] = np.nan
    for module, reason in (
        (normed, "computed from others"),
        (lost, "NaN"),
        (torch.nn.Linear(4, 3, dtype=torch.complex64), "real numbers"),
    ):
        with pytest.raises(rm.InputError, match=reason):
            rm.deep.Editor(torch.nn.Sequential(module), "0")
    compiled = torch.nn.Sequential(torch.compile(torch.nn.Linear(6, 3), backend="eager"))
    with pytest.raises(rm.InputError, match=r"name '0\._orig_mod'"):
        rm.deep.Editor(compiled, "0")


def test_a_layer_called_by_name_is_edited():
    class Named(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.out = torch.nn.Linear(6, 3)

        def forward(self, x):
            return self.out(input=x)

    net, x = Named(), torch.randn(1, 6)
    editor = rm.deep.Editor(net, "out")
    editor.absorb([torch.randn(30, 6)])
    found = rm.deep.find_value(net, "out", x, (), 2)
    editor.edit(found.key[None], found.value[None], "a", np.inf)
    assert int(net(x).argmax()) == 2
    editor.undo("a")
    rm.deep.edit_layers([editor], x, (), found.value, "b", np.inf)
    assert int(net(x).argmax()) == 2


def exact_change(absorbed, K, T, weights, strength, ridge):
    """D of (ED) in many digits."""
    mpmath.mp.dps = 400
    A, k = precise(absorbed), precise(K)
    M = mpmath.inverse(strength * A.T * A / len(absorbed) + ridge * mpmath.eye(K.shape[1]))
    B = mpmath.diag([0 if np.isinf(w) else 1 / mpmath.mpf(w) for w in weights])
    return M * k.T * mpmath.inverse(k * M * k.T + B) * precise(T)


@pytest.mark.parametrize(
    "given",
    [(1.0, 1e-200, np.inf, np.inf), (1.0, 1e-30, np.inf, 1e20), (1e-8, 1e8, 1e15, 1e30), (1e200, 1.0, 1.0, np.inf)],
)
def test_weights_of_any_size_stand_beside_each_other(given):
    rng = np.random.default_rng(0)
    K0, K, V = rng.standard_normal((40, 6)), rng.standard_normal((4, 6)), rng.standard_normal((4, 3))
    net = layer(6, 3, bias=False)
    W0 = weights(net)
    edited(net, K0, K, V, given, strength=2.0, ridge=1e-3)
    close(net, W0, exact_change(K0, K, V - K @ W0, given, 2.0, 1e-3), 1e-9)


@pytest.mark.parametrize("weight", [1.0, 1e12, 1e18, 1e60, np.inf])
@pytest.mark.parametrize("gap", [0.0, 1e-9, 1e-6])
def test_keys_that_nearly_repeat_are_solved_for_every_weight(weight, gap):
    """A Gram matrix has too few digits for them, or is not positive definite at all."""
    rng = np.random.default_rng(1)
    K0, K = rng.standard_normal((40, 6)), rng.standard_normal((2, 6))
    K = np.vstack([K, K + gap * rng.standard_normal((2, 6))])
    net, V = layer(6, 3, bias=False), K @ rng.standard_normal((6, 3))
    W0 = weights(net)
    editor = edited(net, K0, K, V, weight, strength=2.0, ridge=1e-3)
    finite = min(weight, 1e60)  # which is exact to all digits that are compared
    close(net, W0, exact_change(K0, K, V - K @ W0, [finite] * 4, 2.0, 1e-3), 1e-6)
    size = np.linalg.norm(weights(net) - W0) / np.linalg.norm(W0)
    assert editor.edits()["e"].size == pytest.approx(size, rel=1e-6)


def test_figures_beyond_the_squares_of_floats():
    rng = np.random.default_rng(2)
    K0, K, V = rng.standard_normal((40, 6)), rng.standard_normal((1, 6)), rng.standard_normal((1, 3))
    for key_size, value_size in ((1e200, 1.0), (1.0, 1e200), (1e200, 1e200), (1e-200, 1.0)):
        net = layer(6, 3, bias=False)
        start = weights(net)
        editor = edited(net, K0, key_size * K, value_size * V, strength=2.0, ridge=1e-3)
        report = editor.report()
        assert all(np.isfinite([report.missed, report.preserved_moved, report.norm_ratio, editor.edits()["e"].size]))
        editor.undo("e")
        assert (weights(net) == start).all()
    editor = rm.deep.Editor(layer(6, 3), "0")
    with pytest.raises(rm.InputError, match="overflow"):
        editor.absorb([tensor(1e200 * K0)])
    assert editor.report().absorbed == 0


def test_an_editor_refuses_a_model_that_differs_elsewhere(tmp_path):
    """Keys and values belong to the whole model, not to the weights of the layer alone."""
    net = torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.Tanh(), torch.nn.Linear(6, 3)).double()
    editor = made(net, "2")
    editor.edit(np.ones((1, 6)), np.ones((1, 3)), "a")
    rm.save(editor, tmp_path / "editor.safetensors")
    with torch.no_grad():
        net[0].weight[0, 0] += 1
    with pytest.raises((rm.InputError, rm.FileError), match="weights are not those"):
        rm.load(tmp_path / "editor.safetensors", model=net)


def test_an_editor_is_saved_beside_its_model(tmp_path):
    rng = np.random.default_rng(0)
    for settings in ({}, {"rank": 4}, {"preserve": "hard", "energy": 0.9}):
        net = layer(6, 3)
        editor = rm.deep.Editor(net, "0", **settings)
        editor.absorb([tensor(rng.standard_normal((30, 6)))])
        start = weights(net)
        for name, weight in (("a", 1.0), ("b", 3.0)):
            editor.edit(rng.standard_normal((2, 6)), rng.standard_normal((2, 3)), name, weight)
        rm.save(editor, tmp_path / "editor.safetensors")
        again = layer(6, 3)
        again.load_state_dict(net.state_dict())
        loaded = rm.load(tmp_path / "editor.safetensors", model=again)
        assert list(loaded.edits()) == ["a", "b"] and loaded.settings == editor.settings
        loaded.undo("a")
        editor.undo("a")
        np.testing.assert_array_equal(weights(again), weights(net))
        loaded.undo("b")
        np.testing.assert_array_equal(weights(again), start)
        with pytest.raises((rm.InputError, rm.FileError)):
            rm.load(tmp_path / "editor.safetensors", model=layer(6, 3, seed=1))
        with pytest.raises((rm.InputError, rm.FileError)):
            rm.load(tmp_path / "editor.safetensors", model=layer(7, 3))


@pytest.mark.parametrize(("width", "rows"), [(512, 1500), pytest.param(4096, 10_000, marks=pytest.mark.sweep)], ids=str)
def test_a_wide_layer_in_a_budget(width, rows):
    """10 000 keys of 4 096 numbers, at most 300 MB beside the layer: as many of their directions as fit."""
    import tracemalloc

    budget = int(300e6 * (width / 4096) ** 2)
    net = torch.nn.Sequential(torch.nn.Linear(width, 8, dtype=torch.float32))
    editor = rm.deep.Editor(net, "0", max_bytes=budget)
    generator = torch.Generator().manual_seed(0)
    falling = torch.logspace(0, -3, width)
    batches = [torch.randn(100, width, generator=generator) * falling for _ in range(rows // 100)]
    tracemalloc.start()
    editor.absorb(batches)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    best = falling.square().cumsum(0) / falling.square().sum()
    assert editor.rank > width / 8 and peak < budget
    assert editor.report().kept_energy > float(best[editor.rank - 1]) - 1e-3
    key, value, start = torch.randn(1, width, generator=generator) * falling, torch.ones(1, 8), weights(net)
    editor.edit(key, value, "a", np.inf)
    torch.testing.assert_close(net(key), value, rtol=1e-3, atol=1e-3)
    told, D, X = editor.report().preserved_moved, weights(net) - start, torch.cat(batches).double().numpy()
    moved = np.linalg.norm(X @ D) / np.linalg.norm(X @ start)
    assert moved / 4 < told < 4 * moved  # what is left out is known by its energy alone


def test_a_budget_without_room_is_refused():
    for settings in ({"max_bytes": 1000}, {"max_bytes": 0}, {"max_bytes": 1e9}, {"max_bytes": 10**9, "rank": 3}):
        with pytest.raises(rm.InputError):
            rm.deep.Editor(layer(64, 3), "0", **settings)
    assert rm.deep.Editor(layer(64, 3), "0", max_bytes=10**9).rank == 64


def test_nothing_is_reported_of_weights_that_others_have_changed(problem):
    """The report would be of the weights as the editor made them."""
    net, K0, K, V, *_ = problem
    editor = edited(net, K0, K, V, strength=20.0, ridge=0.0)
    with editor.without_edits():
        assert editor.report().edits == len(editor.edits()) == 1
    with torch.no_grad():
        net[0].weight.add_(1.0)
    with pytest.raises(rm.InputError, match="changed from outside since the last edit"):
        editor.report()
    assert list(editor.edits()) == ["e"]
