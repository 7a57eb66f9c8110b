"""The data layer for networks that turn spectrograms into sound: recordings and their mel spectrograms."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from open_seq2seq.config.files import LIST
from open_seq2seq.config.params import FREE, REFUSE, Param
from open_seq2seq.data.audio.audio_files import AUDIO_SUFFIXES, AudioError
from open_seq2seq.data.data_layer import DataLayer
from open_seq2seq.data.fields import Field
from open_seq2seq.data.speech2text.recordings import Problem
from open_seq2seq.data.static_shapes import with_empty_row
from open_seq2seq.data.text2speech.clip_layer import (
    RATES,
    ClipDataLayer,
    Recorded,
    clip_params,
    padded,
    spectrogram_params,
)
from open_seq2seq.data.text2speech.clips import FOLDER, Clip, read_clips
from open_seq2seq.utils.errors import DataError
from open_seq2seq.utils.given_files import check_given

SPECTROGRAM = ".npy"
"""Suffix of files with a spectrogram ``[frames, features]``, as inference with a model of speech synthesis writes."""


class WavenetDataLayer(ClipDataLayer):
    """Recordings and their mel spectrograms, from lists in the layout of LJSpeech, for ``WavenetEncoder``.

    In training and evaluation, a batch has ``source_tensors`` ``[audio [batch, samples], lengths [batch], spectrogram
    [batch, frames, features], lengths [batch]]`` and ``target_tensors``, the first two of these. Frame f belongs to the
    ``hop`` samples from number ``f * hop`` on. In inference, ``source_tensors`` are a spectrogram and its lengths.

    Raises:
      ConfigError: parameters contradict each other.
      DataError: a list or recording is missing or cannot be used, or no clips are left.
    """

    keeps_audio = True

    def __init__(self, params: Mapping[str, Any], model: Any = None, name: str = "data_layer",
                 mode: str | None = None) -> None:
        super().__init__(params, model, name, mode)
        self._open_lists()

    @staticmethod
    def get_required_params() -> dict[str, Any]:
        return {"num_audio_features": Param(int, doc="Number of mel filters.", minimum=1, maximum=10**5,
                                            on_change=REFUSE)}

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {
            **DataLayer.get_optional_params(), **clip_params(), **spectrogram_params(),
            "dataset": Param(list(RATES), "LJ", "Layout and defaults of the recordings; see Text2SpeechDataLayer.",
                             on_change=REFUSE),
            "output_type": Param(["mel"], "mel", "Spectrogram that the network reads.", on_change=REFUSE),
            "segment_frames": Param((int, type(None)), None, "In training, a random piece of this length of each clip "
                                    "is read, drawn anew in each epoch; None: whole clips.", "frames", minimum=1),
            "context_frames": Param(int, 0, "Frames that are read before each piece or clip, silence before its "
                                    "beginning. If they are at least as long as the receptive field, all samples are "
                                    "learned.", "frames", minimum=0, maximum=10**5),
            "dataset_files": Param(list, [], "Lists with lines name|text, whose texts are not read; in inference also "
                                   "recordings, and files .npy with spectrograms.", file=LIST),
            "speakers": Param(list, [], "Names of the speakers, if the second column of the lists names them; the "
                              "network does not tell them apart.", on_change=FREE),
        }

    def _read_lists(self) -> None:
        clips = [clip for path in self.params["dataset_files"] for clip in self._clips_of(path)]
        problems: dict[int, Problem] = {}
        frames, rates = np.zeros([2, len(clips)], np.int64)
        rows = list(range(len(clips)))
        if self._has_targets:
            samples, rates = self._read_headers(clips, problems)
            self._report(problems)
            frames = self.settings.frames(samples)
            rows = self._within_durations([row for row in rows if row not in problems], frames)
        self._check_left(rows, problems)
        self._clips, self._frames, self._rates = [clips[row] for row in rows], frames[rows], rates[rows]

    def _clips_of(self, path: str) -> list[Clip]:
        """Returns the clips of a list, or of a recording or spectrogram the one clip."""
        if not self._has_targets and path.lower().endswith((*AUDIO_SUFFIXES, SPECTROGRAM)):
            return [Clip(os.path.basename(path), path, "", path, 1)]
        # NVIDIA's OpenSeq2Seq names the folder of the recordings itself here.
        location = os.path.normpath(self.params["dataset_location"])
        location = os.path.dirname(location) if os.path.basename(location) == FOLDER else location
        return read_clips([path], location, has_speakers=bool(self.params["speakers"]))

    def text(self, example: int) -> str:
        """Returns the text of a clip in its list."""
        return self._clips[example].text

    @property
    def _longest(self) -> int | None:
        """Number of frames of the pieces of training; None for whole clips."""
        return self.params["segment_frames"] if self.mode == "train" else None

    @property
    def lengths(self) -> np.ndarray:
        """Numbers of samples and of frames of each example ``[num_examples, 2]``; in inference, of frames."""
        frames = self._frames if self._longest is None else np.full_like(self._frames, self._longest)
        frames = frames + self.params["context_frames"]
        return np.stack([frames * self.settings.hop, frames], 1) if self._has_targets else frames[:, np.newaxis]

    @property
    def fields(self) -> dict[str, Any]:
        lengths, columns = Field(tf.int32, (None,)), self.settings.num_columns
        sound = [Field(tf.float32, (None, None), 1, 1), lengths]
        frames = Field(tf.float32, (None, None, columns), 1, 3 if self._has_targets else 1)
        fields: dict[str, Any] = {"source_tensors": [*(sound if self._has_targets else []), frames, lengths],
                                  "ids": Field(tf.int64, (None,))}
        return {**fields, "target_tensors": sound} if self._has_targets else fields

    def make_batch(self, examples: np.ndarray) -> dict[str, Any]:
        """Returns the padded batch of whole clips with these numbers ``[batch]``.

        Raises:
          DataError: a recording cannot be used; with ``on_bad_example: skip``, only if those of all clips are bad.
        """
        return self._batch_of(np.asarray(examples, np.int64), None)

    def make_training_batch(self, examples: np.ndarray, epoch: int) -> dict[str, Any]:
        """Returns the batch of pieces of these clips; where they begin depends on seed, example and epoch alone."""
        return self._batch_of(np.asarray(examples, np.int64), epoch)

    def _batch_of(self, examples: np.ndarray, epoch: int | None) -> dict[str, Any]:
        good, recorded = self._recorded_of(examples)
        examples = examples[good]
        if self._has_targets:
            pieces = [self._piece(one, int(example), epoch) for example, one in zip(examples, recorded, strict=True)]
            sound = padded([audio for audio, _ in pieces], np.zeros([], np.float32))
            mel = padded([spectrogram for _, spectrogram in pieces], self.settings.padding)
            batch = {"source_tensors": [*sound, *mel], "target_tensors": sound, "ids": examples}
        else:
            batch = {"source_tensors": padded([one.spectrogram for one in recorded], self.settings.padding),
                     "ids": examples}
        return batch if good else with_empty_row(batch, self.fields)

    def _piece(self, recorded: Recorded, example: int, epoch: int | None) -> tuple[np.ndarray, np.ndarray]:
        """Returns the samples and the frames of a piece of a clip, with the context before it."""
        frames, hop, context = len(recorded.spectrogram), self.settings.hop, self.params["context_frames"]
        length = frames if epoch is None or self._longest is None else self._longest
        rng = np.random.default_rng([self.seed & (2 ** 64 - 1), 0 if epoch is None else epoch, example])
        start = int(rng.integers(0, max(frames - length, 0) + 1))
        spectrogram = np.concatenate([np.tile(self.settings.padding, [context, 1]), recorded.spectrogram,
                                      np.tile(self.settings.padding, [max(length - frames, 0), 1])])
        audio = np.zeros(len(spectrogram) * hop, np.float32)
        audio[context * hop:context * hop + len(recorded.audio)] = recorded.audio
        end = start + context + length
        return audio[start * hop:end * hop], spectrogram[start:end]

    def _computed(self, path: str) -> Recorded:
        if not path.lower().endswith(SPECTROGRAM):
            return super()._computed(path)
        return Recorded(self._checked(_loaded(path)), 0.0, False, np.zeros([0], np.float32))

    def _checked(self, values: np.ndarray) -> np.ndarray:
        """Returns a spectrogram in float32.

        Raises:
          AudioError: it has not the features that the model reads, no frames, or values that are not finite.
        """
        columns = self.settings.num_columns
        if values.ndim != 2 or values.shape[1] != columns or not len(values) or values.dtype.kind != "f":
            raise AudioError("unsuitable", f"is no spectrogram of the model: it must be numbers [frames, {columns}], "
                             f"but is {values.dtype} {list(values.shape)}")
        if not np.isfinite(values).all():
            raise AudioError("not finite", "has values that are not finite")
        return values.astype(np.float32)

    def make_interactive_batch(self, inputs: Sequence[Any]) -> dict[str, Any]:
        """Returns a batch of recordings and spectrograms: paths, or arrays of spectrograms ``[frames, features]``.

        Raises:
          DataError: an input is neither, or cannot be used.
        """
        rows = []
        for given in inputs:
            is_path = isinstance(given, (str, os.PathLike))
            try:
                rows.append(self._computed(os.fspath(given)).spectrogram if is_path
                            else self._checked(np.asarray(given)))
            except (AudioError, ValueError, TypeError) as error:
                name = os.fspath(given) if is_path else "The given array"
                raise DataError(f"{name} {getattr(error, 'detail', 'is no array of numbers')}.") from error
        return {"source_tensors": padded(rows, self.settings.padding), "ids": np.arange(len(rows))}

    def interactive_examples(self, count: int) -> list[Any]:
        """Returns the first spectrograms of the data set."""
        return [self._recorded(example).spectrogram for example in range(min(count, self.num_examples))]

    @classmethod
    def params_for_files(cls, files: Sequence[str]) -> dict[str, Any]:
        """Returns the parameters that make inference read the given recordings, spectrograms or lists.

        Raises:
          UserError: a file does not exist.
        """
        check_given(files)
        return {"dataset_files": list(files)}


def _loaded(path: str) -> np.ndarray:
    """Returns the array of a file ``.npy``.

    Raises:
      AudioError: the file is missing, or no such file.
    """
    try:
        return np.load(path, allow_pickle=False)
    except FileNotFoundError as error:
        raise AudioError("missing", "does not exist") from error
    except (OSError, ValueError, EOFError) as error:
        raise AudioError("broken", "is not a file .npy with an array of numbers") from error
