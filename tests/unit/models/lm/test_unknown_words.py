"""What language models say about unknown words."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from open_seq2seq.models import LanguageModel


@pytest.mark.parametrize(("unknown", "expected"), [
    (0, "per token (8 tokens)"), (2, "per token (8 tokens, 2 (25.0 %) of them unknown)")])
def test_evaluation_says_how_many_tokens_are_unknown(capsys, unknown, expected):
    layer = SimpleNamespace(text_size=lambda: (4, 30), num_unknown=unknown)
    found = LanguageModel.finalize_evaluation(SimpleNamespace(data_layer=layer), [(3.0, 5.0), (1.0, 3.0)])
    np.testing.assert_allclose([found["perplexity"], found["word_perplexity"]], [np.exp(0.5), np.exp(1.0)])
    assert expected in capsys.readouterr().out
