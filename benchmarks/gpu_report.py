"""Measures a GPU: numeric tests, training steps of six networks in each dtype with and without XLA, loss curves.

    bash benchmarks/gpu_report.sh --results h100.json     # with the installation
    python benchmarks/gpu_report.py --results h100.json --tables

The most important figures come first. Each measurement is written to the results file (JSON) when it is complete, and
one that fails is written with its error. After ``--minutes`` the program stops; the same command continues with the
measurements that the file does not contain. The tables are made from the file, by ``--tables`` without measuring.

The data are generated. All examples of a network have the same length, so that nothing is padded and XLA compiles one
program. Steps include the input pipeline. Launches are counted by TensorFlow's profiler, on a GPU kernels and copies.
Accuracy is that of ``precision_curves.py`` on the toy task of reversing letters.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from benchmarks.measuring.processes import Failure, call
from benchmarks.measuring.programs import describe_machine, make_parser, markdown_table, run_program
from benchmarks.measuring.settings import default_names, dtype_overrides, peak_megabytes
from benchmarks.measuring.small_models import base_params, write_config
from benchmarks.measuring.trainings import Training
from benchmarks.precision_curves import REFERENCE, Curve, Curves, Plan, format_table, train_curve
from benchmarks.profile_step import profiled_updates
from benchmarks.training_steps import Network, gnmt, lm, parse_arguments, tacotron, write_noise
from open_seq2seq.utils import disk
from open_seq2seq.utils.errors import UserError

ROOT = Path(__file__).resolve().parents[1]
TRAINING, CURVE, XLA = "training", "curve", " with XLA"
TESTS = tuple(f"tests/unit/{name}" for name in (
    "parts/rnn", "parts/test_cross_entropy.py", "parts/test_component.py", "decoding/test_sampling.py",
    "decoders/test_transformer_decoder.py", "optimizers/test_composition.py", "models/test_size_check.py"))
"""The numeric tests that have failed on a GPU, or that compute otherwise there."""

_RECIPES = ROOT / "example_configs"
_MAIN = "mixed_float16"
_SEEDS = {REFERENCE: (1, 2, 3)}  # of other settings: the first of these
_WINDOW = 10  # updates over which losses are averaged
Measurements = dict[str, dict[str, Any]]
"""Figures, or an ``error``, by name of the measurement."""


class Case(NamedTuple):
    """A network to train.

    Attributes:
      config: path of the config.
      overrides: config values as on the command line.
      target_tokens: number of target tokens of a batch; 0 if the network does not translate.
    """

    config: str
    overrides: list[str]
    target_tokens: int = 0


def write_cases(folder: Path, tiny: bool) -> dict[str, Case]:
    """Writes data and configs to an existing folder; returns the networks by name, the most important one first.

    Args:
      folder: an existing folder.
      tiny: whether networks and batches are tiny, to try the program without a GPU.
    """
    translation = ["gnmt", *(["--hidden=8", "--ids=32", "--batch=4", "--length=4"] if tiny else
                             ["--hidden=1024", "--layers=4", "--ids=32768", "--batch=256"])]
    language = ["lm", *(["--hidden=8", "--ids=32", "--batch=2", "--length=4"] if tiny else
                        ["--hidden=1024", "--batch=128"])]
    speech = ["tacotron", *(["--hidden=8", "--batch=1", "--length=4", "--frames=6"] if tiny else
                            ["--hidden=1024", "--batch=12", "--frames=400"])]
    generated = {"GNMT, 4+4 layers of 1,024": _synthetic_case(folder, gnmt, translation, 2 if tiny else 128),
                 "LSTM language model, 2 layers of 1,024": _synthetic_case(folder, lm, language),
                 "Tacotron 2": _synthetic_case(folder, tacotron, speech, 2 if tiny else 48)}
    return {"Transformer-big": _transformer(folder / "gnmt", tiny), "Jasper 10x5": _jasper(folder, tiny),
            "ResNet-50": _resnet(folder, tiny), **generated}


def _synthetic_case(folder: Path, make: Callable[[Path, argparse.Namespace], Network], words: list[str],
                    batch: int = 0) -> Case:
    """Returns a network of ``training_steps.py``, with batches of ``batch`` examples instead of those of its data."""
    options, place = parse_arguments(words), folder / words[0]
    place.mkdir()
    network = make(place, options)
    config = write_config(place / "config.py", network.base_model, {
        "base_params": {**base_params(place, batch or options.batch), **network.params}})
    return Case(str(config), [], batch * options.length if make is gnmt else 0)


def _transformer(text: Path, tiny: bool) -> Case:
    """Returns the recipe of Transformer-big on the sentences that were made for GNMT."""
    sizes = [f"--{part}_params/{name}={value}" for part, layers in (("encoder", "encoder_layers"),
                                                                    ("decoder", "num_hidden_layers"))
             for name, value in {"hidden_size": 8, "num_heads": 2, "filter_size": 16, layers: 1}.items()]
    rows, length = (2, 4) if tiny else (256, 32)
    layer, train = "--data_layer_params", "--train_params/data_layer_params"
    return Case(str(_RECIPES / "text2text/en-de/transformer-big.py"), [
        f"{layer}/src_vocab_file={text}/vocab.txt", f"{layer}/tgt_vocab_file={text}/vocab.txt",
        f"{layer}/special_tokens_already_in_vocab=False", f"{layer}/use_start_token=False",
        f"{train}/source_file={text}/train.source", f"{train}/target_file={text}/train.target",
        f"--batch_size_per_gpu={rows}", *(sizes if tiny else [])], rows * length)


def _jasper(folder: Path, tiny: bool) -> Case:
    """Returns the recipe of Jasper 10x5 on recordings of noise of 16 seconds."""
    place, rows, rate = folder / "jasper", *((2, 16_000) if tiny else (32, 16_000))
    place.mkdir()
    texts = write_noise(place, 2 * rows, rate * (1 if tiny else 16), rate, 4 if tiny else 200)
    lines = [f"wavs/{number}.wav,1,{text}\n" for number, text in enumerate(texts)]
    (place / "clips.csv").write_text("wav_filename,wav_filesize,transcript\n" + "".join(lines), encoding="utf-8")
    small = {"type": "conv1d", "repeat": 2, "kernel_size": [3], "stride": [2], "num_channels": 8, "padding": "SAME",
             "dilation": [1], "residual": False}
    layer, train = "--data_layer_params", "--train_params/data_layer_params"
    return Case(str(_RECIPES / "speech2text/jasper10x5_LibriSpeech.py"), [
        f"{layer}/vocab_file={place}/vocab.txt", f"{layer}/cache_features=True", f"{layer}/cache_dir={place}/features",
        f"{train}/dataset_files={[str(place / 'clips.csv')]}", f"{train}/augmentation=None",
        f"--batch_size_per_gpu={rows}", *([f"--encoder_params/convnet_layers={[small]}"] if tiny else [])])


def _resnet(folder: Path, tiny: bool) -> Case:
    """Returns the recipe of ResNet-50 on copies of one JPEG file in the folders of ImageNet's classes."""
    import tensorflow as tf

    from open_seq2seq.data.image2label.image_files import on_host
    from open_seq2seq.data.image2label.toy_images import draw_shapes

    classes, rows, count, side = (4, 2, 4, 40) if tiny else (1000, 128, 1024, 256)
    content = tf.io.encode_jpeg(on_host(draw_shapes(1, 0, side)[0][0])).numpy()
    for number in range(count):
        place = folder / "images/train" / f"n{number % classes:04d}"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{number}.jpg").write_bytes(content)
    layer = "--data_layer_params"
    return Case(str(_RECIPES / "image2label/resnet-50-v2.py"), [
        f"{layer}/data_dir={folder}/images", f"{layer}/num_classes={classes}", f"--batch_size_per_gpu={rows}",
        *([f"{layer}/image_size=32", f"--decoder_params/output_dim={classes}", "--encoder_params/resnet_size=18",
           "--encoder_params/first_num_filters=4"] if tiny else [])])


