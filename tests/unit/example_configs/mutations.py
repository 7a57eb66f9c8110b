"""Recipes on toy data with one value changed to something hostile."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sentencepiece

from open_seq2seq.config.loader import ConfigFile, load_config
from open_seq2seq.config.merge import copy_nested, merge_params
from open_seq2seq.config.names import resolve_name
from open_seq2seq.config.overrides import parse_overrides
from open_seq2seq.config.resolve import resolve
from open_seq2seq.data.speech2text.toy_speech import write_toy_speech
from open_seq2seq.models.builder import ModelSpec, check_model, describe_model
from open_seq2seq.optimizers import OPTIMIZERS, POLICIES, BackoffScaler, Larc, LogMaxScaler
from open_seq2seq.utils.errors import ConfigError

RECIPES = Path(__file__).parents[3] / "example_configs"
# Data layers whose files ToyData makes.
DATA_LAYERS = ("ParallelTextDataLayer", "TransformerDataLayer", "Speech2TextDataLayer")
TOYS = (RECIPES / "text2text/toy-reversal/nmt-reversal-TT.py", RECIPES / "speech2text/toy-w2l.py")

# As they are typed on a command line.
TYPED = ["-1", "0", "1", "1e30", "-1e30", "nan", "inf", "-inf", "", "null", "[]", "{}", str(10**21), "1e400", "0.5",
         "true", "../../etc/passwd", "x" * 100_000, "[1, 2]", "[null]", "{a: 1}", "{1: 2}", "os.system", "a/b.py:C",
         "\u00e9\u4e2d", "[[[]]]", "'1'", "%s%n", "(", "*", "[.nan]"]
# And as a config file can hold them besides.
HELD = [-1, 0, 1, -1.0, 0.0, 1e30, math.nan, math.inf, -math.inf, "", None, [], {}, 10**21, 10**400, "\0", "a\0b",
        "../../etc/passwd", "/dev/null", "x" * 100_000, True, False, [1, 2], [None], [math.nan], {"a": 1}, {1: 2},
        (1, 2), object(), object, len, b"bytes", 1j, {1, 2}, 2**31, 2**63, "nan", "é中", -0.5, 1.5, ["\0"], [[]], [-1],
        [0], [10**21]]


@dataclass(frozen=True)
class Mutation:
    """One changed value.

    Attributes:
      recipe: the config file.
      section: whose parameters are looked at: ``train``, ``eval`` or ``infer``.
      path: of the value; numbers are places in lists.
      value: what it becomes.
      typed: whether it is given on the command line, as text.
    """

    recipe: Path
    section: str
    path: tuple[Any, ...]
    value: Any
    typed: bool

    def __repr__(self) -> str:
        value = repr(self.value)
        return (f"{self.recipe.stem}, {self.section}: {'--' if self.typed else ''}{'/'.join(map(str, self.path))}="
                f"{value if len(value) < 60 else value[:60] + '…'}")


def recipes_on_toy_data() -> list[Path]:
    """Returns the recipes of translation and speech recognition, whose data ``ToyData`` replaces."""
    found = []
    for recipe in sorted(RECIPES.rglob("*.py")):
        layer = load_config(recipe).sections["base_params"].get("data_layer")
        if layer in DATA_LAYERS:
            found.append(recipe)
    return found


class ToyData:
    """Files that the recipes of ``recipes_on_toy_data`` can read.

    Args:
      folder: where they are made.
    """

    def __init__(self, folder: Path) -> None:
        write_toy_speech(str(folder), {"train": 4}, words=(2, 2), rate=16000)
        (folder / "letters.txt").write_text("\n".join(" abcdefghijklmnopqrstuvwxyz'") + "\n", encoding="utf-8")
        (folder / "tokens.txt").write_text("\n".join(["<PAD>", "</S>", "<S>", "<UNK>", *"abcdef"]) + "\n")
        (folder / "plain.txt").write_text("\n".join("abcdef") + "\n")
        (folder / "text").write_text("a b c\nd e f a\nb c\nf f e d\n" * 4, encoding="utf-8")
        sentencepiece.SentencePieceTrainer.train(
            input=str(folder / "text"), model_prefix=str(folder / "pieces"), vocab_size=14, hard_vocab_limit=False,
            pad_id=0, eos_id=1, bos_id=2, unk_id=3, minloglevel=2)
        self._folder = folder

    def put_into(self, file: ConfigFile) -> ConfigFile:
        """Returns a config with this data in place of its own, and without a logdir."""
        speech = "vocab_file" in file.sections["base_params"]["data_layer_params"]
        sections = copy_nested(file.sections)
        folder = str(self._folder)
        for section in sections.values():
            params = section.setdefault("data_layer_params", {})
            if speech:
                params.update(dataset_files=[f"{folder}/train.csv"], audio_root=None, cache_features=False)
            else:
                params.update(source_file=f"{folder}/text", target_file=f"{folder}/text")
        base = sections["base_params"]
        base.update(logdir=None, batch_size_per_gpu=2)
        if speech:
            base["data_layer_params"]["vocab_file"] = f"{folder}/letters.txt"
        elif "tokenizer" in base["data_layer_params"]:
            base["data_layer_params"]["tokenizer"] = {"type": "sentencepiece", "model": f"{folder}/pieces.model"}
        else:
            given = base["data_layer_params"].get("special_tokens_already_in_vocab", True)
            vocabulary = f"{folder}/{'tokens' if given else 'plain'}.txt"
            base["data_layer_params"].update(src_vocab_file=vocabulary, tgt_vocab_file=vocabulary)
        return ConfigFile(file.path, file.base_model, sections)


def paths_of(recipe: Path, section: str) -> list[tuple[Any, ...]]:
    """Returns where every value stands that the recipe gives, and every one that it could give."""
    file = load_config(recipe)
    merged, _ = merge_params(file.sections["base_params"], file.sections.get(f"{section}_params", {}), section)
    return sorted({*_given(merged, ()), *_declared(file.base_model, merged)}, key=str)


def _given(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _given(item, (*path, key))
    elif isinstance(value, list):
        for number, item in enumerate(value[:2]):
            yield from _given(item, (*path, number))


def _declared(model: Any, params: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
    for part in ("model", "data_layer", "encoder", "loss", *({"decoder"} & {*params})):
        cls = resolve_name(model if part == "model" else params[part], part, part)
        part = "" if part == "model" else f"{part}_params"
        for name in {key: None for found in cls.declared_params() for key in found}:
            yield (part, name) if part else (name,)
    for key, classes in (("optimizer_params", OPTIMIZERS.values()), ("larc_params", [Larc]),
                         ("loss_scaling_params", [BackoffScaler, LogMaxScaler])):
        for cls in classes:
            yield from ((key, name) for name in cls.get_optional_params())
    for policy in POLICIES.values():
        code = policy.__code__
        yield from (("lr_policy_params", name) for name in code.co_varnames[1:code.co_argcount])
    for nested, names in (("norm_params", ("type", "epsilon", "momentum", "regularizer_params")),
                          ("attention_params", ("attention_dim", "num_heads")), ("augmentation", (
                              "speed_perturbation_ratio", "noise_level_min", "n_time_mask", "width_time_mask"))):
        yield from ((part, nested, name) for part in ("encoder_params", "decoder_params", "data_layer_params")
                    if nested in (params.get(part) or {}) for name in names)


def mutated(mutation: Mutation, data: ToyData) -> tuple[ConfigFile, list[str]]:
    """Returns (the config on toy data, what the command line says)."""
    file = data.put_into(load_config(mutation.recipe))
    path = mutation.path
    if mutation.typed and not any(isinstance(key, int) for key in path):
        return file, [f"--{'/'.join(path)}={mutation.value}"]
    sections = [file.sections["base_params"], file.sections.setdefault(f"{mutation.section}_params", {})]
    # Where the section says it itself, that counts.
    place: Any = next((s for s in reversed(sections) if isinstance(_at(s, path[:-1]), (dict, list))), sections[0])
    for key in path[:-1]:
        if isinstance(place, dict) and not isinstance(place.get(key), (dict, list)):
            place[key] = {}
        place = place[key]
    if isinstance(place, list) and place:  # toy data may be fewer files
        place[min(path[-1], len(place) - 1)] = mutation.value
    else:
        place[path[-1]] = mutation.value
    return file, []


def _at(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        if not (isinstance(value, Mapping) and key in value or isinstance(value, list) and isinstance(key, int)):
            return None
        value = value[key]
    return value


def check(mutation: Mutation, data: ToyData) -> ModelSpec:
    """Does what the command does before it makes variables.

    Raises:
      UserError: what is wrong.
    """
    specs: list[ModelSpec] = []

    def problems(*section: Any) -> list[str]:
        try:
            specs.append(describe_model(*section))
        except ConfigError as error:
            return error.problems
        return []

    file, arguments = mutated(mutation, data)
    resolve(file, mutation.section, parse_overrides(arguments), None, problems)
    check_model(specs[0])
    return specs[0]
