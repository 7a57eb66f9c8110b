"""Language models: perplexity, generation of text, scores of lines, and the weights of another vocabulary."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from open_seq2seq.config.names import in_package
from open_seq2seq.config.params import FREE, SAY, Param, check_params
from open_seq2seq.data.lm.params import tokens_in
from open_seq2seq.data.text2text.graph_tokenizers import graph_tokenizer
from open_seq2seq.data.text_remarks import share_of
from open_seq2seq.decoders.decoder import FakeDecoder
from open_seq2seq.encoders.language_encoder import LanguageEncoder
from open_seq2seq.losses.loss import LossTerm
from open_seq2seq.losses.sequence_loss import BasicSampledSequenceLoss, BasicSequenceLoss
from open_seq2seq.metrics.perplexity import text_perplexity
from open_seq2seq.models import serving
from open_seq2seq.models.encoder_decoder import EncoderDecoderModel
from open_seq2seq.models.part import unfit_class
from open_seq2seq.models.reporter import Reporter
from open_seq2seq.models.results import LineWriter, ResultWriter
from open_seq2seq.models.serving import Answer, ServingFunction, Tensors
from open_seq2seq.parts.component import Module
from open_seq2seq.parts.cross_entropy import SoftTargets
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import ConfigError, UserError

_EMBEDDING = "encoder/embedding"
_OUTPUT = "encoder/output_layer/"
_Weights = Mapping[str, Any]  # arrays or variables by name
PENALTIES = ("activation_regularization", "temporal_activation_regularization")
"""Names of the parameters of models that are the weights of the two penalties."""


def activation_penalty(outputs: tf.Tensor, lengths: tf.Tensor, weight: float) -> LossTerm:
    """Returns the loss term of activation regularisation (AR): ``weight`` times the mean square of the outputs.

    Args:
      outputs: outputs of the encoder after dropout, ``[batch, time, channels]``.
      lengths: ``[batch]`` int32, in tokens.
      weight: factor of the term.
    """
    squares = tf.reduce_mean(tf.square(tf.cast(outputs, tf.float32)), -1)
    mask = tf.sequence_mask(lengths, tf.shape(outputs)[1], tf.float32)
    return LossTerm(tf.reduce_sum(squares * mask), tf.reduce_sum(mask), weight, "output", "activation penalty")


def temporal_penalty(outputs: tf.Tensor, lengths: tf.Tensor, weight: float) -> LossTerm:
    """Returns the loss term of temporal activation regularisation (TAR).

    The term is ``weight`` times the mean square of the differences between consecutive outputs.

    Args:
      outputs: outputs of the encoder before dropout, ``[batch, time, channels]``.
      lengths: ``[batch]`` int32, in tokens.
      weight: factor of the term.
    """
    outputs = tf.cast(outputs, tf.float32)
    squares = tf.reduce_mean(tf.square(outputs[:, 1:] - outputs[:, :-1]), -1)
    mask = tf.sequence_mask(tf.maximum(lengths - 1, 0), tf.shape(squares)[1], tf.float32)
    return LossTerm(tf.reduce_sum(squares * mask), tf.reduce_sum(mask), weight, "difference", "temporal penalty")


def token_negative_log_probs(logits: tf.Tensor, ids: tf.Tensor) -> tf.Tensor:
    """Returns minus the log probability of each token in nats, ``[batch, time]`` FP32.

    Args:
      logits: ``[batch, time, vocabulary]``.
      ids: ``[batch, time]`` int32.
    """
    return tf.nn.sparse_softmax_cross_entropy_with_logits(ids, tf.cast(logits, tf.float32))


def negative_log_probs(output: Mapping[str, Any], target_tensors: Sequence[tf.Tensor]) -> tf.Tensor:
    """Returns minus the log likelihood of each row's targets in nats, ``[batch]`` FP32.

    If the output has a ``projection`` (see ``OutputProjection``), the logits are computed in chunks, to save memory.

    Args:
      output: output of a language model's decoder or encoder, with ``logits`` ``[batch, time, vocabulary]`` or a
        ``projection``.
      target_tensors: ids ``[batch, time]`` and lengths ``[batch]``.
    """
    ids, lengths = target_tensors[:2]
    projection = output.get("projection")
    if projection is None:
        by_token = token_negative_log_probs(output["logits"], ids)
    else:
        by_token = projection.negative_log_probs(*_flat(projection, ids))
    mask = tf.sequence_mask(lengths, tf.shape(ids)[1])
    return tf.reduce_sum(tf.where(mask, tf.reshape(by_token, tf.shape(ids)), 0.0), 1)


def total_negative_log_prob(output: Mapping[str, Any], target_tensors: Sequence[tf.Tensor]) -> tf.Tensor:
    """Returns the sum of ``negative_log_probs``, which has the same arguments, over all rows, an FP32 scalar."""
    projection = output.get("projection")
    if projection is None:
        return tf.reduce_sum(negative_log_probs(output, target_tensors))
    ids, lengths = target_tensors[:2]
    mask = tf.sequence_mask(lengths, tf.shape(ids)[1], tf.float32)
    return projection.cross_entropy(*_flat(projection, ids), tf.reshape(mask, [-1]), SoftTargets(1.0, 0.0))


def _flat(projection: Any, ids: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the hidden states ``[batch · time, hidden]`` and the ids ``[batch · time]`` of all positions."""
    return tf.reshape(projection.hidden, [-1, projection.hidden.shape[-1]]), tf.reshape(ids, [-1])


