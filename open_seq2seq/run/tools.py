"""The commands beside modes and verbs: ``recipes``, ``script``, ``schema``, ``doctor`` and ``pack``."""

from __future__ import annotations

import itertools
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from open_seq2seq.config.data_note import SCHEMA_LINE, note_in
from open_seq2seq.config.loader import load_config
from open_seq2seq.config.names import plugins
from open_seq2seq.config.overrides import Override
from open_seq2seq.config.recipes import base_of, docstring_of, find_recipe, recipes
from open_seq2seq.run.run import Run
from open_seq2seq.utils import disk
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import UserError, did_you_mean
from open_seq2seq.utils.machine import GIB, available_bytes, cores_allowed, cpu_name, onednn_setting, speed_flags
from open_seq2seq.utils.script import ScriptParser
from open_seq2seq.utils.shipped import RECIPE, RECIPES, SCRIPTS, as_named, without_repository
from open_seq2seq.utils.tensorflow_import import import_tensorflow
from open_seq2seq.version import __version__

_INDENT = 15  # characters before what a recipe says
_YAML = (".yaml", ".yml")
PARTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "ctranslate2": ("exports for CTranslate2 and Argos Translate", ("ctranslate2",)),
    "litert": ("exports for LiteRT", ("ai-edge-litert", "ai-edge-quantizer")),
    "onnx": ("exports for ONNX Runtime and sherpa-onnx", ("onnxruntime", "tf2onnx")),
    "align": ("alignment of recordings with texts", ("pocketsphinx",)),
    "espeak": ("phonemes of espeak-ng", ("espeakng-loader", "phonemizer")),
    "mlflow": ("metrics in MLflow", ("mlflow-skinny", "alembic", "sqlalchemy")),
    "wandb": ("metrics in Weights & Biases", ("wandb",)),
    "numbers": ("texts with digits, in speech synthesis", ("num2words",)),
    "plots": ("pictures of alignments", ("matplotlib",)),
    "serve": ("the server of trained models", ("fastapi", "prometheus-client", "python-multipart", "uvicorn",
                                               "websockets")),
    "wyoming": ("voice assistants at the server", ("wyoming",)),
}
"""Extra of setup.py → (what it is for, the packages that it installs)."""
_OTHERS = {"kenlm": ("binary n-gram models of KenLM", "pip install kenlm"),
           "sounddevice": ("speech from the microphone", "pip install sounddevice"),
           "horovod": ("training in many processes", f"bash {SCRIPTS / 'install_horovod.sh'} {sys.executable}")}
_PACKAGES = ("keras", "numpy", "librosa", "sacrebleu", "safetensors", "sentencepiece")
_SECONDS = 0.5  # for each device and dtype: no new product starts after this time


def _parser(command: str, usage: str, description: str) -> ScriptParser:
    parser = ScriptParser(description)
    parser.prog, parser.usage = command, f"open_seq2seq {command} {usage}"
    return parser


def recipes_command(words: Sequence[str]) -> int:
    """Lists recipes, or copies one: ``recipes [WORD ...]``, ``recipes copy NAME [FILE]``."""
    parser = _parser("recipes", "[WORD ...]\n       open_seq2seq recipes copy NAME [FILE]",
                     "Lists the recipes with their data and, as far as they were measured, times and scores, or\n"
                     "copies one to a file of your own. Everywhere, --config_file=recipe:NAME names a recipe.")
    parser.add_argument("words", nargs="*", metavar="WORD", help="list only recipes that contain these words")
    chosen = parser.parse_args(list(words)).words
    if chosen[:1] != ["copy"]:
        return _list_recipes(chosen)
    if len(chosen) not in (2, 3):
        raise UserError("A recipe is copied by recipes copy NAME [FILE].")
    import_tensorflow()
    deco_print(f"Wrote {copy_recipe(*chosen[1:])}")
    return 0


def copy_recipe(name: str, file: str = "") -> str:
    """Writes a recipe to a file of its own.

    Args:
      name: name of the recipe, such as ``own-text``.
      file: the file to write. The text of a recipe without a base may be copied to a ``.py`` file; anything can be
        written as ``.yaml``. By default a file of the recipe's name in the working directory.

    Returns:
      The name of the file.

    Raises:
      UserError: there is no such recipe, or the file exists or has another ending.
    """
    source = Path(find_recipe(RECIPE + name.removeprefix(RECIPE)))
    # ``own-text`` computes the name of its base.
    variant = base_of(source) is not None or "\nbase_config" in source.read_text(encoding="utf-8")
    file = file or source.stem + (".yaml" if variant else ".py")
    if not file.endswith(_YAML) and (variant or not file.endswith(".py")):
        how = ".yaml: it is based on another recipe, and the values of both are written" if variant else ".yaml or .py"
        raise UserError(f"The copy of {name}, {file}, has to end in {how}.")
    if os.path.lexists(file):
        raise UserError(f"{file} already exists: give another name, or remove the file.")
    text = as_yaml(source) if file.endswith(_YAML) else source.read_text(encoding="utf-8")
    recipe = f"{RECIPE}{source.relative_to(RECIPES).with_suffix('').as_posix()}"
    with disk.writing(file, disk.always, alone=True) as opened:
        opened.write(without_repository(text).replace(f"--config_file={recipe}", f"--config_file={file}").encode())
    return file


