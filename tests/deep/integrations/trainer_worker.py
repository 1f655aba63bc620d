"""One of several processes that train with transformers' Trainer: `python trainer_worker.py RANK WORLD PORT FOLDER`."""

import os
import sys
import warnings
from pathlib import Path


def main(rank, world, port, folder):
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
        output_dir=f"{folder}/{world}",
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
    transformers.Trainer(net, arguments, train_dataset=Texts(), callbacks=[callback]).train()
    moved = float((net.eval()(input_ids=ids[:2]).logits - before).abs().max())
    rows = {layer.name: layer.rows for layer in guard.report().layers}
    found = {"net": net.state_dict(), "moved": moved, "rows": rows, "rank": guard.report().layers[0].rank}
    torch.save(found, Path(folder) / f"trained{world}_{rank}.pt")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
