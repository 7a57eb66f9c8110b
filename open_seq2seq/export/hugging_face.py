"""Writes a Transformer as a folder that Hugging Face's ``transformers`` loads.

``PegasusForConditionalGeneration`` is the network of this toolkit's Transformer: normalisation before each sublayer,
scaled embeddings, ReLU, a decoder that begins with a zero vector. Its table of sinusoids is stored in the file, so that
of this toolkit can be put there, in which sines and cosines are not interleaved. Its attention has biases, which are
zero here, and its normalisation has the epsilon 1e-5.

``GPT2LMHeadModel`` is the network of ``TransformerLMEncoder`` with sinusoids.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from open_seq2seq.data.sentencepiece_models import BLANK
from open_seq2seq.data.text2text.tokenizers import DelimiterTokenizer, SentencePieceTokenizer
from open_seq2seq.data.text2text.vocabulary import SpecialTextTokens
from open_seq2seq.decoders import TransformerDecoder
from open_seq2seq.encoders import TransformerEncoder
from open_seq2seq.parts.transformer.position import position_signal
from open_seq2seq.utils import disk

Arrays = dict[str, np.ndarray]


def refusal(model: Any) -> str | None:
    """Returns why the format cannot hold a translation model; None if it can."""
    encoder, decoder = model.encoder, model.decoder
    if type(encoder) is not TransformerEncoder or type(decoder) is not TransformerDecoder:
        return f"the model has a {type(encoder).__name__} and a {type(decoder).__name__}"
    layer = model.data_layer
    if layer.params["use_start_token"]:
        return "'data_layer_params/use_start_token' is True"
    for part in (encoder, decoder):
        if (kind := part.params["norm_params"].get("type", "layernorm_L2")) != "layernorm_L2":
            return f"'norm_params/type' is {kind}"
    source, target = layer.tokenizers
    if source is not target:
        return "source and target have different vocabularies"
    if isinstance(source, DelimiterTokenizer) and source.delimiter != " ":
        return f"'data_layer_params/delimiter' is {source.delimiter!r}"
    return None


def write_model(model: Any, folder: Path, max_positions: int) -> None:
    """Writes weights, configuration and tokenizer of a translation model.

    Args:
      model: a model that ``refusal`` has not refused, with restored weights.
      folder: an existing, empty folder.
      max_positions: longest source or translation, in tokens.
    """
    from safetensors.numpy import save

    tokenizer = model.data_layer.tokenizers[0]
    tokens = list(tokenizer.tokens)
    weights = save(dict(_weights(model, tokenizer.vocab_size, max_positions)), {"format": "pt"})
    disk.write_new(folder / "model.safetensors", weights)
    for name, content in (("config.json", _config(model, tokenizer.vocab_size, max_positions)),
                          ("generation_config.json", _generation(model, max_positions)),
                          ("tokenizer.json", tokenizer_of(tokenizer)),
                          ("tokenizer_config.json", {
                              "tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": max_positions,
                              "clean_up_tokenization_spaces": False,
                              **{f"{kind}_token": tokens[number] for kind, number in _SPECIAL.items()}})):
        disk.write_new(folder / name, json.dumps(content, ensure_ascii=False, indent=1) + "\n")


_SPECIAL = {"pad": SpecialTextTokens.PAD_ID, "eos": SpecialTextTokens.EOS_ID, "unk": SpecialTextTokens.UNK_ID}


def _config(model: Any, vocab_size: int, max_positions: int) -> dict[str, Any]:
    sizes: dict[str, Any] = {}
    for side, part in (("encoder", model.encoder), ("decoder", model.decoder)):
        sizes |= {f"{side}_layers": len(part.layers), f"{side}_ffn_dim": part.params["filter_size"],
                  f"{side}_attention_heads": part.params["num_heads"]}
    return {"architectures": ["PegasusForConditionalGeneration"], "model_type": "pegasus",
            "d_model": model.encoder.params["hidden_size"], **sizes, "activation_function": "relu",
            "scale_embedding": True, "tie_word_embeddings": False, "vocab_size": vocab_size,
            "max_position_embeddings": max_positions, "dropout": 0.0, "attention_dropout": 0.0,
            "activation_dropout": 0.0, "dtype": "float32", **_ids()}


def _ids() -> dict[str, Any]:
    """Returns the special ids: the decoder begins with the id of padding, whose embedding is zeros."""
    return {"pad_token_id": 0, "decoder_start_token_id": 0, "bos_token_id": None, "forced_eos_token_id": None,
            "eos_token_id": int(SpecialTextTokens.EOS_ID)}


def _generation(model: Any, max_positions: int) -> dict[str, Any]:
    params = model.decoder.params
    return {"num_beams": params["beam_size"], "length_penalty": params["alpha"], "max_length": max_positions, **_ids()}


def _weights(model: Any, vocab_size: int, max_positions: int) -> Iterator[tuple[str, np.ndarray]]:
    """Yields the tensors by their names in ``PegasusForConditionalGeneration``."""
    encoder, decoder = model.encoder, model.decoder
    source = encoder.embedding.table.numpy()[:vocab_size]
    target = (decoder.embedding or encoder.embedding).table.numpy()[:vocab_size]
    yield "lm_head.weight", target.copy()
    yield "final_logits_bias", np.zeros([1, vocab_size], np.float32)
    yield "model.shared.weight", _without_padding(source)
    for side, part, table in (("encoder", encoder, source), ("decoder", decoder, target)):
        prefix = f"model.{side}."
        yield f"{prefix}embed_tokens.weight", _without_padding(table)
        signal = position_signal(tf.range(max_positions), part.params["hidden_size"])
        yield f"{prefix}embed_positions.weight", signal.numpy()
        yield from _norm(f"{prefix}layer_norm.", part.output_norm)
        for number, layer in enumerate(part.layers):
            yield from _layer(f"{prefix}layers.{number}.", layer)


def _without_padding(table: np.ndarray) -> np.ndarray:
    """Returns a table whose first row, the embedding of padding and of the beginning, is zeros."""
    return np.concatenate([np.zeros_like(table[:1]), table[1:]])


def _layer(prefix: str, layer: Any) -> Iterator[tuple[str, np.ndarray]]:
    for name, attention in (("self_attn", "self_attention"), ("encoder_attn", "cross_attention")):
        if hasattr(layer, attention):
            yield from _norm(f"{prefix}{name}_layer_norm.", getattr(layer, f"{attention}_norm"))
            part = getattr(layer, attention)
            for letter, kernel in (("q", part.query), ("k", part.key), ("v", part.value), ("out", part.output)):
                yield from _product(f"{prefix}{name}.{letter}_proj.", kernel)
    yield from _norm(f"{prefix}final_layer_norm.", layer.feed_forward_norm)
    weights = layer.feed_forward
    yield from _product(f"{prefix}fc1.", weights.filter_kernel, weights.filter_bias)
    yield from _product(f"{prefix}fc2.", weights.output_kernel, weights.output_bias)


def _norm(prefix: str, norm: Any) -> Iterator[tuple[str, np.ndarray]]:
    yield f"{prefix}weight", norm.gamma.numpy()
    yield f"{prefix}bias", norm.beta.numpy()


def _product(prefix: str, kernel: tf.Variable, bias: tf.Variable | None = None) -> Iterator[tuple[str, np.ndarray]]:
    weight = np.ascontiguousarray(kernel.numpy().T)
    yield f"{prefix}weight", weight
    yield f"{prefix}bias", np.zeros(len(weight), np.float32) if bias is None else bias.numpy()


def tokenizer_of(tokenizer: Any) -> dict[str, Any]:
    """Returns the content of ``tokenizer.json`` for a tokenizer of a text layer, whose ids it reproduces.

    Special tokens that a text contains literally, such as ``<s>``, become special ids, as always in ``tokenizers``.
    """
    tokens = list(tokenizer.tokens)
    parts = _pieces(tokenizer) if isinstance(tokenizer, SentencePieceTokenizer) else _words(tokens)
    end = tokens[SpecialTextTokens.EOS_ID]
    special = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    sequence = [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": end, "type_id": 0}}]
    pair = [*sequence[:1], {"Sequence": {"id": "B", "type_id": 0}}, *sequence[1:]]
    return {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [{"id": int(number), "content": tokens[number], **special} for number in SpecialTextTokens],
        **parts,
        "post_processor": {"type": "TemplateProcessing", "single": sequence, "pair": pair, "special_tokens": {
            end: {"id": end, "ids": [int(SpecialTextTokens.EOS_ID)], "tokens": [end]}}},
    }


def _words(tokens: Sequence[str]) -> dict[str, Any]:
    return {"normalizer": None, "pre_tokenizer": {"type": "WhitespaceSplit"}, "decoder": None, "model": {
        "type": "WordLevel", "vocab": {token: number for number, token in enumerate(tokens)},
        "unk_token": tokens[SpecialTextTokens.UNK_ID]}}


def _pieces(tokenizer: SentencePieceTokenizer) -> dict[str, Any]:
    """Returns normaliser, pre-tokenizer, decoder and model of a SentencePiece model."""
    from sentencepiece import sentencepiece_model_pb2

    proto = sentencepiece_model_pb2.ModelProto.FromString(Path(tokenizer.path).read_bytes())
    spaces = {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}
    steps: list[dict[str, Any]] = [spaces, {"type": "Strip", "strip_left": True, "strip_right": True}]
    if charsmap := proto.normalizer_spec.precompiled_charsmap:
        steps.insert(0, {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(charsmap).decode()})
    metaspace = {"type": "Metaspace", "replacement": BLANK, "prepend_scheme": "always", "split": False}
    scores = [(piece.piece, float(piece.score)) for piece in proto.pieces]
    is_unigram = proto.trainer_spec.model_type == proto.trainer_spec.UNIGRAM
    return {"normalizer": {"type": "Sequence", "normalizers": steps}, "pre_tokenizer": metaspace,
            "decoder": metaspace, "model": _unigram(scores) if is_unigram else _bpe(scores)}


def _unigram(scores: Sequence[tuple[str, float]]) -> dict[str, Any]:
    return {"type": "Unigram", "unk_id": int(SpecialTextTokens.UNK_ID), "byte_fallback": False,
            "vocab": [list(pair) for pair in scores]}


def _bpe(scores: Sequence[tuple[str, float]]) -> dict[str, Any]:
    """Returns a model with a merge for each division of each piece into two pieces, the best piece first."""
    ids = {piece: number for number, (piece, _) in enumerate(scores)}
    ordered = [piece for piece, _ in sorted(scores[len(SpecialTextTokens):], key=lambda pair: -pair[1])]
    merges = [[piece[:cut], piece[cut:]] for piece in ordered
              for cut in sorted(range(1, len(piece)), reverse=True) if piece[:cut] in ids and piece[cut:] in ids]
    return {"type": "BPE", "dropout": None, "unk_token": scores[SpecialTextTokens.UNK_ID][0],
            "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": True, "byte_fallback": False,
            "vocab": ids, "merges": merges}
