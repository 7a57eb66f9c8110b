"""Converts the arrays of the original's checkpoints to our names, shapes and orders.

The gates of the original's LSTM cells are input, candidate, forget and output, and the kernels of input and state are
one matrix; ours are input, forget, output and candidate. Its GRU cells have the gates reset and update; ours have
update, reset and candidate.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from open_seq2seq.parts.rnn.layers import GATE_ORDER
from open_seq2seq.utils.errors import CheckpointError

Arrays = Sequence[np.ndarray]


class Source(NamedTuple):
    """Where the value of a variable comes from.

    Attributes:
      names: names of the original's arrays, below the place of the part.
      convert: function of the arrays and of the constant that the original adds to the forget gate.
    """

    names: tuple[str, ...]
    convert: Callable[[Arrays, float], np.ndarray]


Kind = Mapping[str, Sequence[Source]]
"""For each of our variables in a part, the sources to choose from: the first whose arrays all exist is used."""


def _same(arrays: Arrays, forget: float) -> np.ndarray:
    return arrays[0]


def _named(*names: str) -> list[Source]:
    return [Source((name,), _same) for name in names]


def _transposed(name: str) -> Source:
    return Source((name,), lambda arrays, forget: arrays[0].T)


def _without_first(arrays: Arrays, forget: float) -> np.ndarray:
    """Sets the first row to zeros, as the original does when it looks up position 0."""
    return np.concatenate([np.zeros_like(arrays[0][:1]), arrays[0][1:]])


def _merged(arrays: Arrays, forget: float) -> np.ndarray:
    """Returns the kernel ``[1, inputs, outputs]`` of a separable convolution over one step."""
    depthwise, pointwise = arrays
    return depthwise.reshape(1, -1, 1) * pointwise.reshape(1, *pointwise.shape[-2:])


def _lstm_gates(joined: np.ndarray) -> np.ndarray:
    """Reorders the gates ``[…, 4 · units]``."""
    i, candidate, f, o = np.split(joined, 4, -1)
    return np.concatenate([i, f, o, candidate], -1)


def _lstm_input(arrays: Arrays, forget: float) -> np.ndarray:
    return _lstm_gates(arrays[0])[:-(arrays[0].shape[-1] // 4)]


def _lstm_state(arrays: Arrays, forget: float) -> np.ndarray:
    return _lstm_gates(arrays[0])[-(arrays[0].shape[-1] // 4):]


def _lstm_bias(arrays: Arrays, forget: float) -> np.ndarray:
    i, f, o, candidate = np.split(_lstm_gates(arrays[0]), 4)
    return np.concatenate([i, f + np.float32(forget), o, candidate])


def _norm_offset(arrays: Arrays, forget: float) -> np.ndarray:
    return np.concatenate([*arrays[:1], arrays[1] + np.float32(forget), *arrays[2:]])


def _joined(arrays: Arrays, forget: float) -> np.ndarray:
    return np.concatenate(arrays, -1)


def _update_first(gates: np.ndarray) -> np.ndarray:
    return np.concatenate(np.split(gates, 2, -1)[::-1], -1)


def _gru_input(arrays: Arrays, forget: float) -> np.ndarray:
    """The gates' kernel is of input and state; that of the candidate is too, except in cells like cuDNN's."""
    gates, candidate = arrays
    inputs = len(gates) - gates.shape[-1] // 2
    return np.concatenate([_update_first(gates)[:inputs], candidate[:inputs]], -1)


def _gru_state(arrays: Arrays, forget: float) -> np.ndarray:
    return np.concatenate([_update_first(arrays[0])[-(arrays[0].shape[-1] // 2):], *arrays[1:]], -1)


def _gru_candidate(arrays: Arrays, forget: float) -> np.ndarray:
    return arrays[0][-arrays[0].shape[-1]:]


def _gru_bias(arrays: Arrays, forget: float) -> np.ndarray:
    return np.concatenate([_update_first(arrays[0]), arrays[1]])


_NORMALISED = ("input", "forget", "output", "transform", "state")
_OF_INPUT, _OF_STATE = ("candidate/input_projection/", "candidate/hidden_projection/")

NORM: Kind = {"gamma": _named("gamma", "layer_norm_scale"), "beta": _named("beta", "layer_norm_bias"),
              "moving_mean": _named("moving_mean"), "moving_variance": _named("moving_variance")}
DENSE: Kind = {"kernel": _named("kernel"), "bias": _named("bias")}
CONVOLUTION: Kind = {
    "kernel": [*_named("kernel", "w"), Source(("depthwise_kernel", "pointwise_kernel"), _merged)],
    "depthwise": _named("depthwise_kernel"), "pointwise": _named("pointwise_kernel"), "bias": _named("bias")}
WEIGHT_NORMALISED: Kind = {"kernel": _named("V"), "gain": _named("g"), "bias": _named("b")}
ATTENTION: Kind = {ours: _named(f"{theirs}/kernel") for ours, theirs in (
    ("query", "q"), ("key", "k"), ("value", "v"), ("output", "output_transform"))}
FEED_FORWARD: Kind = {f"{part}_{name}": _named(f"{part}_layer/{name}")
                      for part in ("filter", "output") for name in ("kernel", "bias")}
CELL: Kind = {
    "kernel": [Source(("kernel",), _lstm_input), Source(("gates/kernel", "candidate/kernel"), _gru_input),
               Source(("gates/kernel", f"{_OF_INPUT}kernel"), _gru_input)],
    "recurrent_kernel": [Source(("kernel",), _lstm_state),
                         Source(("gates/kernel", f"{_OF_STATE}kernel"), _gru_state),
                         Source(("gates/kernel",), _gru_state)],
    "candidate_kernel": [Source(("candidate/kernel",), _gru_candidate)],
    "bias": [Source(("bias",), _lstm_bias), Source(("gates/bias", "candidate/bias"), _gru_bias),
             Source(("gates/bias", f"{_OF_INPUT}bias"), _gru_bias)],
    "recurrent_bias": _named(f"{_OF_STATE}bias"),
    "scale": [Source(tuple(f"{gate}/gamma" for gate in _NORMALISED), _joined)],
    "offset": [Source(tuple(f"{gate}/beta" for gate in _NORMALISED), _norm_offset)]}
MEMORY: Kind = {"memory_kernel": _named("kernel")}
_SCORE: Kind = {
    "query_kernel": _named("query_layer/kernel"), "score_vector": _named("attention_v"),
    "score_scale": _named("attention_g"), "inner_bias": _named("attention_bias"),
    **{name: _named("location_conv/kernel") for name in ("filters", "place_filters")},
    **{name: _named("location_conv/bias") for name in ("filter_bias", "place_bias")},
    **{name: _named("location_dense/kernel") for name in ("location_kernel", "place_kernel")}}
SCORE: Kind = {**_SCORE, "bias": _named("attention_b")}
# The original's heads have no bias.
SPELLER_SCORE: Kind = {**_SCORE, "bias": [Source(("attention_v",), lambda arrays, forget: np.zeros_like(arrays[0]))]}
SPELLER: Kind = {"output_kernel_0": _named("attention_layer/kernel")}
EMBEDDING: Kind = {"table": _named("weights")}
POSITIONS: Kind = {"table": [Source(("weights",), _without_first)]}
STYLE: Kind = {"tokens": _named("token_embeddings"), "score_vector": _named("attention/attention_v")}
TRANSPOSED: Kind = {"kernel": [_transposed("kernel")], "bias": _named("bias")}
# What encoders and decoders have beside their parts.
DIRECT: Kind = {
    "embedding": [*_named("EncoderEmbeddingMatrix", "DecoderEmbeddingMatrix", "TargetEmbeddingMatrix"),
                  _transposed("dense/kernel")],
    "source_positions": _named("EncoderPositionEmbeddingMatrix"),
    "target_positions": _named("DecoderPositionEmbeddingMatrix"),
    "kernel": _named("fully_connected/kernel"), "bias": _named("fully_connected/bias"),
    "output_kernel": _named("decoder/dense/kernel", "dense/kernel", "decoder/fully_connected/fully_connected_0/kernel"),
    "output_bias": _named("decoder/fully_connected/fully_connected_0/bias")}


_ENCODER, _DECODER = r"[^/]*encoder[^/]*", r"(?:jca_decoder/)?[^/]*decoder[^/]*"
_TDNN = "(?:w2l|las)_encoder"
_NORM = "(?:layer_normalization|transformer__batch_norm/batch_normalization)"
_CONVS2S = "convs2s_{side}[^/]*(?:/encode)?"
_LAYER = "transformer_{side}/layer_{a}"
_SHARED = "{side}[^/]*(?:/encode)?/embedding_shared_weights"
_STYLE = "tacotron2_encoder/style_encoder"
# Cells have the names CELL and CUDNN_CELL, whatever their class; see ``plain_cells``.
CUDNN_CELL = "cudnn_cell"
_CELL = f"(?:cell|{CUDNN_CELL})"
_CENTAUR_BLOCK, _CENTAUR_NORM = "centaur_decoder/attention_block_{a}", "batch_norm_1d/bn_"
_SPELLER = "(?:jca_decoder/)?las_decoder/decoder/attention_wrapper"

# Our part; the same part there, below ForwardPass; what it consists of. The groups a and b, which are numbers, are
# inserted as {a}, or as {a1} if the original counts from 1; ``way`` is a direction over time; and {n} is the number
# that TensorFlow 1 gives to layers of the same name.
_PLACES: tuple[tuple[str, str, Kind], ...] = (
    ("encoder", _ENCODER, DIRECT),
    ("decoder", r"[^/]*decoder[^/]*", DIRECT),
    ("decoder/attention", "jca_decoder/las_decoder", DIRECT),
    ("decoder/ctc", "jca_decoder/fully_connected_ctc_decoder", DIRECT),
    ("(?P<side>encoder|decoder)/embedding", rf"\w+_{_SHARED}/embedding_and_softmax", EMBEDDING),
    ("(?P<side>encoder|decoder)/positions", rf"\w+_{_SHARED}_1/embedding_and_softmax", POSITIONS),
    # Transformer
    (r"(?P<side>encoder|decoder)/layer_(?P<a>\d+)/self_attention", f"{_LAYER}/self_attention/self_attention",
     ATTENTION),
    (r"(?P<side>encoder|decoder)/layer_(?P<a>\d+)/self_attention_norm", f"{_LAYER}/self_attention/{_NORM}", NORM),
    (r"(?P<side>decoder)/layer_(?P<a>\d+)/cross_attention", f"{_LAYER}/encdec_attention/attention", ATTENTION),
    (r"(?P<side>decoder)/layer_(?P<a>\d+)/cross_attention_norm", f"{_LAYER}/encdec_attention/{_NORM}", NORM),
    (r"(?P<side>encoder|decoder)/layer_(?P<a>\d+)/feed_forward", f"{_LAYER}/ffn/feed_foward_network", FEED_FORWARD),
    (r"(?P<side>encoder|decoder)/layer_(?P<a>\d+)/feed_forward_norm", f"{_LAYER}/ffn/{_NORM}", NORM),
    ("(?P<side>encoder|decoder)/output_norm", f"transformer_{{side}}/{_NORM}", NORM),
    # ConvS2S
    ("(?P<side>encoder|decoder)/input_layer", f"{_CONVS2S}/linear_mapping_before_cnn_layers", WEIGHT_NORMALISED),
    ("(?P<side>encoder|decoder)/output_layer", f"{_CONVS2S}/linear_mapping_after_cnn_layers", WEIGHT_NORMALISED),
    (r"(?P<side>encoder|decoder)/layer_(?P<a>\d+)/convolution(?:/convolution)?", f"{_CONVS2S}/conv_layer_{{a1}}",
     WEIGHT_NORMALISED),
    (r"(?P<side>encoder|decoder)/layer_(?P<a>\d+)/(?:convolution/)?projection",
     f"{_CONVS2S}/linear_mapping_cnn_{{a1}}", WEIGHT_NORMALISED),
    (r"(?P<side>decoder)/layer_(?P<a>\d+)/attention/query",
     f"{_CONVS2S}/attention_layer_{{a1}}/att_linear_mapping_tgt_embed", WEIGHT_NORMALISED),
    (r"(?P<side>decoder)/layer_(?P<a>\d+)/attention/output",
     f"{_CONVS2S}/attention_layer_{{a1}}/att_linear_mapping_out", WEIGHT_NORMALISED),
    # Recurrent encoders and decoders
    ("encoder/bidirectional/(?P<way>forward|backward)", f"{_ENCODER}/bidirectional_rnn/{{way}}/{_CELL}", CELL),
    (r"encoder/(?P<way>forward|backward)_(?P<a>\d+)/direction",
     f"{_ENCODER}/bidirectional_rnn/{{way}}/multi_rnn_cell/cell_{{a}}/{_CELL}", CELL),
    (r"encoder/layer_(?P<a>\d+)/direction", f"{_ENCODER}/rnn/multi_rnn_cell/cell_{{a}}/{_CELL}", CELL),
    (r"encoder/(?:rnn/)?layer_(?P<a>\d+)/(?P<way>forward|backward)",
     f"{_ENCODER}/(?:cudnn_[^/]+/)?(?:stack_bidirectional_rnn/cell_{{a}}/bidirectional_rnn/{{way}}|"
     f"bidirectional_rnn/{{way}}/multi_rnn_cell/cell_{{a}})/{_CELL}", CELL),
    (r"encoder/(?:rnn/)?layer_(?P<a>\d+)/forward",
     f"{_ENCODER}/(?:cudnn_[^/]+/)?rnn/multi_rnn_cell/cell_{{a}}/{_CELL}", CELL),
    (r"encoder/stack/layer_(?P<a>\d+)",
     f"rnn_encoder_awd/(?:decoder|cudnn_[^/]+/rnn)/multi_rnn_cell/cell_{{a}}/{_CELL}", CELL),
    ("encoder/output_layer", "rnn_encoder_awd/dense", TRANSPOSED),
    (r"decoder/(?:attention/)?(?:stack/layer_(?P<a>\d+)/direction|speller/layer_(?P<b>\d+))",
     f"{_DECODER}/decoder/(?:attention_wrapper/)?multi_rnn_cell/cell_{{a}}{{b}}(?:_attention/gnmt_attention)?/{_CELL}",
     CELL),
    (r"decoder/(?:attention/)?(?:stack/attention|speller/head_0)", f"{_DECODER}/(?:AttentionMechanism/)?memory_layer",
     MEMORY),
    ("decoder/stack/attention", rf"{_DECODER}/decoder/(?:[^/]+/)*\w+_attention", SCORE),
    ("decoder/(?:attention/)?speller/head_0", rf"{_SPELLER}/\w+_attention", SPELLER_SCORE),
    ("decoder/(?:attention/)?speller", _SPELLER, SPELLER),
    # Convolutions over time
    (r"encoder/block_(?P<a>\d+)/layer_(?P<b>\d+)/convolution", f"{_TDNN}/conv{{a1}}{{b1}}", CONVOLUTION),
    (r"encoder/block_(?P<a>\d+)/layer_(?P<b>\d+)/norm", f"{_TDNN}/conv{{a1}}{{b1}}/bn", NORM),
    (r"encoder/block_\d+/layer_\d+/norm", f"{_TDNN}/LayerNorm{{n}}", NORM),
    (r"encoder/block_(?P<a>\d+)/residual_(?P<b>\d+)/convolution", rf"{_TDNN}/conv{{a1}}\d/res(?:_{{b}})?", CONVOLUTION),
    (r"encoder/block_(?P<a>\d+)/residual_(?P<b>\d+)/norm", rf"{_TDNN}/conv{{a1}}\d/res_bn(?:_{{b}})?", NORM),
    (r"encoder/convolution_(?P<a>\d+)/layer_0/convolution", "ds2_encoder/conv{a1}", CONVOLUTION),
    (r"encoder/convolution_(?P<a>\d+)/layer_0/norm", "ds2_encoder/conv{a1}/bn", NORM),
    ("encoder/row_convolution", "ds2_encoder/row_conv", CONVOLUTION),
    ("encoder/row_convolution/norm", "ds2_encoder/row_conv/bn", NORM),
    # Images
    (r"encoder/(?:first|block_\d+/(?:projection|convolution_\d+))", "resnet_encoder/conv2d{n}", CONVOLUTION),
    (r"encoder/(?:first_norm|last_norm|block_\d+/(?:projection_norm|norm_\d+))",
     "resnet_encoder/batch_normalization{n}", NORM),
    (r"encoder/layer_\d+/convolution", "cnn_encoder/conv2d{n}", CONVOLUTION),
    (r"encoder/layer_\d+/norm", "cnn_encoder/batch_normalization{n}", NORM),
    (r"encoder/layer_\d+/dense", "cnn_encoder/dense{n}", DENSE),
    # Speech synthesis
    (r"encoder/block_(?P<a>\d+)/layer_0/convolution", "tacotron2_encoder/conv{a1}", CONVOLUTION),
    (r"encoder/block_(?P<a>\d+)/layer_0/norm", "tacotron2_encoder/conv{a1}/bn", NORM),
    (r"encoder/style/block_(?P<a>\d+)/layer_0/convolution", f"{_STYLE}/conv{{a1}}", CONVOLUTION),
    (r"encoder/style/block_(?P<a>\d+)/layer_0/norm", f"{_STYLE}/conv{{a1}}/bn", NORM),
    (r"encoder/style/layer_(?P<a>\d+)/forward", f"{_STYLE}/rnn/multi_rnn_cell/cell_{{a}}/{_CELL}", CELL),
    ("encoder/style/reference", f"{_STYLE}/reference_activation", DENSE),
    ("encoder/style/attention", _STYLE, STYLE),
    *((f"encoder/style/attention/{ours}", f"{_STYLE}/attention/{theirs}", DENSE) for ours, theirs in (
        ("query", "q"), ("key", "k"), ("value", "v"), ("output", "output_transform"))),
    (r"decoder/prenet/layer_(?P<a>\d+)", "tacotron_2_decoder/decoder/prenet_{a1}", DENSE),
    (r"decoder/postnet/block_(?P<a>\d+)/layer_0/convolution", "tacotron_2_decoder/conv{a1}", CONVOLUTION),
    (r"decoder/postnet/block_(?P<a>\d+)/layer_0/norm", "tacotron_2_decoder/conv{a1}/bn", NORM),
    (r"decoder/magnitude/block_(?P<a>\d+)/layer_0/convolution", "tacotron_2_decoder/conv_{a}", CONVOLUTION),
    (r"decoder/magnitude/block_(?P<a>\d+)/layer_0/norm", "tacotron_2_decoder/conv_{a}/bn", NORM),
    ("decoder/magnitude/projection", "tacotron_2_decoder/post_net_proj", DENSE),
    ("decoder/projection", "tacotron_2_decoder/decoder/output_proj", DENSE),
    ("decoder/stop_token", "tacotron_2_decoder/decoder/stop_token_proj", DENSE),
    (r"encoder/block_(?P<a>\d+)/layer_0/convolution", "centaur_encoder/layer_{a}/conv_{a}", CONVOLUTION),
    (r"encoder/block_(?P<a>\d+)/layer_0/norm", f"centaur_encoder/layer_{{a}}/{_CENTAUR_NORM}{{a}}", NORM),
    ("encoder/projection", "centaur_encoder/linear_projection", DENSE),
    (r"decoder/prenet/layer_(?P<a>\d+)", "centaur_decoder/prenet/layer_{a}", DENSE),
    ("decoder/input_projection", "centaur_decoder/linear_projection", DENSE),
    (r"decoder/block_(?P<a>\d+)/convolution/layer_0/convolution", f"{_CENTAUR_BLOCK}/conv/conv_0", CONVOLUTION),
    (r"decoder/block_(?P<a>\d+)/convolution/layer_0/norm", f"{_CENTAUR_BLOCK}/conv/{_CENTAUR_NORM}0", NORM),
    (r"decoder/block_(?P<a>\d+)/attention", f"{_CENTAUR_BLOCK}/attention/attention", ATTENTION),
    (r"decoder/block_(?P<a>\d+)/(?P<side>attention|feed_forward)_norm",
     f"{_CENTAUR_BLOCK}/{{side}}/layer_normalization", NORM),
    (r"decoder/block_(?P<a>\d+)/feed_forward", f"{_CENTAUR_BLOCK}/feed_forward/dense", DENSE),
    ("decoder/output_norm", "centaur_decoder/layer_normalization", NORM),
    *((rf"decoder/{ours}convolution_(?P<a>\d+)/layer_0/{part}",
       f"centaur_decoder/{theirs}conv_layers/layer_{{a}}/{place}{{a}}", kind)
      for ours, theirs in (("", ""), ("magnitude_", "mag_"))
      for part, place, kind in (("convolution", "conv_", CONVOLUTION), ("norm", _CENTAUR_NORM, NORM))),
    ("decoder/projection", "centaur_decoder/mel_projection", DENSE),
    ("decoder/magnitude_projection", "centaur_decoder/mag_projection", DENSE),
    ("decoder/stop_token", "centaur_decoder/stop_token_projection", DENSE),
    ("encoder/preprocess/convolution", "wavenet_encoder/preprocess", CONVOLUTION),
    ("encoder/preprocess/norm", "wavenet_encoder/preprocess/bn", NORM),
    ("encoder/(?P<side>filter|gate)_condition", "wavenet_encoder/{side}_condition", CONVOLUTION),
    (r"encoder/block_(?P<a>\d+)_(?P<b>\d+)/(?P<side>filter|gate)/convolution", "wavenet_encoder/{side}_{a}_{b}",
     CONVOLUTION),
    (r"encoder/block_(?P<a>\d+)_(?P<b>\d+)/(?P<side>filter|gate)/norm", "wavenet_encoder/{side}_{a}_{b}/bn", NORM),
    (r"encoder/block_(?P<a>\d+)_(?P<b>\d+)/(?P<side>residual|skip)", "wavenet_encoder/{side}_1x1_{a}_{b}",
     CONVOLUTION),
    (r"encoder/output_layer_(?P<a>\d+)", "wavenet_encoder/postprocess_{a1}", CONVOLUTION),
)
_WAYS = {"forward": "fw", "backward": "bw"}
# The original creates the first layer before the blocks, and the projection of a block before its other layers.
_RANKS = {"first": -1, "first_norm": -1, "projection": -1, "projection_norm": -1, "last_norm": 1 << 30}


def plain_cells(name: str) -> str:
    """Returns a name of the original without the classes of cells."""
    name = re.sub(r"/cudnn_compatible_(?:lstm|gru)_cell/", f"/{CUDNN_CELL}/", name)
    return re.sub(r"/(?:\w+_)?(?:lstm|gru)_cell/", "/cell/", name)


def creation_order(path: str) -> list[int]:
    """Returns a sort key of our parts by which they have the order in which the original creates them."""
    return [_RANKS.get(word, int(number or 0)) for word, number in re.findall(r"/([a-z_]+?)_?(\d*)(?=/|$)", path)]


def places(part: str, parts: Collection[str]) -> Iterator[tuple[re.Pattern[str], Kind]]:
    """Yields the places where the original may have a part of ours, and what the part consists of.

    Args:
      part: path of the part, such as ``encoder/layer_0/self_attention``.
      parts: paths of all parts of the model that have variables.
    """
    for ours, theirs, kind in _PLACES:
        match = re.fullmatch(ours, part)
        if match is None:
            continue
        groups = {name: value or "" for name, value in match.groupdict().items()}
        values = {**groups, "b": groups.get("b", ""), "way": _WAYS.get(groups.get("way", ""), ""),
                  **{f"{name}1": str(int(groups[name]) + 1) for name in ("a", "b") if groups.get(name)}}
        if "{n}" in theirs:
            same = sorted((path for path in parts if re.fullmatch(ours, path)), key=creation_order)
            number = same.index(part)
            values["n"] = f"_{number}" if number else ""
        yield _compiled(theirs.format(**values)), kind


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(f"ForwardPass/{pattern}(?=/)")


_OPAQUE = "/opaque_kernel"
# Layouts in which the frequency comes before the time.
_FREQUENCY_FIRST = ("BFTC", "BCFT")
_CUDNN_LAYER = re.compile(r"encoder/(?:rnn/|stack/)?layer_\d+(?:/(?:forward|backward))?")


@dataclass(frozen=True)
class Conventions:
    """What the names and shapes in a checkpoint of the original do not say.

    Attributes:
      forget_biases: for each part of the model, the constant that the original adds to the forget gates of its cells.
      frequency_first: whether convolutions over time and frequency have kernels ``[frequency, time, …]``.
    """

    forget_biases: Mapping[str, float] = field(default_factory=dict)
    frequency_first: bool = False

    @classmethod
    def of(cls, params: Mapping[str, Mapping[str, Any]]) -> Conventions:
        """Returns the conventions of a model.

        Args:
          params: the parameters of its parts, by the name of the part.
        """
        biases = {name: (values.get("core_cell_params") or {}).get("forget_bias", 1.0)
                  for name, values in params.items()}
        return cls(biases, params.get("encoder", {}).get("data_format") in _FREQUENCY_FIRST)


@dataclass(frozen=True)
class Conversion:
    """Result of ``convert``.

    Attributes:
      weights: arrays by our names; names without any array in the checkpoint are left out.
      unused: names of the arrays that no variable of the model is made from.
    """

    weights: dict[str, np.ndarray]
    unused: list[str]


def convert(arrays: Mapping[str, np.ndarray], shapes: Mapping[str, Sequence[int]],
            conventions: Conventions) -> Conversion:
    """Returns the arrays of a checkpoint of the original as values of our variables.

    Args:
      arrays: arrays of the original by name, such as ``ForwardPass/transformer_encoder/…``.
      shapes: shapes of our variables, by name.
      conventions: see ``Conventions``.

    Raises:
      CheckpointError: the arrays cannot be used, because of another kind of cells or stacks.
    """
    by_name = {plain_cells(name): name for name in arrays}
    parts = dict.fromkeys(name.rpartition("/")[0] for name in shapes)
    weights, used = _unpacked_cudnn(arrays, shapes)
    for name, shape in shapes.items():
        part, _, leaf = name.rpartition("/")
        source = None if name in weights else _source(part, leaf, parts, by_name)
        if source is None:
            continue
        place, chosen = source
        names = [by_name[f"{place}/{one}"] for one in chosen.names]
        forget = 0.0 if place.endswith(CUDNN_CELL) else conventions.forget_biases.get(name.partition("/")[0], 1.0)
        value = chosen.convert([np.asarray(arrays[one], np.float32) for one in names], forget)
        weights[name] = _fitted(value, tuple(shape), conventions)
        used |= set(names)
    _refuse_other_cells(by_name, shapes, weights)
    return Conversion({name: weights[name] for name in shapes if name in weights},
                      [name for name in arrays if name not in used])


def _source(part: str, leaf: str, parts: Collection[str], names: Collection[str]) -> tuple[str, Source] | None:
    """Returns the place in the original, and the source there, of a variable ``part/leaf``; None if there is none."""
    for pattern, kind in places(part, parts):
        found = dict.fromkeys(match[0] for name in names if (match := pattern.match(name)))
        for source in kind.get(leaf, ()):
            for place in found:
                if all(f"{place}/{name}" in names for name in source.names):
                    return place, source
    return None


def _fitted(value: np.ndarray, shape: tuple[int, ...], conventions: Conventions) -> np.ndarray:
    """Swaps time and frequency of kernels if needed, and adds or removes axes of length 1."""
    if conventions.frequency_first and value.ndim == 4:
        value = value.swapaxes(0, 1)
    is_same = [size for size in value.shape if size != 1] == [size for size in shape if size != 1]
    return value.reshape(shape) if is_same else value


def _unpacked_cudnn(arrays: Mapping[str, np.ndarray],
                    shapes: Mapping[str, Sequence[int]]) -> tuple[dict[str, np.ndarray], set[str]]:
    """Returns the weights in cuDNN's array, if there is one, by our names; and the name of the array.

    cuDNN has the matrices of all layers, transposed and gate by gate, and then the two biases of each gate.

    Raises:
      CheckpointError: the array does not have the size of the model's recurrent layers.
    """
    opaque = [name for name in arrays if name.endswith(_OPAQUE)]
    if not opaque:
        return {}, set()
    layers = sorted({name.rpartition("/")[0] for name in shapes if name.endswith("/recurrent_kernel")
                     and _CUDNN_LAYER.fullmatch(name.rpartition("/")[0])},
                    key=lambda layer: (creation_order(layer), layer.endswith("backward")))
    flat = np.asarray(arrays[opaque[0]], np.float32).reshape(-1)
    sizes = [(shapes[f"{layer}/kernel"], shapes[f"{layer}/recurrent_kernel"]) for layer in layers]
    if len(opaque) > 1 or len(flat) != sum(sum(np.prod(shape) + shape[1] for shape in pair) for pair in sizes):
        raise CheckpointError(f"{opaque[0]} has {len(flat):,} weights of cuDNN, which are not those of the recurrent "
                              "layers of this config: give the config that the model was trained with.")
    weights: dict[str, np.ndarray] = {}
    rest = flat
    for layer, pair in zip(layers, sizes, strict=True):
        for name, (rows, columns) in zip(("kernel", "recurrent_kernel"), pair, strict=True):
            weights[f"{layer}/{name}"], rest = _gates(rest, rows, columns, _gate_order(layer, shapes))
    for layer, (_, (_, columns)) in zip(layers, sizes, strict=True):
        of_input, rest = _gates(rest, 1, columns, _gate_order(layer, shapes))
        of_state, rest = _gates(rest, 1, columns, _gate_order(layer, shapes))
        weights |= _biases(layer, of_input[0], of_state[0], f"{layer}/recurrent_bias" in shapes)
    return weights, {opaque[0]}


def _gate_order(layer: str, shapes: Mapping[str, Sequence[int]]) -> tuple[int, ...]:
    return GATE_ORDER["gru" if f"{layer}/recurrent_bias" in shapes else "lstm"]


def _gates(flat: np.ndarray, rows: int, columns: int, order: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Returns the first matrix ``[rows, columns]`` of cuDNN's array, with the gates in our order, and the rest."""
    blocks = flat[:rows * columns].reshape(len(order), -1, rows)
    return np.concatenate([blocks[order.index(gate)].T for gate in range(len(order))], -1), flat[rows * columns:]


