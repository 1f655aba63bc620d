"""A frozen torch module as a transformer: what it sees of the data, in batches, without gradients."""

import hashlib
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, TransformerMixin

from remanence.arrays import Array
from remanence.errors import InputError
from remanence.progress import track_progress
from remanence.validation import check_count


class Encoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Turns rows, images or token ids into the features of a frozen module.

    Parameters
    ----------
    module : torch.nn.Module
        Used in eval mode and never changed.
    layer : str, optional
        The name of a submodule (as in `named_modules()`) whose output is taken instead of the module's own.
    batch_size : int
    device : str
    shape : tuple of int, optional
        The shape of one input, where X holds flattened ones.
    progress : bool, optional
        Whether to show a progress bar; by default on a terminal when the work lasts over two seconds.
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
        """Nothing is learned: the module is frozen."""
        return self

    def transform(self, X: Any) -> Array:
        """The features of every input, (n, features); what a layer gives beyond one axis is flattened."""
        check_count(self.batch_size, "batch_size")
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
                    output = self.module(batch)
                    if self.layer is not None:
                        if not caught:
                            raise InputError(
                                f"expected layer {self.layer!r} to run in the module's forward, it did not"
                            )
                        output = caught[-1]
                    parts.append(output.flatten(1).cpu().numpy())
        finally:
            if hook is not None:
                hook.remove()
            for module, was in training.items():
                module.training = was
        return np.concatenate(parts)

    def fingerprint(self) -> str:
        """What tells this encoder from another: a hash of every weight and buffer, and the layer taken."""
        versions = [(name, t.data_ptr(), t._version) for name, t in self.module.state_dict(keep_vars=True).items()]
        if getattr(self, "_hashed", (None, ""))[0] != (versions, self.layer):
            digest = hashlib.sha256(f"{type(self.module).__name__}:{self.layer}".encode())
            for name, tensor in self.module.state_dict().items():
                digest.update(f"{name}:{tuple(tensor.shape)}:{tensor.dtype}".encode())
                digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
            self._hashed = ((versions, self.layer), "torch:" + digest.hexdigest()[:16])
        return str(self._hashed[1])

    def _inputs(self, X: Any) -> Array:
        inputs = X.numpy(force=True) if isinstance(X, torch.Tensor) else np.asarray(X)
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
