"""Both builds of every kernel, on the processors that can run them."""

from importlib import import_module

import pytest

from remanence.kernels.baseline.processor import has_avx2


@pytest.fixture(params=["baseline", "avx2"])
def build(request):
    """The modules of one build, by name."""
    if request.param == "avx2" and not has_avx2():
        pytest.skip("this processor has no AVX2")
    return lambda name: import_module(f"remanence.kernels.{request.param}.{name}")
