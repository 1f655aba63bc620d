"""One of two processes that train a network together: `python distributed_worker.py RANK FOLDER`.

Each learns and absorbs a share of its own, and at the end leaves what it has, for the test to compare.
"""

import sys
import warnings
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

import remanence as rm


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.words, self.first = nn.Embedding(12, 8), nn.Linear(8, 30)
        self.norm, self.last = nn.BatchNorm1d(30), nn.Linear(30, 2)

    def forward(self, i):
        return self.last(torch.tanh(self.norm(self.first(self.words(i).mean(1)))))


def shares(task, rank):
    """Disjoint words for each task and process; the second process has more rows, and brings them in two batches."""
    x = torch.arange(4 * task + 2 * rank, 4 * task + 2 * rank + 2)
    return [x[None]] if rank == 0 else [x[None], x[:1, None].expand(1, 2)]


def train(net, guard, optimizer, x, steps=5):
    net.train()
    with guard.protect(optimizer):
        for _ in range(steps):
            optimizer.zero_grad()
            (net(x) - 1).square().mean().backward()
            optimizer.step()


def main(rank, folder):
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    net = Net().double()
    wrapped = torch.compile(nn.parallel.DistributedDataParallel(net), backend="eager")
    guard = rm.deep.GradientProjection(wrapped)
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
    moved, old = [], []
    for task in range(3):
        batches = shares(task, rank)
        train(wrapped, guard, optimizer, torch.cat(batches).expand(2, 2) if rank == 0 else torch.cat(batches))
        net.eval()
        moved += [float((net(x) - y).abs().max()) for x, y in old]
        guard.absorb(batches)
        both = [x for r in range(2) for x in shares(task, r)]
        old += [(x, net(x).detach()) for x in both]
    refused = []
    for bad, good in ((0, 1), (1, 0)):  # one process gets nothing it can use: both must say so, and go on
        x = torch.full((1, 2), 99) if rank == bad else shares(0, good)[0]
        try:
            guard.absorb([x])
        except Exception as error:
            refused.append(f"{type(error).__name__}: {error}")
    guard.absorb([] if rank == 0 else shares(0, 1))  # an empty share is fine as long as somebody has one
    torch.save(
        {"moved": moved, "refused": refused, "net": net.state_dict(), "guard": guard.state_dict()},
        Path(folder) / f"result{rank}.pt",
    )
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
