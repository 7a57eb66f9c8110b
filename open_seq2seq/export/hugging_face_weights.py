"""The tensors of Hugging Face's Pegasus and GPT-2, and the variables that they hold, for writing and reading.

See ``hugging_face`` for what both networks have in common.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from open_seq2seq.checkpoints.hugging_face import HuggingFaceFolder
from open_seq2seq.decoders import TransformerDecoder
from open_seq2seq.encoders import TransformerEncoder, TransformerLMEncoder
from open_seq2seq.export.runtime_texts import (
    LEAST_POSITIONS,
    positions_of_translation,
    refusal_of_norms,
    without_padding,
)
from open_seq2seq.models.lm.language_model import LanguageModel
from open_seq2seq.models.text2text.text2text import Text2Text
from open_seq2seq.parts.component import named_variables
from open_seq2seq.parts.output_layer import OutputLayer
from open_seq2seq.parts.transformer.position import position_signal
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import CheckpointError

PEGASUS, GPT2 = "PegasusForConditionalGeneration", "GPT2LMHeadModel"
_CLOSE = 1e-5  # largest difference of values that both have to have, such as sinusoids


@dataclass(frozen=True)
class Tensor:
    """A tensor of a folder.

    Attributes:
      name: its name there.
      variables: the variables that it holds; none for values that never change.
      write: returns the tensor, given the values of the variables.
      read: returns the values of the variables, given the tensor.
    """

    name: str
    variables: tuple[Any, ...]
    write: Callable[..., np.ndarray]
    read: Callable[[np.ndarray], Sequence[np.ndarray]] = lambda tensor: [tensor]


Tensors = Iterator[Tensor]


def refusal_of_translation(model: Any) -> str | None:
    """Returns why Pegasus does not compute what the network of a translation model computes; None if it does."""
    encoder, decoder = model.encoder, model.decoder
    if type(encoder) is not TransformerEncoder or type(decoder) is not TransformerDecoder:
        return f"it has a {type(encoder).__name__} and a {type(decoder).__name__}"
    if model.data_layer.params["use_start_token"]:
        return "'data_layer_params/use_start_token' is True"
    return refusal_of_norms(encoder, decoder)


def refusal_of_language(model: Any) -> str | None:
    """Returns why GPT-2 does not compute what the network of a language model computes; None if it does."""
    encoder = model.encoder
    if type(encoder) is not TransformerLMEncoder:
        return f"it has a {type(encoder).__name__}"
    if encoder.params["position_encoding"] != "sinusoidal":
        return f"'encoder_params/position_encoding' is {encoder.params['position_encoding']}"
    if type(encoder.output_layer) is not OutputLayer or encoder.output_layer.bias is not None:
        return "its output layer has a bias (fc_use_bias) or is an adaptive softmax"
    return refusal_of_norms(encoder)


def pegasus(model: Any, vocab_size: int) -> Tensors:
    """Yields the tensors of ``PegasusForConditionalGeneration`` with a vocabulary of the given size."""
    source, target = _tables(model)
    yield Tensor("lm_head.weight", (target,), lambda table: table[:vocab_size].copy())
    yield _constant("final_logits_bias", np.zeros([1, vocab_size], np.float32))
    yield Tensor("model.shared.weight", (source,), lambda table: without_padding(table[:vocab_size]))
    for side, part, table in (("encoder", model.encoder, source), ("decoder", model.decoder, target)):
        prefix = f"model.{side}."
        yield Tensor(f"{prefix}embed_tokens.weight", (table,), lambda table: without_padding(table[:vocab_size]))
        yield _constant(f"{prefix}embed_positions.weight", _sinusoids(positions_of_translation(model), part))
        yield from _norm(f"{prefix}layer_norm.", part.output_norm)
        for number, layer in enumerate(part.layers):
            yield from _layer(f"{prefix}layers.{number}.", layer)


def _tables(model: Any) -> tuple[Any, Any]:
    """Returns the embedding tables of source and target, or of a language model and its output layer."""
    encoder = model.encoder
    if isinstance(encoder, TransformerLMEncoder):
        return encoder.embedding, encoder.output_layer.table
    return encoder.embedding.table, (model.decoder.embedding or encoder.embedding).table


def _sinusoids(count: int, part: Any) -> np.ndarray:
    return position_signal(tf.range(count), part.params["hidden_size"]).numpy()


def _constant(name: str, value: np.ndarray) -> Tensor:
    return Tensor(name, (), lambda: value)


def _layer(prefix: str, layer: Any) -> Tensors:
    for name, attention in (("self_attn", "self_attention"), ("encoder_attn", "cross_attention")):
        if hasattr(layer, attention):
            yield from _norm(f"{prefix}{name}_layer_norm.", getattr(layer, f"{attention}_norm"))
            part = getattr(layer, attention)
            for letter, kernel in (("q", part.query), ("k", part.key), ("v", part.value), ("out", part.output)):
                yield from _transposed(f"{prefix}{name}.{letter}_proj.", kernel)
    yield from _norm(f"{prefix}final_layer_norm.", layer.feed_forward_norm)
    weights = layer.feed_forward
    yield from _transposed(f"{prefix}fc1.", weights.filter_kernel, weights.filter_bias)
    yield from _transposed(f"{prefix}fc2.", weights.output_kernel, weights.output_bias)


def gpt2(model: Any) -> Tensors:
    """Yields the tensors of ``GPT2LMHeadModel``, whose matrices are not transposed."""
    encoder, (embedding, output) = model.encoder, _tables(model)
    scale = np.float32(math.sqrt(encoder.params["hidden_size"]))
    yield Tensor("lm_head.weight", (output,), np.array)
    yield Tensor("transformer.wte.weight", (embedding,), lambda table: table * scale, lambda tensor: [tensor / scale])
    yield _constant("transformer.wpe.weight", _sinusoids(LEAST_POSITIONS + encoder.params["num_tokens_gen"], encoder))
    yield from _norm("transformer.ln_f.", encoder.output_norm)
    for number, layer in enumerate(encoder.layers):
        prefix, attention, weights = f"transformer.h.{number}.", layer.self_attention, layer.feed_forward
        yield from _norm(f"{prefix}ln_1.", layer.self_attention_norm)
        yield from _norm(f"{prefix}ln_2.", layer.feed_forward_norm)
        kernels = (attention.query, attention.key, attention.value)
        yield Tensor(f"{prefix}attn.c_attn.weight", kernels, lambda *values: np.concatenate(values, 1),
                     lambda tensor: np.split(tensor, 3, 1))
        yield _constant(f"{prefix}attn.c_attn.bias", np.zeros(3 * kernels[0].shape[1], np.float32))
        yield from _as_it_is(f"{prefix}attn.c_proj.", attention.output)
        yield from _as_it_is(f"{prefix}mlp.c_fc.", weights.filter_kernel, weights.filter_bias)
        yield from _as_it_is(f"{prefix}mlp.c_proj.", weights.output_kernel, weights.output_bias)


def _norm(prefix: str, norm: Any) -> Tensors:
    yield Tensor(f"{prefix}weight", (norm.gamma,), np.array)
    yield Tensor(f"{prefix}bias", (norm.beta,), np.array)


def _transposed(prefix: str, kernel: Any, bias: Any = None) -> Tensors:
    yield Tensor(f"{prefix}weight", (kernel,), lambda value: np.ascontiguousarray(value.T), lambda tensor: [tensor.T])
    yield _bias(prefix, kernel, bias)


def _as_it_is(prefix: str, kernel: Any, bias: Any = None) -> Tensors:
    yield Tensor(f"{prefix}weight", (kernel,), np.array)
    yield _bias(prefix, kernel, bias)


def _bias(prefix: str, kernel: Any, bias: Any) -> Tensor:
    """Returns the bias of a product, or zeros without one."""
    name = f"{prefix}bias"
    return _constant(name, np.zeros(kernel.shape[1], np.float32)) if bias is None else Tensor(name, (bias,), np.array)


def written(tensors: Tensors) -> dict[str, np.ndarray]:
    """Returns the contents of tensors by name, from the values of the variables."""
    return {one.name: one.write(*(variable.numpy() for variable in one.variables)) for one in tensors}


def weights_of(folder: HuggingFaceFolder, model: Any) -> dict[str, np.ndarray]:
    """Returns the weights of a folder by the names of a model's variables.

    Rows of the embeddings and of the output layer are put in the order of the model's tokens. Those of tokens that the
    folder does not have keep their current values.

    Raises:
      CheckpointError: the folder is of another network or of other sizes, lacks a tensor, or has values that the model
        cannot have, such as biases of the attention.
    """
    is_language = isinstance(model, LanguageModel)
    kind, problem = (GPT2, refusal_of_language(model)) if is_language else (PEGASUS, (
        refusal_of_translation(model) if isinstance(model, Text2Text) else f"it is a {type(model).__name__}"))
    if folder.architecture != kind or problem:
        raise CheckpointError(f"'load_model' is {folder.path}, a folder of {folder.architecture}, but this model "
                              f"{f'is none, because {problem}' if problem else f'is a {kind}'}: load a folder of the "
                              "same network, or the logdir of a trained model.")
    tokens = folder.tokens()
    tensors = gpt2(model) if is_language else pegasus(model, len(tokens))
    values = _read(folder, tensors, folder.tensors(), {id(table) for table in _tables(model)})
    layer = model.data_layer
    tokenizers = (layer.tokenizer, layer.tokenizer) if is_language else layer.tokenizers
    # A table that serves twice is put in order once.
    for table, tokenizer in {id(table): (table, tokenizer)
                             for table, tokenizer in zip(_tables(model), tokenizers, strict=True)}.values():
        values[id(table)] = _rows_by_token(values[id(table)], tokens, table.numpy(), tokenizer.tokens)
    return {name: values[id(variable)] for name, variable in named_variables(model).items() if id(variable) in values}


def _read(folder: HuggingFaceFolder, expected: Tensors, found: dict[str, np.ndarray],
          tables: set[int]) -> dict[int, np.ndarray]:
    """Returns the values of variables by their ``id``; those of ``tables`` may have other numbers of rows."""
    values: dict[int, np.ndarray] = {}
    for one in expected:
        if one.name not in found:
            raise CheckpointError(f"'load_model' is {folder.path}, which lacks the tensor {one.name} of this model: "
                                  "its layers have to be those of the folder.")
        tensor, keys = found.pop(one.name), [id(variable) for variable in one.variables]
        if all(key in values for key in keys):
            _check_equal(folder, one, tensor, one.write(*(values[key] for key in keys)))
            continue
        for variable, key, value in zip(one.variables, keys, one.read(tensor), strict=True):
            first = 1 if key in tables else 0
            if value.shape[first:] != tuple(variable.shape)[first:] or value.ndim != len(variable.shape):
                raise CheckpointError(f"'load_model' is {folder.path}, whose tensor {one.name} has the shape "
                                      f"{tensor.shape}, which is not that of this model: give the sizes of its "
                                      "config.json.")
            values[key] = value
    if found:
        raise CheckpointError(f"'load_model' is {folder.path}, which has {len(found)} tensors that this model lacks, "
                              f"such as {min(found)}: its layers have to be those of the folder.")
    return values


def _check_equal(folder: HuggingFaceFolder, one: Tensor, tensor: np.ndarray, value: np.ndarray) -> None:
    """Raises CheckpointError if a tensor is not as it has to be, as far as both have positions or tokens."""
    common = tuple(slice(min(sizes)) for sizes in zip(tensor.shape, value.shape, strict=False))
    if tensor.ndim != value.ndim or not np.allclose(tensor[common], value[common], atol=_CLOSE):
        raise CheckpointError(f"'load_model' is {folder.path}, whose tensor {one.name} has values that this model "
                              "cannot have: load a folder that this toolkit has written.")


def _rows_by_token(table: np.ndarray, theirs: Sequence[str], current: np.ndarray, ours: Sequence[str]) -> np.ndarray:
    """Returns a table with the rows of the folder's tokens, in the order of the model's tokens."""
    ids, rows = {token: number for number, token in enumerate(theirs)}, current.copy()
    if tuple(theirs[:len(ours)]) == tuple(ours):
        common = min(len(table), len(rows))
        rows[:common] = table[:common]  # also of ids that only round up the vocabulary
        return rows
    known = [(number, ids[token]) for number, token in enumerate(ours) if ids.get(token, len(table)) < len(table)]
    deco_print(f"{len(known):,} of {len(ours):,} tokens are in the vocabulary of the loaded model", offset=1)
    numbers, others = np.array(known, np.int64).reshape(-1, 2).T
    rows[numbers] = table[others]
    return rows
