"""Settings of all tests; they have to be made before TensorFlow is imported."""

from __future__ import annotations

import atexit
import gc
import os
import shutil
import signal
import tempfile
from pathlib import Path

import pytest

TESTS = Path(__file__).parent

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
# The test process and the runs that it starts share a GPU, where there is one.
os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
# A rank that waits for another one leaves its core to the tests beside it.
os.environ.setdefault("OMPI_MCA_mpi_yield_when_idle", "1")
# Comparisons in float32 need exact products.
os.environ.setdefault("NVIDIA_TF32_OVERRIDE", "0")

# The servers that tests ask are their own, which no proxy reaches.
os.environ["no_proxy"] = os.environ["NO_PROXY"] = "*"

# Processes that tests start find the package.
os.environ["PYTHONPATH"] = str(TESTS.parent)

# Under nohup the runs that tests start would ignore SIGHUP.
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# Which operations "mixed" computes in bfloat16 depends on the processor; in tests it is all of them, on any processor.
CACHE = tempfile.mkdtemp(prefix="os2s-tests-")
atexit.register(shutil.rmtree, CACHE, ignore_errors=True)
# Where matplotlib keeps its list of fonts, which it would otherwise make again.
os.environ.setdefault("MPLCONFIGDIR", str(Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() /
                                          "matplotlib"))
os.environ["XDG_CACHE_HOME"] = CACHE

import open_seq2seq  # noqa: E402, F401, I001  # before TensorFlow: it defers what Keras would import needlessly
import tensorflow as tf  # noqa: E402

# Runs with towers need several devices, which must be defined before TensorFlow uses one.
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 3)

from tests.hostile.summary import pytest_terminal_summary  # noqa: E402, F401
from tests.known_speeds import ALL_GAIN, write_known_speeds  # noqa: E402

write_known_speeds(Path(CACHE), ALL_GAIN)

# What TensorFlow's choice of kernels depends on.
_FLAGS = ("avx2", "fma", "avx512f", "avx512_vnni", "avx_vnni", "avx512_bf16", "amx_bf16", "amx_int8")


def pytest_collection_finish() -> None:
    """Keeps the garbage collector from going through all modules and tests again and again."""
    gc.collect()
    gc.freeze()


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Says what the results hold for: the processor, TensorFlow, and whether it computes with oneDNN."""
    from open_seq2seq.utils.machine import cpu_flags, cpu_name

    flags = " ".join(flag for flag in _FLAGS if flag in cpu_flags()) or "no flags known"
    threads = tf.config.threading.get_intra_op_parallelism_threads() or os.cpu_count()
    setting = os.environ.get("TF_ENABLE_ONEDNN_OPTS")
    said = "not set" if setting is None else f"={setting}"
    return [f"processor: {cpu_name()} ({flags})",
            f"TensorFlow {tf.__version__}, {threads} threads, oneDNN {_onednn()} (TF_ENABLE_ONEDNN_OPTS {said})"]


def _onednn() -> str:
    try:
        from tensorflow.python.util._pywrap_util_port import IsMklEnabled
    except ImportError:
        return "unknown"
    return "on" if IsMklEnabled() else "off"
