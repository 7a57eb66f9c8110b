"""Transcribes speech as it arrives, from replayed recordings or from the microphone.

usage: python scripts/stream.py --logdir=digits-w2l --files one.wav two.flac --step_ms=200
       python scripts/stream.py --logdir=digits-w2l --files strings/*.flac --compare --quiet
       python scripts/stream.py --logdir=digits-w2l --microphone

Only the logdir is needed: the checkpoint that inference would use contains the config and the alphabet. Config values
may be overridden, as in --decoder_params/use_language_model=True. Prints the transcript whenever it changes, and the
time per step.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from open_seq2seq.cli import run_of
from open_seq2seq.data.audio.audio_files import AudioError, read_audio, read_info
from open_seq2seq.metrics.wer import error_rates
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import UserError
from open_seq2seq.utils.script import ScriptParser, run_script

if TYPE_CHECKING:
    from open_seq2seq.inference.speech2text.frame_asr import FrameASR


def parse_args(argv: list[str] | None = None) -> tuple[argparse.Namespace, list[str]]:
    """Parses the command line; returns the config values separately."""
    parser = ScriptParser(__doc__)
    add = parser.add_argument
    add("--logdir", required=True, help="logdir of the trained model, or a checkpoint in it")
    add("--files", nargs="+", metavar="FILE", help="recordings to replay")
    add("--microphone", action="store_true", help="listen until Ctrl-C; needs the package sounddevice")
    add("--step_ms", type=float, default=200.0, help="length of a step in milliseconds (default: %(default)g)")
    add("--history_seconds", type=float, default=16.0,
        help="seconds of audio whose transcript may be revised and over which features are normalised "
        "(default: %(default)g)")
    add("--compare", action="store_true", help="also transcribe each recording as a whole and print the difference")
    add("--trust_code", action="store_true",
        help="let the logdir's config import and run code from outside the package")
    add("--quiet", action="store_true", help="print only finished transcripts")
    return parser.parse_known_args(argv)


def check(args: argparse.Namespace) -> None:
    """Checks the command line before anything is loaded.

    Raises:
      UserError: no source of audio is given, or two are; a number is invalid; or a recording cannot be used.
    """
    if bool(args.files) == args.microphone:
        raise UserError("Give either --files or --microphone.")
    if not 0 < args.step_ms < math.inf:
        raise UserError(f"--step_ms is {args.step_ms:g} but has to be above 0 and finite.")
    if args.compare and args.microphone:
        raise UserError("--compare works only with --files, because audio from the microphone is not kept: "
                        "remove --compare.")
    for name in args.files or []:
        read(name, header_only=True)


def read(path: str, header_only: bool = False) -> tuple[np.ndarray, int]:
    """Returns a recording ``[samples]`` and its sampling rate; no samples if ``header_only``.

    Raises:
      UserError: the recording cannot be used.
    """
    try:
        rate = read_info(path).rate
        return (np.zeros(0, np.float32) if header_only else read_audio(path, rate)), rate
    except AudioError as error:
        raise UserError(f"{path} {error.detail}.") from error


class Clock:
    """Collects processing times and the duration of the audio, all in seconds.

    Attributes:
      steps: processing time of each chunk.
      ends: time that ``FrameASR.finish`` took, for each utterance.
      audio_seconds: total duration of the audio.
    """

    def __init__(self) -> None:
        self.steps: list[float] = []
        self.ends: list[float] = []
        self.audio_seconds = 0.0

    def describe(self) -> str:
        """Returns a summary of the times in one line."""
        steps = np.array(self.steps or [0.0]) * 1000
        total = sum(self.steps) + sum(self.ends)
        return (f"latency per step: mean {steps.mean():.1f} ms, p95 {np.percentile(steps, 95):.1f} ms, max "
                f"{steps.max():.1f} ms; at the end {np.mean(self.ends or [0.0]) * 1000:.1f} ms; real-time factor "
                f"{total / max(self.audio_seconds, 1e-9):.3f}")


def transcribe(asr: FrameASR, pieces: Iterable[np.ndarray], clock: Clock, quiet: bool) -> tuple[str, str]:
    """Streams one utterance.

    Args:
      asr: the recogniser, reset to the sampling rate of the audio.
      pieces: chunks of audio ``[samples]``.
      clock: records the processing times.
      quiet: whether to print no intermediate transcripts.

    Returns:
      The transcript that ``FrameASR.finish`` returned, and the last one before that call.
    """
    heard, shown = 0.0, ""
    for piece in pieces:
        began = time.perf_counter()
        text = asr.transcribe(piece).text
        clock.steps.append(time.perf_counter() - began)
        heard += len(piece) / asr.rate
        if text != shown and not quiet:
            deco_print(f"{heard:7.2f} s  {text}", offset=1)
        shown = text
    began = time.perf_counter()
    text = asr.finish()
    clock.ends.append(time.perf_counter() - began)
    clock.audio_seconds += heard
    return text, shown


def replayed(audio: np.ndarray, step: int) -> Iterator[np.ndarray]:
    """Yields audio ``[samples]`` in chunks of ``step`` samples."""
    for begin in range(0, len(audio), step):
        yield audio[begin:begin + step]


def replay_files(asr: FrameASR, args: argparse.Namespace, clock: Clock) -> None:
    """Streams recordings, each as one utterance."""
    found: dict[str, tuple[str, str]] = {}
    for name in args.files:
        audio, rate = read(name)
        asr.reset(rate)
        found[name] = transcribe(asr, replayed(audio, max(1, round(args.step_ms / 1000 * rate))), clock, args.quiet)
        deco_print(f"{name}: {found[name][0]}")
    deco_print(clock.describe())
    if args.compare:
        compare(asr, found)


def compare(asr: FrameASR, found: dict[str, tuple[str, str]]) -> None:
    """Prints how the streamed transcripts differ from those of the whole recordings."""
    from open_seq2seq.inference.trained_model import TrainedModel

    offline = TrainedModel(asr.model)
    whole = [offline.infer([read(name)])[0].text for name in found]
    for what, texts in (("transcripts", [text for text, _ in found.values()]),
                        ("last transcripts before the end of the audio", [text for _, text in found.values()])):
        rates = error_rates(whole, texts, list(found))
        deco_print(f"{what} compared with those of whole recordings: WER {100 * rates.wer:.2f}%, "
                   f"CER {100 * rates.cer:.2f}%, "
                   f"{sum(a == b for a, b in zip(whole, texts, strict=True))} of {len(whole)} equal")


def microphone(rate: int, step: int, stopped: threading.Event) -> Iterator[np.ndarray]:
    """Yields chunks of audio ``[step]`` from the default microphone until ``stopped`` is set.

    Raises:
      UserError: sounddevice or PortAudio is missing, or the microphone cannot be used.
    """
    try:
        import sounddevice
    except (ImportError, OSError) as error:  # OSError: the library PortAudio is missing
        raise UserError(f"--microphone needs the package sounddevice and the library PortAudio ({error}): run `pip "
                        "install sounddevice`, or replay recordings with --files.") from error
    waiting: queue.Queue[np.ndarray] = queue.Queue()

    def keep(block: np.ndarray, frames: int, moment: Any, status: Any) -> None:
        waiting.put(block[:, 0].copy())

    try:
        with sounddevice.InputStream(samplerate=rate, channels=1, dtype="float32", blocksize=step, callback=keep):
            while not stopped.is_set():
                with contextlib.suppress(queue.Empty):
                    yield waiting.get(timeout=0.1)
    except sounddevice.PortAudioError as error:
        raise UserError(f"The microphone cannot be used ({error}): replay recordings with --files.") from error


def listen(asr: FrameASR, args: argparse.Namespace, clock: Clock) -> None:
    """Streams one utterance from the microphone until Ctrl-C."""
    stopped = threading.Event()
    before = signal.signal(signal.SIGINT, lambda *_: stopped.set())  # the current chunk is still transcribed
    deco_print("Listening; stop with Ctrl-C.")
    try:
        step = max(1, round(args.step_ms / 1000 * asr.rate))
        deco_print(transcribe(asr, microphone(asr.rate, step, stopped), clock, args.quiet)[0])
    finally:
        signal.signal(signal.SIGINT, before)
    deco_print(clock.describe())


def main(argv: list[str] | None = None) -> None:
    """Runs the script."""
    args, overrides = parse_args(argv)
    check(args)
    trust = ["--trust_code"] if args.trust_code else []
    whole = ["--window_seconds=0"] if args.compare else []
    model = run_of([f"--logdir={args.logdir}", *trust, *whole, *overrides]).load().model
    from open_seq2seq.inference.speech2text.frame_asr import FrameASR

    asr = FrameASR(model, history_seconds=args.history_seconds)
    deco_print("The model's output for a sound is provisional at first. It becomes final "
               f"{1000 * asr.look_ahead_seconds:.0f} ms after the sound.")
    clock = Clock()
    if args.microphone:
        listen(asr, args, clock)
    else:
        replay_files(asr, args, clock)


if __name__ == "__main__":
    run_script(main)