def _biases(layer: str, of_input: np.ndarray, of_state: np.ndarray, has_recurrent: bool) -> dict[str, np.ndarray]:
    """Returns our biases of a layer: the sums of cuDNN's two, except for a GRU's candidate, which has both."""
    if not has_recurrent:
        return {f"{layer}/bias": of_input + of_state}
    gates = 2 * len(of_input) // 3
    return {f"{layer}/bias": np.concatenate([of_input[:gates] + of_state[:gates], of_input[gates:]]),
            f"{layer}/recurrent_bias": of_state[gates:]}


def _refuse_other_cells(names: Collection[str], shapes: Mapping[str, Sequence[int]],
                        weights: Mapping[str, np.ndarray]) -> None:
    """Raises CheckpointError for recurrent layers that compute something else here."""
    if any(name.endswith("/recurrent_bias") and name not in weights for name in shapes) and \
            any(name.endswith("/cell/candidate/kernel") for name in names):
        raise CheckpointError("The checkpoint has GRU cells whose reset gate is applied before the matrix product, but "
                              "those of this config, as cuDNN's, apply it after the product: the weights cannot be "
                              "converted; train the model anew.")
    stack = re.compile(r"ForwardPass/(?:ds2|tacotron2)_encoder/bidirectional_rnn/fw/multi_rnn_cell/cell_1/")
    if any(stack.match(name) for name in names):
        raise CheckpointError("The checkpoint has two separate stacks of recurrent layers, one for each direction, as "
                              "the original builds without cuDNN, but here each layer receives the outputs of both "
                              "directions: the weights cannot be converted; train the model anew.")
