"""Text classification."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from open_seq2seq.data.text2text.graph_tokenizers import graph_tokenizer
from open_seq2seq.losses.sequence_loss import CrossEntropyLoss
from open_seq2seq.metrics.classification import classification_scores, confusion_matrix
from open_seq2seq.models.confusion import print_confusion, report_confusion
from open_seq2seq.models.encoder_decoder import EncoderDecoderModel
from open_seq2seq.models.part import unfit_class
from open_seq2seq.models.reporter import Reporter
from open_seq2seq.models.results import LineWriter, ResultWriter
from open_seq2seq.models.serving import Answer, ServingFunction, Tensors, core_of_ids, feed_of_texts, row_numbers
from open_seq2seq.utils.console import deco_print

_NOTHING = ("", 0.0)  # label and probability that are returned for an empty text


class Text2Label(EncoderDecoderModel):
    """Text classification with any encoder of text and a ``SoftmaxDecoder``, evaluated by accuracy.

    For two classes, evaluation also returns precision, recall and F1 of the second class. Inference writes lines
    ``label<TAB>probability``, and an empty line for an empty text.
    """

    object_name = "tokens"
    interactive_hint = "Type a text to classify"
    verb = "classify"
    hub_task: str | None = "text-classification"

    def part_problems(self) -> list[str]:
        task = "a classifier"
        if not hasattr(self.data_layer, "num_classes"):
            return [f"'data_layer' is {type(self.data_layer).__name__}, but {task} needs one of texts with "
                    "classes, such as LabelledTextDataLayer."]
        return unfit_class("loss", self.params["loss"], CrossEntropyLoss, task) if "loss" in self.components else []

    def derived_params(self, part: str) -> dict[str, Any]:
        layer: Any = self.data_layer
        return {"src_vocab_size": layer.source_vocab_size, "num_classes": layer.num_classes,
                "batch_size": self.params["batch_size_per_gpu"]}

    def prediction_tensors(self, decoded: dict[str, Any]) -> list[tf.Tensor]:
        """Returns the probabilities of the classes ``[batch, classes]``."""
        return [decoded["outputs"][0]]

    def num_objects(self, batch: dict[str, Any]) -> int:
        """Counts tokens without padding."""
        return int(batch["source_tensors"][1].sum())

    def report_sample(self, batch: dict[str, Any], outputs: list[np.ndarray], reporter: Reporter) -> None:
        layer: Any = self.data_layer
        reporter.texts({"train_source": layer.source_to_text(batch["source_tensors"][0][0]),
                        "train_target": layer.labels[int(batch["target_tensors"][0][0])],
                        "train_prediction": layer.labels[int(outputs[0][0].argmax())]})

    def evaluate(self, input_values: dict[str, Any], output_values: list[np.ndarray]) -> list[tuple[int, int]]:
        """Returns (index of the predicted class, index of the correct class) for each text of the batch."""
        return list(zip(output_values[0].argmax(axis=1).tolist(), input_values["target_tensors"][0].tolist(),
                        strict=True))

    def finalize_evaluation(self, results_per_batch: list[Any], training_step: int | None = None) -> dict[str, float]:
        layer: Any = self.data_layer
        predicted, correct = _columns(results_per_batch)
        print_confusion(confusion_matrix(correct, predicted, layer.num_classes), layer.labels)
        scores = classification_scores(predicted, correct, layer.num_classes)
        for name, score in scores.items():
            deco_print(f"{name}: {score:.4f}", offset=1)
        return {f"Eval_{name}": score for name, score in scores.items()}

    def report_evaluation(self, results_per_batch: list[Any], reporter: Reporter) -> None:
        """Shows a picture of the confusion matrix."""
        layer: Any = self.data_layer
        predicted, correct = _columns(results_per_batch)
        report_confusion(confusion_matrix(correct, predicted, layer.num_classes), layer.labels, reporter)

    def infer(self, input_values: dict[str, Any],
              output_values: list[np.ndarray]) -> list[tuple[int, tuple[str, float]]]:
        """Returns (example, (label, probability)) for each text of the batch; an empty text has ``("", 0.0)``."""
        layer: Any = self.data_layer
        empty = input_values["source_tensors"][1] <= getattr(layer, "num_special", 0)
        return [(int(example), _NOTHING if nothing else (layer.labels[row.argmax()], float(row.max())))
                for example, nothing, row in zip(input_values["ids"], empty, output_values[0], strict=True)]

    def serving_functions(self) -> list[ServingFunction]:
        layer: Any = self.data_layer

        @functools.cache
        def tokenizer() -> Any:
            return graph_tokenizer(layer.tokenizer)

        def probabilities(inputs: Tensors) -> Tensors:
            source = [inputs["source_ids"], inputs["source_lengths"]]
            (by_class,) = self.predict({"source_tensors": source, "ids": row_numbers(inputs, source[1])})
            is_text = source[1] > layer.num_special
            return {"probabilities": tf.where(is_text[:, tf.newaxis], by_class, 0.0)}

        def classify(inputs: Tensors) -> Tensors:
            ids, lengths = layer.graph_batch(inputs["texts"], tokenizer())
            outputs = probabilities({"source_ids": ids, "source_lengths": lengths})
            labels = tf.gather(tf.constant(layer.labels), tf.argmax(outputs["probabilities"], -1))
            return {"labels": tf.where(lengths > layer.num_special, labels, ""), **outputs}

        def answers(outputs: Mapping[str, np.ndarray]) -> list[Answer]:
            return [Answer((layer.labels[row.argmax()],), (float(row.max()),)) if row.any() else Answer(("",))
                    for row in outputs["probabilities"]]

        def answers_of_labels(outputs: Mapping[str, np.ndarray]) -> list[Answer]:
            return [Answer((label.decode(),), (float(row.max()),)) if label else Answer(("",))
                    for label, row in zip(outputs["labels"].tolist(), outputs["probabilities"], strict=True)]

        def expected(result: Any) -> Answer:
            return Answer(("",)) if result == _NOTHING else Answer((result[0],), (result[1],))

        described = {"probabilities": f"probability of each class [batch, {len(layer.labels)}], float32; 0 for an "
                     "empty text"}
        return [ServingFunction("classify", classify, {"texts": tf.TensorSpec([None], tf.string)},
                                {"labels": "the most probable class [batch]; empty for an empty text", **described},
                                False, feed_of_texts({}), answers_of_labels, expected,
                                lambda: tokenizer().resources),
                core_of_ids("probabilities", layer, probabilities, {}, described, answers, expected)]

    def answer(self, result: Any) -> str:
        return "" if result == _NOTHING else f"{result[0]} ({result[1]:.4f})"

    def label_of(self, result: tuple[str, float]) -> str:
        """Returns the class in one of ``infer``'s results; "" for an empty text."""
        return result[0]

    def open_results(self, output_file: str) -> ResultWriter:
        return LineWriter(output_file, _line, self.data_layer)


def _line(example: int, prediction: tuple[str, float]) -> str:
    return "\n" if prediction == _NOTHING else f"{prediction[0]}\t{prediction[1]:.4f}\n"


def _columns(results_per_batch: list[Any]) -> tuple[np.ndarray, np.ndarray]:
    """Returns the predicted and the correct classes of all texts, int64 ``[texts]`` each."""
    pairs = np.array([pair for batch in results_per_batch for pair in batch], np.int64).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]
