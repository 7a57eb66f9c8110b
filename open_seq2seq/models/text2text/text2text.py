"""Text-to-text models, for translation and other tasks with token sequences, and ensembles of them."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from open_seq2seq.config.params import FREE, Param, with_change
from open_seq2seq.data.data_layer import INPUTS
from open_seq2seq.data.text2text.graph_tokenizers import graph_tokenizer, without_special
from open_seq2seq.data.text2text.vocabulary import SpecialTextTokens
from open_seq2seq.decoders.autoregressive import AutoregressiveDecoder, Member
from open_seq2seq.metrics.bleu import (
    TOKENIZERS,
    BleuResult,
    corpus_bleu,
    sentence_chrf,
    tokenizer_hint,
    tokenizer_problem,
)
from open_seq2seq.models.encoder_decoder import EncoderDecoderModel, encoder_input
from open_seq2seq.models.reporter import Reporter, SignedScores
from open_seq2seq.models.results import ResultWriter
from open_seq2seq.models.serving import (
    Answer,
    ServingFunction,
    Tensors,
    core_of_ids,
    feed_of_texts,
    row_numbers,
    specs_of_sampling,
)
from open_seq2seq.models.text2text.translations import (
    Alignment,
    ScoreWriter,
    TargetScore,
    Translation,
    Translations,
    TranslationWriter,
    aligned,
    with_unknowns_replaced,
)
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import ConfigError, DataError, UserError

Row = tuple[int, str, str]
"""(example, translation, reference)."""


class Scores(SignedScores):
    """BLEU and chrF of the evaluations of a model, each by the same tokenizer.

    The signature of a score, and the hint that another tokenizer is needed, are printed once for each model.
    """

    def compute(self, rows: Sequence[Row], tokenizer: str, language: str = "") -> BleuResult:
        """Computes and prints the scores of translations.

        Args:
          rows: the translations and their references.
          tokenizer: one of ``metrics.bleu.TOKENIZERS``.
          language: the target language; "" if there is only one.
        """
        references = [row[2] for row in rows]
        result = corpus_bleu([row[1] for row in rows], references, tokenizer)
        of, colon = (f"{language}: ", "") if language else ("", ":")
        for name, score, signature in (("BLEU", result.bleu, result.signature),
                                       ("chrF", result.chrf, result.chrf_signature)):
            deco_print(f"{of}{name}{colon} {score:.2f} of 100{self.signed(of + name, score, signature)}", offset=1)
        if (hint := tokenizer_hint(references, tokenizer)) and self.once(of + hint):
            deco_print(f"WARNING: this BLEU says little, because {hint} as bleu_tokenizer.", offset=1)
        return result


class Text2Text(EncoderDecoderModel):
    """Translation, evaluated with sacreBLEU and chrF on detokenised text; results are written line by line."""

    object_name = "tokens"
    object_description = "source and target tokens"
    interactive_hint = "Type a line to translate"
    verb = "translate"
    hub_task = "translation"

    def __init__(self, params: Mapping[str, Any], mode: str = "train") -> None:
        super().__init__(params, mode)
        self._scores = Scores()

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {
            **EncoderDecoderModel.get_optional_params(),
            "eval_using_bleu": Param(bool, True, "Whether evaluation decodes the data and prints BLEU and chrF.",
                                     on_change=FREE),
            "bleu_tokenizer": Param(TOKENIZERS, "13a", "sacreBLEU's tokenizer, which divides translations into the "
                                    "words that BLEU compares. Languages without spaces need another than 13a: zh for "
                                    "Chinese, ja-mecab for Japanese, and char for any.", on_change=FREE),
            "write_scores": Param(bool, False, "Whether inference writes 'number<TAB>score<TAB>text' for each of "
                                  "the decoder's n_best hypotheses, instead of only the best text; number is the "
                                  "index of the sentence, from 0.", on_change=FREE),
            **{f"{side}_language": Param((str, type(None)), None, f"Code of the {side} language, such as 'en', which "
                                         "an export to Argos Translate contains.", on_change=FREE)
               for side in ("source", "target")},
            **_inference_params(),
        }

    def derived_params(self, part: str) -> dict[str, Any]:
        layer: Any = self.data_layer
        sizes = {"src_vocab_size": layer.source_vocab_size, "tgt_vocab_size": layer.target_vocab_size}
        return {**sizes, "batch_size": self.params["batch_size_per_gpu"]}

    @property
    def predicts_in_evaluation(self) -> bool:
        return self.params["eval_using_bleu"]

    def connect(self) -> None:
        problems = self.option_problems() + self.tokenizer_problems()
        if problems:
            raise ConfigError(problems)

    def bleu_tokenizer(self, language: str = "") -> str:
        """Returns the name of the tokenizer for BLEU in a target language; "" if there is only one language."""
        return self.params["bleu_tokenizer"]

    def tokenizer_problems(self, *languages: str) -> list[str]:
        """Returns one sentence for each tokenizer that the BLEU of an evaluation lacks."""
        names = {self.bleu_tokenizer(language) for language in languages or ("",)} if (
            self.mode == "eval" and self.predicts_in_evaluation) else set()
        return [f"'bleu_tokenizer' is '{name}', which {problem}, or choose another tokenizer."
                for name in sorted(names) if (problem := tokenizer_problem(name))]

    def option_problems(self) -> list[str]:
        """Returns one sentence for each option that the encoder or the decoder does not support."""
        needed = [name for name in ("save_alignments", "replace_unknowns") if self.params[name]]
        problems = [f"'{name}' needs an encoder with one output for each source token, which "
                    f"{type(self.encoder).__name__} with these encoder_params is not: remove '{name}'."
                    for name in needed if not self.encoder.aligns_outputs]
        if getattr(self.data_layer, "num_sources", 1) > 1 and not self.encoder.reads_all_sources:
            problems.append("'data_layer_params/source_column' has several columns, but "
                            f"{type(self.encoder).__name__} reads only the first source: give one column, or use "
                            "MultiEncoder.")
        needed += ["data_layer_params/score_file"] if self._scores_targets else []
        if isinstance(self.decoder, AutoregressiveDecoder):
            return problems
        return problems + [f"'{name}' needs a decoder derived from AutoregressiveDecoder, which "
                           f"{type(self.decoder).__name__} is not: remove '{name}'." for name in needed]

    @property
    def _scores_targets(self) -> bool:
        return self.mode == "infer" and bool(self.data_layer.params.get("score_file"))

    def predict(self, batch: dict[str, Any]) -> list[tf.Tensor]:
        """Returns what ``infer`` and ``evaluate`` need.

        Returns:
          The log probability and the number of tokens of each given translation, ``[batch]``; or the tensors of
          ``prediction_tensors``, followed by the maximum lengths of prefixes ``[batch]`` if there are any, and by the
          attention ``[batch, hypotheses, time, source]`` if it is needed.
        """
        if self._scores_targets:
            return self.score(batch)
        encoded = self.encoder.encode(encoder_input(batch), False)
        decoder: Any = self.decoder
        prefix, start = batch.get("prefix_tensors"), int(writes_start(self))
        if prefix is not None and start:
            ids, lengths = prefix
            prefix = [tf.pad(ids, [[0, 0], [1, 0]], constant_values=int(SpecialTextTokens.S_ID)),
                      lengths + tf.cast(lengths > 0, lengths.dtype)]
        others = self.ensemble.members(self.data_layer, batch) if self.ensemble else None
        decoded = decoder.decode({"encoder_output": encoded, "ids": batch.get("ids"), "prefix_tensors": prefix,
                                  "others": others}, False)
        outputs = self.prediction_tensors(decoded)
        outputs += [decoder.limits(encoded) - start] if prefix is not None else []
        aligns = self.mode != "eval" and (self.params["save_alignments"] or self.params["replace_unknowns"])
        return outputs + ([self._attention(encoded, decoded)] if aligns else [])

    @property
    def can_score(self) -> bool:
        return isinstance(self.decoder, AutoregressiveDecoder)

    def score(self, batch: dict[str, Any]) -> list[tf.Tensor]:
        """Returns the log probability and the number of tokens of each target, ``[batch]``; see ``Ensemble``."""
        scores = [self._own_score(batch)]
        for other in self.ensemble.others if self.ensemble else ():
            scores.append(other._own_score(as_read(batch, self.data_layer, other.data_layer)))
        return [tf.add_n([total for total, _ in scores]) / len(scores), scores[0][1]]

    def _own_score(self, batch: dict[str, Any]) -> tuple[tf.Tensor, tf.Tensor]:
        decoder: Any = self.decoder
        return decoder.score_targets(self.encoder.encode(encoder_input(batch), False), batch["target_tensors"])

    def join(self, others: Mapping[str, Any]) -> None:
        for name, other in others.items():
            check_joins(self, other, name)
        self.ensemble = Ensemble(tuple(others.values()))

    def target_scores(self, output_values: list[np.ndarray]) -> list[TargetScore]:
        return [TargetScore(float(total), int(tokens)) for total, tokens in zip(*output_values, strict=True)]

    def _attention(self, encoded: dict[str, Any], decoded: dict[str, Any]) -> tf.Tensor:
        """Returns the attention of the best hypothesis or, with ``replace_unknowns``, of all hypotheses.

        Args:
          encoded: the encoder's output.
          decoded: the decoder's output, with ``beam_ids`` and ``beam_lengths``.

        Returns:
          ``[batch, hypotheses, time, source]`` FP32.
        """
        ids, lengths, decoder = decoded["beam_ids"], decoded["beam_lengths"], self.decoder
        assert isinstance(decoder, AutoregressiveDecoder)

        def attention_of(rank: tf.Tensor) -> tf.Tensor:
            return decoder.attention_of(encoded, ids[:, rank], lengths[:, rank], self.params["alignment_layer"],
                                        self.params["alignment_heads"])

        ranks = tf.range(tf.shape(ids)[1] if self.params["replace_unknowns"] else 1)
        # This call raises the errors about alignment_layer and alignment_heads. An error within map_fn would leave
        # TensorFlow's variable scope changed.
        attention_of(ranks[0])
        return tf.transpose(tf.map_fn(attention_of, ranks, fn_output_signature=tf.float32), [1, 0, 2, 3])

    def prediction_tensors(self, decoded: dict[str, Any]) -> list[tf.Tensor]:
        """Returns the ids ``[batch, n_best, length]`` and the scores ``[batch, n_best]`` of hypotheses, best first.

        Decoders without a search return one hypothesis, with the score 0.
        """
        if "beam_ids" in decoded:
            return [decoded["beam_ids"], decoded["beam_scores"]]
        best = decoded["outputs"][0]
        return [best[:, tf.newaxis], tf.zeros([tf.shape(best)[0], 1])]

    def num_objects(self, batch: dict[str, Any]) -> int:
        """Counts source and target tokens without padding."""
        lengths = [*batch["source_tensors"][1::2], *(batch.get("target_tensors") or [])[1:2]]
        return sum(int(one.sum()) for one in lengths)

    def report_sample(self, batch: dict[str, Any], outputs: list[np.ndarray], reporter: Reporter) -> None:
        layer: Any = self.data_layer
        reporter.texts({"train_source": layer.source_to_text(batch["source_tensors"][0][0]),
                        "train_target": layer.ids_to_text(batch["target_tensors"][0][0]),
                        "teacher_forced": layer.ids_to_text(outputs[0][0])})

    def evaluate(self, input_values: dict[str, Any], output_values: list[np.ndarray]) -> list[tuple[int, str, str]]:
        """Returns (example, hypothesis, reference) for each sentence of the batch."""
        layer: Any = self.data_layer
        return [(example, best[0].text, layer.reference_text(example))
                for example, best in self._hypotheses(input_values, [values[:, :1] for values in output_values])]

    def finalize_evaluation(self, results_per_batch: list[Any], training_step: int | None = None) -> dict[str, float]:
        result = self._scores.compute(sorted(row for batch in results_per_batch for row in batch),
                                      self.bleu_tokenizer())
        return {"Eval_BLEU_Score": result.bleu, "Eval_chrF_Score": result.chrf}

    def report_evaluation(self, results_per_batch: list[Any], reporter: Reporter) -> None:
        """Writes the scores with their signatures."""
        self._scores.write(reporter)

    def worst_examples(self, results_per_batch: list[Any], count: int) -> list[dict[str, str]]:
        rows = [(sentence_chrf(hypothesis, reference), example, hypothesis, reference)
                for batch in results_per_batch for example, *_, hypothesis, reference in batch if reference]
        layer: Any = self.data_layer

        def source(example: int) -> str:
            ids, *_ = layer.make_batch(np.array([example]))["source_tensors"]
            return layer.source_to_text(ids[0])

        return [{"example": layer.describe_example(example), "chrF": f"{score:.1f}", "source": source(example),
                 "target": reference, "prediction": hypothesis}
                for score, example, hypothesis, reference in sorted(rows)[:count]]

    def infer(self, input_values: dict[str, Any], output_values: list[np.ndarray]) -> list[tuple[int, Any]]:
        """Returns (example, ``Translations``) for each sentence; with ``score_file``, (example, ``TargetScore``).

        ``Translations`` is a list of pairs (score, text), best first. An empty sentence has a single translation, which
        is empty and has the score 0. Hypotheses that do not exist are left out, but the first always stays.
        """
        if self._scores_targets:
            scores = self.target_scores(output_values)
            return [(int(example), score) for example, score in zip(input_values["ids"], scores, strict=True)]
        return self._hypotheses(input_values, output_values)

    def serving_functions(self) -> list[ServingFunction]:
        layer: Any = self.data_layer
        return text_functions(self, layer.tokenizers[1])

    def _text_of(self, example: int, ids: np.ndarray) -> str:
        """Returns the text of a hypothesis for an example.

        Args:
          example: index of the example.
          ids: the hypothesis, ``[time]``.
        """
        layer: Any = self.data_layer
        return layer.ids_to_text(ids)

    def _hypotheses(self, batch: dict[str, Any], outputs: list[np.ndarray]) -> list[tuple[int, Translations]]:
        ids, scores, *others = outputs
        if "prefix_tensors" in batch:
            self._check_prefixes(batch["ids"], batch["prefix_tensors"][1], others.pop(0))
        attention = others[0] if others else [None] * len(ids)
        longest = np.max(batch["source_tensors"][1::2], axis=0)  # of all sources, if examples have several
        empty = longest <= getattr(self.data_layer, "num_special", 0)
        typed = batch.get(INPUTS, [None] * len(ids))
        translations = []
        for row, example in enumerate(np.asarray(batch["ids"]).tolist()):
            nothing = Translations([Translation(0.0, "")], [0], None)
            translations.append((example, nothing if empty[row] else
                                 self._translations(example, ids[row], scores[row], attention[row], typed[row])))
        return translations

    def _check_prefixes(self, examples: np.ndarray, lengths: np.ndarray, limits: np.ndarray) -> None:
        """Raises DataError if a prefix is longer than a translation may be."""
        for row in np.flatnonzero(lengths > limits)[:1].tolist():
            place = f"Line {int(examples[row]) + 1}" if self.mode == "interactive_infer" else (
                self.data_layer.describe_example(int(examples[row])))
            raise DataError(f"{place}: the prefix has {lengths[row]} tokens, but the translation may have only "
                            f"{limits[row]}: shorten the prefix, or raise the decoder's limit (extra_decode_length or "
                            "max_length_factor).")

    def _translations(self, example: int, ids: np.ndarray, scores: np.ndarray, attention: np.ndarray | None,
                      typed: str | None) -> Translations:
        layer: Any = self.data_layer
        count = max(1, np.count_nonzero(scores > _NO_HYPOTHESIS))
        ids, scores = ids[:count], scores[:count]
        alignments: list[Alignment] = []
        if attention is not None:
            tokens = layer.source_tokens(example, typed)
            alignments = [aligned(layer, tokens, one, weights) for one, weights in zip(ids, attention, strict=False)]
        if alignments and self.params["replace_unknowns"]:
            texts = [layer.tokens_to_text(with_unknowns_replaced(*pair)) for pair in zip(ids, alignments, strict=True)]
        else:
            texts = [self._text_of(example, one) for one in ids]
        hypotheses = [Translation(float(score), text) for score, text in zip(scores, texts, strict=True)]
        return Translations(hypotheses, [_length(one) for one in ids], alignments[0] if alignments else None)

    def answer(self, result: Any) -> str:
        return result[0].text

    def open_results(self, output_file: str) -> ResultWriter:
        params = self.params
        if self._scores_targets:
            return ScoreWriter(output_file)
        pictures = params["alignment_pictures"] if params["save_alignments"] else None
        return TranslationWriter(output_file, params["write_scores"], params["save_scores"], pictures, self.data_layer)


def _length(ids: np.ndarray) -> int:
    """Returns the number of ids of a hypothesis ``[time]``, including EOS, without padding."""
    ends = np.flatnonzero(ids == SpecialTextTokens.EOS_ID)
    return int(ends[0]) + 1 if len(ends) else len(np.trim_zeros(ids, "b"))


def _inference_params() -> dict[str, Any]:
    numbers = (list, type(None))
    return with_change(FREE, {
        "save_scores": Param(bool, False, "Whether inference also writes <output>.scores.tsv, with the line, rank, "
                             "score, number of tokens and text of each of the n_best hypotheses."),
        "save_alignments": Param(bool, False, "Whether inference also writes the folder <output>.alignments, with the "
                                 "attention and the hard alignment of each translation as JSON."),
        "alignment_layer": Param((int, type(None)), None, "Index of the decoder layer, from 0, whose attention gives "
                                 "the alignment; negative indices count from the last layer. None for the mean of all "
                                 "layers."),
        "alignment_heads": Param(numbers, None, "Indices of the attention heads, from 0, whose mean gives the "
                                 "alignment; None for all heads."),
        "alignment_pictures": Param(int, 10, "With save_alignments: number of alignments that are also drawn as PNG, "
                                    "from the first line on.", "sentences", minimum=0),
        "replace_unknowns": Param(bool, False, "Whether inference replaces unknown tokens by the source tokens that "
                                  "they are aligned to."),
    })


_SIDES = ("source", "target")


@dataclasses.dataclass(frozen=True)
class Ensemble:
    """The other models of an ensemble, whose first model reads the texts and searches.

    It is no ``tf.Module``, so that their variables are not taken for those of the first model.

    Attributes:
      others: the models.
    """

    others: tuple[Any, ...]

    def members(self, layer: Any, batch: Mapping[str, Any]) -> list[Member]:
        """Returns the decoders of the models with the encoded sources of a batch, which ``layer`` has made."""
        return [Member(model.decoder, model.encoder.encode(encoder_input(as_read(batch, layer, model.data_layer)),
                                                           False)) for model in self.others]


def as_read(batch: Mapping[str, Any], layer: Any, other: Any) -> dict[str, Any]:
    """Returns a batch of tensors as another data layer would make it: with or without the start token before texts.

    Args:
      batch: the batch.
      layer: the data layer that has made it.
      other: the other data layer, which has the same tokenizers.
    """
    more, start = other.num_special - layer.num_special, int(SpecialTextTokens.S_ID)
    texts = {name: batch[name][:2] for name in ("source_tensors", "target_tensors") if batch.get(name) is not None}
    return {**batch, **{
        name: [tf.pad(ids, [[0, 0], [1, 0]], constant_values=start), lengths + 1] if more > 0 else
        [ids[:, 1:], lengths - 1] for name, (ids, lengths) in texts.items() if more}}


def check_joins(first: Any, other: Any, name: str) -> None:
    """Raises UserError unless two models can translate together.

    Args:
      first: the first model of the ensemble, a ``Text2Text``.
      other: another one.
      name: the log directory of the other, for messages.
    """
    for model, whose in ((first, "the first model"), (other, f"the model of {name}")):
        if problem := _refusal(model):
            raise UserError(f"The models cannot be an ensemble, because {whose} {problem}: an ensemble needs "
                            "models that translate one text into one language by a search.")
    layers = first.data_layer, other.data_layer
    for side, (one, another) in zip(_SIDES, zip(*(layer.tokenizers for layer in layers), strict=True), strict=True):
        if (one.fingerprint, one.vocab_size) != (another.fingerprint, another.vocab_size):
            raise UserError(f"The model of {name} has another vocabulary of the {side} than the first model, or "
                            "another tokenizer: an ensemble needs models of the same ones.")
    if writes_start(first) != writes_start(other):
        raise UserError(f"Either the first model or that of {name} writes the start token before its translations, and "
                        "the other one does not: an ensemble needs models that do the same. Those with a "
                        "TransformerDecoder write it if they were trained with use_start_token True.")
    difference = ("'use_start_token' of the data layer" if layers[0].num_special != layers[1].num_special else
                  "the number of outputs of the encoder"
                  if first.encoder.aligns_outputs != other.encoder.aligns_outputs else None)
    if difference and first.decoder.params.get("coverage_penalty"):
        raise UserError(f"A coverage penalty needs the same positions in all models, but {difference} differs in the "
                        f"first model and in that of {name}: give coverage_penalty=0.")


def writes_start(model: Any) -> bool:
    """Returns whether translations begin with the start token, because targets do and the decoder predicts it, too."""
    return getattr(model.data_layer, "num_special", 1) > 1 and not getattr(model.decoder, "reads_start", True)


def _refusal(model: Any) -> str | None:
    decoder = getattr(model, "decoder", None)
    if model.verb != "translate" or not isinstance(decoder, AutoregressiveDecoder):
        return f"is a {type(model).__name__}" + (f" with {type(decoder).__name__}" if decoder is not None else "")
    layer = model.data_layer
    if not hasattr(layer, "tokenizers") or not hasattr(layer, "num_special"):
        return f"has a {type(layer).__name__}"
    return "reads several sources" if getattr(layer, "num_sources", 1) > 1 else None


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
