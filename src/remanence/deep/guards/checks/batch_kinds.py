"""One batch of every kind, for the trial step: a model may use its weights differently from one kind to another.

Batches are of one kind if they have the same keys, types and numbers of axes and the same choices (text, truth values,
None), both with or without padding, and if a batch before has called all modules that this one calls. What takes more
than `CHOICES` values is no choice but data, such as the texts behind tokens and the lengths of lists.
"""

from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from contextlib import ExitStack, contextmanager
from copy import copy
from typing import Any

from torch import Tensor, nn
from torch.utils._pytree import tree_flatten, tree_map

from remanence.deep.guards.checks.padding import real_positions

CHOICES = 8


class BatchKinds:
    """Keeps the first batch of every kind that a model is run on."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.batches: list[Any] = []
        self._kinds: dict[tuple[Any, ...], set[tuple[Any, ...]]] = {}  # by structure, the choices that were met
        self._known: set[nn.Module] = set()
        self._called: set[nn.Module] = set()

    @contextmanager
    def watch(self) -> Iterator[None]:
        """See which modules are called, until the block ends."""
        with ExitStack() as hooks:
            for module in self.model.modules():
                hooks.callback(module.register_forward_pre_hook(lambda m, _: self._called.add(m)).remove)
            yield

    def sorted(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Yield the batches, and keep those of a new kind once the model was run on them."""
        for batch in batches:
            self._called.clear()
            yield own_copy(batch)
            structure, choices = _structure(batch)
            structure += (bool(real_positions(self.model, batch)),)
            known = structure in self._kinds or len(self._kinds) < CHOICES
            met = self._kinds.setdefault(structure, set()) if known else set()
            new = known and choices not in met and len(met) < CHOICES
            if new or not self._called <= self._known:
                self.batches.append(batch)
            if new:
                met.add(choices)
            self._known |= self._called


def own_copy(batch: Any) -> Any:
    """Return a batch that a model may write into, and from which a function of the user may take the labels out."""
    if not isinstance(batch, MutableMapping):
        return tree_map(_cloned, batch)
    whole = copy(batch)  # of its own class, such as a BatchEncoding
    for name, value in batch.items():
        whole[name] = tree_map(_cloned, value)
    return whole


def _cloned(leaf: Any) -> Any:
    return leaf.detach().clone().requires_grad_(leaf.requires_grad) if isinstance(leaf, Tensor) else leaf


def _structure(batch: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return what a batch consists of, and the choices in it."""
    leaves, tree = tree_flatten(dict(batch) if isinstance(batch, Mapping) else batch)
    kinds = ((t.dtype, t.dim()) if isinstance(t, Tensor) else type(t) for t in leaves)
    return (str(tree), *kinds), tuple(leaf for leaf in leaves if isinstance(leaf, str | bool | None))
