"""A network that grows: hidden units are added one by one, and a layer more when units of the last one stop helping.

    f(x) = Wᵀ [1, x, h₁, h₂, …]          hᵢ = tanh(vᵢᵀ [1, x, units of earlier layers])                   (G1)
    the unit that lowers the error most out of some candidates is added (orthogonal least squares)       (G2)
    W is exact after every unit: the root of the columns gets one more (memory/growing)                  (G3)

Units stay as they are once they are added; the output weights go on learning from new rows by recursive least squares.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from remanence.arrays import Array
from remanence.deep.growing.candidates import trained_units
from remanence.errors import InputError
from remanence.memory import root as roots
from remanence.memory.growing.new_columns import error_reductions, with_column
from remanence.memory.root import Root
from remanence.validation import check_block, check_count, check_finite, check_number, check_numbers, check_rows

SMALL = 1e-6  # of the squares of the targets is no error worth a unit


@dataclass(frozen=True)
class GrowthStep:
    """One unit that was added.

    Parameters
    ----------
    layer : int
        The hidden layer it is in, counting from 1.
    error : float
        The least sum of squared errors with it, relative to that of predicting the mean.

    Examples
    --------
    >>> import remanence as rm
    >>> rm.deep.GrowthStep(layer=1, error=0.5)
    GrowthStep(layer=1, error=0.5)
    """

    layer: int
    error: float


class Growing(nn.Module):
    """A network that adds hidden units, and layers of them, until the error is small or nothing helps.

    Outputs see the inputs and every hidden unit; a unit sees the inputs and the units of earlier layers. `fit` grows
    the network on rows at hand, `learn` goes on with further rows, which change the output weights alone, exactly.

    Parameters
    ----------
    inputs, outputs : int
    units : int
        At most so many hidden units.
    tolerance : float
        Stop when the sum of squared errors is below this share of that of predicting the mean.
    candidates : int
        Units that are tried for each one that is added.
    stall : float
        A unit must lower the error by at least this share of it; else a new layer begins, and if that does not help
        either, growth ends.
    ridge : float
        The weight of ‖W‖² beside the squared errors.
    seed : int

    References
    ----------
    Ash (1989), "Dynamic node creation in backpropagation networks", Connection Science.
    Azimi-Sadjadi, Sheedvash and Trujillo (1993), "Recursive dynamic node creation in multilayer neural networks", IEEE
    Trans. Neural Networks.
    Fahlman and Lebiere (1990), "The cascade-correlation learning architecture", NeurIPS: training of candidates.

    Examples
    --------
    >>> import numpy as np, remanence as rm
    >>> X = np.array([[a, b] for a in (-1.0, 1.0) for b in (-1.0, 1.0)])
    >>> net = rm.deep.Growing(2, 1)
    >>> steps = net.fit(X, X[:, :1] * X[:, 1:])  # exclusive or: one unit is enough
    >>> len(steps), bool(np.abs(net.predict(X)[:, 0] - X[:, 0] * X[:, 1]).max() < 0.2)
    (1, True)
    """

    linear = False  # (no linear model of rows: `rm.list_methods` says that of everything)

    def __init__(
        self,
        inputs: int,
        outputs: int,
        units: int = 100,
        tolerance: float = 0.01,
        candidates: int = 32,
        stall: float = 0.02,
        ridge: float = 1e-8,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.inputs, self.outputs = check_count(inputs, "inputs"), check_count(outputs, "outputs")
        self.units = check_count(units, "units", low=0)
        self.tolerance = check_number(tolerance, "tolerance", closed=True)
        self.candidates = check_count(candidates, "candidates")
        self.stall = check_number(stall, "stall", high=1.0)
        self.ridge = check_number(ridge, "ridge")
        self.seed = check_count(seed, "seed", low=0)
        self._incoming: list[Array] = []  # of every unit, over the inputs of its layer
        self._layers: list[int] = []  # of every unit
        self._root = self._prior(1 + self.inputs)

    @property
    def settings(self) -> dict[str, Any]:
        """The settings by name, as plain values."""
        names = ("inputs", "outputs", "units", "tolerance", "candidates", "stall", "ridge", "seed")
        return {name: getattr(self, name) for name in names}

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of units of every hidden layer."""
        return tuple(self._layers.count(layer) for layer in sorted(set(self._layers)))

    @property
    def weights(self) -> Array:
        """(1 + inputs + units, outputs) The output weights: of the constant, the inputs and the units."""
        return self._root.solve()

    def fit(self, X: Any, Y: Any) -> list[GrowthStep]:
        """Grow a network for these rows, from no hidden unit; what it had learned is forgotten.

        Parameters
        ----------
        X, Y : array (n, inputs), array (n, outputs)

        Returns
        -------
        list of GrowthStep
            The units that were added, in order.
        """
        X, Y = check_block(_array(X), _array(Y), np.zeros((self.inputs, self.outputs)))
        columns = np.column_stack([np.ones(len(X)), X])
        root = self._prior(columns.shape[1]).folded(columns, Y, donate=True)
        incoming, layers, steps = list[Array](), list[int](), list[GrowthStep]()
        layer, below, stalled = 1, columns, False
        total = float(np.square(Y - Y.mean(axis=0)).sum())
        enough = max(self.tolerance * total, SMALL * float(np.square(Y).sum()))
        while len(incoming) < self.units and float(root.rest.sum()) > enough:
            residual = Y - columns @ root.solve()
            seed = self.seed + 1000 * layer + len(incoming)
            tried = trained_units(below, columns, residual, self.candidates, self.ridge, seed)
            H = np.tanh(below @ tried.T)
            gains = error_reductions(root, columns, Y, H, self.ridge)  # (G2)
            best = int(np.argmax(gains))
            if not gains[best] > self.stall * float(root.rest.sum()):
                if stalled or below.shape[1] == columns.shape[1]:
                    break
                layer, below, stalled = layer + 1, columns, True
                continue
            stalled = False
            root = with_column(root, columns, Y, H[:, best], self.ridge)  # (G3)
            columns = np.column_stack([columns, H[:, best]])
            incoming, layers = [*incoming, tried[best]], [*layers, layer]
            steps.append(GrowthStep(layer, float(root.rest.sum()) / (total or 1.0)))
        self._incoming, self._layers, self._root = incoming, layers, root
        return steps

    def learn(self, X: Any, Y: Any) -> None:
        """Learn further rows: the output weights become those of all rows so far.

        Parameters
        ----------
        X, Y : array (n, inputs), array (n, outputs)
        """
        X, Y = check_block(_array(X), _array(Y), np.zeros((self.inputs, self.outputs)))
        self._root = self._root.folded(self._columns(X), Y)

    def predict(self, X: Any) -> Array:
        """The outputs (n, outputs) at rows X (n, inputs)."""
        return np.asarray(self._columns(check_rows(_array(X), self.inputs)) @ self.weights)

    def without_unit(self, unit: int) -> None:
        """Delete a hidden unit that no other one sees: the output weights become those of the others alone.

        Parameters
        ----------
        unit : int
            Its number, counting from 0 in the order in which units were added; one of the last layer.
        """
        number = check_count(unit, "unit", low=0)
        if number >= len(self._layers) or self._layers[number] != max(self._layers):
            raise InputError(f"expected a unit of the last layer, of {len(self._layers)} units, got {unit}")
        kept = np.delete(np.arange(len(self._root.factor)), 1 + self.inputs + number)
        self._root = self._root.with_columns(kept)
        del self._incoming[number], self._layers[number]

    def forward(self, x: Tensor) -> Tensor:
        """The outputs (n, outputs) of a batch (n, inputs), in its dtype; differentiable by the batch."""
        columns = torch.cat([torch.ones_like(x[:, :1]), x], 1)
        below, layer = columns, 1
        for v, mine in zip(self._incoming, self._layers, strict=True):
            if mine != layer:
                below, layer = columns, mine
            columns = torch.cat([columns, torch.tanh(below @ torch.from_numpy(v).to(x))[:, None]], 1)
        return columns @ torch.from_numpy(self.weights).to(x)

    def _columns(self, X: Array) -> Array:
        """[1, x, h₁, …] of every row (G1)."""
        columns = np.column_stack([np.ones(len(X)), X])
        below, layer = columns, 1
        for v, mine in zip(self._incoming, self._layers, strict=True):
            if mine != layer:
                below, layer = columns, mine
            columns = np.column_stack([columns, np.tanh(below @ v)])
        return columns

    def _prior(self, columns: int) -> Root:
        return roots.prior(self.ridge, np.zeros((columns, self.outputs)))

    def get_extra_state(self) -> dict[str, Any]:
        """The units and what the output weights have learned, as tensors and plain values."""
        root = {name: torch.from_numpy(np.array(getattr(self._root, name))) for name in ("factor", "target", "rest")}
        return {"incoming": [torch.from_numpy(v.copy()) for v in self._incoming], "layers": list(self._layers), **root}

    def set_extra_state(self, state: Any) -> None:
        """Restore what `get_extra_state` returned: torch calls it in `load_state_dict`.

        Parameters
        ----------
        state : dict
        """
        incoming, layers, root = _checked_state(state, self.inputs, self.outputs)
        self._incoming, self._layers, self._root = incoming, layers, root


