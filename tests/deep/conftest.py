"""Process groups on the CPU: one of a single process, and workers that train together."""

import os
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")


@pytest.fixture
def alone(tmp_path):
    """A process group of one."""
    import torch.distributed as dist

    if not dist.is_available():
        pytest.skip("torch was built without it")
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/meeting", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.fixture(scope="session")
def two_processes():
    """Run a script in two processes, `script RANK FOLDER …`, and return what each has left in the folder."""
    if not torch.distributed.is_available():
        pytest.skip("torch was built without it")

    def run(script, folder, *more):
        alone = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        processes = [
            subprocess.Popen(
                [sys.executable, str(script), str(rank), str(folder), *more], env=alone, stderr=subprocess.PIPE
            )
            for rank in range(2)
        ]
        try:
            for process in processes:
                _, errors = process.communicate(timeout=600)
                assert process.returncode == 0, errors.decode()[-2000:]
        finally:
            for process in processes:
                process.kill()
        return [torch.load(folder / f"result{rank}.pt", weights_only=True) for rank in range(2)]

    return run