_PATH = (str, type(None))


def cache_params() -> dict[str, Param]:
    """Returns the declarations of the cache's settings."""
    return {
        "size": Param(int, 500, "Number of recent tokens in the cache.", "tokens", minimum=1, maximum=10**6),
        "weight": Param(float, 0.1, "Weight of the cache's probabilities.", minimum=0.0, below=1.0),
        "scale": Param(float, 0.3, "Factor of the dot products of hidden states.", minimum=0.0),
    }


class NeuralCache(Module):
    """Mixes a model's probabilities with those of the tokens that followed similar hidden states.

    P(w) = (1 - weight) · P_model(w) + weight · Σ softmax(scale · h · h_i) [w_i = w], where h is the current hidden
    state. The softmax and the sum are over the last ``size`` tokens w_i of the same row, and h_i is the hidden state
    from which w_i was predicted. The cache is carried over from chunk to chunk, so results do not depend on how a text
    is cut into chunks. See Grave et al. 2017, https://arxiv.org/abs/1612.04426.

    Args:
      hidden_size: number of channels of the hidden states.
      size: number of recent tokens.
      weight: weight of the cache's probabilities.
      scale: factor of the dot products of hidden states.
    """

    def __init__(self, hidden_size: int, size: int, weight: float, scale: float) -> None:
        super().__init__(name="neural_cache")
        self._size, self._weight, self._scale = size, weight, scale
        self.hidden = self.carried_state([size, hidden_size])
        self.ids = self.carried_state([size], tf.int32)
        self.count = self.carried_state([], tf.int32)

    def __call__(self, hidden: tf.Tensor, ids: tf.Tensor, negative_log_probs: tf.Tensor,
                 lengths: tf.Tensor) -> tf.Tensor:
        """Returns minus the log probability of each token under the mixture, in nats, ``[batch, time]`` FP32.

        The tokens and their hidden states are then added to the cache.

        Args:
          hidden: hidden states ``[batch, time, hidden]``, from which the tokens are predicted.
          ids: the tokens ``[batch, time]`` int32.
          negative_log_probs: minus the model's log probabilities of the tokens, in nats, ``[batch, time]`` FP32.
          lengths: ``[batch]`` int32, in tokens.
        """
        hidden = tf.cast(hidden, tf.float32)
        count, time = self.count.read(), tf.shape(ids)[1]
        keys = tf.concat([self.hidden.read(), hidden], 1)
        labels = tf.concat([self.ids.read(), ids], 1)
        # In ``labels``, token t of the chunk has the index size + t, and the tokens in its cache have the indices t to
        # size + t - 1.
        position, step = tf.range(self._size + time), tf.range(time)[:, tf.newaxis]
        recent = (position >= step) & (position < self._size + step)
        mask = recent & (position >= self._size - count[:, tf.newaxis, tf.newaxis])
        scores = tf.where(mask, self._scale * tf.matmul(hidden, keys, transpose_b=True), -1e9)
        same = tf.cast(labels[:, tf.newaxis] == ids[:, :, tf.newaxis], tf.float32)
        cached = tf.reduce_sum(tf.nn.softmax(scores) * same, -1)
        mixed = (1.0 - self._weight) * tf.exp(-negative_log_probs) + self._weight * cached
        self._remember(keys, labels, tf.minimum(count + lengths, self._size), lengths)
        # The mixture's probability is at least (1 - weight) · P_model. The minimum enforces this where P_model, unlike
        # its logarithm, is 0 in FP32. Tokens with an empty cache keep the model's probability.
        by_mixture = tf.minimum(-tf.math.log(mixed), negative_log_probs - math.log1p(-self._weight))
        return tf.where(tf.reduce_any(mask, -1), by_mixture, negative_log_probs)

    def _remember(self, keys: tf.Tensor, labels: tf.Tensor, count: tf.Tensor, lengths: tf.Tensor) -> None:
        indices = lengths[:, tf.newaxis] + tf.range(self._size)
        self.hidden.write(tf.gather(keys, indices, batch_dims=1))
        self.ids.write(tf.gather(labels, indices, batch_dims=1))
        self.count.write(count)


