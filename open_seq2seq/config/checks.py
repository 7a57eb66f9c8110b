"""Checks model-level parameters that can be checked without a component class: run length, devices, precision etc."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from open_seq2seq.utils.errors import did_you_mean

DTYPES = ("float32", "mixed", "mixed_float16", "mixed_bfloat16")
# Copy of the scaler names in optimizers.loss_scaling, which cannot be imported without TensorFlow. A test compares the
# two.
LOSS_SCALERS = ("Backoff", "LogMax")


def model_problems(params: dict[str, Any], section: str, mode: str) -> list[str]:
    """Checks the model-level parameters of one section and normalizes the spelling of some values.

    Args:
      params: the parameters after merging and overrides. ``loss_scaling`` and ``dtype``, which have several accepted
        spellings, are normalized in place.
      section: the section that the parameters are for: ``train``, ``eval``, ``infer`` or ``interactive_infer``.
      mode: the run's mode.

    Returns:
      The problems found, one sentence each.
    """
    problems = _dtype_problems(params) + _loss_scaling_problems(params) + _device_problems(params)
    if section == "train":
        problems += _length_problems(params) + _cadence_problems(params) + _xla_problems(params)
    if section == "eval" and mode == "train_eval" and params.get("eval_steps") is None:
        problems.append("'eval_steps' is missing: the mode train_eval needs it, the number of training steps from one "
                        "evaluation to the next; set it in eval_params or base_params.")
    return problems


def _device_problems(params: Mapping[str, Any]) -> list[str]:
    gpus, ids, towers = (params.get(name) for name in ("num_gpus", "gpu_ids", "num_cpu_towers"))
    if ids is not None and (type(ids) is not list or not ids or len({*map(repr, ids)}) < len(ids)
                            or any(type(number) is not int or number < 0 for number in ids)):
        return [f"'gpu_ids' is {ids!r} but has to be a list of distinct GPU numbers, counted from 0, such as [0, 2]."]
    if ids is not None and type(gpus) is int and gpus != len(ids):
        return [f"'num_gpus' is {gpus} but 'gpu_ids' lists {len(ids)} GPUs: leave num_gpus out (--num_gpus=null)."]
    if params.get("use_horovod") and (ids is not None or towers is not None):
        what = f"'gpu_ids' is {ids}" if ids is not None else f"'num_cpu_towers' is {towers}"
        return [f"{what}, but with use_horovod each process uses one device: leave the parameter out and start one "
                "process per device."]
    several = [text for text, given in ((f"'num_gpus' is {gpus}", type(gpus) is int and gpus > 1),
                                        (f"'gpu_ids' is {ids}", ids is not None)) if given]
    if towers is not None and several:
        return [f"{several[0]} and 'num_cpu_towers' is {towers}, but a run uses either GPUs or the CPU: leave one of "
                "the two parameters out."]
    return []


def _length_problems(params: Mapping[str, Any]) -> list[str]:
    max_steps, num_epochs = params.get("max_steps"), params.get("num_epochs")
    if max_steps is None and num_epochs is None:
        return ["'max_steps' or 'num_epochs' is missing: training needs one of them."]
    if max_steps is not None and num_epochs is not None:
        return [f"'max_steps' is {max_steps!r} and 'num_epochs' is {num_epochs!r}, but only one of them may be given: "
                "set one to None."]
    return []


def _cadence_problems(params: Mapping[str, Any]) -> list[str]:
    samples, loss = params.get("print_samples_steps"), params.get("print_loss_steps")
    if type(samples) is int and type(loss) is int and loss > 0 and samples % loss:
        return [f"'print_samples_steps' is {samples} but has to be a multiple of 'print_loss_steps', which is {loss}."]
    return []


def _xla_problems(params: Mapping[str, Any]) -> list[str]:
    if params.get("xla_buckets") is not None and not params.get("use_xla_jit"):
        return [f"'xla_buckets' is {params['xla_buckets']!r} but 'use_xla_jit' is not set: set both or neither. "
                "Padding batches to static shapes saves XLA compilations; without XLA, it only slows a run down."]
    return []


def _dtype_problems(params: dict[str, Any]) -> list[str]:
    dtype = params.get("dtype")
    if dtype is None:
        return []
    name = dtype if isinstance(dtype, str) else getattr(dtype, "name", None)
    name = name.removeprefix("tf.") if isinstance(name, str) else repr(dtype)
    if name in DTYPES:
        params["dtype"] = name
        return []
    shown = repr(dtype) if isinstance(dtype, str) else f"tf.{name}" if hasattr(dtype, "name") else name
    if name in ("float16", "bfloat16", "half"):
        better = "mixed_bfloat16" if name == "bfloat16" else "mixed_float16"
        return [f"'dtype' is {shown}, but training purely in half precision is unstable: use \"{better}\", which "
                "computes in half precision and keeps the weights in FP32."]
    return [f"'dtype' is {shown} but has to be one of " + ", ".join(repr(d) for d in DTYPES) + "."
            + did_you_mean(name, DTYPES)]


def _loss_scaling_problems(params: dict[str, Any]) -> list[str]:
    loss_scaling = params.get("loss_scaling")
    if loss_scaling is None:
        return []
    names = {name.lower(): name for name in LOSS_SCALERS}
    if isinstance(loss_scaling, str) and loss_scaling.lower() in names:
        params["loss_scaling"] = names[loss_scaling.lower()]
        return []
    number = _number(loss_scaling)
    if number is not None and number > 0 and math.isfinite(number):
        params["loss_scaling"] = number
        return []
    if isinstance(loss_scaling, type) or (isinstance(loss_scaling, str) and "." in loss_scaling and number is None):
        return []  # a user-defined scaler, or the name of one
    hint = did_you_mean(loss_scaling, LOSS_SCALERS) if isinstance(loss_scaling, str) else ""
    return [f"'loss_scaling' is {loss_scaling!r} but has to be a positive number, 'Backoff' or 'LogMax'.{hint}"]


def _number(value: Any) -> float | None:
    if isinstance(value, (int, float, str)) and not isinstance(value, bool):
        try:
            return float(value)
        except (ValueError, OverflowError):
            return None
    return None
