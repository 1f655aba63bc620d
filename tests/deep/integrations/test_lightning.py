"""The Trainer of Lightning with a guard."""

import pytest

import remanence as rm

torch = pytest.importorskip("torch")
pytest.importorskip("lightning")
import lightning  # noqa: E402

nn = torch.nn


class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.net = nn.Sequential(nn.Linear(8, 30), nn.Tanh(), nn.Linear(30, 2)).double()

    def training_step(self, batch, batch_idx):
        x, y = batch
        return (self.net(x) - y).square().mean()

    def configure_optimizers(self):
        return torch.optim.AdamW(self.net.parameters(), lr=1e-2)


def rows(n, seed):
    return torch.randn(n, 8, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def loader(seed=1):
    data = torch.utils.data.TensorDataset(rows(6, seed), torch.ones(6, 2, dtype=torch.float64))
    return torch.utils.data.DataLoader(data, batch_size=2)


def fit(module, callback, folder, epochs, checkpoint=None):
    trainer = lightning.Trainer(
        max_epochs=epochs,
        accelerator="cpu",
        callbacks=[callback],
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=folder,
        enable_checkpointing=False,
        accumulate_grad_batches=2,
        gradient_clip_val=1.0,
    )
    trainer.fit(module, loader(), ckpt_path=checkpoint)
    return trainer


def start():
    module, old = Module(), rows(3, 0)
    guard = rm.deep.GradientProjection(module.net)
    guard.absorb([old])
    return module, guard, old, module.net(old).detach()


@pytest.mark.filterwarnings("ignore")
def test_old_outputs_stay_and_a_resumed_run_is_the_same(tmp_path):
    callback = rm.deep.integrations.lightning.GuardCallback
    module, guard, old, before = start()
    fit(module, callback(guard, absorb="train"), tmp_path, 4)
    assert float((module.net(old) - before).abs().max()) < 1e-12
    assert guard.report().tasks == 2

    cut, guard, *_ = start()
    half = fit(cut, callback(guard), tmp_path, 2)
    half.save_checkpoint(tmp_path / "half.ckpt")
    again = Module()
    empty = rm.deep.GradientProjection(again.net)
    fit(again, callback(empty), tmp_path, 4, tmp_path / "half.ckpt")
    assert empty.report().tasks == 1
    assert all(torch.allclose(p, q, atol=1e-14) for p, q in zip(again.parameters(), module.parameters(), strict=True))


@pytest.mark.filterwarnings("ignore")
def test_an_exception_detaches_the_guard(tmp_path):
    module, guard, *_ = start()

    def broken(batch, batch_idx):
        raise ZeroDivisionError

    module.training_step = broken
    with pytest.raises(ZeroDivisionError):
        fit(module, rm.deep.integrations.lightning.GuardCallback(guard), tmp_path, 1)
    assert not guard._blocks
