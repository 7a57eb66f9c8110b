"""Speech synthesis by Centaur, whose attention has several layers."""

from __future__ import annotations

from typing import Any

import numpy as np

from open_seq2seq.models.reporter import Reporter
from open_seq2seq.models.text2speech.speech import picture
from open_seq2seq.models.text2speech.text2speech import Text2Speech


class Text2SpeechCentaur(Text2Speech):
    """Centaur, the convolutional model of speech synthesis of NVIDIA's OpenSeq2Seq.

    See ``CentaurEncoder`` and ``CentaurDecoder``. Samples have a picture of the alignment of each head of each block.
    """

    def report_sample(self, batch: dict[str, Any], outputs: list[np.ndarray], reporter: Reporter) -> None:
        super().report_sample(batch, outputs, reporter)
        if not self.params["save_to_tensorboard"]:
            return
        size, length = batch["source_tensors"][1][0], batch["target_tensors"][2][0]
        heads = self.decoder.params["attention_heads"]
        for number, one in enumerate(outputs[6][0, :length, :, :size].transpose(1, 0, 2)):
            suffix = f"_{number % heads}" if heads > 1 else ""
            reporter.image(f"alignment_{number // heads}{suffix}", picture(one))
