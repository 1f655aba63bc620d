"""A network as a function of one parameter vector, with per-sample derivatives.

    θ = [vec Θ₁; vec Θ₂; …]   (D,)                                        (F1)   all trainable parameters
    Jᵢ = ∂f(xᵢ; θ)/∂θ          (n, c, D)                                  (F2)   derivatives of every output
    gᵢ = ∂ℓ(f(xᵢ; θ))/∂θ       (n, D)                                     (F3)   gradient of a scalar per sample

Derivatives are taken in eval mode, where samples do not interact; the modes are restored afterwards. Samples are
processed in chunks, which bounds the memory needed besides the result.
"""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call, grad, jacrev, vmap
from torch.utils._pytree import tree_map

from remanence.deep.nn.eval_mode import eval_mode
from remanence.deep.nn.outputs import as_input_error, check_output
from remanence.deep.nn.sharding.shards import check_whole
from remanence.errors import InputError

CHUNK_NUMBERS = 4_000_000  # derivatives per output of one chunk


def trainable(module: Any, layers: Iterable[str] | None = None) -> tuple[str, ...]:
    """Return the names of the parameters that require gradients, or of those in the named submodules."""
    if not isinstance(module, torch.nn.Module):
        raise InputError(f"expected a torch module, got {type(module).__name__}; pass the network itself")
    names = [name for name, p in module.named_parameters() if p.requires_grad]
    if layers is not None:
        wanted = [layers] if isinstance(layers, str) else list(layers)
        for layer in wanted:
            if not any(inside(name, layer) for name in names):
                raise InputError(
                    f"expected layers to name submodules or parameters that require gradients, got {layer!r}; "
                    f"there are {', '.join(names[-8:]) or 'none'}"
                )
        names = [name for name in names if any(inside(name, layer) for layer in wanted)]
    if not names:
        raise InputError("expected a network with parameters that require gradients, got none; unfreeze some of them")
    return tuple(names)


def inside(name: str, layer: str) -> bool:
    """Return whether a parameter is the one named, or belongs to the submodule named."""
    return not layer or name == layer or name.startswith(layer + ".")


def _check_numbers(parameters: dict[str, Tensor]) -> None:
    """Raise InputError for parameters without a size, without values, or of complex numbers."""
    for name, parameter in parameters.items():
        if torch.nn.parameter.is_lazy(parameter):
            raise InputError(f"{name} has no size yet; run one batch through the network first")
        if parameter.is_meta or parameter.is_complex():
            got = "on the meta device" if parameter.is_meta else f"of {parameter.dtype}"
            raise InputError(f"expected parameters with real values, got {name} {got}; load its weights, or freeze it")


def as_batch(x: Any, like: Tensor) -> Tensor:
    """Return a batch (n, …) on the device of `like`; real inputs are converted to its dtype, integers are kept."""
    try:
        batch = x.detach() if isinstance(x, Tensor) else torch.as_tensor(np.asarray(x))
    except (TypeError, ValueError):
        raise InputError(f"expected a batch of inputs as a tensor or an array, got {type(x).__name__}") from None
    if batch.is_complex() or batch.is_meta or batch.ndim < 1 or not len(batch):
        raise InputError(
            f"expected at least one sample, (n, …), of real numbers, got {tuple(batch.shape)} of {batch.dtype} on "
            f"{batch.device}; for one sample pass x[None]"
        )
    if not batch.is_floating_point():
        return batch.to(like.device)
    if not torch.isfinite(batch).all():
        raise InputError("x contains NaN or infinity; drop or impute those samples before learning")
    return batch.to(device=like.device, dtype=like.dtype)


