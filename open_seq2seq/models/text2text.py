"""Text-to-text models, for translation and other tasks that map token sequences to token sequences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from open_seq2seq.config.params import FREE, Param
from open_seq2seq.metrics.bleu import corpus_bleu, sentence_chrf
from open_seq2seq.models.encoder_decoder import EncoderDecoderModel
from open_seq2seq.models.reporter import Reporter
from open_seq2seq.models.results import LineWriter, ResultWriter
from open_seq2seq.utils.console import deco_print


class Text2Text(EncoderDecoderModel):
    """Translation, evaluated with sacreBLEU and chrF on detokenised text; results are written line by line."""

    object_name = "tokens"
    interactive_hint = "Type a line to translate"
    verb = "translate"

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {
            **EncoderDecoderModel.get_optional_params(),
            "eval_using_bleu": Param(bool, True, "Whether evaluation decodes the data and prints BLEU and chrF.",
                                     on_change=FREE),
            "write_scores": Param(bool, False, "Whether inference writes 'number<TAB>score<TAB>text' for each of "
                                  "the decoder's n_best hypotheses, instead of only the best text.", on_change=FREE),
        }

    def derived_params(self, part: str) -> dict[str, Any]:
        layer: Any = self.data_layer
        sizes = {"src_vocab_size": layer.source_vocab_size, "tgt_vocab_size": layer.target_vocab_size}
        return {**sizes, "batch_size": self.params["batch_size_per_gpu"]}

    @property
    def predicts_in_evaluation(self) -> bool:
        return self.params["eval_using_bleu"]

    def prediction_tensors(self, decoded: dict[str, Any]) -> list[tf.Tensor]:
        """Returns ids ``[batch, n_best, length]`` and scores ``[batch, n_best]``, best first."""
        if "beam_ids" in decoded:
            return [decoded["beam_ids"], decoded["beam_scores"]]
        best = decoded["outputs"][0]
        return [best[:, tf.newaxis], tf.zeros([tf.shape(best)[0], 1])]

    def num_objects(self, batch: dict[str, Any]) -> int:
        """Counts source and target tokens without padding."""
        target = batch.get("target_tensors")
        return int(batch["source_tensors"][1].sum()) + (int(target[1].sum()) if target else 0)

    def report_sample(self, batch: dict[str, Any], outputs: list[np.ndarray], reporter: Reporter) -> None:
        layer: Any = self.data_layer
        reporter.texts({"train_source": layer.source_to_text(batch["source_tensors"][0][0]),
                        "train_target": layer.ids_to_text(batch["target_tensors"][0][0]),
                        "train_prediction": layer.ids_to_text(outputs[0][0])})

    def evaluate(self, input_values: dict[str, Any], output_values: list[np.ndarray]) -> list[tuple[int, str, str]]:
        """Returns (example, hypothesis, reference) for each sentence of the batch."""
        layer: Any = self.data_layer
        return [(example, hypotheses[0][1], layer.reference_text(example))
                for example, hypotheses in self._hypotheses(input_values, [values[:, :1] for values in output_values])]

    def finalize_evaluation(self, results_per_batch: list[Any], training_step: int | None = None) -> dict[str, float]:
        rows = sorted(row for batch in results_per_batch for row in batch)
        result = corpus_bleu([row[1] for row in rows], [row[2] for row in rows])
        deco_print(f"BLEU: {result.bleu:.2f}  ({result.signature})", offset=1)
        deco_print(f"chrF: {result.chrf:.2f}", offset=1)
        return {"Eval_BLEU_Score": result.bleu, "Eval_chrF_Score": result.chrf}

    def worst_examples(self, results_per_batch: list[Any], count: int) -> list[dict[str, str]]:
        rows = [(sentence_chrf(found, reference), example, found, reference)
                for batch in results_per_batch for example, found, reference in batch if reference]
        layer: Any = self.data_layer
        return [{"example": layer.describe_example(example), "chrF": f"{score:.1f}", "target": reference,
                 "prediction": found} for score, example, found, reference in sorted(rows)[:count]]

    def infer(self, input_values: dict[str, Any], output_values: list[np.ndarray],
              ) -> list[tuple[int, list[tuple[float, str]]]]:
        """Returns (example, hypotheses) for each sentence; the hypotheses are pairs (score, text), best first.

        An empty sentence has a single hypothesis, which is empty and has the score 0.
        """
        return self._hypotheses(input_values, output_values)

    def _hypotheses(self, batch: dict[str, Any], outputs: list[np.ndarray],
                    ) -> list[tuple[int, list[tuple[float, str]]]]:
        longest = np.max(batch["source_tensors"][1::2], axis=0)  # of all sources, if examples have several
        empty = longest <= getattr(self.data_layer, "num_special", 0)
        return [(int(example), [(0.0, "")] if nothing else
                 [(float(score), self._target_text(example, found)) for score, found in zip(scores, ids, strict=True)])
                for example, nothing, ids, scores in zip(batch["ids"], empty, *outputs, strict=True)]

    def _target_text(self, example: int, ids: np.ndarray) -> str:
        """Returns the text of target ids ``[time]`` that were decoded for an example."""
        layer: Any = self.data_layer
        return layer.ids_to_text(ids)

    def answer(self, result: Any) -> str:
        return result[0][1]

    def open_results(self, output_file: str) -> ResultWriter:
        return _Translations(output_file, self._lines, lambda: getattr(self.data_layer, "num_empty_sources", 0))

    def _lines(self, example: int, hypotheses: list[tuple[float, str]]) -> str:
        if self.params["write_scores"]:
            return "".join(f"{example}\t{score:.6f}\t{text}\n" for score, text in hypotheses)
        return hypotheses[0][1] + "\n"


class _Translations(LineWriter):
    """Writes hypotheses, and prints the number of empty lines at the end.

    Args:
      output_file: path of the file.
      text_of: see ``LineWriter``.
      count_empty: returns the number of empty source lines.
    """

    def __init__(self, output_file: str, text_of: Callable[[int, Any], str], count_empty: Callable[[], int]) -> None:
        super().__init__(output_file, text_of)
        self._count_empty = count_empty

    def finish(self) -> None:
        if count := self._count_empty():
            deco_print(f"Empty lines, whose results are empty too: {count:,}")
