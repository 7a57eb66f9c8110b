"""Values of parameters that configs of NVIDIA's OpenSeq2Seq leave open, where today's defaults differ."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from open_seq2seq.config.loader import ConfigFile
from open_seq2seq.config.overrides import SECTIONS, gives
from open_seq2seq.config.params import PARAMS

ORIGINAL_DEFAULTS = "original_defaults"
"""Parameter of a model that selects today's defaults if it is False."""

# Choice of a config, the chosen class → path of a parameter below <choice>_params → the original's value.
_DEFAULTS: dict[tuple[str, str], dict[tuple[str, ...], Any]] = {
    ("data_layer", "ParallelTextDataLayer"): {("length_buckets",): False, ("cut_long",): True},
    ("data_layer", "Speech2TextDataLayer"): {("length_buckets",): False, ("pad_signal",): True},
    ("data_layer", "Text2SpeechDataLayer"): {("length_buckets",): False},
    ("data_layer", "TransformerDataLayer"): {("length_buckets",): False},
    ("data_layer", "WKTDataLayer"): {("normalize",): True},
    ("decoder", "JointCTCAttentionDecoder"): {("beam_search_params", "ctc_weight"): 0.0},
    ("encoder", "TDNNEncoder"): {("use_conv_mask",): False},
    ("optimizer", "NovoGrad"): {("compat_no_ema",): True},
}
_WITH_DATA_ROOT = ("IMDBDataLayer", "SSTDataLayer", "WKTDataLayer")
_BASE = "base_params"


def use_original_defaults(file: ConfigFile) -> list[str]:
    """Gives the parameters that a config leaves open the values that they had in NVIDIA's OpenSeq2Seq.

    Parameters that a section gives are kept. The sections of the config are changed in place.

    Returns:
      The parameters and their values, such as ``data_layer_params/length_buckets: False``.
    """
    filled = [f"{'/'.join(path)}: {value}" for name in SECTIONS if name in file.sections
              for path, value in _fill(file.sections, name)]
    base = file.sections[_BASE]
    if base.get("dtype") == "mixed" and all("loss_scaling" not in section for section in file.sections.values()):
        base["loss_scaling"] = 1.0
        filled.append("loss_scaling: 1.0")
    return list(dict.fromkeys([*filled, *_training_folders(file.sections), *_natural_alphas(file.sections)]))


def _fill(sections: Mapping[str, dict[str, Any]], name: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Sets the open parameters of the classes that a section chooses; yields their paths and values."""
    section, base = sections[name], sections[_BASE]
    for (choice, class_name), values in _DEFAULTS.items():
        if _name(section.get(choice)) != class_name:
            continue
        for path, value in values.items():
            full = (choice + PARAMS, *path)
            if not gives(section, full) and not gives(base, full):
                _set(section, full, value)
                yield full, value


def _training_folders(sections: Mapping[str, dict[str, Any]]) -> Iterator[str]:
    """Gives sections without a ``data_root`` that of training, whose texts the original had processed by then."""
    path = ("data_layer_params", "data_root")
    root = sections.get("train_params", {}).get(path[0], {}).get(path[1])
    for section in sections.values() if root else ():
        if _name(section.get("data_layer")) in _WITH_DATA_ROOT and not gives(section, path):
            _set(section, path, root)
            yield f"{'/'.join(path)}: {root}"


def _natural_alphas(sections: Mapping[str, dict[str, Any]]) -> Iterator[str]:
    """Divides the weights of language models by ln 10, because the original's scores were logarithms to the base 10."""
    uses = any(section.get("decoder_params", {}).get("use_language_model") for section in sections.values())
    for section in sections.values() if uses else ():
        params = section.get("decoder_params", {})
        if isinstance(params.get("alpha"), (int, float)) and not isinstance(params["alpha"], bool):
            params["alpha"] /= math.log(10.0)
            yield f"decoder_params/alpha: {params['alpha']:.4g} (divided by ln 10)"


def _name(choice: Any) -> str:
    """Returns the bare name of a class or function, or of the string that names it."""
    return choice.rpartition(".")[2] if isinstance(choice, str) else getattr(choice, "__name__", "")


def _set(params: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for key in path[:-1]:
        params = params.setdefault(key, {})
    params[path[-1]] = value
