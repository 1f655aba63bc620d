"""Compile src/remanence/kernels/native/*.pyx, once for any processor and once for those with AVX2; the rest is in
pyproject.toml.

REMANENCE_CFLAGS adds flags of your own: "-g -O1 -fsanitize=address", say.
"""

import os
import platform
import shlex
import sys
from pathlib import Path

import numpy
from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError, ExecError, PlatformError

NATIVE = "src/remanence/kernels/native"
KERNELS = ("filters", "rotations", "fold", "reflections", "live", "row_words")
KERNELS += ("kalman_filter", "kalman_smoother", "kalman_information")
MSVC = sys.platform == "win32"
# No -ffast-math: NaN and infinity keep their meaning, and sums their order.
FLAGS = ["/O2"] if MSVC else ["-O3", "-g0", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast"]
VARIANTS = {"baseline": []}
if platform.machine().lower() in ("x86_64", "amd64"):
    VARIANTS["avx2"] = ["/arch:AVX2"] if MSVC else ["-mavx2", "-mfma"]

NO_COMPILER = """
remanence is compiled when it is installed from source, and that needs a C compiler; none that works was found.
  Debian, Ubuntu   apt-get install gcc libc6-dev python3-dev
  Fedora           dnf install gcc python3-devel
  Alpine           apk add gcc musl-dev python3-dev
  macOS            xcode-select --install
  Windows          Microsoft C++ Build Tools
A wheel (pip install remanence) needs none.
"""


class BuildKernels(build_ext):
    """build_ext with a file per core at a time, and an error that says what is missing."""

    def finalize_options(self):
        super().finalize_options()
        self.parallel = self.parallel or os.cpu_count()

    def build_extensions(self):
        try:
            super().build_extensions()
        except (CompileError, ExecError, PlatformError) as problem:
            raise SystemExit(f"{problem}\n{NO_COMPILER}") from problem


def extensions(variant, flags):
    own = shlex.split(os.environ.get("REMANENCE_CFLAGS", ""))
    made = [
        Extension(
            f"remanence.kernels.{variant}.{name}",
            [f"{NATIVE}/{name}.pyx"],
            include_dirs=[NATIVE, numpy.get_include()],
            depends=[str(path) for path in Path(NATIVE).glob("*.h")],
            define_macros=[("NPY_NO_DEPRECATED_API", "NPY_2_0_API_VERSION"), ("CYTHON_CLINE_IN_TRACEBACK", "0")],
            extra_compile_args=[*FLAGS, *flags, *own],
            extra_link_args=own,
        )
        for name in (*KERNELS, *(("processor",) if variant == "baseline" else ()))
    ]
    directives = {"boundscheck": False, "wraparound": False, "cdivision": True, "initializedcheck": False}
    return cythonize(
        made,
        build_dir=f"build/{variant}",
        include_path=[NATIVE],
        compiler_directives={"language_level": 3, "embedsignature": True, **directives},
        quiet=True,
    )


setup(
    ext_modules=[extension for variant, flags in VARIANTS.items() for extension in extensions(variant, flags)],
    cmdclass={"build_ext": BuildKernels},
)