def write_letters(folder: Path, tiny: bool) -> Case:
    """Writes the toy task of reversing letters to an existing folder; returns its recipe."""
    from scripts.create_toy_data import main

    main([f"--output_dir={folder}", *(["--train_size=32", "--dev_size=4", "--test_size=4", "--max_length=8"]
                                      if tiny else [])])
    files = {f"--data_layer_params/{side}_vocab_file": f"vocab/{name}"
             for side, name in (("src", "source"), ("tgt", "target"))}
    files |= {f"--{section}_params/data_layer_params/{side}_file": f"{part}/{side}"
              for section, part in (("train", "train"), ("eval", "dev")) for side in ("source", "target")}
    return Case(str(_RECIPES / "text2text/toy-reversal/nmt-reversal-TT.py"), [
        *(f"{key}={folder}/{name}.txt" for key, name in files.items()), *(["--batch_size_per_gpu=8"] if tiny else [])])


def run_tests(names: tuple[str, ...], processes: int) -> dict[str, Any]:
    """Runs tests in so many processes; returns the numbers of those that passed and that were skipped, and failures.

    Raises:
      Failure: pytest could not run.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tests.xml"
        done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={path}",
                               f"--numprocesses={processes}", "--dist=loadfile", "--max-worker-restart=0", *names],
                              cwd=ROOT, capture_output=True, text=True, check=False)
        cases = list(ElementTree.parse(path).getroot().iter("testcase")) if path.exists() else []
    if not cases:
        raise Failure(f"pytest ended with code {done.returncode} and ran no test: see python -m pytest {names[0]}")
    failed = {f"{case.get('classname')}::{case.get('name')}": (problem.get("message") or "").partition("\n")[0]
              for case in cases for problem in case if problem.tag in ("failure", "error")}
    skipped = sum(case.find("skipped") is not None for case in cases)
    return {"passed": len(cases) - skipped - len(failed), "skipped": skipped, "failed": failed}


def train_in(dtype: str, case: Case, on_gpu: bool, options: argparse.Namespace) -> dict[str, Any]:
    """Trains a network in a dtype, ``mixed_float16`` or ``mixed_float16 with XLA``; returns its figures.

    Raises:
      Failure: the training failed.
    """
    name = dtype.removesuffix(XLA)
    overrides = [*case.overrides, *dtype_overrides(name, on_gpu), f"--use_xla_jit={dtype.endswith(XLA)}"]
    with Training(name, case.config, overrides, options.warmup) as training:
        for _ in range(options.rounds):
            training.run_round(options.steps)
        peak = training.ask(peak_megabytes)  # before the profiler
        launches, busy = training.ask(profiled_updates, options.steps)
    steps = [1e3 * done.step_seconds for done in training.rounds]
    milliseconds = {"median": statistics.median(steps), "fastest": min(steps), "slowest": max(steps)}
    figures = {"compute": training.about.compute, "first_step_s": training.first_step, "step_ms": milliseconds,
               "objects_per_s": statistics.median(done.speed for done in training.rounds),
               "objects": training.about.object_name, "peak_mb": peak, "launches": launches, "launches_ms": busy,
               "input_wait": statistics.fmean(done.input_wait for done in training.rounds)}
    return figures | ({"target_tokens_per_s": 1e3 * case.target_tokens / milliseconds["median"]}
                      if case.target_tokens else {})


def plan_measurements(cases: dict[str, Case], letters: Case, on_gpu: bool,
                      options: argparse.Namespace) -> dict[str, Callable[[], dict[str, Any]]]:
    """Returns the measurements by name, the most important one first."""
    dtypes = default_names(on_gpu)
    main = _MAIN if on_gpu else dtypes[-1]
    first, *others = cases
    trainings = [(first, dtype) for dtype in (main, main + XLA, *dtypes)]
    trainings += [(name, dtype) for name in others for dtype in (main, REFERENCE)]
    late = [(name, dtype) for dtype in (main + XLA, *dtypes, *(dtype + XLA for dtype in dtypes)) for name in cases]
    tests = functools.partial(run_tests, TESTS[-1:] if options.tiny else TESTS, 1 if options.tiny else 8)
    plan: dict[str, Callable[[], dict[str, Any]]] = {"tests": tests}
    for name, dtype in trainings:
        plan[f"{TRAINING}/{name}/{dtype}"] = functools.partial(train_in, dtype, cases[name], on_gpu, options)
    for dtype in (REFERENCE, *(dtype for dtype in dtypes if dtype != REFERENCE)):
        for seed in _SEEDS.get(dtype, _SEEDS[REFERENCE][:1]):
            plan[f"{CURVE}/{dtype}/{seed}"] = functools.partial(
                _curve, letters, [*letters.overrides, *dtype_overrides(dtype, on_gpu)], seed, options.updates)
    for name, dtype in late:
        plan.setdefault(f"{TRAINING}/{name}/{dtype}",
                        functools.partial(train_in, dtype, cases[name], on_gpu, options))
    return {name: measure for name, measure in plan.items() if re.search(options.only, name)}


def _curve(case: Case, overrides: list[str], seed: int, updates: int) -> dict[str, Any]:
    return call(train_curve, case.config, overrides, seed, [updates])._asdict()


class Late(Exception):
    """The time for a measurement is over."""


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Context manager that raises ``Late`` after so many seconds."""
    def stop(*_: Any) -> None:
        raise Late

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def measure_missing(plan: dict[str, Callable[[], dict[str, Any]]], measurements: Measurements,
                    save: Callable[[], None], seconds: float, most: float) -> list[str]:
    """Makes the measurements that are missing, until the time is over; returns the names of those still missing.

    Args:
      plan: the measurements by name.
      measurements: what has been measured; receives the new measurements. An error is one, too.
      save: called after each measurement.
      seconds: the time for all.
      most: the longest time for one.
    """
    end = time.monotonic() + seconds
    for name in [name for name in plan if name not in measurements]:
        start = time.monotonic()
        if start >= end:
            break
        try:
            with time_limit(min(most, end - start)):
                result = plan[name]()
        except Late:
            if end - start < most:  # it had less time than others
                break
            result = {"error": f"not complete after {most:.0f} s"}
        except Exception as error:  # the next measurement may work
            result = {"error": (str(error).strip().splitlines() or [repr(error)])[-1]}
        measurements[name] = {**result, "seconds": time.monotonic() - start}
        save()
        print(f"{name}: {result.get('error') or 'measured'} ({time.monotonic() - start:.0f} s)", file=sys.stderr,
              flush=True)
    return [name for name in plan if name not in measurements]


