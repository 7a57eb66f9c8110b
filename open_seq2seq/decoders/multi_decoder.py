"""Several decoders on one encoder, one for each target language."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from open_seq2seq.config.names import resolve_name
from open_seq2seq.config.params import Param
from open_seq2seq.decoders.decoder import Decoder
from open_seq2seq.utils.errors import ConfigError, did_you_mean

# Entries of an encoder's output that are the same for all rows.
SHARED_KEYS = ("embedding_softmax_layer", "embedding_table")


def rows_of(output: Mapping[str, Any], rows: tf.Tensor) -> dict[str, Any]:
    """Returns an encoder's output for some rows of the batch.

    Args:
      output: see ``parts.keys.EncoderOutput``; all tensors, also those in nested structures such as ``state``, have the
        batch as axis 0, except the entries named in ``SHARED_KEYS``.
      rows: indices of the rows, int32 ``[rows]``.
    """
    return {key: value if value is None or key in SHARED_KEYS else
            tf.nest.map_structure(lambda tensor: tf.gather(tensor, rows), value) for key, value in output.items()}


def joined_rows(groups: Sequence[tuple[tf.Tensor, tf.Tensor]]) -> tf.Tensor:
    """Joins tensors that were computed for groups of rows.

    Args:
      groups: pairs of row indices ``[rows]`` and a tensor ``[rows, …]``; each row of the batch is in exactly one group.
        The tensors must have the same rank; they are padded with zeros to a common size.

    Returns:
      Tensor ``[batch, …]``, with the rows in the order of their indices.
    """
    shapes = tf.stack([tf.shape(tensor) for _, tensor in groups])
    sizes = tf.reduce_max(shapes, axis=0)
    padded = []
    for number, (_, tensor) in enumerate(groups):
        missing = tf.concat([[0], sizes[1:] - shapes[number, 1:]], 0)
        padded.append(tf.pad(tensor, tf.stack([tf.zeros_like(missing), missing], axis=1)))
    order = tf.argsort(tf.concat([rows for rows, _ in groups], 0))
    return tf.gather(tf.concat(padded, 0), order)


# Results of a search; those of all languages are joined into one batch.
_SEARCHED = ("beam_ids", "beam_scores", "beam_lengths")


class MultiDecoder(Decoder):
    """Decoders of the same class, one for each target language; for ``MultiDecoderModel``.

    The decoder of the language ``de`` is the attribute ``to_de``, and the names of its variables begin with
    ``decoder/to_de``. In training and evaluation, each decoder decodes the rows of the batch in its language. Inference
    has a single target language, whose decoder decodes all rows.
    """

    @staticmethod
    def get_required_params() -> dict[str, Any]:
        return {
            **Decoder.get_required_params(),
            "decoder": Param((type, str), doc="Class of the decoders.", names="decoder"),
            "decoder_params": Param(dict, doc="Parameters of the decoders."),
        }

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {
            **Decoder.get_optional_params(),
            "params_by_language": Param(dict, {}, "Parameters that replace those of decoder_params for some languages: "
                                        "language → dict."),
            "tgt_vocab_sizes": Param((dict, type(None)), None, "Number of ids by language; set from the data layer.",
                                     "ids", derived=True),
            "batch_size": Param(int, 1, "Set by the model; passed to the decoders.", "sentences", derived=True,
                                minimum=1),
        }

    def __init__(self, params: Any, model: Any = None, name: str | None = "decoder", mode: str = "train") -> None:
        super().__init__(params, model, name, mode)
        sizes: Mapping[str, int] = self.params["tgt_vocab_sizes"] or {}
        self._check(sizes)
        self._languages = list(sizes)
        self._class = resolve_name(self.params["decoder"], "decoder", f"{self.params_path}/decoder")
        for language, size in sizes.items():
            setattr(self, f"to_{language}", self._make_decoder(language, size))

    def _check(self, sizes: Mapping[str, int]) -> None:
        path = self.params_path
        if not sizes:
            raise ConfigError([f"'{path.removesuffix('_params')}' is MultiDecoder, which needs target languages: use "
                               "the base_model MultiDecoderModel with the data_layer MultiCorpusDataLayer."])
        problems = []
        for language, overrides in self.params["params_by_language"].items():
            if language not in sizes:
                problems.append(f"'{path}/params_by_language' has the language '{language}', but the languages of "
                                f"the corpora are {', '.join(sizes)}.{did_you_mean(language, sizes)}")
            elif not isinstance(overrides, Mapping):
                problems.append(f"'{path}/params_by_language/{language}' must be a dict of parameters, got "
                                f"{overrides!r}.")
        if problems:
            raise ConfigError(problems)

    def _make_decoder(self, language: str, size: int) -> Decoder:
        own = {**self.params["decoder_params"], **self.params["params_by_language"].get(language, {}),
               "tgt_vocab_size": size}
        return self._class(self.params_of_inner(self._class, own, "batch_size"), self.model, self.name, self.mode)

    def decoder_of(self, language: str) -> Decoder:
        """Returns the decoder of a language."""
        return getattr(self, f"to_{language}")

    def _decode(self, input_dict: dict[str, Any]) -> dict[str, Any]:
        """Decodes each row with the decoder of its language.

        Args:
          input_dict: see ``parts.keys.DecoderInput``; with ``language``, the language of all rows, or ``languages``,
            the index of each row's language ``[batch]`` int32.

        Returns:
          With ``language``, the result of its decoder. Otherwise a dict with ``logits`` (None); ``by_language``, a list
          of (row indices ``[rows]``, the rows' target tensors or None, result of the decoder) in the order of the
          languages; and ``outputs`` or, after a search, ``beam_ids``, ``beam_scores`` and ``beam_lengths`` of all rows.
        """
        if input_dict.get("language") is not None:
            return self.decoder_of(input_dict["language"]).decode(input_dict, self.training)
        groups = [self._decode_rows(input_dict, number) for number in range(len(self._languages))]
        result: dict[str, Any] = {"logits": None, "by_language": groups}
        if all("beam_ids" in output for _, _, output in groups):
            joined = {key: joined_rows([(rows, output[key]) for rows, _, output in groups]) for key in _SEARCHED}
            return {**result, **joined, "outputs": [joined["beam_ids"][:, 0]]}
        if any(output["outputs"] is None for _, _, output in groups):
            return {**result, "outputs": None}
        return {**result, "outputs": [joined_rows([(rows, output["outputs"][0]) for rows, _, output in groups])]}

    def _decode_rows(self, input_dict: dict[str, Any], number: int) -> tuple[tf.Tensor, Any, dict[str, Any]]:
        rows = tf.cast(tf.where(tf.equal(input_dict["languages"], number))[:, 0], tf.int32)
        inputs: dict[str, Any] = {"encoder_output": rows_of(input_dict["encoder_output"], rows)}
        if input_dict.get("ids") is not None:
            inputs["ids"] = tf.gather(input_dict["ids"], rows)
        if input_dict.get("target_tensors") is not None:
            ids, lengths = (tf.gather(tensor, rows) for tensor in input_dict["target_tensors"][:2])
            inputs["target_tensors"] = [ids[:, :tf.reduce_max(tf.concat([lengths, [1]], 0))], lengths]
        output = self.decoder_of(self._languages[number]).decode(inputs, self.training)
        return rows, inputs.get("target_tensors"), output
