"""scripts/install_horovod.sh names what is missing; that what it builds works, it checks itself (make horovod)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "scripts" / "install_horovod.sh"
TOOLS = ("bash", "sh", "dirname", "basename", "mktemp", "rm", "cat", "tail", "ls", "id", "make")


@pytest.fixture
def environment(tmp_path):
    """A Python environment with a TensorFlow that only tells its version, and a path with few programs."""
    venv.create(tmp_path / "env", with_pip=False)
    package = tmp_path / "packages" / "tensorflow"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(
        "import os, types\n__version__ = '2.99.0'\n"
        "test = types.SimpleNamespace(is_built_with_cuda=lambda: os.environ.get('DEVICE') == 'gpu')\n")
    (tmp_path / "bin").mkdir()
    for tool in TOOLS:
        (tmp_path / "bin" / tool).symlink_to(shutil.which(tool))
    return tmp_path


def install(environment: Path, *arguments: str, programs: tuple[str, ...] = (), **variables: str) -> str:
    """Runs the script, which has to fail in the user's way: its output."""
    for program in programs:
        (environment / "bin" / program).symlink_to(shutil.which("true"))
    packages = f"{environment}/packages:{sysconfig.get_path('purelib')}"
    done = subprocess.run(["bash", str(SCRIPT), *arguments, str(environment / "env" / "bin" / "python")],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=environment, check=False,
                          env={"PATH": f"{environment}/bin", "PYTHONPATH": packages, "PIP_NO_INDEX": "1",
                               "TMPDIR": str(environment), "HOME": os.environ["HOME"], **variables})
    assert done.returncode == 2, done.stdout
    assert "Traceback" not in done.stdout
    return done.stdout


def test_no_compiler(environment):
    assert "g++ was not found: install a C++ compiler (on Debian: apt-get install g++)" in install(environment)


@pytest.mark.long
def test_no_pypi(environment):
    assert "is PyPI reachable?" in install(environment, programs=("g++", "cmake", "mpicxx", "mpiexec", "mkdir"))


def test_no_tensorflow(environment):
    shutil.rmtree(environment / "packages")
    output = install(environment, PYTHONPATH="")
    assert "TensorFlow cannot be imported" in output and "No module named 'tensorflow'" in output


def test_no_python(environment):
    shutil.rmtree(environment / "env")
    assert "was not found: give the path of a Python" in install(environment)


def test_an_unknown_option(environment):
    assert "'--ncl' is not an option: the options are --nccl and --no-nccl" in install(environment, "--ncl")


def test_nccl_where_it_cannot_be(environment):
    output = install(environment, "--nccl")
    assert "cannot be built with NCCL: TensorFlow 2.99.0 is a CPU build" in output
    assert "the CUDA wheels are not installed" in install(environment, "--nccl", DEVICE="gpu")


def test_without_nccl_on_gpus_there_is_a_warning(environment):
    output = install(environment, DEVICE="gpu")  # and then no compiler
    assert "through host memory, not NCCL: the CUDA wheels are not installed" in output
    assert "host memory" not in install(environment, "--no-nccl", DEVICE="gpu")


@pytest.mark.skipif(sys.platform != "linux", reason="the folder's name is that of Linux")
def test_nccl_without_a_compiler_for_it(environment):
    nvidia = next((environment / "env" / "lib").glob("python3*")) / "site-packages" / "nvidia"
    for library in ("nccl/lib/libnccl.so.2", "cuda_runtime/lib/libcudart.so.12"):
        (nvidia / library).parent.mkdir(parents=True)
        (nvidia / library).touch()
    if not Path("/usr/local/cuda/bin/nvcc").exists():
        assert "nvcc, NVIDIA's compiler, was not found" in install(environment, "--nccl", DEVICE="gpu")
    toolkit = environment / "cuda"
    for path in ("bin/nvcc", "include/cuda_runtime.h"):
        (toolkit / path).parent.mkdir(parents=True)
        (toolkit / path).touch(mode=0o755)
    output = install(environment, "--nccl", DEVICE="gpu", HOROVOD_CUDA_HOME=str(toolkit))
    assert "g++ was not found" in output  # of CUDA nothing is missing now