def as_yaml(source: Path) -> str:
    """Returns a recipe, with the values of its bases, as YAML text that begins with its docstring.

    Raises:
      ConfigError: the recipe cannot be read.
    """
    from open_seq2seq.config.serialize import complete_yaml  # imports NumPy

    config = load_config(source)
    text = docstring_of(source)
    if not note_in(text) and config.data_note:
        text += f"\nData: {config.data_note}"
    lines = [f"# {line}".rstrip() for line in text.splitlines()]
    values = as_named(complete_yaml({"base_model": config.base_model, **config.sections}))
    return "\n".join([SCHEMA_LINE + lines[0], *lines[1:], "", values])


def _list_recipes(words: Sequence[str]) -> int:
    matches = [recipe for recipe in recipes() if all(word.lower() in " ".join(recipe).lower() for word in words)]
    if not matches:
        raise UserError(f"No recipe contains {' and '.join(map(repr, words))}: the command `open_seq2seq recipes` "
                        "lists all." if words else "This copy of the package has no recipes: install it again.")
    for task, group in itertools.groupby(matches, lambda recipe: recipe.task):
        sys.stdout.write(f"{task}\n")
        for recipe in group:
            facts = {"data": without_repository(recipe.data), "time": recipe.time, "score": recipe.score,
                     "published": recipe.published}
            sys.stdout.write(f"  {recipe.name}: {recipe.title}\n")
            sys.stdout.writelines(f"    {name + ':':<{_INDENT - 4}}{text}\n" for name, text in facts.items() if text)
    return 0


def script_command(words: Sequence[str]) -> int:
    """Runs a program of ``scripts/`` in place of this process, or lists them: ``script [NAME [argument ...]]``."""
    programs = {path.stem: path for path in sorted(SCRIPTS.glob("*.py"))}
    if not words or words[0] in ("-h", "--help"):
        sys.stdout.write("usage: open_seq2seq script NAME [argument ...]\n\nPrograms that prepare data and use trained "
                         "models; open_seq2seq script NAME --help describes one.\n\n")
        for name, path in programs.items():
            title = docstring_of(path).partition("\n\n")[0].replace("\n", " ")
            sys.stdout.write(f"  {name}: {title}\n")
        return 0
    name = words[0].removesuffix(".py")
    if name not in programs:
        hint = did_you_mean(name, programs) or " The command `open_seq2seq script` lists all."
        raise UserError(f"There is no script {name!r}.{hint}")
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, str(programs[name]), *words[1:]])


def schema_command(words: Sequence[str]) -> int:
    """Prints the JSON schema of YAML configs."""
    _parser("schema", "> config.schema.json", "Prints the JSON schema of YAML configs, by which editors complete and\n"
            "check them. The first line of a YAML config that the package writes names the file\n"
            "config.schema.json, which has to be beside it.").parse_args(list(words))
    import_tensorflow()
    from open_seq2seq.models.config_schema import config_schema

    sys.stdout.write(json.dumps(config_schema(), indent=1, ensure_ascii=False, allow_nan=False) + "\n")
    return 0


def doctor_command(words: Sequence[str]) -> int:
    """Prints versions, devices and their speeds, and the optional parts."""
    _parser("doctor", "", "Prints versions, devices with their speeds in products of matrices, and the optional\n"
            "parts with what is missing and how to get it.").parse_args(list(words))
    return doctor()


def pack_command(words: Sequence[str]) -> int:
    """Packs a trained model into one file: ``pack LOGDIR FILE``."""
    parser = _parser("pack", "LOGDIR FILE [--license=NAME] [--language CODE ...] [--dataset NAME ...]",
                     "Packs a trained model into one file: its checkpoint, the files that it needs, a model card, the\n"
                     "logdir's LICENSE and checksums. The commands that use a trained model (translate and the other\n"
                     "verbs, serve, export, --mode=eval and --mode=infer) read the file in place of the logdir.")
    parser.add_argument("logdir", metavar="LOGDIR", help="folder that training has written to")
    parser.add_argument("file", metavar="FILE", help="file to write, such as model.zip")
    parser.add_argument("--license", metavar="NAME", default="", help="licence for the card, such as apache-2.0")
    parser.add_argument("--language", metavar="CODE", nargs="+", default=[], help="languages for the card, such as en")
    parser.add_argument("--dataset", metavar="NAME", nargs="+", default=[], help="data sets on the Hugging Face Hub")
    chosen = parser.parse_args(list(words))
    logdir = Override(None, ("logdir",), chosen.logdir, chosen.logdir)
    path = Run.of_command(None, [logdir], False, ()).pack(chosen.file, license=chosen.license,
                                                          languages=chosen.language, datasets=chosen.dataset)
    deco_print(f"Wrote {path} ({path.stat().st_size:,} bytes)")
    return 0


