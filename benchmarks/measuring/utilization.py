"""How much of a device's arithmetic a training uses: counted operations against its peak."""

from __future__ import annotations

import re
from dataclasses import dataclass

TRAINING_FACTOR = 3  # backward costs two forward passes; recomputation counts as nothing


@dataclass
class FlopCount:
    """The arithmetic of forward passes.

    Attributes:
      flops: a multiplication and an addition count as two.
      objects: tokens, frames or images of these passes.
      uncounted: types of operations that hold products which were not counted.
    """

    flops: float
    objects: int
    uncounted: tuple[str, ...] = ()

    @property
    def training_per_object(self) -> float:
        """FLOPs that training spends on an object."""
        return TRAINING_FACTOR * self.flops / max(self.objects, 1)


# Dense peaks in TFLOP/s of NVIDIA's data sheets, without sparsity: (pattern of the device name,
# float32 outside tensor cores, TF32, float16, bfloat16); None: no tensor cores of this type.
# The first pattern that is found counts.
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
    """Returns a GPU's peak in TFLOP/s, or None for one that is not in the table, or is only a part.

    Args:
      device_name: as TensorFlow gives it, such as ``NVIDIA A100-SXM4-40GB``.
      compute: ``float32``, ``tf32``, ``float16`` or ``bfloat16``.
    """
    if "MIG" in device_name:  # a part of a GPU
        return None
    for pattern, float32, tf32, float16, bfloat16 in _PEAKS:
        if re.search(rf"\b{pattern}\b", device_name, re.IGNORECASE):
            return {"float32": float32, "tf32": tf32, "float16": float16, "bfloat16": bfloat16}[compute] or float32
    return None
