"""An independent recogniser, which tells whether synthesised speech can be understood."""

from __future__ import annotations

import re
from importlib.metadata import version

import numpy as np

from open_seq2seq.utils.errors import UserError

_RATE = 16000  # of the acoustic model


class PocketSphinx:
    """PocketSphinx with its own English models, which our training data do not influence.

    Raises:
      UserError: the package pocketsphinx is not installed.
    """

    def __init__(self) -> None:
        try:
            import pocketsphinx
        except ImportError as error:
            raise UserError("The recognizer pocketsphinx is not installed: run pip install 'open-seq2seq[align]', or "
                            "set recognizer to None.") from error
        self._decoder = pocketsphinx.Decoder(samprate=_RATE, loglevel="FATAL")
        self.signature = f"pocketsphinx:{version('pocketsphinx')}|rate:{_RATE}|words:a-z'|interval:95%bootstrap"

    def transcript(self, samples: np.ndarray, rate: int) -> str:
        """Returns the words that are heard in sound ``[samples]`` from -1 to 1 with ``rate`` samples per second."""
        import soxr

        if not np.any(samples):  # in digital silence, words are heard
            return ""
        sound = np.clip(soxr.resample(np.asarray(samples, np.float32), rate, _RATE, quality="HQ"), -1.0, 1.0)
        self._decoder.start_utt()
        self._decoder.process_raw((sound * 32767).astype(np.int16).tobytes(), full_utt=True)
        self._decoder.end_utt()
        heard = self._decoder.hyp()
        return heard.hypstr if heard else ""


def plain_words(text: str) -> str:
    """Returns the words of a text in lower case, without punctuation, as they are compared."""
    return " ".join(re.findall(r"[a-z]+(?:'[a-z]+)*", text.lower().replace("’", "'")))
