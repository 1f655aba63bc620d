"""One of two processes that share a guarded model: `python sharded_trouble_worker.py RANK FOLDER`."""

import sys
import time
import warnings
from pathlib import Path

import torch
import torch.distributed as dist
from sharded_models import INPUTS, Images, Words, make, outputs, shard, words

import remanence as rm
from remanence.deep.nn.sharding.shards import is_shard, local


def start(kind, mesh, draw, **options):
    """A sharded model and its guard, with a task absorbed, an optimizer, and old inputs with their outputs."""
    net = shard(make(kind), mesh, **options)
    guard = rm.deep.GradientProjection(net)
    guard.absorb([draw(0, dist.get_rank())])
    net.reshard()
    x = torch.cat([draw(0, 0), draw(0, 1)])
    with torch.no_grad():
        old = x, outputs(net, x).clone()
    net.reshard()
    return net, guard, torch.optim.AdamW(net.parameters(), lr=0.01), old


def steps(net, guard, optimizer, x, count=5):
    losses = []
    with guard.protect(optimizer):
        for _ in range(count):
            optimizer.zero_grad()
            loss = (outputs(net, x) - 1).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(float(loss.detach()))
    return losses


def moved(net, old):
    with torch.no_grad():
        return float((outputs(net, old[0]) - old[1]).abs().max())


def error_of(run):
    try:
        run()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def one_fails_to_absorb(rank, mesh, folder):
    """One process gets inputs that it cannot use; nothing changes, and training goes on."""
    net, guard, optimizer, old = start(Words, mesh, words)
    memory, values = guard._memory, [local(p).clone() for p in net.parameters()]
    errors = []
    for bad in (0, 1):
        batch = torch.full((1, 3), 99) if rank == bad else words(1, rank)
        errors.append(error_of(lambda batch=batch: guard.absorb([batch])))
    parameters = list(net.parameters())
    same = all(torch.equal(local(p), v) for p, v in zip(parameters, values, strict=True))
    losses = steps(net, guard, optimizer, words(2, rank))
    return {
        "errors": errors,
        "unchanged": guard._memory is memory and same and all(map(is_shard, parameters)),
        "moved": moved(net, old),
        "fell": losses[-1] < losses[0],
    }


def shares_of_different_sizes(rank, mesh, folder):
    """One process brings more batches than the other, then one brings none."""
    _, guard, *_ = start(Words, mesh, words)
    rows = [guard.absorb([words(1, 0)] if rank == 0 else [words(1, 1), words(2, 1), words(3, 1)]).layers[0].rows]
    rows.append(guard.absorb([] if rank == 0 else [words(2, 0)]).layers[0].rows)
    return {"rows": rows, "state": guard.state_dict()}


def different_memories(rank, mesh, folder):
    """Each process absorbed by itself, before the model was sharded."""
    net = make(Words)
    guard = rm.deep.GradientProjection(net)
    guard.absorb([words(0, rank)])
    shard(net, mesh)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    return {"error": error_of(lambda: steps(net, guard, optimizer, words(1, rank)))}


def one_fails_inside_a_block(rank, mesh, folder):
    """The first process fails while the second one is busy, in a model of which layers are gathered."""
    net, guard, optimizer, old = start(Images, mesh, INPUTS[Images])
    left, x = Path(folder) / "left", INPUTS[Images](1, rank)

    def fail():
        with guard.protect(optimizer):
            optimizer.zero_grad()
            outputs(net, x).square().mean().backward()
            optimizer.step()
            with torch.no_grad():
                for p in net.parameters():
                    local(p).add_(1.0)  # a step that was not finished
            while rank == 1 and not left.exists():
                time.sleep(0.05)
            raise ZeroDivisionError

    error = error_of(fail)
    left.touch()
    return {"error": error, "moved": moved(net, old)}


def changed_outside(rank, mesh, folder):
    """Weights that were changed outside are reported where they are, and restored by the first step."""
    found = {}
    for kind, draw in ((Words, words), (Images, INPUTS[Images])):
        net, guard, optimizer, old = start(kind, mesh, draw)
        with torch.no_grad():
            for p in net.parameters():
                local(p).add_(0.1)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            steps(net, guard, optimizer, draw(1, rank))
        found[kind.__name__] = {"warned": [str(w.message) for w in caught], "moved": moved(net, old)}
    return found


