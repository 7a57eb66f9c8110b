"""The dtypes that benchmarks compare, and the trainer of a config in one of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

ENDLESS = 10 ** 9  # steps; the benchmark ends the run
_TF32 = {"float32": "False", "tf32": "True"}


class Setting(NamedTuple):
    """One row of a table.

    Attributes:
      name: ``float32``, ``tf32``, ``mixed``, ``mixed_float16``, ``mixed_bfloat16``; see ``dtype_overrides`` for more.
      overrides: the setting's config overrides, as on the command line.
    """

    name: str
    overrides: tuple[str, ...]


def make_setting(name: str, on_gpu: bool) -> Setting:
    """Returns the setting of a name; on a GPU, float32 also disables TF32, and tf32 enables it."""
    overrides = dtype_overrides("float32" if name == "tf32" else name)
    if on_gpu and name in _TF32:
        overrides.append(f"--tf32={_TF32[name]}")
    return Setting(name, tuple(overrides))


def dtype_overrides(name: str) -> list[str]:
    """Returns the config overrides of a setting's name.

    The name is a dtype, a dtype with a loss scaling (``mixed_float16/LogMax``), or ``mixed`` with the kinds of
    operations that are computed in bfloat16 on a CPU (``mixed/product+recurrence``, or ``mixed/none`` for none).
    """
    dtype, _, more = name.partition("/")
    if not more:
        return [f"--dtype={dtype}"]
    if dtype == "mixed":
        return ["--dtype=mixed", f"--mixed_choice={[] if more == 'none' else more.split('+')}"]
    return [f"--dtype={dtype}", f"--loss_scaling={more}"]


def default_names(on_gpu: bool) -> tuple[str, ...]:
    """Returns the dtypes worth comparing on a device; CPUs do not support TF32 and are slow in float16."""
    return ("float32", "tf32", "mixed_float16", "mixed_bfloat16") if on_gpu else ("float32", "mixed_bfloat16")


def make_trainer(config_file: str, overrides: Sequence[str], hook: Callable[..., Any] | None = None) -> Any:
    """Makes the trainer of ``run.py --benchmark``, except that it prints and saves nothing.

    Args:
      config_file: path of a config with a training section.
      overrides: config values as on the command line; if a key is given twice, the last value wins.
      hook: the only hook of the training, called like a hook in a config.

    Raises:
      UserError: the config, the overrides or the data have a mistake.
    """
    from open_seq2seq.config.loader import load_config
    from open_seq2seq.config.options import RunOptions
    from open_seq2seq.config.overrides import parse_overrides
    from open_seq2seq.config.resolve import Benchmark, resolve
    from open_seq2seq.models.builder import build_model
    from open_seq2seq.run.process_settings import set_up_process
    from open_seq2seq.run.training_setup import describe_sections
    from open_seq2seq.runners import make_runner
    from open_seq2seq.runners.processor_speed.choice import settle_precision
    from open_seq2seq.training.loop.trainer import Trainer

    values = parse_overrides(list(overrides), ["--config_file"])
    config = resolve(load_config(config_file), "train", values, Benchmark(steps=ENDLESS))
    spec = describe_sections(RunOptions(mode="train", config=config, benchmark=True))["train"]
    spec.params.update(print_loss_steps=None, print_bench_info_steps=None, hooks=[hook] if hook else [])
    runner = make_runner(spec.params)
    set_up_process([spec.params])
    spec = settle_precision({"train": spec}, runner)["train"]
    seed = spec.params.get("random_seed") or 0
    trainer = Trainer(build_model(spec, seed), None, runner, seed)
    trainer.synchronize()
    return trainer


def compute_type(trainer: Any) -> str:
    """Returns the name of the dtype in which a trainer's model computes."""
    return trainer.model.precision.compute.name


def sample_batches(data_layer: Any, count: int) -> list[Any]:
    """Returns the example numbers of at most ``count`` batches, evenly spaced over an epoch sorted by length."""
    from open_seq2seq.data.batching import evaluation_plan

    plan = evaluation_plan(data_layer)
    count = min(count, len(plan))
    return [plan.batch((2 * number + 1) * len(plan) // (2 * count)) for number in range(count)]