class LanguageModel(EncoderDecoderModel):
    """A language model, whose encoder predicts each token from the tokens before it.

    Evaluation reports perplexity. Inference continues texts, or scores lines.
    """

    object_name = "tokens"
    interactive_hint = "Type the beginning of a text"
    verb: str | None = "generate"
    hub_task: str | None = "text-generation"
    encoder: LanguageEncoder

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {
            **EncoderDecoderModel.get_optional_params(),
            "lm_vocab_file": Param(_PATH, None, "Default of data_layer_params/lm_vocab_file.", on_change=FREE),
            "processed_data_folder": Param(_PATH, None, "Default of data_layer_params/processed_data_folder.",
                                           on_change=FREE),
            "infer_task": Param(["generate", "score"], "generate", "What inference does with each line: generate "
                                "(continue it), or score (write its log probability in nats, its number of tokens, and "
                                "the line).", on_change=FREE),
            "neural_cache": Param((dict, type(None)), None, "Settings of the neural cache: size (in tokens), weight "
                                  "and scale. In evaluation, the cache mixes the model's probabilities with those of "
                                  "recent tokens. None disables the cache. Needs data_layer_params/carry_state.",
                                  on_change=FREE),
            "activation_regularization": Param(float, 0.0, "Weight of the mean square of the encoder's outputs in the "
                                               "training loss (AR).", minimum=0.0, on_change=SAY),
            "temporal_activation_regularization": Param(float, 0.0, "Weight of the mean square of the differences "
                                                        "between consecutive outputs in the training loss (TAR).",
                                                        minimum=0.0, on_change=SAY),
        }

    def derived_params(self, part: str) -> dict[str, Any]:
        layer: Any = self.data_layer
        # Perplexity leaves out the padding of the last chunk, even if training does not.
        masked = {"do_mask": True} if self.mode == "eval" else {}
        return {"vocab_size": layer.vocab_size, "tgt_vocab_size": layer.vocab_size, "end_token": layer.end_id,
                "carry_state": layer.contiguous, "batch_size": self.params["batch_size_per_gpu"], **masked}

    @property
    def searches(self) -> bool:
        """Whether inference generates text; evaluation and scores compute all tokens of a line together."""
        return self.mode != "eval" and self.verb == "generate" and self.params["infer_task"] == "generate"

    def part_problems(self) -> list[str]:
        layer, params, task = self.data_layer, self.params, "a language model"
        if not (hasattr(layer, "vocab_size") and hasattr(layer, "end_id")):
            return [f"'data_layer' is {type(layer).__name__}, but {task} needs one of running text, such as "
                    "WKTDataLayer."]
        problems = []
        if not issubclass(params["encoder"], LanguageEncoder):
            problems.append(f"'encoder' is {params['encoder'].__name__}, but {task} needs one that predicts the next "
                            "token, such as LMEncoder.")
        problems += unfit_class("decoder", params["decoder"], FakeDecoder, task)
        if "loss" in self.components:
            problems += unfit_class("loss", params["loss"], BasicSequenceLoss, task)
        return problems

    def _sampling_problems(self) -> list[str]:
        """Returns a sentence if only one of the encoder and the loss samples the vocabulary; judges no own losses."""
        loss, params = getattr(self, "loss", None), self.encoder.params
        if self.mode != "train" or not in_package(type(loss)) or params["adaptive_softmax"] is not None:
            return []
        samples, path = isinstance(loss, BasicSampledSequenceLoss), f"{self.encoder.params_path}/num_sampled"
        if samples and params["num_sampled"] is None:
            return [f"'loss' is BasicSampledSequenceLoss, but '{path}', the number of ids that it samples, is missing: "
                    "set it, or set 'loss' to BasicSequenceLoss."]
        if not samples and params["num_sampled"] is not None:
            return [f"'{path}' is set, but {type(loss).__name__} does not sample the vocabulary: set 'loss' to "
                    "BasicSampledSequenceLoss, or leave 'num_sampled' out."]
        return []

    def connect(self) -> None:
        problems = []
        if getattr(getattr(self, "loss", None), "offsets_targets", False):
            problems.append("'loss_params/offset_target_by_one' is True, but the targets of language models are "
                            "already the next tokens: set it to False.")
        if self.mode == "train" and self.params["use_xla_jit"] and self.data_layer.params.get("random_bptt"):
            problems.append("'data_layer_params/random_bptt' and 'use_xla_jit' exclude each other: XLA would compile "
                            "the model for every length. Set one of them to False.")
        problems += self._sampling_problems()
        self.neural_cache = None
        if self.params["neural_cache"] is not None and self.mode == "eval":
            settings, cache_problems = check_params(self.params["neural_cache"], {}, cache_params(), "neural_cache")
            problems += cache_problems
            if not self.data_layer.contiguous:
                problems.append("'neural_cache' needs a text in which each chunk continues the previous one: set "
                                "'data_layer_params/carry_state' to True.")
        if problems:
            raise ConfigError(problems)
        if self.params["neural_cache"] is not None and self.mode == "eval":
            self.neural_cache = NeuralCache(self.encoder.output_size, **settings)

    def adapted_weights(self, weights: Mapping[str, np.ndarray], assets: Mapping[str, Any],
                        current: Mapping[str, tf.Variable]) -> Mapping[str, np.ndarray]:
        """Returns the weights of ``load_model`` for this model's vocabulary; see ``rows_by_token``."""
        return rows_by_token(self.data_layer, weights, assets, current)

    def penalties(self, encoded: dict[str, Any], batch: dict[str, Any]) -> list[LossTerm]:
        """Returns the terms of activation regularisation (AR) and temporal activation regularisation (TAR)."""
        lengths, params = batch["source_tensors"][1], self.params
        of_activations, of_changes = (params[name] for name in PENALTIES)
        terms = [activation_penalty(encoded["outputs"], lengths, of_activations)] if of_activations else []
        return terms + ([temporal_penalty(encoded["raw_outputs"], lengths, of_changes)] if of_changes else [])

    def _nll(self, batch: dict[str, Any], terms: list[LossTerm], decoded: dict[str, Any]) -> tf.Tensor:
        """Returns minus the log likelihood of a batch's targets in nats, an FP32 scalar.

        Args:
          batch: a batch of tensors.
          terms: terms of the loss of the batch.
          decoded: the decoder's output for the batch.
        """
        if self.neural_cache is not None:
            ids, lengths = batch["target_tensors"]
            by_token = self.neural_cache(decoded["outputs_of_encoder"], ids,
                                         token_negative_log_probs(decoded["logits"], ids), lengths)
            return tf.reduce_sum(tf.where(tf.sequence_mask(lengths, tf.shape(ids)[1]), by_token, 0.0))
        if isinstance(self.loss, BasicSequenceLoss) and self.loss.is_exact:
            return terms[0].sum
        return total_negative_log_prob(decoded, batch["target_tensors"])

    def evaluation_outputs(self, batch: dict[str, Any], terms: list[LossTerm],
                           decoded: dict[str, Any]) -> list[tf.Tensor]:
        """Returns minus the log likelihood of the batch in nats and its number of tokens, each ``[1]`` FP32."""
        tokens = tf.reduce_sum(batch["target_tensors"][1])
        nll = self._nll(batch, terms, decoded)
        return [tf.reshape(nll, [1]), tf.cast(tf.reshape(tokens, [1]), tf.float32)]

    def predict(self, batch: dict[str, Any]) -> list[tf.Tensor]:
        """Returns what ``infer`` needs.

        Returns:
          The generated ids ``[batch, num_tokens_gen]`` int32 or, with the ``infer_task`` ``score``, the log probability
          of each line in nats and its number of tokens, each ``[batch]`` FP32.
        """
        ids, lengths = batch["source_tensors"][:2]
        if self.params["infer_task"] == "generate":
            return [self.encoder.generate(ids, lengths, batch["ids"])]
        end = tf.fill([tf.shape(ids)[0], 1], self.encoder.params["end_token"])
        following = tf.concat([ids[:, 1:], end], 1)  # the padding of shorter lines is end tokens, too
        decoded = self.encoder.encode({"source_tensors": [ids, lengths]}, False)
        return [-negative_log_probs(decoded, [following, lengths]), tf.cast(lengths, tf.float32)]

    def num_objects(self, batch: dict[str, Any]) -> int:
        """Counts tokens without padding."""
        return int(batch["source_tensors"][1].sum())

    def report_sample(self, batch: dict[str, Any], outputs: list[np.ndarray], reporter: Reporter) -> None:
        layer: Any = self.data_layer
        length = int(batch["source_tensors"][1][0])
        reporter.texts({"train_target": _one_line(layer.ids_to_text(batch["target_tensors"][0][0][:length])),
                        "teacher_forced": _one_line(layer.ids_to_text(outputs[0][0][:length]))})

    def evaluate(self, input_values: dict[str, Any], output_values: list[np.ndarray]) -> tuple[float, float]:
        """Returns minus the log likelihood of a batch's targets in nats, and their number."""
        return float(output_values[0][0]), float(output_values[1][0])

    def finalize_evaluation(self, results_per_batch: list[Any], training_step: int | None = None) -> dict[str, float]:
        nll, tokens = (sum(numbers) for numbers in zip(*results_per_batch, strict=True))
        layer: Any = self.data_layer
        words, size = layer.text_size() or (None, None)
        perplexity = text_perplexity(nll, tokens, words, size)
        count = getattr(layer, "num_unknown", 0)  # users' data layers may not count them
        unknown = f", {share_of(count, int(tokens))} of them unknown" if count else ""
        deco_print(f"Perplexity: {perplexity.per_token:.2f} per token ({int(tokens):,} tokens{unknown})", offset=1)
        metrics = {"perplexity": perplexity.per_token}
        if perplexity.per_word is not None and perplexity.bits_per_byte is not None:
            deco_print(f"Perplexity: {perplexity.per_word:.2f} per word ({words:,} words and line ends), "
                       f"{perplexity.bits_per_byte:.3f} bits per byte", offset=1)
            metrics |= {"word_perplexity": perplexity.per_word, "bits_per_byte": perplexity.bits_per_byte}
        return metrics

    def infer(self, input_values: dict[str, Any], output_values: list[np.ndarray]) -> list[tuple[int, Any]]:
        """Returns (example, ids of prompt and continuation) or (example, (log probability, number of tokens))."""
        examples = [int(example) for example in input_values["ids"]]
        if self.params["infer_task"] == "score":
            return [(example, (float(score), int(count)))
                    for example, score, count in zip(examples, *output_values, strict=True)]
        ids, lengths = input_values["source_tensors"]
        return [(example, np.concatenate([prompt[1:length], new]))
                for example, prompt, length, new in zip(examples, ids, lengths, output_values[0], strict=True)]

    def serving_functions(self) -> list[ServingFunction]:
        return text_functions(self)

    def answer(self, result: Any) -> str:
        layer: Any = self.data_layer
        return f"{result[0]:.4f}" if self.params["infer_task"] == "score" else layer.ids_to_text(result)

    def open_results(self, output_file: str) -> ResultWriter:
        return LineWriter(output_file, self._line)

    def _line(self, example: int, result: Any) -> str:
        layer: Any = self.data_layer
        if self.params["infer_task"] == "score":
            return f"{result[0]:.4f}\t{result[1]}\t{layer.prompt_text(example)}\n"
        return _one_line(_with_prompt(layer, layer.prompt_text(example), result, layer.lengths[example] - 1)) + "\n"


