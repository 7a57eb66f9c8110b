"""The dtypes that benchmarks compare, and the models and the trainer of a config in one of them."""

from __future__ import annotations

import resource
from collections.abc import Callable, Mapping, Sequence
from typing import Any

_ENDLESS = 10 ** 9  # steps; the benchmark ends the run
_TF32 = {"float32": "False", "tf32": "True"}


def dtype_overrides(name: str, on_gpu: bool = False) -> list[str]:
    """Returns the config overrides of a setting's name, as on the command line.

    The name is a dtype, a dtype with a loss scaling (``mixed_float16/LogMax``), or ``mixed`` with the kinds of
    operations that are computed in bfloat16 on a CPU (``mixed/product+recurrence``, or ``mixed/none`` for none). On a
    GPU, ``float32`` also disables TF32, and ``tf32`` enables it.
    """
    dtype, _, more = name.partition("/")
    tf32 = [f"--tf32={_TF32[name]}"] if on_gpu and name in _TF32 else []
    if dtype == "mixed" and more:
        return ["--dtype=mixed", f"--mixed_choice={[] if more == 'none' else more.split('+')}"]
    return [f"--dtype={'float32' if dtype == 'tf32' else dtype}", *tf32, *([f"--loss_scaling={more}"] if more else [])]


def default_names(on_gpu: bool) -> list[str]:
    """Returns the dtypes worth comparing on a device; CPUs do not support TF32 and are slow in float16."""
    return ["float32", "tf32", "mixed_float16", "mixed_bfloat16"] if on_gpu else ["float32", "mixed_bfloat16"]


def prepare(config_file: str, mode: str, overrides: Sequence[str], values: Mapping[str, Any],
            endless: bool = False) -> tuple[dict[str, Any], Any]:
    """Makes the settings of this process that ``run.py`` would make for a config.

    Args:
      config_file: path of the config.
      mode: mode of the run.
      overrides: config values as on the command line; if a key is given twice, the last value wins.
      values: parameters that replace those of the config.
      endless: whether to train as with ``--benchmark``, without an end.

    Returns:
      (specs of the models by section, the run's runner).

    Raises:
      UserError: the config, the overrides or the data have a mistake.
    """
    from open_seq2seq.config.loader import load_config
    from open_seq2seq.config.overrides import parse_overrides
    from open_seq2seq.config.recipes import find_recipe
    from open_seq2seq.config.resolve import Benchmark, RunOptions, resolve
    from open_seq2seq.run.training_setup import describe_sections, set_up_process
    from open_seq2seq.runners import make_runner
    from open_seq2seq.runners.processor_speed import settle_precision

    config = resolve(load_config(find_recipe(config_file)), mode, parse_overrides(list(overrides), ["--config_file"]),
                     Benchmark(steps=_ENDLESS) if endless else None)
    specs = describe_sections(RunOptions(mode=mode, config=config, benchmark=endless))
    for spec in specs.values():
        spec.params.update(values)
    runner = make_runner(next(iter(specs.values())).params)
    set_up_process([spec.params for spec in specs.values()])
    return settle_precision(specs, runner), runner


def make_trainer(config_file: str, overrides: Sequence[str], hook: Callable[..., Any] | None = None) -> Any:
    """Makes the trainer of ``run.py --benchmark``, except that it prints and saves nothing.

    Args:
      config_file: path of a config with a training section.
      overrides: config values as on the command line.
      hook: the only hook of the training, called like a hook in a config.

    Raises:
      UserError: the config, the overrides or the data have a mistake.
    """
    from open_seq2seq.models.builder import build_model
    from open_seq2seq.training.loop.trainer import Trainer

    values = {"print_loss_steps": None, "print_bench_info_steps": None, "hooks": [hook] if hook else []}
    specs, runner = prepare(config_file, "train", overrides, values, endless=True)
    seed = specs["train"].params.get("random_seed") or 0
    trainer = Trainer(build_model(specs["train"], seed), None, runner, seed)
    trainer.synchronize()
    return trainer


def sample_batches(data_layer: Any, count: int) -> list[Any]:
    """Returns the example numbers of at most ``count`` batches, evenly spaced over an epoch sorted by length."""
    from open_seq2seq.data.batching import evaluation_plan

    plan = evaluation_plan(data_layer)
    count = min(count, len(plan))
    return [plan.batch((2 * number + 1) * len(plan) // (2 * count)) for number in range(count)]


def peak_megabytes(trainer: Any = None) -> float:
    """Returns the peak memory in MB of the first GPU if there is one, else of this process."""
    import tensorflow as tf

    if tf.config.list_logical_devices("GPU"):
        return tf.config.experimental.get_memory_info("GPU:0")["peak"] / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