class FlatParameters:
    """The trainable parameters of a module, read and written as one vector."""

    def __init__(
        self, module: torch.nn.Module, layers: Iterable[str] | None = None, *, names: Iterable[str] | None = None
    ) -> None:
        """Select all trainable parameters, those inside `layers`, or exactly `names`."""
        self.module = module
        self.names = trainable(module, layers) if names is None else tuple(names)
        parameters = self.parameters()
        _check_numbers(parameters)
        self.shapes = {name: tuple(p.shape) for name, p in parameters.items()}
        if len({p.device for p in parameters.values()}) > 1:
            raise InputError("expected all parameters on one device, got several; move the network to one device")
        sizes = [p.numel() for p in parameters.values()]
        ends = np.cumsum(sizes).tolist()
        self.places = {n: slice(end - size, end) for n, end, size in zip(self.names, ends, sizes, strict=True)}
        self.size = int(ends[-1])

    def parameters(self) -> dict[str, Tensor]:
        """Return the parameters by name; raise InputError if they are split over processes."""
        check_whole(self.module, "one vector of all parameters")
        named = dict(self.module.named_parameters())
        return {name: named[name] for name in self.names}

    def vector(self) -> Tensor:
        """Return a copy of θ (D,), in the dtype and on the device of the parameters (F1)."""
        return torch.cat([p.detach().flatten() for p in self.parameters().values()])

    def split(self, vector: Tensor) -> dict[str, Tensor]:
        """Split a vector (…, D) into tensors of the parameters' shapes, by name."""
        lead = vector.shape[:-1]
        return {name: vector[..., self.places[name]].reshape(*lead, *self.shapes[name]) for name in self.names}

    @torch.no_grad()
    def write(self, vector: Tensor) -> None:
        """Copy θ (D,) into the parameters, in place."""
        parts = self.split(vector)
        for name, parameter in self.parameters().items():
            parameter.copy_(parts[name])

    def linearized(self, x: Tensor, at: Tensor | None = None, chunk_size: int | None = None) -> tuple[Tensor, Tensor]:
        """Return f(x; θ) (n, c) and its Jacobians (n, c, D) at `at`, by default at the current parameters (F2)."""
        if len(x) == 1:
            return self._linearized_once(x, at)

        def outputs(point: dict[str, Tensor], sample: Tensor) -> tuple[Tensor, Tensor]:
            found = self._outputs(point, sample)
            return found, found

        slowly = jacrev(outputs, has_aux=True, chunk_size=1)
        slopes, values = self._mapped(jacrev(outputs, has_aux=True), slowly, at, (x,), chunk_size)
        return values, torch.cat([slopes[name].flatten(2) for name in self.names], dim=2)

    def gradients(
        self,
        x: Tensor,
        of: Callable[..., Tensor],
        *each: Tensor,
        at: Tensor | None = None,
        chunk_size: int | None = None,
    ) -> Tensor:
        """Return the gradients (n, D) of the scalar `of(outputs (c,), *each[i])` of every sample (F3).

        `lambda f, v: f @ v` with a row of weights per sample selects or weighs outputs; a loss takes its targets
        instead.
        """

        def score(point: dict[str, Tensor], sample: Tensor, *given: Tensor) -> Tensor:
            return of(self._outputs(point, sample), *given)

        slopes = self._mapped(grad(score), grad(score), at, (x, *each), chunk_size)
        return torch.cat([slopes[name].flatten(1) for name in self.names], dim=1)

    def _linearized_once(self, x: Tensor, at: Tensor | None) -> tuple[Tensor, Tensor]:
        """Linearize at one sample by plain backward passes, several times faster than vmap."""
        point = {name: p.detach().requires_grad_() for name, p in self.split(self._point(at)).items()}
        with eval_mode(self.module), torch.enable_grad(), as_input_error(x):
            values = check_output(functional_call(self.module, point, (x,)), 1)
            many = values.shape[1] > 1
            ask = torch.eye(values.shape[1]).to(values) if many else None
            slopes = torch.autograd.grad(
                values[0], tuple(point.values()), ask, is_grads_batched=many, materialize_grads=True
            )
        return values.detach(), torch.cat([g.reshape(1, values.shape[1], -1) for g in slopes], dim=2)

    def _point(self, at: Tensor | None) -> Tensor:
        return self.vector() if at is None else at

    def _mapped(
        self, function: Any, slowly: Any, at: Tensor | None, data: tuple[Tensor, ...], chunk_size: int | None
    ) -> Any:
        """Apply the function to all samples with vmap, or `slowly` to each sample if torch cannot (an LSTM)."""
        point = self.split(self._point(at))
        size = max(1, CHUNK_NUMBERS // self.size) if chunk_size is None else chunk_size
        mapped = vmap(function, in_dims=(None, *(0 for _ in data)), chunk_size=size)
        with eval_mode(self.module), as_input_error(data[0]):
            try:
                return mapped(point, *data)
            except torch.OutOfMemoryError:
                raise
            except RuntimeError:
                each = [slowly(point, *sample) for sample in zip(*data, strict=True)]
                return tree_map(lambda *parts: torch.stack(parts), *each)

    def _outputs(self, point: dict[str, Tensor], sample: Tensor) -> Tensor:
        return check_output(functional_call(self.module, point, (sample[None],)), 1)[0]
