"""Several encoders for one decoder, which read the same source or different ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from open_seq2seq.config.names import resolve_name
from open_seq2seq.config.params import REFUSE, Param, check_params
from open_seq2seq.encoders.encoder import Encoder
from open_seq2seq.parts.dense import times_matrix
from open_seq2seq.parts.keys import lengths_of
from open_seq2seq.parts.portable import in_shape
from open_seq2seq.parts.precision import cast_weight
from open_seq2seq.utils.errors import ConfigError


def concatenated_in_time(parts: Sequence[tf.Tensor], lengths: Sequence[tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
    """Concatenates sequences row by row, without the padding between them.

    Args:
      parts: tensors ``[batch, time_i, channels]``, which may have different numbers of time steps.
      lengths: for each tensor, the numbers of valid steps ``[batch]``.

    Returns:
      (``[batch, time, channels]``, zeros at padding; the sums of the lengths ``[batch]``).
    """
    lengths = [tf.cast(one, tf.int32) for one in lengths]
    total = tf.add_n(lengths)
    steps = tf.range(tf.reduce_max(tf.concat([total, [0]], 0)))[tf.newaxis]
    # For each step of the result, its index in the concatenation of the parts with their padding.
    places, end, start = tf.zeros_like(steps + total[:, tf.newaxis]), tf.zeros_like(total), 0
    for part, length in zip(parts, lengths, strict=True):
        inside = (steps >= end[:, tf.newaxis]) & (steps < (end + length)[:, tf.newaxis])
        places = tf.where(inside, steps - end[:, tf.newaxis] + start, places)
        end, start = end + length, start + tf.shape(part)[1]
    gathered = tf.gather(tf.concat(parts, 1), places, batch_dims=1)
    held = steps < total[:, tf.newaxis]
    return tf.where(held[:, :, tf.newaxis], gathered, tf.zeros([], gathered.dtype)), total


# Entries of the output by which decoders share an encoder's embedding; they come from the first encoder that has them.
_TABLES = ("embedding_softmax_layer", "embedding_table")


class MultiEncoder(Encoder):
    """Several encoders of text, whose outputs are combined for one decoder with attention.

    ``encoders`` maps the name of each encoder to a dict ``{"encoder": class, "encoder_params": {…}, "source": 1}``;
    ``source`` is the number, counted from 1, of the source that the encoder reads. ``combination`` is one of:

    * ``time``: the outputs of all encoders, one after the other and without padding between them;
    * ``channels``: the concatenated outputs of each position;
    * ``gated``: the weighted average of the outputs of each position; a linear layer and a softmax compute the weights,
      for each channel, from the outputs of all encoders.

    For ``channels`` and ``gated``, all encoders must read the same source.

    Attributes:
      output_size: number of channels of the outputs.
    """

    reads_all_sources = True

    @staticmethod
    def get_required_params() -> dict[str, Any]:
        return {
            **Encoder.get_required_params(),
            "encoders": Param(dict, doc="The encoders by name, each a dict with encoder (a class), encoder_params, and "
                              "optionally source.", on_change={"source": REFUSE}),
            "src_vocab_size": Param(int, doc="Number of ids; set from the data layer.", unit="tokens", derived=True,
                                    minimum=1),
        }

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {
            **Encoder.get_optional_params(),
            "combination": Param(["time", "channels", "gated"], "time", "How the outputs are combined. time: one "
                                 "after the other; channels: by concatenation of channels; gated: by a weighted "
                                 "average.", on_change=REFUSE),
            "output_size": Param((int, type(None)), None, "With time and gated: number of channels of the outputs. "
                                 "Linear layers project the outputs of encoders that have a different number. Needed "
                                 "if the encoders differ in this number.", "channels", minimum=1),
        }

    def __init__(self, params: Any, model: Any = None, name: str | None = "encoder", mode: str = "train") -> None:
        super().__init__(params, model, name, mode)
        entries = self._checked_entries()
        self._names = list(entries)
        self._sources = [entry["source"] for entry in entries.values()]
        self.aligns_outputs = self.params["combination"] != "time"
        for label, entry in entries.items():
            setattr(self, f"encoder_{label}", self._made(label, entry))
        sizes = [self._size_of(label) for label in self._names]
        if self.params["combination"] == "channels":
            self.output_size = sum(sizes)
            return
        self.output_size = self._common_size(sizes)
        initializer, regularizer = self.make_initializer(), self.make_regularizer()
        for label, size in zip(self._names, sizes, strict=True):
            if size != self.output_size:
                setattr(self, f"projection_{label}", self.weight([size, self.output_size], initializer,
                                                                 regularizer=regularizer))
        if self.params["combination"] == "gated":
            width = len(sizes) * self.output_size
            self.gate_kernel = self.weight([width, width], initializer, regularizer=regularizer)
            self.gate_bias = self.weight([width], "zeros")

    def _checked_entries(self) -> dict[str, dict[str, Any]]:
        path, entries, problems = f"{self.params_path}/encoders", {}, []
        for label, entry in self.params["encoders"].items():
            if not isinstance(entry, Mapping):
                problems.append(f"'{path}/{label}' must be a dict with encoder and encoder_params, got {entry!r}.")
                continue
            entries[label], found = check_params(
                entry, {"encoder": Param((type, str)), "encoder_params": Param(dict)},
                {"source": Param(int, 1, minimum=1)}, f"{path}/{label}")
            problems += found
        if len(self.params["encoders"]) < 2:
            problems.append(f"'{path}' must name at least two encoders: add one, or use the encoder itself instead of "
                            "MultiEncoder.")
        if self.params["combination"] == "channels" and self.params["output_size"] is not None:
            problems.append(f"'{self.params_path}/output_size' has no effect with combination channels, whose outputs "
                            "have the channels of all encoders: leave it out.")
        if not problems and self.params["combination"] != "time":
            sources = {entry["source"] for entry in entries.values()}
            problems += [f"'{self.params_path}/combination' is {self.params['combination']}, but the encoders read "
                         "different sources, which differ in length: use time."] if len(sources) > 1 else []
        if problems:
            raise ConfigError(problems)
        return entries

    def _made(self, label: str, entry: Mapping[str, Any]) -> Encoder:
        found = resolve_name(entry["encoder"], "encoder", f"{self.params_path}/encoders/{label}/encoder")
        return found(self.params_of_inner(found, entry["encoder_params"], "src_vocab_size"), self.model, self.name,
                     self.mode)

    def _size_of(self, label: str) -> int:
        encoder = getattr(self, f"encoder_{label}")
        if getattr(encoder, "output_size", None) is None:
            raise ConfigError([f"'{self.params_path}/encoders/{label}/encoder' is {type(encoder).__name__}, which has "
                               "no output_size: use an encoder that has one."])
        return encoder.output_size

    def _common_size(self, sizes: Sequence[int]) -> int:
        if self.params["output_size"] is None and len(set(sizes)) > 1:
            numbers = ", ".join(f"{label}: {size}" for label, size in zip(self._names, sizes, strict=True))
            raise ConfigError([f"'{self.params_path}/output_size' is missing: set it, because the encoders have "
                               f"different numbers of channels ({numbers})."])
        return self.params["output_size"] or sizes[0]

    def _encode(self, input_dict: dict[str, Any]) -> dict[str, Any]:
        """Encodes the sources with all encoders, and combines the outputs.

        Args:
          input_dict: a dict whose ``source_tensors`` are ids ``[batch, time]`` and lengths ``[batch]`` of the first
            source, then those of the second source, and so on.

        Returns:
          A dict with ``outputs`` ``[batch, time, output_size]`` in the compute dtype; ``outputs_length`` ``[batch]``;
          ``encoder_input`` (the ids of the first source); ``state`` (None); and ``embedding_softmax_layer`` and
          ``embedding_table``, each from the first encoder that returns it, or None.
        """
        tensors = input_dict["source_tensors"]
        self._check_sources(len(tensors) // 2)
        encoded = [getattr(self, f"encoder_{label}").encode(
            {"source_tensors": tensors[2 * source - 2:2 * source]}, self.training)
            for label, source in zip(self._names, self._sources, strict=True)]
        lengths = [lengths_of(found) for found in encoded]
        outputs = [self._projected(label, tf.cast(found["outputs"], self.compute_dtype))
                   for label, found in zip(self._names, encoded, strict=True)]
        if self.params["combination"] == "time":
            combined, total = concatenated_in_time(outputs, lengths)
        else:
            combined, total = self._at_positions(outputs), lengths[0]
        tables = {key: next((found[key] for found in encoded if found.get(key) is not None), None) for key in _TABLES}
        return {**tables, "outputs": combined, "outputs_length": total, "encoder_input": tensors[0], "state": None}

    def _check_sources(self, count: int) -> None:
        for label, source in zip(self._names, self._sources, strict=True):
            if source > count:
                raise ConfigError([f"'{self.params_path}/encoders/{label}/source' is {source}, but each example has "
                                   f"only {count} source{'s' * (count > 1)}: correct it, or give more columns in "
                                   "data_layer_params/source_column."])
        unread = set(range(1, count + 1)) - set(self._sources)
        if unread:
            raise ConfigError([f"'{self.params_path}/encoders' has no encoder for source {min(unread)} of {count}: set "
                               "an encoder's source to it, or give fewer columns in data_layer_params/source_column."])

    def _projected(self, label: str, outputs: tf.Tensor) -> tf.Tensor:
        kernel = getattr(self, f"projection_{label}", None)
        return outputs if kernel is None else times_matrix(outputs, cast_weight(kernel, outputs.dtype))

    def _at_positions(self, outputs: Sequence[tf.Tensor]) -> tf.Tensor:
        """Combines the outputs of several encoders, each ``[batch, time, channels]``, at each position."""
        joined = tf.concat(outputs, -1)
        if self.params["combination"] == "channels":
            return joined
        scores = tf.cast(times_matrix(joined, cast_weight(self.gate_kernel, joined.dtype)), tf.float32) + self.gate_bias
        shape = tf.concat([tf.shape(joined)[:2], [len(outputs), self.output_size]], 0)
        weights = tf.cast(tf.nn.softmax(tf.reshape(scores, shape), axis=2), joined.dtype)
        combined = tf.reduce_sum(weights * tf.reshape(joined, shape), axis=2)
        return in_shape(combined, [None, None, self.output_size])