def _array(values: Any) -> Any:
    return values.detach().cpu().double().numpy() if isinstance(values, Tensor) else values


def _checked_state(state: Any, inputs: int, outputs: int) -> tuple[list[Array], list[int], Root]:
    """The units and the root of a saved state, or an InputError."""
    try:
        incoming = [check_numbers(v.numpy().copy(), "incoming", np.float64) for v in state["incoming"]]
        layers = [check_count(layer, "layer") for layer in state["layers"]]
        factor, target, rest = (np.array(state[name].numpy(), np.float64) for name in ("factor", "target", "rest"))
    except (AttributeError, KeyError, TypeError):
        raise InputError("expected the saved state of a Growing network, got a damaged one") from None
    width = 1 + inputs
    fans = [width + sum(other < layer for other in layers) for layer in layers]
    sizes = [v.shape for v in incoming]
    d = width + len(incoming)
    good = layers == sorted(layers) and sizes == [(fan,) for fan in fans]
    if not good or factor.shape != (d, d) or target.shape != (d, outputs) or rest.shape != (outputs,):
        raise InputError(f"expected a network of {inputs} inputs and {outputs} outputs, got the state of another one")
    for values in (*incoming, factor, target, rest):
        check_finite(values, "the saved state")
    return incoming, layers, Root(np.asfortranarray(np.triu(factor)), np.asfortranarray(target), rest)
