"""Writes Transformers as folders that Hugging Face's ``transformers`` loads.

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
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from open_seq2seq.data.lm.tokenizers import FittingTokenizer, VocabularyTokenizer, split_characters, split_words
from open_seq2seq.data.sentencepiece_models import BLANK
from open_seq2seq.data.text2text.tokenizers import DelimiterTokenizer, SentencePieceTokenizer
from open_seq2seq.data.text2text.vocabulary import SpecialTextTokens
from open_seq2seq.export.formats import Format
from open_seq2seq.export.hugging_face_weights import (
    GPT2,
    PEGASUS,
    gpt2,
    pegasus,
    refusal_of_language,
    refusal_of_translation,
    written,
)
from open_seq2seq.export.runtime_texts import (
    LEAST_POSITIONS,
    TEXTS,
    continuing,
    greedy_search,
    positions_of_translation,
    runtime_function,
    translation_limits,
)
from open_seq2seq.models.lm.language_model import LanguageModel
from open_seq2seq.models.serving import Answer, ServingFunction, answers_of_texts, feed_of_texts
from open_seq2seq.models.text2text.serving import check_settings
from open_seq2seq.models.text2text.text2text import Text2Text
from open_seq2seq.utils import disk
from open_seq2seq.utils.errors import UserError


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
    if problem := refusal_of_translation(model):
        return problem
    source, target = model.data_layer.tokenizers
    if source.fingerprint != target.fingerprint:
        return "source and target have different vocabularies"
    return _refusal_of_tokenizer(source)


def _refusal_of_language(model: Any) -> str | None:
    return refusal_of_language(model) or _refusal_of_tokenizer(model.data_layer.tokenizer)


def _translate(model: Any) -> ServingFunction:
    def feed(inputs: Sequence[Any], numbers: np.ndarray) -> dict[str, np.ndarray]:
        lengths = model.data_layer.make_interactive_batch(inputs)["source_tensors"][1]
        return {**feed_of_texts({})(inputs, numbers), "limits": translation_limits(model, lengths)}

    return runtime_function("translate", {"texts": TEXTS}, {"texts": "translations [batch]"}, feed, answers_of_texts,
                            lambda result: Answer((result[0].text,)))


def _continue(model: Any) -> ServingFunction:
    return continuing(model, {"texts": TEXTS}, {"texts": "prompts and continuations [batch]"}, feed_of_texts({}))


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
      tokenizer: a tokenizer that ``refusal`` does not refuse.
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
