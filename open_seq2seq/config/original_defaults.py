"""Values of parameters that configs of NVIDIA's OpenSeq2Seq leave open, where today's defaults differ."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from open_seq2seq.config.loader import ConfigFile
from open_seq2seq.config.overrides import SECTIONS, Override, gives
from open_seq2seq.config.params import PARAMS

ORIGINAL_DEFAULTS = "original_defaults"
"""Parameter of a model that selects today's defaults if it is False."""

_BATCHES: dict[tuple[str, ...], Any] = {("length_buckets",): False}
_WORDS: dict[tuple[str, ...], Any] = {("normalize",): True}
# Choice of a config, the chosen class → path of a parameter below <choice>_params → the original's value.
_DEFAULTS: dict[tuple[str, str], dict[tuple[str, ...], Any]] = {
    ("data_layer", "IMDBDataLayer"): {**_BATCHES, **_WORDS},
    ("data_layer", "ParallelTextDataLayer"): {**_BATCHES, ("cut_long",): True},
    ("data_layer", "SSTDataLayer"): {**_BATCHES, **_WORDS},
    ("data_layer", "Speech2TextDataLayer"): {**_BATCHES, ("pad_signal",): True},
    ("data_layer", "Text2SpeechDataLayer"): _BATCHES,
    ("data_layer", "TransformerDataLayer"): _BATCHES,
    ("data_layer", "WKTDataLayer"): _WORDS,
    ("decoder", "JointCTCAttentionDecoder"): {("beam_search_params", "ctc_weight"): 0.0},
    ("encoder", "TDNNEncoder"): {("use_conv_mask",): False},
    ("optimizer", "NovoGrad"): {("compat_no_ema",): True},
}
# Dropout that the original ignores with ``use_cudnn_rnn``; it applies that of the embeddings.
_IGNORED_WITH_CUDNN = ("encoder_dp_input_keep_prob", "encoder_dp_output_keep_prob", "encoder_last_input_keep_prob",
                       "encoder_last_output_keep_prob", "input_weight_keep_prob", "recurrent_keep_prob",
                       "recurrent_weight_keep_prob")
_WITH_DATA_ROOT = ("IMDBDataLayer", "SSTDataLayer", "WKTDataLayer")
_BASE = "base_params"


def use_original_defaults(file: ConfigFile, overrides: Sequence[Override] = ()) -> list[str]:
    """Changes a config of NVIDIA's OpenSeq2Seq so that it means the same here, if it is not to have today's defaults.

    Parameters that are given are kept, except ``alpha`` of CTC decoders, whose unit differs, ``version`` 1 of
    ResNets, which is 1.5 here, and dropout that the original ignores. The sections of the config are changed in place.
    Configs without old names are not changed.

    Args:
      file: the config.
      overrides: values from the command line, of which only ``original_defaults`` is used.

    Returns:
      The parameters that were set, and their values, such as ``data_layer_params/length_buckets: False``.
    """
    sections = file.sections
    base = sections.setdefault(_BASE, {})
    given = {one.keys: one.value for one in overrides}
    if not file.old_names or not given.get((ORIGINAL_DEFAULTS,), base.get(ORIGINAL_DEFAULTS, True)):
        return []
    lines = [line for name in SECTIONS if name in sections for line in _fill(sections[name], base)]
    if base.get("dtype") == "mixed" and all("loss_scaling" not in section for section in sections.values()):
        lines += _set(base, ("loss_scaling",), 1.0)
    return list(dict.fromkeys([*lines, *_training_folders(sections), *_natural_alphas(sections), *_versions(sections),
                               *_ignored_dropout(sections), *_decay_in_warmup(sections)]))


def _fill(section: dict[str, Any], base: Mapping[str, Any]) -> Iterator[str]:
    """Sets the open parameters of the classes that a section chooses."""
    for choice in dict.fromkeys(choice for choice, _ in _DEFAULTS):
        nearest = next((name for name in _names(section.get(choice)) if (choice, name) in _DEFAULTS), "")
        for path, value in _DEFAULTS.get((choice, nearest), {}).items():
            full = (choice + PARAMS, *path)
            if not gives(section, full) and not gives(base, full):
                yield from _set(section, full, value)


