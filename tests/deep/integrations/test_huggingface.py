"""The Trainer of transformers with a guard: exact, resumed as if never interrupted, and its batches absorbed."""

import shutil

import pytest

import remanence as rm

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("accelerate")
import transformers  # noqa: E402

from remanence.deep.integrations.attached_guard import inputs_only  # noqa: E402

from ..guards.transformer_models import NEW, OLD, make, outputs  # noqa: E402

HELD = torch.cat([OLD, OLD.flip(1)])[:3]


class Stop(Exception):
    """A killed run."""


class Killer(transformers.TrainerCallback):
    """Raises right after a checkpoint was written, as a kill would."""

    def __init__(self, at):
        self.at = at

    def on_save(self, args, state, control, **kwargs):
        if state.global_step == self.at:
            raise Stop


class Texts(torch.utils.data.Dataset):
    def __init__(self, ids):
        self.ids = ids.tolist()

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "labels": self.ids[i], "attention_mask": [1] * len(self.ids[i])}


def collate(rows):
    return {name: torch.tensor([row[name] for row in rows]) for name in rows[0]}


def trainer(net, folder, callbacks, steps=6, **options):
    arguments = transformers.TrainingArguments(
        output_dir=str(folder),
        max_steps=steps,
        save_steps=3,
        per_device_train_batch_size=1,
        learning_rate=1e-2,
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        logging_strategy="no",
        **options,
    )
    return transformers.Trainer(net, arguments, train_dataset=Texts(NEW), data_collator=collate, callbacks=callbacks)


def guarded(kind="llama"):
    net = make(kind)
    guard = rm.deep.GradientProjection(net)
    guard.absorb([{"input_ids": HELD}])
    return net, guard, outputs(kind, net, HELD).detach()


def callback(guard, **options):
    return rm.deep.integrations.huggingface.GuardCallback(guard, **options)


@pytest.mark.parametrize(
    "options",
    [{}, {"gradient_accumulation_steps": 2, "max_grad_norm": 0.1}, {"optim": "adamw_torch_fused"}, {"bf16": True}],
    ids=["plain", "accumulated and clipped", "fused", "bf16"],
)
def test_old_outputs_stay_and_the_training_batches_are_absorbed(options, tmp_path):
    net, guard, before = guarded()
    start = net.lm_head.weight.detach().clone()
    trained = trainer(net, tmp_path, [callback(guard, absorb="train")], **options)
    trained.train()
    net = trained.accelerator.unwrap_model(net, keep_fp32_wrapper=False).eval()  # takes bf16's autocast off again
    assert not torch.equal(start, net.lm_head.weight)
    assert float((outputs("llama", net, HELD) - before).abs().max()) < 1e-4 * float(before.abs().max())
    assert guard.report().tasks == 2
    assert not any(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in net.modules())


def test_killed_and_resumed_is_the_same_as_uninterrupted(tmp_path):
    whole, guard, _ = guarded()
    trainer(whole, tmp_path / "whole", [callback(guard)]).train()
    net, guard, before = guarded()
    with pytest.raises(Stop):
        trainer(net, tmp_path / "cut", [callback(guard), Killer(3)]).train()
    assert (tmp_path / "cut" / "checkpoint-3" / "guard.remanence").is_file()
    net = make("llama", seed=7)  # a new process: other weights, an empty guard
    fresh = rm.deep.GradientProjection(net)
    trainer(net, tmp_path / "cut", [callback(fresh, absorb=Texts(NEW))]).train(resume_from_checkpoint=True)
    assert all(torch.equal(p, q) for p, q in zip(net.parameters(), whole.parameters(), strict=True))
    assert fresh.report().tasks == 2
    net.eval()
    assert float((outputs("llama", net, HELD) - before).abs().max()) < 1e-4 * float(before.abs().max())


def test_a_run_that_resumes_without_its_guard_raises_an_error(tmp_path):
    net, guard, _ = guarded()
    with pytest.raises(Stop):
        trainer(net, tmp_path, [callback(guard), Killer(3)]).train()
    (tmp_path / "checkpoint-3" / "guard.remanence").unlink()
    empty = rm.deep.GradientProjection(net)
    with pytest.raises(rm.InputError, match=r"guard\.remanence"):
        trainer(net, tmp_path, [callback(empty)]).train(resume_from_checkpoint=True)
    shutil.rmtree(tmp_path)


def test_a_guard_of_another_model_and_bad_settings_raise_an_error(tmp_path):
    net, guard, _ = guarded()
    with pytest.raises(rm.InputError, match="one of another model"):
        trainer(make("llama"), tmp_path, [callback(guard)]).train()
    with pytest.raises(rm.InputError, match="'train'"):
        callback(guard, absorb="all")
    with pytest.raises(rm.InputError, match="expected a guard"):
        callback(net)


def test_accelerate_in_a_plain_loop():
    accelerate = pytest.importorskip("accelerate")
    net, guard, before = guarded()
    accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=2)
    model, optimizer = accelerator.prepare(net, torch.optim.AdamW(net.parameters(), lr=1e-2))
    start = net.lm_head.weight.detach().clone()
    with guard.protect(optimizer):
        for _ in range(4):
            with accelerator.accumulate(model):
                accelerator.backward(model(input_ids=NEW, labels=NEW).loss)
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
    assert not torch.equal(start, net.lm_head.weight)
    assert float((outputs("llama", net, HELD) - before).abs().max()) < 1e-4 * float(before.abs().max())


def test_batches_of_a_tokenizer_are_dicts():
    """A BatchEncoding is a mapping that torch does not look into."""
    _, guard, _ = guarded()
    batch = transformers.BatchEncoding({"input_ids": NEW, "labels": NEW})
    assert guard.preview([batch]) == guard.preview([dict(batch)])
    seen = {}

    class Model(torch.nn.Linear):
        def forward(self, **inputs):
            seen.update({name: value.device.type for name, value in inputs.items()})

    inputs_only(Model(2, 2, device="meta"), batch)
    assert seen == {"input_ids": "meta"}
    with pytest.raises(rm.InputError, match=r"got torch\.int64 \(2, 6\)"):
        guard.absorb([transformers.BatchEncoding({"input_ids": NEW + 40})])
