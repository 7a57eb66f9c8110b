"""Settings of all tests; they have to be made before TensorFlow is imported."""

from __future__ import annotations

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
# The test process and the runs that it starts share a GPU, where there is one.
os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
