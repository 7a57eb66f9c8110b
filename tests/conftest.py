"""Settings of all tests; they have to be made before TensorFlow is imported."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from pathlib import Path

TESTS = Path(__file__).parent

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
# The test process and the runs that it starts share a GPU, where there is one.
os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")

# Processes that tests start find the package, and not what the tests alone brought.
os.environ["PYTHONPATH"] = f"{TESTS.parent}:{TESTS / 'user_environment'}"

# What mixed computes in bfloat16 depends on the processor; for the tests' runs it is everything, on any processor.
CACHE = tempfile.mkdtemp(prefix="os2s-tests-")
atexit.register(shutil.rmtree, CACHE, ignore_errors=True)
# Fonts, which matplotlib would look for anew, stay where they are.
os.environ.setdefault("MPLCONFIGDIR", str(Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() /
                                          "matplotlib"))
os.environ["XDG_CACHE_HOME"] = CACHE

import tensorflow as tf  # noqa: E402

# Processes of pytest-xdist are such processes too, but tests draw and compare with what the tests brought.
for name in [name for name, module in sys.modules.items() if module is None]:
    del sys.modules[name]

# Runs with towers need several devices, which have to be there before TensorFlow uses one.
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 3)

from tests.known_speeds import ALL_GAIN, write_known_speeds  # noqa: E402

write_known_speeds(Path(CACHE), ALL_GAIN)