def _with_prompt(layer: Any, prompt: str, ids: np.ndarray, length: int) -> str:
    """Returns a prompt as the user has written it, not as its tokens are, and the text that was generated after it.

    Args:
      layer: the data layer.
      prompt: the prompt's text, without white space at its end.
      ids: ids of the prompt and of the text after it.
      length: number of the prompt's ids.
    """
    # Both are decoded together, because the tokenizer decides whether there is a space between them.
    whole, read = layer.ids_to_text(ids), layer.ids_to_text(ids[:length]).rstrip()
    return prompt + whole[len(read):] if whole.startswith(read) else whole


def _one_line(text: str) -> str:
    return text.rstrip("\n").replace("\n", " <eos> ")


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

    def answers_of_ids(outputs: Mapping[str, np.ndarray]) -> list[Answer]:
        return [serving.answer_of_ids(ids) for ids in outputs["ids"]]

    def feed(inputs: Any, numbers: np.ndarray) -> dict[str, np.ndarray]:
        texts, *others = serving.feed_of_texts(specs)(inputs, numbers).values()
        return {"prompts": texts, **dict(zip(specs, others, strict=True))}

    count = model.encoder.params["num_tokens_gen"]
    return [
        ServingFunction("continue", continue_texts, {"prompts": tf.TensorSpec([None], tf.string), **specs},
                        {"texts": "each prompt, as its tokens are, and its continuation [batch]"}, False, feed,
                        serving.answers_of_texts,
                        lambda result: Answer((layer.ids_to_text(result),)), lambda: tokenizer().resources),
        serving.core_of_ids("ids", layer, ids_of, specs, {"ids": f"ids that follow the prompt [batch, {count}], int32"},
                            answers_of_ids, lambda result: serving.answer_of_ids(result[-count:])),
    ]


