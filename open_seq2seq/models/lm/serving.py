"""What an exported language model can do: continue texts, or ids."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from open_seq2seq.data.text2text.graph_tokenizers import graph_tokenizer
from open_seq2seq.models import serving
from open_seq2seq.models.serving import Answer, ServingFunction, Tensors
from open_seq2seq.utils.errors import UserError


def text_functions(model: Any) -> list[ServingFunction]:
    """Returns the functions ``continue``, from prompts, and ``ids``, from ids.

    Args:
      model: a ``LanguageModel`` built for ``interactive_infer``.

    Raises:
      UserError: the model scores lines.
    """
    if model.params["infer_task"] != "generate":
        raise UserError(f"'infer_task' is {model.params['infer_task']}, but an export continues texts: give "
                        "--infer_task=generate.")
    layer, specs = model.data_layer, serving.specs_of_sampling(model.encoder)

    @functools.cache
    def tokenizer() -> Any:
        return graph_tokenizer(layer.tokenizer)

    def generated(ids: tf.Tensor, lengths: tf.Tensor, inputs: Tensors) -> tf.Tensor:
        return model.predict({"source_tensors": [ids, lengths], "ids": serving.row_numbers(inputs, lengths)})[0]

    def continue_texts(inputs: Tensors) -> Tensors:
        ids, lengths = layer.graph_batch(inputs["prompts"], tokenizer())
        # Without the end token before each text.
        prompts = tf.RaggedTensor.from_tensor(ids, tf.cast(lengths, tf.int64))[:, 1:]
        new = tf.RaggedTensor.from_tensor(generated(ids, lengths, inputs))
        return {"texts": tokenizer().texts_of(tf.concat([prompts, new], 1))}

    def ids_of(inputs: Tensors) -> Tensors:
        return {"ids": generated(inputs["source_ids"], inputs["source_lengths"], inputs)}

    def answers(outputs: Mapping[str, np.ndarray]) -> list[Answer]:
        return [Answer((text.decode(),)) for text in outputs["texts"].tolist()]

    def answers_of_ids(outputs: Mapping[str, np.ndarray]) -> list[Answer]:
        return [serving.answer_of_ids(ids) for ids in outputs["ids"]]

    def feed(inputs: Any, numbers: np.ndarray) -> dict[str, np.ndarray]:
        texts, *others = serving.feed_of_texts(specs)(inputs, numbers).values()
        return {"prompts": texts, **dict(zip(specs, others, strict=True))}

    count = model.encoder.params["num_tokens_gen"]
    return [
        ServingFunction("continue", continue_texts, {"prompts": tf.TensorSpec([None], tf.string), **specs},
                        {"texts": "each prompt, as its tokens are, and its continuation [batch]"}, False, feed, answers,
                        lambda result: Answer((layer.ids_to_text(result),)), lambda: tokenizer().resources),
        serving.core_of_ids("ids", layer, ids_of, specs, {"ids": f"ids that follow the prompt [batch, {count}], int32"},
                            answers_of_ids, lambda result: serving.answer_of_ids(result[-count:])),
    ]
