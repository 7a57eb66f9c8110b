"""Writes Transformers as folders that Hugging Face's ``transformers`` loads.

``PegasusForConditionalGeneration`` is the network of this toolkit's Transformer: normalisation before each sublayer,
scaled embeddings, ReLU, a decoder that begins with a zero vector. Its table of sinusoids is stored in the file, so that
of this toolkit can be put there, in which sines and cosines are not interleaved. Its attention has biases, which are
zero here, and its normalisation has the epsilon 1e-5.

``GPT2LMHeadModel`` is the network of ``TransformerLMEncoder`` with sinusoids and without a bias of the output layer.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from open_seq2seq.data.text2text.vocabulary import SpecialTextTokens
from open_seq2seq.decoders import TransformerDecoder
from open_seq2seq.encoders import TransformerEncoder, TransformerLMEncoder
from open_seq2seq.export import hugging_face_tokenizer
from open_seq2seq.export.formats import Format
from open_seq2seq.export.runtime_texts import (
    LEAST_POSITIONS,
    TEXTS,
    continuing,
    greedy_search,
    positions_of_translation,
    refusal_of_norms,
    runtime_function,
    translation_limits,
    without_padding,
)
from open_seq2seq.models.lm.language_model import LanguageModel
from open_seq2seq.models.serving import Answer, ServingFunction, feed_of_texts
from open_seq2seq.models.text2text.serving import check_settings
from open_seq2seq.models.text2text.text2text import Text2Text
from open_seq2seq.parts.output_layer import OutputLayer
from open_seq2seq.parts.transformer.position import position_signal
from open_seq2seq.utils import disk
from open_seq2seq.utils.errors import UserError

Tensors = Iterator[tuple[str, np.ndarray]]


def functions(model: Any) -> list[ServingFunction]:
    """Returns what the folder can do: ``translate`` or ``continue``, without a search.

    Raises:
      UserError: the format cannot hold the model.
    """
    refusal = _refusal_of_translation if type(model) is Text2Text else (
        _refusal_of_language if isinstance(model, LanguageModel) else lambda model: f"it is a {type(model).__name__}")
    if problem := refusal(model):
        raise UserError(f"The model cannot be written for Hugging Face, because {problem}: the format holds models of "
                        "TransformerEncoder and TransformerDecoder with one vocabulary, and language models of "
                        "TransformerLMEncoder with sinusoids and without a bias of the output layer.")
    return [_translate(model) if isinstance(model, Text2Text) else _continue(model)]


def _refusal_of_translation(model: Any) -> str | None:
    check_settings(model)
    encoder, decoder, layer = model.encoder, model.decoder, model.data_layer
    if type(encoder) is not TransformerEncoder or type(decoder) is not TransformerDecoder:
        return f"it has a {type(encoder).__name__} and a {type(decoder).__name__}"
    if layer.params["use_start_token"]:
        return "'data_layer_params/use_start_token' is True"
    source, target = layer.tokenizers
    if source.fingerprint != target.fingerprint:
        return "source and target have different vocabularies"
    return refusal_of_norms(encoder, decoder) or hugging_face_tokenizer.refusal(source)


def _refusal_of_language(model: Any) -> str | None:
    encoder = model.encoder
    if type(encoder) is not TransformerLMEncoder:
        return f"it has a {type(encoder).__name__}"
    if encoder.params["position_encoding"] != "sinusoidal":
        return f"'encoder_params/position_encoding' is {encoder.params['position_encoding']}"
    if type(encoder.output_layer) is not OutputLayer or encoder.output_layer.bias is not None:
        return "its output layer has a bias (fc_use_bias) or is an adaptive softmax"
    return refusal_of_norms(encoder) or hugging_face_tokenizer.refusal(model.data_layer.tokenizer)


def _translate(model: Any) -> ServingFunction:
    def feed(inputs: Sequence[Any], numbers: np.ndarray) -> dict[str, np.ndarray]:
        lengths = model.data_layer.make_interactive_batch(inputs)["source_tensors"][1]
        return {**feed_of_texts({})(inputs, numbers), "limits": translation_limits(model, lengths)}

    def answers(outputs: Mapping[str, np.ndarray]) -> list[Answer]:
        return [Answer((text.decode(),)) for text in outputs["texts"].tolist()]

    return runtime_function("translate", {"texts": TEXTS}, {"texts": "translations [batch]"}, feed, answers,
                            lambda result: Answer((result[0].text,)))


def _continue(model: Any) -> ServingFunction:
    return continuing(model, {"texts": TEXTS}, {"texts": "prompts and continuations [batch]"}, feed_of_texts({}))


def write(model: Any, declared: Sequence[ServingFunction], folder: Path) -> None:
    """Writes weights, configuration and tokenizer of a model that ``functions`` accepts."""
    from safetensors.numpy import save

    is_translation = isinstance(model, Text2Text)
    tokenizer = model.data_layer.tokenizers[0] if is_translation else model.data_layer.tokenizer
    end = int(SpecialTextTokens.EOS_ID) if is_translation else tokenizer.end_id
    tensors = _pegasus(model) if is_translation else _gpt2(model)
    disk.write_new(folder / "model.safetensors", save(dict(tensors), {"format": "pt"}))
    names = {"eos": end, "unk": tokenizer.unknown_id, "pad": 0 if is_translation else end}
    longest = model.data_layer.params["max_length"] if is_translation else LEAST_POSITIONS
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False,
                "padding_side": "right" if is_translation else "left", "model_max_length": longest,
                **{f"{name}_token": tokenizer.tokens[number] for name, number in names.items()}}
    ids = {"pad_token_id": names["pad"], "bos_token_id": None, "eos_token_id": end if is_translation else None}
    more = _settings_of_translation(model) if is_translation else _settings_of_language(model)
    for name, content in (
            ("config.json", {**more[0], **ids}), ("generation_config.json", {**more[1], **ids}),
            ("tokenizer.json", hugging_face_tokenizer.tokenizer_of(tokenizer, end, is_translation)),
            ("tokenizer_config.json", settings)):
        disk.write_new(folder / name, json.dumps(content, ensure_ascii=False, indent=1) + "\n")


def _settings_of_translation(model: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the contents of the configuration and of the settings of generation."""
    sizes: dict[str, Any] = {}
    for side, part in (("encoder", model.encoder), ("decoder", model.decoder)):
        sizes |= {f"{side}_layers": len(part.layers), f"{side}_ffn_dim": part.params["filter_size"],
                  f"{side}_attention_heads": part.params["num_heads"]}
    positions = positions_of_translation(model)
    start = {"decoder_start_token_id": 0, "forced_eos_token_id": None}  # the embedding of padding is zeros
    return {"architectures": ["PegasusForConditionalGeneration"], "model_type": "pegasus",
            "d_model": model.encoder.params["hidden_size"], **sizes, "activation_function": "relu",
            "scale_embedding": True, "tie_word_embeddings": False, "vocab_size": model.data_layer.source_vocab_size,
            "max_position_embeddings": positions, "dropout": 0.0, "attention_dropout": 0.0,
            "activation_dropout": 0.0, "dtype": "float32", **start}, {"max_length": positions, **start}