def files(rank, mesh, folder):
    """A guard of a whole model is loaded for shards; one process alone saves the guard of shards."""
    net = shard(make(Words), mesh)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        guard = rm.load(f"{folder}/whole.safetensors", model=net)
    x = torch.cat([words(7, 0), words(7, 1)])
    with torch.no_grad():
        old = x, outputs(net, x).clone()
    net.reshard()
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
    steps(net, guard, optimizer, words(1, rank))
    kept = moved(net, old)
    guard.absorb([words(1, rank)])
    net.reshard()
    weights = {name: p.detach().full_tensor() for name, p in net.named_parameters()}
    if rank == 0:
        rm.save(guard, f"{folder}/sharded.safetensors")
    return {"moved": kept, "warned": len(caught), "weights": weights, "state": guard.state_dict()}


def planning(rank, mesh, folder):
    """What `preview` and `choose` give; the score of old rows is another one in each process."""
    net, guard, _, old = start(Words, mesh, words)
    whole = make(Words)
    other = rm.deep.GradientProjection(whole)
    other.absorb([words(0, 0), words(0, 1)])
    previews = [g.preview([words(1, rank)], loss=lambda m, x: outputs(m, x).square().mean()) for g in (guard, other)]
    before = [local(p).clone() for p in net.parameters()]

    def train():
        steps(net, guard, torch.optim.AdamW(net.parameters(), lr=0.01), words(1, rank))

    def score():
        with torch.no_grad():
            shift = outputs(net, old[0]) - old[1]
        return -float(shift[rank].abs().max())

    choice = guard.choose(train, score, budget=0.0, candidates=(0.3, 0.6, 1.0 - 1e-13, 1.0))
    net.reshard()
    back = all(torch.equal(local(p), v) for p, v in zip(net.parameters(), before, strict=True))
    return {"previews": previews, "choice": str(choice), "energy": guard.energy, "back": back}


def mixed_precision(rank, mesh, folder):
    """Weights in float32 that are gathered in bfloat16: the outputs without that are kept."""
    from torch.distributed.fsdp import MixedPrecisionPolicy

    from remanence.deep.nn.sharding.whole_parameters import whole_parameters

    net = shard(make(Words).float(), mesh, mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16))
    guard = rm.deep.GradientProjection(net)
    guard.absorb([words(0, rank)])
    x = torch.cat([words(0, 0), words(0, 1)])
    found = []
    for task in (1, 2):
        with whole_parameters(net), torch.no_grad():
            found.append(outputs(net, x).clone())
        if task == 1:
            losses = steps(net, guard, torch.optim.AdamW(net.parameters(), lr=0.01), words(1, rank), 20)
    shift = float((found[1] - found[0]).abs().max() / found[0].abs().max())
    return {"moved": shift, "fell": losses[-1] < losses[0]}


def steps_in_the_backward_pass(rank, mesh, folder):
    net, guard, _, old = start(Images, mesh, INPUTS[Images])
    optimizers = {p: torch.optim.SGD([p], lr=0.05) for p in net.parameters()}

    def step(parameter):
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for p in net.parameters():
        p.register_post_accumulate_grad_hook(step)
    losses = []
    with guard.protect(*optimizers.values()):
        for _ in range(5):
            loss = (outputs(net, INPUTS[Images](1, rank)) - 1).square().mean()
            loss.backward()
            losses.append(float(loss.detach()))
    return {"moved": moved(net, old), "fell": losses[-1] < losses[0]}


CASES = (
    one_fails_to_absorb,
    shares_of_different_sizes,
    different_memories,
    one_fails_inside_a_block,
    changed_outside,
    files,
    planning,
    mixed_precision,
    steps_in_the_backward_pass,
)


def main(rank, folder):
    from torch.distributed.device_mesh import init_device_mesh

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    torch.save({run.__name__: run(rank, mesh, folder) for run in CASES}, Path(folder) / f"result{rank}.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
