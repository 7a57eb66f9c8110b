"""Writes Transformers as folders that Hugging Face's ``transformers`` loads, and reads their weights again.

``PegasusForConditionalGeneration`` is the network of this toolkit's Transformer: normalisation before each sublayer,
scaled embeddings, ReLU, a decoder that begins with a zero vector. Its table of sinusoids is stored in the file, so that
of this toolkit can be put there, in which sines and cosines are not interleaved. Its attention has biases, which are
zero here, and its normalisation has the epsilon 1e-5.

``GPT2LMHeadModel`` is the network of ``TransformerLMEncoder`` with sinusoids and without a bias of the output layer.
"""

from __future__ import annotations

import base64
import importlib
import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from open_seq2seq.checkpoints.hugging_face import HuggingFaceFolder
from open_seq2seq.data.lm.tokenizers import FittingTokenizer, VocabularyTokenizer, split_characters, split_words
from open_seq2seq.data.sentencepiece_models import BLANK
from open_seq2seq.data.text2text.tokenizers import DelimiterTokenizer, SentencePieceTokenizer
from open_seq2seq.data.text2text.vocabulary import SpecialTextTokens
from open_seq2seq.decoders import TransformerDecoder
from open_seq2seq.encoders import TransformerEncoder, TransformerLMEncoder
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
from open_seq2seq.models.serving import Answer, ServingFunction, answers_of_texts, feed_of_texts
from open_seq2seq.models.text2text.text2text import Text2Text, check_settings
from open_seq2seq.parts.component import named_variables
from open_seq2seq.parts.output_layer import OutputLayer
from open_seq2seq.parts.transformer.position import position_signal
from open_seq2seq.utils import disk
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import CheckpointError, UserError

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


def _refusal_of_translating_network(model: Any) -> str | None:
    """Returns why Pegasus does not compute what the network of a translation model computes; None if it does."""
    encoder, decoder = model.encoder, model.decoder
    if type(encoder) is not TransformerEncoder or type(decoder) is not TransformerDecoder:
        return f"it has a {type(encoder).__name__} and a {type(decoder).__name__}"
    if model.data_layer.params["use_start_token"]:
        return "'data_layer_params/use_start_token' is True"
    return refusal_of_norms(encoder, decoder)


def _refusal_of_language_network(model: Any) -> str | None:
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
    kind, problem = (GPT2, _refusal_of_language_network(model)) if is_language else (PEGASUS, (
        _refusal_of_translating_network(model) if isinstance(model, Text2Text) else f"it is a {type(model).__name__}"))
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


def functions(model: Any) -> list[ServingFunction]:
    """Returns what the folder can do: ``translate`` or ``continue``, without a search.

    Raises:
      UserError: the format cannot hold the model.
    """
    if type(model) is Text2Text:
        problem = _refusal_of_translation(model)
    elif isinstance(model, LanguageModel):
        problem = _refusal_of_language_network(model) or _refusal_of_tokenizer(model.data_layer.tokenizer)
    else:
        problem = f"it is a {type(model).__name__}"
    if problem:
        raise UserError(f"The model cannot be written for Hugging Face, because {problem}: the format holds models of "
                        "TransformerEncoder and TransformerDecoder with one vocabulary, and language models of "
                        "TransformerLMEncoder with sinusoids and without a bias of the output layer.")
    if isinstance(model, Text2Text):
        return [_translate(model)]
    return [continuing(model, {"texts": TEXTS}, {"texts": "prompts and continuations [batch]"}, feed_of_texts({}))]


def _refusal_of_translation(model: Any) -> str | None:
    check_settings(model)
    if problem := _refusal_of_translating_network(model):
        return problem
    source, target = model.data_layer.tokenizers
    if source.fingerprint != target.fingerprint:
        return "source and target have different vocabularies"
    return _refusal_of_tokenizer(source)


