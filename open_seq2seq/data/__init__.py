"""Data layers: the classes that the config parameter ``data_layer`` can name."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from open_seq2seq.config.names import exported, register

if TYPE_CHECKING:
    from open_seq2seq.data.data_layer import DataLayer
    from open_seq2seq.data.image2label.image2label import CifarDataLayer, ImageFolderDataLayer, ImagenetDataLayer
    from open_seq2seq.data.lm.classification import IMDBDataLayer, SSTDataLayer, TextClassificationDataLayer
    from open_seq2seq.data.lm.wkt import WKTDataLayer
    from open_seq2seq.data.speech2text.speech2text import Speech2TextDataLayer
    from open_seq2seq.data.speech2text.speech_commands import SpeechCommandsDataLayer
    from open_seq2seq.data.text2label.labelled_text import LabelledTextDataLayer
    from open_seq2seq.data.text2speech.text2speech import Text2SpeechDataLayer
    from open_seq2seq.data.text2speech.wavenet import WavenetDataLayer
    from open_seq2seq.data.text2text.several_corpora import MultiCorpusDataLayer
    from open_seq2seq.data.text2text.text2text import ParallelTextDataLayer, TableTextDataLayer, TransformerDataLayer

__all__ = ["CifarDataLayer", "DataLayer", "IMDBDataLayer", "ImageFolderDataLayer", "ImagenetDataLayer",
           "LabelledTextDataLayer", "MultiCorpusDataLayer", "ParallelTextDataLayer", "SSTDataLayer",
           "Speech2TextDataLayer", "SpeechCommandsDataLayer", "TableTextDataLayer", "Text2SpeechDataLayer",
           "TextClassificationDataLayer", "TransformerDataLayer", "WKTDataLayer", "WavenetDataLayer"]

_HOMES = {name: module for module, names in {
    "data_layer": "DataLayer",
    "image2label.image2label": "CifarDataLayer ImageFolderDataLayer ImagenetDataLayer",
    "lm.classification": "IMDBDataLayer SSTDataLayer TextClassificationDataLayer",
    "lm.wkt": "WKTDataLayer",
    "speech2text.speech2text": "Speech2TextDataLayer",
    "speech2text.speech_commands": "SpeechCommandsDataLayer",
    "text2label.labelled_text": "LabelledTextDataLayer",
    "text2speech.text2speech": "Text2SpeechDataLayer",
    "text2speech.wavenet": "WavenetDataLayer",
    "text2text.several_corpora": "MultiCorpusDataLayer",
    "text2text.text2text": "ParallelTextDataLayer TableTextDataLayer TransformerDataLayer",
}.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    # Layers are imported on first use, because they import TensorFlow, which takes seconds and which the scripts that
    # prepare text do not need.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])


register("data_layer", exported(sys.modules[__name__]))