def rows_by_token(data_layer: Any, weights: Mapping[str, np.ndarray], assets: Mapping[str, Any],
                  current: Mapping[str, tf.Variable]) -> Mapping[str, np.ndarray]:
    """Returns the weights, with the rows of the embedding and of the output layer in the order of this model's tokens.

    Rows of tokens that are not in the language model's vocabulary keep their current, random values. So do rows of an
    adaptive softmax for tokens that are in another cluster, because each cluster has a softmax of its own; an output
    layer with another number of clusters is left out. If the checkpoint contains neither a vocabulary nor a
    SentencePiece model, embedding and output layer are left out. If the tokens are the same, the weights are returned
    unchanged.

    Args:
      data_layer: the data layer, with ``tokens``.
      weights: the language model's weights by name.
      assets: paths of the files in the language model's checkpoint, by name.
      current: this model's variables by name.
    """
    if not hasattr(data_layer, "tokens"):
        return weights
    theirs, ours = tokens_in(assets), tuple(data_layer.tokens)
    if theirs == ours:
        return weights
    others = {name: value for name, value in weights.items() if not name.startswith(_OUTPUT)}
    if theirs is None:
        deco_print("The checkpoint has no vocabulary: embedding and output layer are not loaded, because their tokens "
                   "are unknown", offset=1)
        return {name: value for name, value in others.items() if name != _EMBEDDING}
    ids = {token: number for number, token in enumerate(theirs)}
    their_ids = np.array([ids.get(token, -1) for token in ours])
    output, note = _output_layer(weights, current, their_ids, len(theirs))
    deco_print(f"{np.count_nonzero(their_ids >= 0):,} of {len(their_ids):,} tokens are in the vocabulary of the "
               "loaded model" + note, offset=1)
    return {**others, **_matched({_EMBEDDING: (0, 0)}, weights, current, their_ids), **output}


