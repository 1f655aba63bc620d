"""One of several processes that train with transformers' Trainer.

`python trainer_worker.py RANK WORLD PORT FOLDER`, and `sharded` behind it to train with FSDP2.
"""

import os
import sys
import warnings
from pathlib import Path


def shard(trainer):
    """Make Accelerate shard the model, which it does by itself on accelerators only."""
    import accelerate

    trainer.accelerator.state.fsdp_plugin = accelerate.FullyShardedDataParallelPlugin(
        fsdp_version=2,
        auto_wrap_policy="transformer_based_wrap",
        transformer_cls_names_to_wrap=["LlamaDecoderLayer"],
        cpu_ram_efficient_loading=False,
    )
    trainer.accelerator.state.distributed_type = accelerate.DistributedType.FSDP
    trainer.is_fsdp_enabled = True


def main(rank, world, port, folder, kind=""):
    if world > 1:
        os.environ |= {
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": str(world),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
        }
    import torch
    import transformers

    import remanence as rm

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    ids = torch.randint(0, 20, (4, 6), generator=torch.Generator().manual_seed(1))

    class Texts(torch.utils.data.Dataset):
        def __len__(self):
            return len(ids)

        def __getitem__(self, i):
            return {"input_ids": ids[i] + 20, "labels": ids[i] + 20}

    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=40, hidden_size=32, intermediate_size=48, num_hidden_layers=1, num_attention_heads=4
    )
    net = transformers.LlamaForCausalLM(config).double().eval()
    guard = rm.deep.GradientProjection(net)
    guard.absorb([{"input_ids": ids[:2]}])
    before = net(input_ids=ids[:2]).logits.detach()
    arguments = transformers.TrainingArguments(
        output_dir=f"{folder}/{world}{kind}",
        max_steps=3,
        per_device_train_batch_size=2 // world,
        learning_rate=1e-2,
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        save_strategy="no",
        logging_strategy="no",
        max_grad_norm=0.0,
        train_sampling_strategy="sequential",
        **({"ddp_backend": "gloo"} if world > 1 else {}),
    )
    callback = rm.deep.integrations.huggingface.GuardCallback(guard, absorb=Texts())
    trainer = transformers.Trainer(net, arguments, train_dataset=Texts(), callbacks=[callback])
    if kind:
        shard(trainer)
    trainer.train()
    moved = float((net.eval()(input_ids=ids[:2]).logits - before).abs().max())
    rows = {layer.name: layer.rows for layer in guard.report().layers}
    weights = {name: t.full_tensor() if hasattr(t, "full_tensor") else t for name, t in net.state_dict().items()}
    found = {"net": weights, "moved": moved, "rows": rows, "rank": guard.report().layers[0].rank}
    found["shards"] = sum(hasattr(p, "full_tensor") for p in net.parameters())
    torch.save(found, Path(folder) / f"trained{world}{kind}_{rank}.pt")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:])
