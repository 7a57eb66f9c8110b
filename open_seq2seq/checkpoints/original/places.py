"""Where the original's checkpoints have the parts of our models."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import cache

from open_seq2seq.checkpoints.original.kinds import (
    ATTENTION,
    CELL,
    CONVOLUTION,
    DENSE,
    DIRECT,
    EMBEDDING,
    FEED_FORWARD,
    MEMORY,
    NORM,
    POSITIONS,
    SCORE,
    SPELLER,
    SPELLER_SCORE,
    STYLE,
    TRANSPOSED,
    WEIGHT_NORMALISED,
    Kind,
)

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
