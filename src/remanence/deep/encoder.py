"""A frozen torch module as a scikit-learn transformer: its features, computed in batches without gradients."""

from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, TransformerMixin

from remanence.arrays import Array
from remanence.deep.nn.outputs import as_input_error
from remanence.deep.nn.tensors import as_numbers
from remanence.errors import InputError
from remanence.hashing import new_digest, short
from remanence.progress import track_progress
from remanence.validation import check_count


class Encoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Transform rows, images or token ids into the features of a frozen torch module.

    Parameters
    ----------
    module : torch.nn.Module
        The network. It runs in eval mode and its weights are never changed.
    layer : str, optional
        Name of a submodule (as in `named_modules()`) whose output is returned instead of the module's own output.
    batch_size : int
        Inputs per forward pass.
    device : str
        Device on which the module runs.
    shape : tuple of int, optional
        Shape of one input, if X holds flattened inputs.
    progress : bool, optional
        Whether to show a progress bar; by default only on a terminal and if the work takes more than two seconds.

    Examples
    --------
    >>> import numpy as np, torch, remanence as rm
    >>> net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    >>> rm.deep.Encoder(net, layer="1").transform(np.zeros((5, 4))).shape
    (5, 8)
    """

    def __init__(
        self,
        module: torch.nn.Module,
        layer: str | None = None,
        batch_size: int = 64,
        device: str = "cpu",
        shape: tuple[int, ...] | None = None,
        progress: bool | None = None,
    ) -> None:
        self.module = module
        self.layer = layer
        self.batch_size = batch_size
        self.device = device
        self.shape = shape
        self.progress = progress

    def fit(self, X: Any = None, y: Any = None) -> Self:
        """Do nothing and return self: the module is frozen, X and y are ignored."""
        return self

    def transform(self, X: Any) -> Array:
        """Compute the features of every input.

        Parameters
        ----------
        X : array or tensor of shape (n, …)
            Inputs. Floating-point inputs are converted to the module's dtype.

        Returns
        -------
        ndarray of shape (n, features)
            Outputs of the module or layer; all axes after the first are flattened into one.
        """
        check_count(self.batch_size, "batch_size")
        if not isinstance(self.module, torch.nn.Module):
            raise InputError(f"expected a torch module to encode with, got {type(self.module).__name__}")
        if any(t.is_meta for t in (*self.module.parameters(), *self.module.buffers())):
            raise InputError("expected a module with its weights, got one on the meta device; load them first")
        inputs = self._inputs(X)
        parameter = next(self.module.parameters(), torch.zeros(()))
        training = {module: module.training for module in self.module.modules()}
        parts: list[Array] = []
        caught: list[torch.Tensor] = []
        hook = None
        if self.layer is not None:
            hook = self._submodule().register_forward_hook(lambda _m, _i, output: caught.append(output))
        try:
            self.module.eval().to(self.device)
            with torch.inference_mode():
                starts = range(0, len(inputs), self.batch_size)
                for i in track_progress(starts, "encoding", len(starts), self.progress):
                    part = inputs[i : i + self.batch_size]
                    batch = torch.as_tensor(part if part.flags.writeable else part.copy()).to(self.device)
                    if batch.is_floating_point():
                        batch = batch.to(parameter.dtype)
                    caught.clear()
                    with as_input_error(batch):
                        output = self.module(batch)
                    if self.layer is not None:
                        if not caught:
                            raise InputError(
                                f"expected layer {self.layer!r} to be called in the module's forward, but it was not"
                            )
                        output = caught[-1]
                    if not isinstance(output, torch.Tensor) or output.ndim < 1 or len(output) != len(batch):
                        got = f"of shape {tuple(output.shape)}" if isinstance(output, torch.Tensor) else type(output)
                        raise InputError(
                            f"expected a module or layer that returns a tensor with a row for each of {len(batch)} "
                            f"inputs, got {got}; choose another layer"
                        )
                    parts.append(as_numbers(output.flatten(1)))
        finally:
            if hook is not None:
                hook.remove()
            for module, was in training.items():
                module.training = was
        return np.concatenate(parts)

    def fingerprint(self) -> str:
        """Return a hash of the module's weights and buffers and of the chosen layer, which identifies this encoder."""
        versions = [(name, t.data_ptr(), t._version) for name, t in self.module.state_dict(keep_vars=True).items()]
        if getattr(self, "_hashed", (None, ""))[0] != (versions, self.layer):
            digest = new_digest(f"{type(self.module).__name__}:{self.layer}")
            for name, tensor in self.module.state_dict().items():
                digest.update(f"{name}:{tuple(tensor.shape)}:{tensor.dtype}".encode())
                digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
            self._hashed = ((versions, self.layer), "torch:" + short(digest))
        return str(self._hashed[1])

    def _inputs(self, X: Any) -> Array:
        inputs = np.asarray(as_numbers(X))
        if inputs.dtype.kind not in "fiub" or not len(inputs):
            raise InputError(f"expected a non-empty array of numbers to encode, got {inputs.dtype} of {inputs.shape}")
        if self.shape is not None:
            if inputs[0].size != np.prod(self.shape):
                raise InputError(
                    f"expected inputs of {np.prod(self.shape)} numbers for shape {self.shape}, got {inputs[0].size}"
                )
            inputs = inputs.reshape(len(inputs), *self.shape)
        return inputs

    def _submodule(self) -> torch.nn.Module:
        named = dict(self.module.named_modules())
        if self.layer not in named:
            raise InputError(
                f"expected layer to be one of {[n for n in named if n][-8:]} (or others), got {self.layer!r}"
            )
        found: torch.nn.Module = named[self.layer]
        return found

    def __sklearn_is_fitted__(self) -> bool:
        return True