def _output_layer(weights: _Weights, current: _Weights, their_ids: np.ndarray,
                  size: int) -> tuple[dict[str, np.ndarray], str]:
    """Returns the weights of the output layer to load, and what to say about them.

    Args:
      weights: the language model's weights.
      current: this model's variables.
      their_ids: the language model's id of each of this model's tokens ``[tokens]``; -1 for none.
      size: number of the language model's tokens.
    """
    output_weights = {name: value for name, value in weights.items() if name.startswith(_OUTPUT)}
    edges, our_edges = _edges(weights, size), _edges(current, len(their_ids))
    if edges is None or our_edges is None:
        return output_weights, ""  # one of the two computes something else than tokens
    if len(edges) != len(our_edges):
        return {}, "; its output layer is not loaded, because it has another number of clusters"
    stay = _parts(edges, their_ids) == _parts(our_edges, np.arange(len(their_ids)))
    begins = zip(edges[:-1], our_edges[:-1], strict=True)
    tables = {_OUTPUT + "bias": (0, 0), **dict(zip(_kernels(current), begins, strict=True))}
    note = f", and {np.count_nonzero(stay):,} in the same cluster of its output layer" if len(edges) > 2 else ""
    return output_weights | _matched(tables, weights, current, np.where(stay, their_ids, -1)), note


