"""Translation from one language into several, by one encoder and a decoder for each target language."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from open_seq2seq.config.params import FREE, Param
from open_seq2seq.decoders.multi_decoder import MultiDecoder
from open_seq2seq.losses.loss import LossTerm
from open_seq2seq.metrics.bleu import TOKENIZERS
from open_seq2seq.models.encoder_decoder import loss_of
from open_seq2seq.models.reporter import Reporter
from open_seq2seq.models.serving import ServingFunction
from open_seq2seq.models.text2text import Text2Text
from open_seq2seq.models.text2text.text2text import text_functions
from open_seq2seq.utils.errors import ConfigError, did_you_mean


class MultiDecoderModel(Text2Text):
    """Translation into several languages, with a ``MultiCorpusDataLayer`` and a ``MultiDecoder``.

    The loss of a batch is the sum of the losses of all languages, divided by the number of units (target tokens or
    sentences) of all languages together, so that every unit has the same weight. Evaluation computes BLEU and chrF for
    each language, and their means over the languages. Inference translates into the language that the parameter
    ``language`` gives.
    """

    decoder: MultiDecoder

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {
            **Text2Text.get_optional_params(),
            "language": Param((str, type(None)), None, "Target language of inference, one of the data layer's; may be "
                              "None if there is only one.", on_change=FREE),
            "bleu_tokenizer": Param((str, dict), "13a", "sacreBLEU's tokenizer, as in Text2Text, or a dict of language "
                                    "→ tokenizer; languages that it lacks have 13a.", on_change=FREE),
        }

    def derived_params(self, part: str) -> dict[str, Any]:
        layer: Any = self.data_layer
        sizes = getattr(layer, "target_vocab_sizes", None)
        if sizes is None:
            raise ConfigError([f"'data_layer' is {type(layer).__name__}, but MultiDecoderModel needs target languages: "
                               "use MultiCorpusDataLayer."])
        derived = {"src_vocab_size": layer.source_vocab_size, "tgt_vocab_sizes": sizes,
                   "batch_size": self.params["batch_size_per_gpu"]}
        # The loss refuses logits with fewer columns than its tgt_vocab_size, so give it the smallest vocabulary's size.
        return {**derived, "tgt_vocab_size": min(sizes.values())} if part == "loss" else derived

    def connect(self) -> None:
        problems = []
        if not isinstance(self.decoder, MultiDecoder):
            problems.append(f"'decoder' is {type(self.decoder).__name__}, but MultiDecoderModel needs MultiDecoder: "
                            "set 'decoder' to MultiDecoder and 'decoder_params/decoder' to the class of the languages' "
                            "decoders.")
        if self.params["use_xla_jit"]:
            problems.append("'use_xla_jit' is True, but XLA cannot compile MultiDecoderModel, because the number of "
                            "rows per language varies: set 'use_xla_jit' to False.")
        problems += self.option_problems()
        problems += self._unknown_tokenizers() or self.tokenizer_problems(*self.data_layer.languages)
        problems += self._language_problems() if self.mode in ("infer", "interactive_infer") else []
        if problems:
            raise ConfigError(problems)

    def bleu_tokenizer(self, language: str = "") -> str:
        tokenizers = self.params["bleu_tokenizer"]
        return tokenizers.get(language, "13a") if isinstance(tokenizers, dict) else tokenizers

    def _unknown_tokenizers(self) -> list[str]:
        languages: Any = self.data_layer.languages  # type: ignore[attr-defined]
        tokenizers = self.params["bleu_tokenizer"]
        problems = [f"'bleu_tokenizer/{name}' is not one of the data layer's languages {', '.join(languages)}."
                    f"{did_you_mean(str(name), languages)}"
                    for name in (tokenizers if isinstance(tokenizers, dict) else ()) if name not in languages]
        return problems + [f"'bleu_tokenizer' is {name!r} but has to be one of {', '.join(TOKENIZERS)}."
                           for name in map(self.bleu_tokenizer, languages) if name not in TOKENIZERS][:1]

    def _language_problems(self) -> list[str]:
        languages: Any = self.data_layer.languages  # type: ignore[attr-defined]
        language, choices = self.params["language"], ", ".join(languages)
        if language is None and len(languages) > 1:
            return [f"'language' is missing: inference needs the target language, one of {choices}, for example "
                    f"--language={languages[0]}."]
        if language is not None and language not in languages:
            return [f"'language' is '{language}', but the languages of the data layer are {choices}."
                    f"{did_you_mean(language, languages)}"]
        return []

    @property
    def language(self) -> str:
        """The target language of inference."""
        return self.params["language"] or self.data_layer.languages[0]  # type: ignore[attr-defined]

    def loss_terms(self, batch: dict[str, Any], training: bool) -> tuple[list[LossTerm], dict[str, Any]]:
        encoded = self.encoder.encode({"source_tensors": batch["source_tensors"]}, training)
        decoded = self.decoder.decode({"encoder_output": encoded, "target_tensors": batch["target_tensors"],
                                       "languages": batch["target_tensors"][2]}, training)
        terms = [term for rows, targets, output in decoded["by_language"]
                 for term in loss_of(self, output, targets, tf.gather(batch["ids"], rows))]
        return _added(terms), decoded

    def predict(self, batch: dict[str, Any]) -> list[tf.Tensor]:
        encoded = self.encoder.encode({"source_tensors": batch["source_tensors"]}, False)
        inputs = {"encoder_output": encoded, "ids": batch.get("ids")}
        if self.mode in ("train", "eval"):
            inputs["languages"] = batch["target_tensors"][2]
        else:
            inputs["language"] = self.language
        return self.prediction_tensors(self.decoder.decode(inputs, False))

    def report_sample(self, batch: dict[str, Any], outputs: list[np.ndarray], reporter: Reporter) -> None:
        layer: Any = self.data_layer
        texts: dict[str, str] = {}
        for number, language in enumerate(layer.languages):
            rows = np.flatnonzero(batch["target_tensors"][2] == number)
            if len(rows):
                row = rows[0]
                texts |= {f"train_source_{language}": layer.source_to_text(batch["source_tensors"][0][row]),
                          f"train_target_{language}": layer.ids_to_text(batch["target_tensors"][0][row], language),
                          f"teacher_forced_{language}": layer.ids_to_text(outputs[0][row], language)}
        reporter.texts(texts)

    def serving_functions(self) -> list[ServingFunction]:
        layer: Any = self.data_layer
        return text_functions(self, layer.tokenizer_of(self.language))

    def _text_of(self, example: int, ids: np.ndarray) -> str:
        layer: Any = self.data_layer
        return layer.ids_to_text(ids, layer.language_of(int(example)) if self.mode == "eval" else self.language)

    def finalize_evaluation(self, results_per_batch: list[Any], training_step: int | None = None) -> dict[str, float]:
        layer: Any = self.data_layer
        rows = sorted(row for batch in results_per_batch for row in batch)
        by_language = {language: [row for row in rows if layer.language_of(row[0]) == language]
                       for language in layer.languages}
        scores: dict[str, float] = {}
        languages = [language for language, results in by_language.items() if results]
        for language in languages:
            result = self._scores.compute(by_language[language], self.bleu_tokenizer(language), language)
            scores |= {f"Eval_BLEU_Score_{language}": result.bleu, f"Eval_chrF_Score_{language}": result.chrf}
        means = {name: float(np.mean([scores[f"{name}_{language}"] for language in languages]))
                 for name in ("Eval_BLEU_Score", "Eval_chrF_Score")}
        return {**means, **scores}


def _added(terms: list[LossTerm]) -> list[LossTerm]:
    """Merges the terms of all languages that have the same name and unit: adds their sums and their units."""
    added: dict[tuple[str, str], LossTerm] = {}
    for term in terms:
        key = (term.name, term.unit)
        old = added.get(key)
        added[key] = term if old is None else old._replace(sum=old.sum + term.sum, units=old.units + term.units)
    return list(added.values())
