"""What all models have in common whose results are sounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from open_seq2seq.models.encoder_decoder import EncoderDecoderModel
from open_seq2seq.models.reporter import Reporter, SignedScores
from open_seq2seq.models.text2speech.evaluation import SoundJudge
from open_seq2seq.models.text2speech.speech import free_name
from open_seq2seq.utils import disk
from open_seq2seq.utils.sound_files import encoded


class SoundModel(EncoderDecoderModel):
    """Base of models whose results are sounds.

    If a model declares ``evaluation.judge_params`` and they ask for it, ``_judge`` measures the sounds of evaluation.
    """

    verb = "synthesize"
    data_layer: Any

    def __init__(self, params: Mapping[str, Any], mode: str = "train") -> None:
        super().__init__(params, mode)
        self._scores = SignedScores()
        self._judge: SoundJudge | None = None

    def connect(self) -> None:
        super().connect()
        measures, recognizer = self.params.get("sound_measures", False), self.params.get("recognizer")
        if self.mode == "eval" and (measures or recognizer):
            self._judge = SoundJudge(self.data_layer.settings.sample_freq, measures, recognizer)

    def report_evaluation(self, results_per_batch: list[Any], reporter: Reporter) -> None:
        """Writes the scores of the sound with their signatures."""
        self._scores.write(reporter)

    def answer(self, result: Any) -> str:
        return f"{result.seconds:.2f} seconds of sound"

    def prompt_answer(self, result: Any) -> str:
        """Writes the sound to the first free file ``speech-1.wav``, ``speech-2.wav``, … of the current folder.

        Returns:
          The path, and the duration.
        """
        path = free_name()
        disk.write_new(path, encoded(result.samples, result.rate))
        return f"{path.resolve()}: {self.answer(result)}"