def _kernels(weights: _Weights) -> list[str]:
    """Returns the names of the output layer's matrices: one, or those of the shortlist and of each cluster."""
    names = [_OUTPUT + "kernel"]
    while (name := f"{_OUTPUT}tail_{len(names) - 1}/kernel") in weights:
        names.append(name)
    return names


def _edges(weights: _Weights, size: int) -> list[int] | None:
    """Returns the first id of each of the output layer's matrices, and ``size``, the number of ids.

    Returns None if the output layer does not compute logits of the tokens. Tied weights are like a single matrix.
    """
    counts = [weights[name].shape[0] for name in _kernels(weights) if name in weights] or [size]
    edges = [0, *np.cumsum(counts).tolist()]
    return edges if edges[-1] == size else None


def _parts(edges: list[int], ids: np.ndarray) -> np.ndarray:
    """Returns the number of the matrix that contains the row of each id; -1 for the id -1."""
    return np.searchsorted(edges, ids, side="right") - 1


def _matched(tables: Mapping[str, tuple[int, int]], weights: _Weights, current: _Weights,
             their_ids: np.ndarray) -> dict[str, np.ndarray]:
    """Returns the tables of this model with the language model's rows.

    Args:
      tables: by name, the id of the first row in the language model and in this model.
      weights: the language model's weights.
      current: this model's variables.
      their_ids: the language model's id of each of this model's tokens ``[tokens]``; -1 for none.
    """
    our_tables = {}
    for name, (begin, our_begin) in tables.items():
        if name in weights and name in current and weights[name].shape[1:] == tuple(current[name].shape[1:]):
            table = np.array(current[name].numpy())
            rows = their_ids[our_begin:our_begin + len(table)]
            table[rows >= 0] = weights[name][rows[rows >= 0] - begin]
            our_tables[name] = table
    return our_tables
