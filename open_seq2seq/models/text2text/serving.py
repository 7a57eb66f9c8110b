"""What an exported text-to-text model can do: translate texts, or ids."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from open_seq2seq.data.text2text.graph_tokenizers import graph_tokenizer, without_special
from open_seq2seq.data.text2text.vocabulary import SpecialTextTokens
from open_seq2seq.models.serving import (
    Answer,
    ServingFunction,
    Tensors,
    core_of_ids,
    feed_of_texts,
    row_numbers,
    specs_of_sampling,
)
from open_seq2seq.utils.errors import UserError

_NO_HYPOTHESIS = -1e20  # lower scores are those of hypotheses that a search has not found


def text_functions(model: Any, target_tokenizer: Any) -> list[ServingFunction]:
    """Returns the functions ``translate``, from texts, and ``ids``, from ids.

    Args:
      model: a ``Text2Text`` built for ``interactive_infer``.
      target_tokenizer: the tokenizer of its translations.

    Raises:
      UserError: the settings of inference have no graph form.
    """
    check_settings(model)
    layer, specs = model.data_layer, specs_of_sampling(model.decoder)

    @functools.cache
    def tokenizers() -> tuple[Any, Any]:
        source = graph_tokenizer(layer.tokenizers[0])
        is_shared = layer.tokenizers[0].fingerprint == target_tokenizer.fingerprint
        return source, source if is_shared else graph_tokenizer(target_tokenizer)

    def search(source: Sequence[tf.Tensor], inputs: Tensors) -> Tensors:
        ids, scores = model.predict({"source_tensors": source, "ids": row_numbers(inputs, source[1])})
        is_text = (source[1] > layer.num_special)[:, tf.newaxis]
        return {"ids": tf.where(tf.expand_dims(is_text, 2), ids, int(SpecialTextTokens.PAD_ID)),
                "scores": tf.where(is_text, scores, 0.0)}

    def translate(inputs: Tensors) -> Tensors:
        source, target = tokenizers()
        ids, scores = search(layer.graph_batch(inputs["texts"], source), inputs).values()
        texts = target.texts_of(without_special(tf.reshape(ids, [-1, tf.shape(ids)[2]])))
        return {"texts": tf.reshape(texts, tf.shape(ids)[:2]), "scores": scores}

    def ids_of(inputs: Tensors) -> Tensors:
        return search([inputs["source_ids"], inputs["source_lengths"]], inputs)

    def answers_of_texts(outputs: Mapping[str, np.ndarray]) -> list[Answer]:
        return [_answer([text.decode() for text in texts], scores)
                for texts, scores in zip(outputs["texts"].tolist(), outputs["scores"], strict=True)]

    def answers_of_ids(outputs: Mapping[str, np.ndarray]) -> list[Answer]:
        return [_answer([target_tokenizer.decode(one) for one in ids], scores)
                for ids, scores in zip(outputs["ids"], outputs["scores"], strict=True)]

    def expected(result: Any) -> Answer:
        return _answer([one.text for one in result], np.array([one.score for one in result]))

    described = {"scores": "score of each hypothesis [batch, hypotheses], float32; 0 for an empty text, below "
                 "-1e20 if there is none"}
    return [
        ServingFunction("translate", translate, {"texts": tf.TensorSpec([None], tf.string), **specs},
                        {"texts": "hypotheses, best first [batch, hypotheses]; empty for an empty text", **described},
                        False, feed_of_texts(specs), answers_of_texts, expected,
                        lambda: [table for one in tokenizers() for table in one.resources]),
        core_of_ids("ids", layer, ids_of, specs, {"ids": "ids of the hypotheses, best first, each up to id 1 (EOS) "
                                                  "[batch, hypotheses, time], int32", **described},
                    answers_of_ids, expected),
    ]


def _answer(texts: list[str], scores: np.ndarray) -> Answer:
    """Returns the hypotheses and their scores; only one hypothesis for an empty sentence."""
    pairs = [(text, float(score)) for text, score in zip(texts, scores, strict=True) if score > _NO_HYPOTHESIS]
    is_empty = not any(text or score for text, score in pairs)
    return Answer(("",)) if is_empty else Answer(tuple(text for text, _ in pairs), tuple(score for _, score in pairs))


def check_settings(model: Any) -> None:
    """Raises UserError if the settings of inference have no form in exports."""
    params = model.params
    for name in ("replace_unknowns", "save_alignments"):
        if params[name]:
            raise UserError(f"'{name}' is True, but an export has no alignments: give --{name}=False.")
    check_single_source(model)


def check_single_source(model: Any) -> None:
    """Raises UserError if a model reads several texts for each translation."""
    layer = model.data_layer.params
    if layer.get("prefix_column") or getattr(model.data_layer, "num_sources", 1) > 1:
        raise UserError("The model reads several texts for each translation, but an export reads one: this model "
                        "cannot be exported.")
