"""Writes packages of Argos Translate, which LibreTranslate also serves: ``translate-en_de-1_0.argosmodel``.

A package is a zip archive of a folder with ``metadata.json``, the SentencePiece model, and a model of CTranslate2 in
``model/``. See ``argostranslate/package.py`` of https://github.com/argosopentech/argos-translate 1.11. Argos Translate
divides texts into sentences with a model that it downloads by itself, and translates with a beam of at least 4 and the
length penalty 0.2.
"""

from __future__ import annotations

import dataclasses
import json
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from open_seq2seq.export import ctranslate2, outside
from open_seq2seq.export.formats import Format
from open_seq2seq.export.runtime_texts import loading
from open_seq2seq.models.serving import Answer, ServingFunction
from open_seq2seq.models.text2text.text2text import Text2Text
from open_seq2seq.utils import disk
from open_seq2seq.utils.errors import UserError

_PIECES = "sentencepiece.model"
_VERSION = "1.0"
_CODES = {"source_language": "en", "target_language": "de"}  # examples


def functions(model: Any) -> list[ServingFunction]:
    """Returns the function ``translate``.

    Raises:
      UserError: CTranslate2 cannot compute the same function as the model, the model has no SentencePiece model for
        both languages, or no languages.
    """
    if not isinstance(model, Text2Text):
        raise UserError(f"Argos Translate translates, but the model is a {type(model).__name__}: export another model, "
                        "or choose another format.")
    ctranslate2.check_exportable(model)
    if ctranslate2.piece_files(model) != [_PIECES]:
        raise UserError("A package of Argos Translate needs one SentencePiece model for both languages, which this "
                        "model was not trained with: choose the format ctranslate2.")
    _languages(model)
    function = ctranslate2.translating(model)

    def expected(result: Any) -> Answer:
        answer = function.expected(result)
        return Answer((outside.as_argos(answer.texts[0]),), answer.numbers)

    return [dataclasses.replace(function, expected=expected, loading=lambda folder: _lines(model, folder))]


def _languages(model: Any) -> tuple[str, str]:
    """Returns the codes of the languages.

    Raises:
      UserError: the config does not name them.
    """
    missing = [name for name in _CODES if not model.params[name]]
    if missing:
        raise UserError(f"A package of Argos Translate names its languages, but {' and '.join(missing)} "
                        f"{'is' if len(missing) == 1 else 'are'} not in the config: give the codes, as in "
                        f"{' '.join(f'--{name}={_CODES[name]}' for name in missing)}.")
    return model.params["source_language"], model.params["target_language"]


def _name(model: Any) -> str:
    return f"translate-{'_'.join(_languages(model))}-{_VERSION.replace('.', '_')}"


def write(model: Any, declared: Sequence[ServingFunction], folder: Path) -> None:
    """Writes the package of a model that ``functions`` accepts."""
    source, target = _languages(model)
    metadata = {"package_version": _VERSION, "argos_version": "1.11", "from_code": source, "from_name": source,
                "to_code": target, "to_name": target, "links": [], "type": "translate"}
    name = _name(model)
    with tempfile.TemporaryDirectory() as place:
        whole = Path(place)
        (whole / "model").mkdir()
        ctranslate2.write_model(model, whole / "model")
        disk.copy_new(model.data_layer.tokenizers[0].path, whole / _PIECES)
        disk.write_new(whole / "metadata.json", json.dumps(metadata, indent=2) + "\n")
        disk.write_new(whole / "README.md", f"# {source} to {target}\n\nA translation model of OpenSeq2Seq.\n")
        with zipfile.ZipFile(folder / f"{name}.argosmodel", "x", zipfile.ZIP_DEFLATED) as archive:
            for path in sorted(path for path in whole.rglob("*") if path.is_file()):
                archive.write(path, f"{name}/{path.relative_to(whole)}")


def _lines(model: Any, folder: str) -> list[str]:
    """Returns lines of Python that install the package and translate."""
    source, target = _languages(model)
    return ["import argostranslate.package", "import argostranslate.translate", "",
            f"argostranslate.package.install_from_path('{folder}/{_name(model)}.argosmodel')",
            f"print(argostranslate.translate.translate('…', {source!r}, {target!r}))"]


def _search(model: Any) -> dict[str, Any]:
    """Returns the values with which inference searches as Argos Translate does."""
    values = ctranslate2.search(model)
    return {**values, "decoder_params": {**values["decoder_params"], "beam_size": outside.ARGOS["beam_size"],
                                         "alpha": outside.ARGOS["length_penalty"]}}


FORMAT = Format("argos", "package of Argos Translate", True, write, loading, "pip install argostranslate", 0.99, 1e-3,
                functions, _search)