def format_tables(results: dict[str, Any]) -> str:
    """Returns the tables of a results file as Markdown."""
    measurements: Measurements = results["measurements"]
    parts = [_tests_table(measurements["tests"])] if "tests" in measurements else []
    trainings = {name: figures for name, figures in measurements.items() if name.startswith(TRAINING)}
    curves = {name: figures for name, figures in measurements.items() if name.startswith(CURVE)}
    return "\n\n".join([*parts, *([_trainings_table(trainings)] if trainings else []), *_curves_tables(curves)])


def _tests_table(figures: dict[str, Any]) -> str:
    if "error" in figures:
        return f"The tests did not run: {figures['error']}"
    rows = [[f"`{name}`", message.replace("|", "\\|")] for name, message in figures["failed"].items()]
    counts = f"Tests: {figures['passed']} passed, {len(rows)} failed, {figures['skipped']} skipped."
    return counts + (f"\n\n{markdown_table(['failed', 'error'], rows)}" if rows else "")


_Cell = Callable[[dict[str, Any]], str]
_COLUMNS: dict[str, tuple[str, _Cell]] = {  # by title: the figure without which there is no cell, and the cell
    "step ms (median of rounds)": ("step_ms", lambda it: f"{it['step_ms']['median']:,.1f}"),
    "fastest–slowest round ms": ("step_ms", lambda it: "{fastest:,.1f}–{slowest:,.1f}".format(**it["step_ms"])),
    "speed": ("objects_per_s", lambda it: f"{it['objects_per_s']:,.0f} {it['objects']}/s"),
    "target tokens/s": ("target_tokens_per_s", lambda it: f"{it['target_tokens_per_s']:,.0f}"),
    f"against {REFERENCE}": ("ratio", lambda it: f"{it['ratio']:.2f}×"),
    "peak MB": ("peak_mb", lambda it: f"{it['peak_mb']:,.0f}"),
    "launches": ("launches", lambda it: f"{it['launches']:,.0f}"),
    "ms in them": ("launches_ms", lambda it: f"{it['launches_ms']:,.1f}"),
    "first step s": ("first_step_s", lambda it: f"{it['first_step_s']:.1f}"),
    "input wait": ("input_wait", lambda it: f"{it['input_wait']:.1%}")}


