import sys

import numpy as np
import pytest

from open_seq2seq.metrics.recognizer import PocketSphinx, plain_words
from open_seq2seq.utils.errors import UserError


def test_words_are_compared_without_case_and_punctuation():
    assert plain_words("“It's the Aurora-borealis,” — he said: 'OK', don’t.") == \
        "it's the aurora borealis he said ok don't"


def test_a_missing_recogniser_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pocketsphinx", None)
    with pytest.raises(UserError, match=r"open-seq2seq\[align\]"):
        PocketSphinx()


@pytest.mark.long
def test_silence_has_no_words():
    pytest.importorskip("pocketsphinx")
    recognizer = PocketSphinx()
    assert recognizer.transcript(np.zeros([8000], np.float32), 8000) == ""
    assert recognizer.transcript(np.zeros([0], np.float32), 8000) == ""