def doctor() -> int:
    """Prints what this machine and this installation have; returns 0, or 2 if TensorFlow cannot be used."""
    try:
        import_tensorflow()
        problem = ""
    except UserError as error:
        problem = f"TensorFlow: {error}"
    lines = [_versions(), problem] if problem else [_versions(), *_devices()]
    for line in (*lines, *_parts(), *_plugins()):
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
    return 2 if problem else 0


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _versions() -> str:
    tf = sys.modules.get("tensorflow")
    packages = {"tensorflow": getattr(tf, "__version__", None), **{name: _version(name) for name in _PACKAGES}}
    return ", ".join([f"open-seq2seq {__version__}", f"Python {platform.python_version()}", platform.platform(),
                      *(f"{name} {number or 'missing'}" for name, number in packages.items())])


def _devices() -> Iterator[str]:
    import tensorflow as tf

    memory = available_bytes()
    flags = " ".join(speed_flags()) or "unknown instructions"
    yield f"Processor: {cpu_name()} with {flags}; cores to use: {cores_allowed()}"
    yield f"oneDNN: {onednn_setting()}" + ("" if memory is None else f"; memory available: {memory / GIB:.1f} GiB")
    yield f"Products on CPU:0: {_speeds('CPU:0', ('float32', 'bfloat16'), 2048)}"
    gpus = tf.config.list_physical_devices("GPU")
    for number, gpu in enumerate(gpus):
        details = tf.config.experimental.get_device_details(gpu)
        yield f"GPU:{number}: {details.get('device_name', 'unknown')}"
        tf32 = " (float32 in TensorFloat-32)" if tf.config.experimental.tensor_float_32_execution_enabled() else ""
        yield f"Products on GPU:{number}: {_speeds(f'GPU:{number}', ('float32', 'bfloat16', 'float16'), 4096)}{tf32}"
    if not gpus:
        unseen = os.path.isdir("/proc/driver/nvidia/gpus")
        yield "GPUs: none" + (" that TensorFlow sees, but this machine has one of NVIDIA: run `pip install "
                              "'open-seq2seq[gpu]'`." if unseen else "")


def _speeds(device: str, dtypes: tuple[str, ...], size: int) -> str:
    """Returns the speeds of products of two square matrices in words, by dtype."""
    import tensorflow as tf

    try:
        return ", ".join(f"{name} {product_speed(device, name, size):,.0f} GFLOP/s" for name in dtypes)
    except tf.errors.OpError as error:
        return f"cannot be computed: {str(error).splitlines()[0]}"


def product_speed(device: str, dtype: str, size: int, seconds: float = _SECONDS) -> float:
    """Returns the highest speed of a product of two matrices ``[size, size]`` on a device, in GFLOP/s.

    Args:
      device: such as ``CPU:0``.
      dtype: such as ``bfloat16``.
      size: number of rows and of columns.
      seconds: no new product starts after this time; two are always computed, the first of which does not count.
    """
    import tensorflow as tf

    with tf.device(device):
        matrix = tf.cast(tf.reshape(tf.range(size * size) % 7, [size, size]), dtype)
        _seconds_of(matrix, tf)  # with the time of loading what computes it
        start = time.perf_counter()
        least = _seconds_of(matrix, tf)
        while time.perf_counter() - start < seconds:
            least = min(least, _seconds_of(matrix, tf))
    return 2.0 * size**3 / max(least, 1e-9) / 1e9


def _seconds_of(matrix: Any, tf: Any) -> float:
    begin = time.perf_counter()
    tf.matmul(matrix, matrix)[0, 0].numpy()  # reading a value waits for the product
    return time.perf_counter() - begin


def _parts() -> Iterator[str]:
    yield "Optional parts:"
    for extra, (what, packages) in PARTS.items():
        yield _part(what, packages, f"pip install 'open-seq2seq[{extra}]'")
    for package, (what, command) in _OTHERS.items():
        yield _part(what, (package,), command)


def _plugins() -> Iterator[str]:
    """Yields lines about the plugins, none of which is imported."""
    names: dict[str, list[str]] = {}
    for package, number, entry in plugins():
        names.setdefault(f"{package} {number}", []).append(entry.name)
    yield "Plugins:" if names else "Plugins: none"
    for package, of_package in names.items():
        yield f"  {package}: {', '.join(of_package)}"


def _part(what: str, packages: tuple[str, ...], command: str) -> str:
    versions = {package: _version(package) for package in packages}
    missing = [package for package, number in versions.items() if number is None]
    if missing:
        return f"  {what}: {' and '.join(missing)} missing; {command}"
    return f"  {what}: {', '.join(f'{package} {number}' for package, number in versions.items())}"


TOOLS: dict[str, Callable[[Sequence[str]], int]] = {"recipes": recipes_command, "script": script_command,
                                                    "schema": schema_command, "doctor": doctor_command,
                                                    "pack": pack_command}
"""Command → the function that runs it with its arguments, and returns the exit code."""
