"""Compares a vocoder with the method of Griffin and Lim, on spectrograms of recordings and of a model of speech.

    pip install speechmos pandas
    python benchmarks/vocoders.py kathleen-vocoder --clips=kathleen/dev_aligned.csv --location=kathleen/

A row has the means over the clips: the log-spectral distance from the recordings, the opinion score that DNSMOS
predicts (overall, from 1 to 5; Reddy et al. 2022), the errors of PocketSphinx, and the real-time factor: the time that
it takes to make the sound of a spectrogram, one clip after another, divided by the duration of the sound.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

from benchmarks.measuring.programs import make_parser, markdown_table, run_program
from open_seq2seq.data.audio.audio_files import read_audio
from open_seq2seq.data.text2speech.clips import Clip, read_clips

_OPINION_RATE = 16000
Sounds = list[np.ndarray]


def opinion(sound: np.ndarray, rate: int) -> float:
    """Returns the opinion score that DNSMOS predicts for a sound ``[samples]``."""
    import soxr
    from speechmos import dnsmos

    resampled = soxr.resample(np.asarray(sound, np.float32), rate, _OPINION_RATE, quality="HQ")
    return float(dnsmos.run(np.clip(resampled, -1.0, 1.0), _OPINION_RATE)["ovrl_mos"])


def row_of(name: str, sounds: Sounds, recordings: Sounds, clips: Sequence[Clip], rate: int, factor: str,
           is_copy: bool = True) -> list[str]:
    """Returns the cells of the table for the sounds of the clips."""
    from open_seq2seq.metrics.speech import log_spectral_distance
    from open_seq2seq.metrics.wer import rate_interval
    from open_seq2seq.models.text2speech.evaluation import SoundJudge

    judge = SoundJudge(rate, False, "pocketsphinx")
    heard = [judge.heard(sound, clip.text) for sound, clip in zip(sounds, clips, strict=True)]
    errors = []
    for counts in ([one.characters for one in heard], [one.words for one in heard]):
        low, high = rate_interval(counts)
        share = sum(one.errors for one in counts) / max(1, sum(one.reference for one in counts))
        errors.append(f"{100 * share:.1f} % ({100 * low:.1f} to {100 * high:.1f})")
    distances = [log_spectral_distance(*pair, rate) for pair in zip(sounds, recordings, strict=True)] if is_copy else []
    return [name, f"{np.mean(distances):.2f} dB" if is_copy else "",
            f"{np.mean([opinion(one, rate) for one in sounds]):.2f}", *errors, factor]


def timed(make: Callable[[np.ndarray], np.ndarray], spectrograms: Sounds, rate: int) -> tuple[Sounds, str]:
    """Returns the sound of each spectrogram, and the real-time factor of a second pass over them."""
    sounds = [make(one) for one in spectrograms]
    start = time.perf_counter()
    for one in spectrograms:
        make(one)
    return sounds, f"{(time.perf_counter() - start) * rate / sum(map(len, sounds)):.3f}"


def makers(vocoder: Any, iterations: Sequence[int]) -> dict[str, Callable[[np.ndarray], np.ndarray]]:
    """Returns, by name, functions from a spectrogram ``[frames, mels]`` to its sound ``[samples]``."""
    import tensorflow as tf

    from open_seq2seq.data.audio.synthesis_features import to_sound

    settings = vocoder.model.data_layer.settings
    shape = tf.TensorSpec([1, None, settings.num_columns], tf.float32)
    griffin_lim = tf.function(lambda x: to_sound(x, tf.shape(x)[1:2], settings, 60), [shape])

    def of_model(**values: int) -> Callable[[np.ndarray], np.ndarray]:
        model = vocoder.variant({"encoder_params": values})
        return lambda one: model.infer([one])[0].samples

    return {"Griffin-Lim, 60 iterations": lambda one: griffin_lim(one[None])[0].numpy(),
            "network alone": of_model(phase_iterations=0, mel_iterations=0),
            **{f"vocoder, {count} iterations": of_model(phase_iterations=count) for count in iterations}}


def main(argv: list[str]) -> None:
    """Makes the sounds, and prints the table."""
    parser = make_parser(__doc__)
    parser.add_argument("logdir", help="log directory of the vocoder")
    parser.add_argument("--clips", required=True, help="list of clips")
    parser.add_argument("--location", default="", help="folder with wavs/ of these clips")
    parser.add_argument("--voice", help="log directory of a model of speech synthesis that speaks the texts")
    parser.add_argument("--iterations", type=int, nargs="*", default=[20], help="values of phase_iterations")
    args = parser.parse_args(argv)

    import open_seq2seq
    from open_seq2seq.data.audio.synthesis_features import spectrogram

    clips = read_clips([args.clips], args.location)
    vocoder = open_seq2seq.load(args.logdir)
    settings = vocoder.model.data_layer.settings  # type: ignore[attr-defined]
    rate = settings.sample_freq
    recordings = [read_audio(clip.path, rate) for clip in clips]
    inputs = {"copies": [spectrogram(one, settings) for one in recordings]}
    if args.voice:
        spoken = open_seq2seq.load(args.voice, griffin_lim_iterations=0).infer([clip.text for clip in clips])
        inputs["speech"] = [one.spectrogram for one in spoken]
    rows = [row_of("recordings", recordings, recordings, clips, rate, "", False)]
    for kind, spectrograms in inputs.items():
        for name, make in makers(vocoder, args.iterations).items():
            sounds, factor = timed(make, spectrograms, rate)
            rows.append(row_of(f"{kind}: {name}", sounds, recordings, clips, rate, factor, kind == "copies"))
    print(markdown_table(["", "log-spectral distance", "predicted opinion score", "character error heard",
                          "word error heard", "real-time factor"], rows))


if __name__ == "__main__":
    run_program(main)