def _translate(model: Any) -> ServingFunction:
    def feed(inputs: Sequence[Any], numbers: np.ndarray) -> dict[str, np.ndarray]:
        lengths = model.data_layer.make_interactive_batch(inputs)["source_tensors"][1]
        return {**feed_of_texts({})(inputs, numbers), "limits": translation_limits(model, lengths)}

    return runtime_function("translate", {"texts": TEXTS}, {"texts": "translations [batch]"}, feed, answers_of_texts,
                            lambda result: Answer((result[0].text,)))


def write(model: Any, declared: Sequence[ServingFunction], folder: Path) -> None:
    """Writes weights, configuration and tokenizer of a model that ``functions`` accepts."""
    from safetensors.numpy import save

    is_translation = isinstance(model, Text2Text)
    tokenizer = model.data_layer.tokenizers[0] if is_translation else model.data_layer.tokenizer
    end = int(SpecialTextTokens.EOS_ID) if is_translation else tokenizer.end_id
    tensors = pegasus(model, model.data_layer.source_vocab_size) if is_translation else gpt2(model)
    disk.write_new(folder / "model.safetensors", save(written(tensors), {"format": "pt"}))
    names = {"eos": end, "unk": tokenizer.unknown_id, "pad": 0 if is_translation else end}
    longest = model.data_layer.params["max_length"] if is_translation else LEAST_POSITIONS
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False,
                "padding_side": "right" if is_translation else "left", "model_max_length": longest,
                "model_input_names": ["input_ids", "attention_mask"],
                **{f"{name}_token": tokenizer.tokens[number] for name, number in names.items()}}
    ids = {"pad_token_id": names["pad"], "bos_token_id": None, "eos_token_id": end if is_translation else None}
    more = _settings_of_translation(model) if is_translation else _settings_of_language(model)
    for name, content in (
            ("config.json", {**more[0], **ids}), ("generation_config.json", {**more[1], **ids}),
            ("tokenizer.json", tokenizer_of(tokenizer, end, is_translation)),
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
    return {"architectures": [PEGASUS], "model_type": "pegasus",
            "d_model": model.encoder.params["hidden_size"], **sizes, "activation_function": "relu",
            "scale_embedding": True, "tie_word_embeddings": False, "vocab_size": model.data_layer.source_vocab_size,
            "max_position_embeddings": positions, "dropout": 0.0, "attention_dropout": 0.0,
            "activation_dropout": 0.0, "dtype": "float32", **start}, {"max_length": positions, **start}


def _settings_of_language(model: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the contents of the configuration and of the settings of generation."""
    params, count = model.encoder.params, model.encoder.params["num_tokens_gen"]
    return {"architectures": [GPT2], "model_type": "gpt2", "n_embd": params["hidden_size"],
            "n_layer": len(model.encoder.layers), "n_head": params["num_heads"], "n_inner": params["filter_size"],
            "n_positions": LEAST_POSITIONS + count, "vocab_size": params["vocab_size"], "activation_function": "relu",
            "layer_norm_epsilon": model.encoder.output_norm.epsilon, "tie_word_embeddings": False, "embd_pdrop": 0.0,
            "attn_pdrop": 0.0, "resid_pdrop": 0.0, "dtype": "float32"}, {"max_new_tokens": count}


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


_CHARACTERS = {"type": "Split", "pattern": {"Regex": "(?s)."}, "behavior": "Isolated", "invert": False}


def _refusal_of_tokenizer(tokenizer: Any) -> str | None:
    """Returns why ``tokenizers`` cannot split texts as a tokenizer does; None if it can."""
    if isinstance(tokenizer, DelimiterTokenizer):
        return None if tokenizer.at_white_space and not tokenizer.detokenize else (
            "its texts are not divided at white space alone")
    if isinstance(tokenizer, FittingTokenizer):
        return "its tokenizer of raw words looks ahead"
    if isinstance(tokenizer, VocabularyTokenizer) and tokenizer.splits_by not in (split_words, split_characters):
        return "its tokenizer changes the words of WikiText"
    return None


def tokenizer_of(tokenizer: Any, end: int, ends_texts: bool) -> dict[str, Any]:
    """Returns the content of ``tokenizer.json``.

    Special tokens that a text contains literally, such as ``<s>``, become special ids, as always in ``tokenizers``.

    Args:
      tokenizer: a tokenizer that ``functions`` does not refuse.
      end: the id of the token that ends a text or a line.
      ends_texts: whether this token follows each text; otherwise, it precedes each text.
    """
    tokens, is_pieces = list(tokenizer.tokens), isinstance(tokenizer, SentencePieceTokenizer)
    parts = _pieces(tokenizer) if is_pieces else _words(tokenizer, tokens)
    special = [int(one) for one in SpecialTextTokens] if is_pieces or isinstance(tokenizer, DelimiterTokenizer) else [
        tokenizer.unknown_id, end]
    options = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    added = [{"id": number, "content": tokens[number], **options} for number in sorted(special)]
    text, mark = {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": tokens[end], "type_id": 0}}
    second = {"Sequence": {"id": "B", "type_id": 0}}
    single = [text, mark] if ends_texts else [mark, text]
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added, **parts,
        "post_processor": {
            "type": "TemplateProcessing", "single": single, "pair": [*single, second],
            "special_tokens": {tokens[end]: {"id": tokens[end], "ids": [end], "tokens": [tokens[end]]}}},
    }


def _words(tokenizer: Any, tokens: Sequence[str]) -> dict[str, Any]:
    """Returns the parts of a tokenizer that looks up words or characters."""
    is_characters = getattr(tokenizer, "splits_by", None) is split_characters
    return {"normalizer": None, "pre_tokenizer": _CHARACTERS if is_characters else {"type": "WhitespaceSplit"},
            "decoder": {"type": "Fuse"} if is_characters else None,
            "model": {"type": "WordLevel", "vocab": {token: number for number, token in enumerate(tokens)},
                      "unk_token": tokens[tokenizer.unknown_id]}}


def _pieces(tokenizer: SentencePieceTokenizer) -> dict[str, Any]:
    """Returns normaliser, pre-tokenizer, decoder and model of a SentencePiece model."""
    messages: Any = importlib.import_module("sentencepiece.sentencepiece_model_pb2")
    proto = messages.ModelProto.FromString(Path(tokenizer.path).read_bytes())
    steps: list[dict[str, Any]] = [{"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "},
                                   {"type": "Strip", "strip_left": True, "strip_right": True}]
    if charsmap := proto.normalizer_spec.precompiled_charsmap:
        steps.insert(0, {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(charsmap).decode()})
    metaspace = {"type": "Metaspace", "replacement": BLANK, "prepend_scheme": "always", "split": False}
    scores = [(piece.piece, float(piece.score)) for piece in proto.pieces]
    is_unigram = proto.trainer_spec.model_type == proto.trainer_spec.UNIGRAM
    unigram = {"type": "Unigram", "unk_id": int(SpecialTextTokens.UNK_ID), "byte_fallback": False,
               "vocab": [list(pair) for pair in scores]}
    return {"normalizer": {"type": "Sequence", "normalizers": steps}, "pre_tokenizer": metaspace,
            "decoder": metaspace, "model": unigram if is_unigram else _bpe(scores)}


def _bpe(scores: Sequence[tuple[str, float]]) -> dict[str, Any]:
    """Returns a model with a merge for each division of each piece into two pieces, the best piece first."""
    ids = {piece: number for number, (piece, _) in enumerate(scores)}
    ordered = [piece for piece, _ in sorted(scores[len(SpecialTextTokens):], key=lambda pair: -pair[1])]
    merges = [[piece[:cut], piece[cut:]] for piece in ordered
              for cut in sorted(range(1, len(piece)), reverse=True) if piece[:cut] in ids and piece[cut:] in ids]
    return {"type": "BPE", "dropout": None, "unk_token": scores[SpecialTextTokens.UNK_ID][0],
            "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": True, "byte_fallback": False,
            "vocab": ids, "merges": merges}
