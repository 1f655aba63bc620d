"""One of two processes that train sharded models: `python sharded_worker.py RANK FOLDER torch|transformers`.

Beside each model it trains the whole one, on the inputs of both processes, and compares them after every step.
"""

import sys
import warnings
from pathlib import Path

import torch
import torch.distributed as dist
from sharded_models import INPUTS, Images, Sequences, Words, gpt2, llama, lora, make, outputs, shard, words

import remanence as rm


def adamw(parameters, **options):
    return torch.optim.AdamW([p for p in parameters if p.requires_grad], lr=0.01, **options)


def difference(sharded, whole):
    """Return how far the rows that this process holds differ; `torch.chunk` says which those are."""
    sharded.reshard()
    shards, found = dict(sharded.named_parameters()), [0.0]
    for name, p in whole.named_parameters():
        mine = shards[name].detach()
        parts = torch.chunk(p.detach(), mine.device_mesh.size(-1))
        place = mine.device_mesh.get_local_rank(mine.device_mesh.ndim - 1)
        expected = parts[place] if place < len(parts) else p.detach()[:0]
        assert mine.to_local().shape == expected.shape
        found += (mine.to_local() - expected).abs().flatten().tolist()
    return max(found)


def compare(kind, mesh, protect=None, guard=None, optimizer=adamw, tasks=2, steps=5, early=None, clip=False, **options):
    """Train both models on one task after the other; return how far they differ, and how far old outputs moved.

    `early` absorbs a task before any training, of the "whole" model or of the "sharded" one.
    """
    rank, draw = dist.get_rank(), INPUTS.get(kind, words)
    make_guard = guard or rm.deep.GradientProjection
    nets = make(kind), make(kind)
    guards = [make_guard(nets[0])] if early == "whole" else []
    if early == "whole":
        guards[0].absorb([draw(9, 0), draw(9, 1)])
    shard(nets[0], mesh, **options)
    guards = [*guards, *(make_guard(net) for net in nets[len(guards) :])]
    old = []
    if early == "sharded":
        guards[0].absorb([draw(9, rank)])
    if early:
        guards[1].absorb([draw(9, 0), draw(9, 1)])
        old.append(
            (torch.cat([draw(9, 0), draw(9, 1)]), outputs(nets[1], torch.cat([draw(9, 0), draw(9, 1)])).detach())
        )
    optimizers = [optimizer(net.parameters()) for net in nets]
    differs = moved = 0.0
    fell = True
    for task in range(tasks):
        x, losses = torch.cat([draw(task, 0), draw(task, 1)]), []
        with torch.no_grad():
            y = torch.randn(
                outputs(nets[1], x).shape, generator=torch.Generator().manual_seed(task), dtype=torch.float64
            )
        for net in nets:
            net.train(kind is not Images)  # batch statistics are those of a process
        with guards[0].protect(optimizers[0], **(protect or {})), guards[1].protect(optimizers[1], **(protect or {})):
            for _ in range(steps):
                for net, one, rows in zip(nets, optimizers, (slice(rank, rank + 1), slice(None)), strict=True):
                    one.zero_grad()
                    loss = (outputs(net, x[rows]) - y[rows]).square().mean()
                    loss.backward()
                    if clip:
                        torch.nn.utils.clip_grad_norm_(net.parameters(), 0.1)
                    one.step()
                losses.append(float(loss.detach()))
                differs = max(differs, difference(*nets))
        fell = fell and losses[-1] < losses[0]
        with torch.no_grad():
            moved = max([moved, *(float((outputs(nets[0].eval(), a) - b).abs().max()) for a, b in old)])
            guards[0].absorb([draw(task, rank)])
            guards[1].absorb([draw(task, 0), draw(task, 1)])
            old.append((x, outputs(nets[0], x)))
    return {"differs": differs, "moved": moved, "fell": fell, "state": guards[0].state_dict()}


def cases(which):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import CPUOffloadPolicy

    mesh = init_device_mesh("cpu", (2,))
    if which == "transformers":
        yield "GPT2LMHeadModel", lambda: compare(gpt2, mesh, tasks=3)
        yield "LlamaForCausalLM", lambda: compare(llama, mesh)
        yield "LlamaForCausalLM with LoRA", lambda: compare(lora, mesh)
        yield "LlamaForCausalLM with new LoRA", lambda: compare(lora, mesh, early="sharded")
        return
    replicas = {(1, 2): "one replica", (2, 1): "two replicas"}
    for sizes, name in replicas.items():
        two = init_device_mesh("cpu", sizes, mesh_dim_names=("replicate", "shard"))
        yield name, lambda two=two: compare(Words, two, tasks=3)
    yield "kept after forward", lambda: compare(Words, mesh, reshard_after_forward=False)
    yield "taken off after forward", lambda: compare(Words, mesh, reshard_after_forward=True)
    yield "offload", lambda: compare(Words, mesh, offload_policy=CPUOffloadPolicy(pin_memory=False))
    yield "guard from before", lambda: compare(Words, mesh, early="whole", tasks=3)
    yield "clipping", lambda: compare(Words, mesh, clip=True)
    yield "gradients too", lambda: compare(Words, mesh, protect={"gradients": True})
    yield "several steps together", lambda: compare(Words, mesh, protect={"every": 2})
    for way in ("fused", "foreach"):
        yield way, lambda way=way: compare(Words, mesh, optimizer=lambda p: adamw(p, **{way: True}))
    for kind, name in ((Words, "OWM"), (Images, "OWM, convolutions")):
        yield name, lambda kind=kind: compare(kind, mesh, guard=lambda net: rm.deep.OWM(net, damping=1e-3))
    yield "ScaledProjection", lambda: compare(Words, mesh, guard=rm.deep.ScaledProjection)
    bounded = {"memory": "lowrank", "rank": 6}
    yield "lowrank", lambda: compare(Words, mesh, guard=lambda net: rm.deep.GradientProjection(net, **bounded))
    yield "convolutions", lambda: compare(Images, mesh)
    yield "convolutions, gradients too", lambda: compare(Images, mesh, protect={"gradients": True})
    yield "attention and LSTM", lambda: compare(Sequences, mesh)


def main(rank, folder, which):
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    torch.save({name: run() for name, run in cases(which)}, Path(folder) / f"result{rank}.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3])