def _settings_of_language(model: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the contents of the configuration and of the settings of generation."""
    params, count = model.encoder.params, model.encoder.params["num_tokens_gen"]
    return {"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "n_embd": params["hidden_size"],
            "n_layer": len(model.encoder.layers), "n_head": params["num_heads"], "n_inner": params["filter_size"],
            "n_positions": LEAST_POSITIONS + count, "vocab_size": params["vocab_size"], "activation_function": "relu",
            "layer_norm_epsilon": model.encoder.output_norm.epsilon, "tie_word_embeddings": False, "embd_pdrop": 0.0,
            "attn_pdrop": 0.0, "resid_pdrop": 0.0, "dtype": "float32"}, {"max_new_tokens": count}


def _pegasus(model: Any) -> Tensors:
    """Yields the tensors by their names in ``PegasusForConditionalGeneration``."""
    encoder, decoder, vocab_size = model.encoder, model.decoder, model.data_layer.source_vocab_size
    source = encoder.embedding.table.numpy()[:vocab_size]
    target = (decoder.embedding or encoder.embedding).table.numpy()[:vocab_size]
    yield "lm_head.weight", target.copy()
    yield "final_logits_bias", np.zeros([1, vocab_size], np.float32)
    yield "model.shared.weight", without_padding(source)
    for side, part, table in (("encoder", encoder, source), ("decoder", decoder, target)):
        prefix = f"model.{side}."
        yield f"{prefix}embed_tokens.weight", without_padding(table)
        yield f"{prefix}embed_positions.weight", _sinusoids(positions_of_translation(model), part)
        yield from _norm(f"{prefix}layer_norm.", part.output_norm)
        for number, layer in enumerate(part.layers):
            yield from _layer(f"{prefix}layers.{number}.", layer)


def _sinusoids(count: int, part: Any) -> np.ndarray:
    return position_signal(tf.range(count), part.params["hidden_size"]).numpy()


def _layer(prefix: str, layer: Any) -> Tensors:
    for name, attention in (("self_attn", "self_attention"), ("encoder_attn", "cross_attention")):
        if hasattr(layer, attention):
            yield from _norm(f"{prefix}{name}_layer_norm.", getattr(layer, f"{attention}_norm"))
            part = getattr(layer, attention)
            for letter, kernel in (("q", part.query), ("k", part.key), ("v", part.value), ("out", part.output)):
                yield from _product(f"{prefix}{name}.{letter}_proj.", kernel.numpy().T)
    yield from _norm(f"{prefix}final_layer_norm.", layer.feed_forward_norm)
    weights = layer.feed_forward
    yield from _product(f"{prefix}fc1.", weights.filter_kernel.numpy().T, weights.filter_bias)
    yield from _product(f"{prefix}fc2.", weights.output_kernel.numpy().T, weights.output_bias)


def _gpt2(model: Any) -> Tensors:
    """Yields the tensors by their names in ``GPT2LMHeadModel``, whose products are not transposed."""
    encoder = model.encoder
    count, size = LEAST_POSITIONS + encoder.params["num_tokens_gen"], encoder.params["hidden_size"]
    yield "lm_head.weight", encoder.output_layer.table.numpy()
    yield "transformer.wte.weight", encoder.embedding.numpy() * np.float32(math.sqrt(size))
    yield "transformer.wpe.weight", _sinusoids(count, encoder)
    yield from _norm("transformer.ln_f.", encoder.output_norm)
    for number, layer in enumerate(encoder.layers):
        prefix, attention, weights = f"transformer.h.{number}.", layer.self_attention, layer.feed_forward
        yield from _norm(f"{prefix}ln_1.", layer.self_attention_norm)
        yield from _norm(f"{prefix}ln_2.", layer.feed_forward_norm)
        joined = np.concatenate([kernel.numpy() for kernel in (attention.query, attention.key, attention.value)], 1)
        yield from _product(f"{prefix}attn.c_attn.", joined, outputs=1)
        yield from _product(f"{prefix}attn.c_proj.", attention.output.numpy(), outputs=1)
        yield from _product(f"{prefix}mlp.c_fc.", weights.filter_kernel.numpy(), weights.filter_bias, 1)
        yield from _product(f"{prefix}mlp.c_proj.", weights.output_kernel.numpy(), weights.output_bias, 1)


def _norm(prefix: str, norm: Any) -> Tensors:
    yield f"{prefix}weight", norm.gamma.numpy()
    yield f"{prefix}bias", norm.beta.numpy()


def _product(prefix: str, weight: np.ndarray, bias: tf.Variable | None = None, outputs: int = 0) -> Tensors:
    """Yields a matrix, whose axis ``outputs`` is that of the outputs, and its bias, or zeros without one."""
    yield f"{prefix}weight", np.ascontiguousarray(weight)
    yield f"{prefix}bias", np.zeros(weight.shape[outputs], np.float32) if bias is None else bias.numpy()


def loading(function: ServingFunction, folder: str) -> list[str]:
    """Returns lines of Python that load the folder and call its function."""
    kind = "Seq2SeqLM" if function.name == "translate" else "CausalLM"
    return [f"from transformers import AutoModelFor{kind}, AutoTokenizer", "",
            f"tokenizer = AutoTokenizer.from_pretrained({folder!r})",
            f"model = AutoModelFor{kind}.from_pretrained({folder!r})",
            'batch = tokenizer(["…"], return_tensors="pt", padding=True, truncation=True)',
            "print(tokenizer.batch_decode(model.generate(**batch), skip_special_tokens=True))"]


FORMAT = Format("huggingface", "Hugging Face", True, write, loading, "pip install transformers torch", 0.99, 1e-3,
                functions, greedy_search, ("transformers", "torch"),
                ("---", "library_name: transformers", "---", ""))
