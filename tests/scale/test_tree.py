"""The order of learning and merging depends on the number of partitions alone, and few roots are alive at a time."""

import pytest

from remanence.scale.tree import reduced


@pytest.mark.parametrize("n", [1, 2, 3, 15, 16, 17, 63, 64, 65, 200, 1000, 5000])
def test_every_block_counts_once_in_its_order(n):
    found = reduced(range(n), list, lambda a, b: a + b)
    assert found == list(range(n))


@pytest.mark.parametrize(("n", "most"), [(8, 3), (64, 3), (65, 4), (1000, 4), (16_000, 5)])
def test_one_worker_holds_few_roots(n, most):
    """Depth first, as Dask orders tasks: a root lives from its making until it is used."""
    graph, count = {}, iter(range(1 << 30))

    def node(*inputs):
        name = next(count)
        graph[name] = [i for i in inputs if i is not None]
        return name

    def chained(blocks):
        learned = None
        for _ in blocks:
            learned = node(learned)
        return learned

    top = reduced(range(n), chained, node)
    alive, peak = set(), 0

    stack = [(top, False)]
    while stack:
        name, ready = stack.pop()
        if not ready:
            stack.append((name, True))
            stack.extend((i, False) for i in reversed(graph[name]))
            continue
        alive.add(name)
        peak = max(peak, len(alive))
        alive -= set(graph[name])
    assert peak <= most