def _trainings_table(trainings: Measurements) -> str:
    """Returns the table of training steps, with the columns for which there are figures; networks stay together."""
    of_networks: dict[str, Measurements] = {}
    for name, figures in trainings.items():
        _, network, dtype = name.split("/")
        of_networks.setdefault(network, {})[dtype] = figures
    for of_dtypes in of_networks.values():
        reference = of_dtypes.get(REFERENCE, {}).get("objects_per_s")
        of_dtypes |= {dtype: {**figures, "ratio": figures["objects_per_s"] / reference}
                      for dtype, figures in of_dtypes.items() if reference and "error" not in figures}
    every = [figures for of_dtypes in of_networks.values() for figures in of_dtypes.values()]
    columns = {title: how for title, how in _COLUMNS.items() if any(how[0] in figures for figures in every)}
    rows = []
    for network, of_dtypes in of_networks.items():
        for dtype, figures in of_dtypes.items():
            cells = [cell(figures) if key in figures else "–" for key, cell in columns.values()]
            if "error" in figures:
                cells = [figures["error"].replace("|", "\\|"), *cells[1:]]
            rows.append([network, dtype, *cells])
    return markdown_table(["network", "dtype", *columns], rows)


def _curves_tables(measurements: Measurements) -> Iterator[str]:
    """Yields the table of the settings whose curves are complete, if the reference is, and the errors of the others."""
    curves: Curves = {}
    for name, figures in measurements.items():
        _, setting, seed = name.split("/")
        if "error" in figures:
            yield f"Losses of {setting} with seed {seed}: {figures['error']}"
        else:
            validation = {int(update): loss for update, loss in figures["validation"].items()}
            curves.setdefault(setting, {})[int(seed)] = Curve(figures["train"], validation, figures["skipped"])
    seeds = curves.get(REFERENCE, {})
    if len(seeds) > 1:
        plans = [Plan(setting, max(next(iter(runs.values())).validation), tuple(runs))
                 for setting, runs in curves.items() if runs.keys() <= seeds.keys()]
        yield format_table(plans, curves, min(_WINDOW, plans[0].updates))


