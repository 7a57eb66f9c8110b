"""Computes the utilisation of a device: counted FLOPs relative to its peak."""

from __future__ import annotations

import re
from dataclasses import dataclass

TRAINING_FACTOR = 3  # a backward pass costs two forward passes; recomputation is not counted


@dataclass
class FlopCount:
    """The FLOPs of some forward passes.

    Attributes:
      flops: number of FLOPs; a multiply-add counts as two.
      objects: number of tokens, frames or images in these passes.
      uncounted: types of operations that contain uncounted products.
    """

    flops: float
    objects: int
    uncounted: tuple[str, ...] = ()

    @property
    def training_per_object(self) -> float:
        """Training FLOPs per object."""
        return TRAINING_FACTOR * self.flops / max(self.objects, 1)


# Dense peaks in TFLOP/s (without sparsity) from NVIDIA's data sheets: (pattern of the device name,
# float32 without tensor cores, TF32, float16, bfloat16); None if the tensor cores lack the dtype.
# The first match is used.
_PEAKS: tuple[tuple[str, float, float | None, float, float | None], ...] = (
    (r"H200 NVL", 60.0, 418.0, 836.0, 836.0),
    (r"H200", 67.0, 495.0, 989.0, 989.0),
    (r"H100 NVL", 60.0, 418.0, 836.0, 836.0),
    (r"H100 PCIe", 51.0, 378.0, 756.0, 756.0),
    (r"H100", 67.0, 495.0, 989.0, 989.0),
    (r"A100", 19.5, 156.0, 312.0, 312.0),
    (r"V100-PCIE", 14.0, None, 112.0, None),
    (r"V100", 15.7, None, 125.0, None),
    (r"T4", 8.1, None, 65.0, None),
    (r"L4", 30.3, 60.0, 121.0, 121.0),
)


def peak_teraflops(device_name: str, compute: str) -> float | None:
    """Returns a GPU's peak in TFLOP/s, or None if the GPU is not in the table or is a MIG instance.

    Args:
      device_name: name of the GPU as reported by TensorFlow, such as ``NVIDIA A100-SXM4-40GB``.
      compute: ``float32``, ``tf32``, ``float16`` or ``bfloat16``.
    """
    if "MIG" in device_name:  # a partition of a GPU
        return None
    for pattern, float32, tf32, float16, bfloat16 in _PEAKS:
        if re.search(rf"\b{pattern}\b", device_name, re.IGNORECASE):
            return {"float32": float32, "tf32": tf32, "float16": float16, "bfloat16": bfloat16}[compute] or float32
    return None
