"""The data layer of Transformer configs: parallel text, batched by number of tokens."""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping
from typing import Any

from open_seq2seq.config.files import DATA
from open_seq2seq.config.params import FREE, Param
from open_seq2seq.data.data_layer import DataLayer
from open_seq2seq.data.text2text.text2text import ParallelTextDataLayer
from open_seq2seq.data.text2text.text_params import PATH, given_target_params, max_length_param, shared_params
from open_seq2seq.utils.errors import ConfigError, DataError


class TransformerDataLayer(ParallelTextDataLayer):
    """Sentence pairs as ``tokens + [EOS]``; by default, the batch size counts tokens.

    In NVIDIA's OpenSeq2Seq, the layer of this name read TFRecord files. This layer reads text: set ``source_file``
    and ``target_file``, which are relative to ``data_dir`` if that is set. ``tgt_vocab_file`` is by default the source
    vocabulary. ``batch_in_tokens`` and ``num_cpu_cores`` take the place of ``batch_size_unit`` and
    ``map_parallel_calls``, which are ignored.

    Raises:
      ConfigError: ``source_file`` is missing.
      DataError: ``data_dir`` and ``file_pattern`` name TFRecord files; see also ``ParallelTextDataLayer``.
    """

    @staticmethod
    def get_required_params() -> dict[str, Any]:
        return max_length_param()

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {
            **DataLayer.get_optional_params(),
            **shared_params(),
            **given_target_params(),
            "repeat": Param((bool, int, type(None)), None, "Ignored; accepted so that old configs load. Training "
                            "always repeats the data; evaluation never does.", on_change=FREE),
            "data_dir": Param(PATH, None, "Folder that source_file and target_file are relative to.", on_change=FREE),
            "file_pattern": Param(PATH, None, "Accepted for old configs, but TFRecord files are not read: write them "
                                  "as text by scripts/records_to_text.py.", on_change=FREE),
            "source_file": Param(PATH, None, "Text file with one source sentence per line.", file=DATA),
            "target_file": Param(PATH, None, "Text file with one target sentence per line; not read in inference.",
                                 file=DATA),
            "num_cpu_cores": Param(int, 2, "Number of threads for tokenising, if the tokenizer supports threads.",
                                   "threads", minimum=1, maximum=1024, on_change=FREE),
            "pad_data_to_eight": Param(bool, False, "Whether to pad the length of a batch to a multiple of 8."),
            "batch_in_tokens": Param(bool, True, "Whether the batch size counts tokens of the longer side, padding "
                                     "included; if False, it counts sentences."),
        }

    @classmethod
    def opened_files(cls, params: Mapping[str, Any]) -> Mapping[str, Any]:
        folder = params.get("data_dir") or ""
        files = {side: params[side] for side in ("source_file", "target_file") if isinstance(params.get(side), str)}
        return {**params, **{side: os.path.join(folder, path) for side, path in files.items() if path}}

    def _completed(self, params: dict[str, Any]) -> dict[str, Any]:
        if not params["source_file"] and self.mode != "interactive_infer":
            self._explain_missing_text(params)
        for side in ("source_file", "target_file"):
            if params["data_dir"] and params[side]:
                params[side] = os.path.join(params["data_dir"], params[side])
        return {
            **params,
            "tgt_vocab_file": params["tgt_vocab_file"] or params["src_vocab_file"],
            "batch_size_unit": "tokens" if params["batch_in_tokens"] else "sentences",
            "pad_lengths_to_eight": params["pad_data_to_eight"],
            "map_parallel_calls": params["num_cpu_cores"],
            "use_start_token": False,
            "use_targets": True,
        }

    @classmethod
    def _params_for_file(cls, path: str) -> dict[str, Any]:
        return {**super()._params_for_file(path), "data_dir": None, "file_pattern": None}

    def _explain_missing_text(self, params: dict[str, Any]) -> None:
        pattern = os.path.join(params["data_dir"] or "", params["file_pattern"] or "")
        records = sorted(glob.glob(pattern)) if params["file_pattern"] else []
        if records:
            raise DataError(f"The files of '{params['file_pattern']}', such as {records[0]}, are TFRecord files, which "
                            "this layer does not read: write them as text by scripts/records_to_text.py, and set "
                            "source_file and target_file to the text files.")
        raise ConfigError([f"'{self.params_path}/source_file' is missing: name a text file with one source sentence "
                           "per line (file_pattern is ignored, because TFRecord files are not read)."])
