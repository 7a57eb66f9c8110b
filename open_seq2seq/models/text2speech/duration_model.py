"""Speech synthesis from durations of the symbols, without attention."""

from __future__ import annotations

from open_seq2seq.models.text2speech.text2speech import Text2Speech


class Text2SpeechDurationModel(Text2Speech):
    """A model without attention and stop token: it predicts the durations of the symbols, then the spectrogram.

    See ``DurationDecoder`` (Non-Attentive Tacotron, Shen et al. 2020, https://arxiv.org/abs/2010.04301). The data layer
    needs ``durations``.
    """