def _training_folders(sections: Mapping[str, dict[str, Any]]) -> Iterator[str]:
    """Gives sections without a ``data_root`` that of training, whose texts the original had processed by then."""
    path = ("data_layer_params", "data_root")
    training = sections.get("train_params", {})
    if not gives(training, path) or gives(sections[_BASE], path):
        return
    for section in sections.values():
        if {*_names(section.get("data_layer"))} & {*_WITH_DATA_ROOT} and not gives(section, path):
            yield from _set(section, path, training[path[0]][path[1]])


def _natural_alphas(sections: Mapping[str, dict[str, Any]]) -> Iterator[str]:
    """Divides weights of CTC's language models by ln 10, because the original's scores were logarithms to the base 10.

    Those without a language model are divided, too, because one can be given later.
    """
    for params in _params_of(sections, "decoder", "FullyConnectedCTCDecoder"):
        if type(params.get("alpha")) in (int, float):
            params["alpha"] /= math.log(10.0)
            yield f"decoder_params/alpha: {params['alpha']:.4g} (that of the config, divided by ln 10)"


def _versions(sections: Mapping[str, dict[str, Any]]) -> Iterator[str]:
    """Gives ResNets of version 1 the stride of the original, which is in the 3 × 3 convolutions of bottlenecks."""
    for params in _params_of(sections, "encoder", "ResNetEncoder"):
        if params.get("version") == 1:
            params["version"] = 1.5
            yield "encoder_params/version: 1.5"


def _ignored_dropout(sections: Mapping[str, dict[str, Any]]) -> Iterator[str]:
    """Disables the dropout of language models that the original ignores."""
    for params in _params_of(sections, "encoder", "LMEncoder"):
        for name in _IGNORED_WITH_CUDNN if params.get("use_cudnn_rnn") else ():
            if params.get(name, 1.0) != 1.0:
                params[name] = 1.0
                yield f"encoder_params/{name}: 1.0 (that of the config was ignored)"


def _decay_in_warmup(sections: Mapping[str, dict[str, Any]]) -> Iterator[str]:
    """Lets the decay of the learning rate begin in the warm-up, where the original's does.

    Without ``decay_steps``, it begins after the warm-up there, too.
    """
    for policy in ("cosine_decay", "poly_decay"):
        for params in _params_of(sections, "lr_policy", policy):
            warm, begin = (params.get(name) or 0 for name in ("warmup_steps", "begin_decay_at"))
            if params.get("decay_steps") and all(type(value) is int for value in (warm, begin)) and warm > begin \
                    and "decay_in_warmup" not in params:
                yield from (f"lr_policy_params/{line}" for line in _set(params, ("decay_in_warmup",), True))


def _params_of(sections: Mapping[str, dict[str, Any]], choice: str, name: str) -> Iterator[dict[str, Any]]:
    """Yields ``<choice>_params`` of the sections in which the class ``name``, or a class derived from it, is chosen.

    A section that does not choose has the choice of ``base_params``, or else of any section.
    """
    for section in sections.values():
        chosen = next((one[choice] for one in (section, sections[_BASE], *sections.values()) if choice in one), None)
        if name in _names(chosen) and isinstance(params := section.get(choice + PARAMS), dict):
            yield params


def _names(choice: Any) -> list[str]:
    """Returns the bare names of a class and its bases, the nearest first, or of a function of this package.

    Of a string, it returns the bare name in it.
    """
    if isinstance(choice, str):
        return [choice.rpartition(":")[2].rpartition(".")[2]]
    if inspect.isclass(choice):
        return [cls.__name__ for cls in choice.__mro__]
    is_ours = inspect.isfunction(choice) and choice.__module__.startswith("open_seq2seq.")
    return [choice.__name__] if is_ours else []


def _set(params: dict[str, Any], path: Sequence[str], value: Any) -> Iterator[str]:
    """Sets the value at a path, unless there is something else than dicts above it; yields a line that says so."""
    for key in path[:-1]:
        params = params.setdefault(key, {})
        if not isinstance(params, dict):
            return
    params[path[-1]] = value
    yield f"{'/'.join(path)}: {value}"
