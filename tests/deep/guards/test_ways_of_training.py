"""The table of ways to train on the page of guarded models: each is exact, or raises an error that says what to do."""

import re
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
nn, optim = torch.nn, torch.optim
ROOT = Path(__file__).parents[3]
AveragedModel, ema = optim.swa_utils.AveragedModel, optim.swa_utils.get_ema_multi_avg_fn


def loss_of(net, x):
    return (net(x) - 1).square().mean()


def by_steps(make, after=None, before_step=None, used=lambda net: net):
    """A way to train: steps of an optimizer, with something done around each of them."""

    def run(net, guard, new):
        optimizer, model = make(net.parameters()), used(net)
        with guard.protect(optimizer):
            for _ in range(8):
                optimizer.zero_grad()
                for part in new.split(3):
                    loss_of(model, part).backward()
                if before_step is not None:
                    before_step(net)
                optimizer.step()
                if after is not None:
                    after(net)
        return net

    return run


def average(**options):
    """Train with a running average, and return it: it has to keep old outputs as the model does."""

    def run(net, guard, new):
        copy = AveragedModel(net, **options)
        by_steps(optim.AdamW, after=copy.update_parameters)(net, guard, new)
        return copy

    return run


def closures(net, guard, new):
    optimizer = optim.LBFGS(net.parameters(), max_iter=4, line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        loss = loss_of(net, new)
        loss.backward()
        return loss

    with guard.protect(optimizer):
        for _ in range(4):
            optimizer.step(closure)
    return net


def mixed_precision(net, guard, new):
    optimizer, scaler = optim.AdamW(net.parameters(), lr=1e-2), torch.amp.GradScaler("cpu")
    with guard.protect(optimizer):
        for _ in range(8):
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16):
                loss = loss_of(net, new)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
    return net


def in_backward(net, guard, new):
    optimizers = {p: optim.SGD([p], lr=0.1) for p in net.parameters()}

    def step(parameter):
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    hooks = [p.register_post_accumulate_grad_hook(step) for p in net.parameters()]
    with guard.protect(*optimizers.values()):
        for _ in range(8):
            loss_of(net, new).backward()
    for hook in hooks:
        hook.remove()
    return net


def adamw(**options):
    return lambda parameters: optim.AdamW(parameters, lr=1e-2, **options)


EXACT = {
    "SGD with momentum, weight decay and Nesterov": by_steps(
        lambda p: optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=1e-2, nesterov=True)
    ),
    "AdamW, one by one": by_steps(adamw(foreach=False)),
    "AdamW, foreach": by_steps(adamw(foreach=True)),
    "AdamW, fused": by_steps(adamw(fused=True)),
    "RMSprop": by_steps(lambda p: optim.RMSprop(p, lr=1e-3)),
    "Adafactor": by_steps(lambda p: optim.Adafactor(p, lr=1e-2)),
    "LBFGS with a line search": closures,
    "gradient accumulation and clipping": by_steps(
        adamw(), before_step=lambda net: nn.utils.clip_grad_norm_(net.parameters(), 0.1)
    ),
    "autocast with a GradScaler": mixed_precision,
    "SWA, started after absorb": average(),
    "EMA, started after absorb": average(multi_avg_fn=ema(0.9)),
    "steps during the backward pass": in_backward,
    "torch.compile of the model": by_steps(adamw(), used=lambda net: torch.compile(net, backend="eager")),
}
ELSEWHERE = {  # needs other libraries or several processes: the test that shows it
    "schedule-free optimizers, eval() inside the block": "deep/guards/checks/test_second_weights.py::"
    "test_eval_weights_are_protected_if_switched_inside_the_block",
    "weights in bfloat16 or float16 (to their rounding)": "deep/guards/test_low_precision.py::"
    "test_what_rounding_moves_does_not_grow_with_the_steps",
    "dict batches with padding": "deep/guards/test_transformers.py::test_padding_does_not_count",
    "Trainer of transformers": "deep/integrations/test_huggingface.py::"
    "test_old_outputs_stay_and_the_training_batches_are_absorbed",
    "Trainer of transformers, killed and resumed": "deep/integrations/test_huggingface.py::"
    "test_killed_and_resumed_is_the_same_as_uninterrupted",
    "Trainer of transformers, two processes": "deep/integrations/test_trainer_processes.py::"
    "test_two_processes_are_the_same_as_one",
    "Accelerate": "deep/integrations/test_huggingface.py::test_accelerate_in_a_plain_loop",
    "Trainer of Lightning": "deep/integrations/test_lightning.py::",
    "DistributedDataParallel, two processes": "deep/nn/test_distributed.py::"
    "test_two_processes_end_with_one_memory_and_keep_the_outputs_of_both_shares",
    "FSDP2 (fully_shard), two processes": "deep/guards/projection/test_sharded_layers.py::"
    "test_sharded_training_is_training_the_whole_model",
    "FSDP2, weights gathered in bfloat16 (outputs without that)": "deep/guards/test_layer_guard_sharded.py::"
    "test_old_outputs_stay_and_the_new_loss_falls",
    "FSDP2 in the Trainer of transformers and Accelerate, two processes": "deep/integrations/"
    "test_trainer_processes.py::test_two_processes_are_the_same_as_one",
}
REFUSED = {
    "FSDP2 with OGD, GEM, Constrained, LBFGS, weight norm or DoRA": "deep/nn/sharding/test_shards.py::"
    "test_what_needs_every_weight_in_one_process_raises_an_error",
    "FullyShardedDataParallel": "deep/nn/test_distributed.py::test_flattened_parameters_raise_an_error",
    "an optimizer that has none of the model's parameters, or those of a replaced layer": "deep/guards/"
    "test_layer_guard_errors.py::test_an_optimizer_made_before_a_layer_was_replaced_raises_an_error",
    "OGD with steps during the backward pass": "deep/guards/projection/test_guarded_steps.py::"
    "test_a_guard_of_all_parameters_together_cannot_step_during_the_backward_pass",
}


@pytest.mark.parametrize("way", EXACT)
def test_old_outputs_stay_and_the_new_loss_falls(way, started, moved):
    torch._dynamo.reset()
    net, guard, old, new = started()
    start = float(loss_of(net, new).detach())
    model = EXACT[way](net, guard, new)
    assert float(loss_of(model, new).detach()) < start
    assert moved(model, old) < 1e-9


def test_the_page_lists_every_way_of_training():
    page = (ROOT / "docs" / "guarded-models.md").read_text()
    section = page.split("## Ways of training")[1].split("\n## ")[0]
    listed = re.findall(r"^\| (.+) \| (exact|refused) \|$", section, re.MULTILINE)
    assert [way for way, result in listed if result == "exact"] == [*EXACT, *ELSEWHERE]
    assert [way for way, result in listed if result == "refused"] == list(REFUSED)


@pytest.mark.parametrize("way", [*ELSEWHERE, *REFUSED])
def test_what_is_tested_elsewhere_is_tested(way):
    file, name = (ELSEWHERE | REFUSED)[way].split("::")
    assert f"def {name or 'test_'}" in (ROOT / "tests" / file).read_text()