def read_results(path: Path, machine: str, tiny: bool) -> dict[str, Any]:
    """Returns the contents of a results file, or those of a new one.

    Raises:
      UserError: the file is of another machine or of other sizes.
    """
    if not path.exists():
        return {"machine": machine, "tiny": tiny, "measurements": {}}
    results = json.loads(path.read_text(encoding="utf-8"))
    if (results["machine"], results["tiny"]) != (machine, tiny):
        raise UserError(f"{path} contains figures of another machine or of other sizes: choose another --results.")
    return results


def write_results(path: Path, results: dict[str, Any]) -> None:
    """Writes a results file, or replaces it."""
    with disk.writing(path, disk.always) as out:
        out.write(f"{json.dumps(results, indent=1)}\n".encode())


def main(argv: list[str]) -> None:
    """Measures what is missing, and prints the tables."""
    parser = make_parser(__doc__)
    add = parser.add_argument
    add("--results", type=Path, default=Path("gpu-report.json"), help="the results file (default: %(default)s)")
    add("--tables", action="store_true", help="print the tables of the results file without measuring")
    add("--minutes", type=float, default=8.0, help="the time for all measurements (default: %(default)s)")
    add("--limit", type=float, default=120.0, help="longest time for a measurement in seconds (default: %(default)s)")
    add("--only", default="", help="regular expression; only measurements whose names contain it are made")
    add("--tiny", action="store_true", help="tiny networks and a few updates, to try the program")
    options = parser.parse_args(argv)
    if options.tables:
        if not options.results.exists():
            raise UserError(f"{options.results} does not exist: measure first, without --tables.")
        print(format_tables(json.loads(options.results.read_text(encoding="utf-8"))))
        return
    options.warmup, options.rounds, options.steps, options.updates = (1, 2, 1, 4) if options.tiny else (8, 3, 8, 300)
    start, (machine, gpus) = time.monotonic(), describe_machine()
    results = read_results(options.results, machine, options.tiny)
    with tempfile.TemporaryDirectory(prefix="os2s-gpu-report-") as folder:
        for name in ("cases", "letters"):
            (Path(folder) / name).mkdir()
        cases = call(write_cases, Path(folder) / "cases", options.tiny)
        letters = call(write_letters, Path(folder) / "letters", options.tiny)
        plan = plan_measurements(cases, letters, gpus > 0, options)
        missing = measure_missing(plan, results["measurements"], lambda: write_results(options.results, results),
                                  60.0 * options.minutes - (time.monotonic() - start), options.limit)
    print(f"* {machine}\n\n{format_tables(results)}")
    if missing:
        print(f"\nNot measured yet; the same command continues: {'; '.join(missing)}")


if __name__ == "__main__":
    run_program(main)
