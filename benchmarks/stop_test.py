"""Counts how often a voice stops at the wrong place, over many sentences that it has never seen.

    python benchmarks/stop_test.py LOGDIR --clips=kathleen/dev_aligned.csv --location=kathleen/

The sentences have from 1 to 60 words, drawn at random from the texts of the clips. A sentence should be as long as its
number of symbols, multiplied by the mean duration of a symbol in the clips. Speech has stopped too early or too late if
it is shorter or longer than that by a factor of 1.5, as in evaluation; guards are those of the decoder's parameters.
Sentences are spoken as a whole, however long they are.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

from benchmarks.measuring.programs import make_parser, markdown_table, run_program
from open_seq2seq.data.audio.audio_files import AudioError, read_info
from open_seq2seq.data.text2speech.clips import Clip, read_clips
from open_seq2seq.utils.errors import UserError

_LONGEST, _STEP = 60, 10  # words of a sentence, and of a row of the table


def random_sentences(texts: Sequence[str], count: int, seed: int) -> list[str]:
    """Returns sentences of 1 to 60 words, every length equally often, whose words are drawn from ``texts``."""
    words, rng = [word for text in texts for word in text.split()], np.random.default_rng(seed)
    sizes = np.resize(np.arange(1, _LONGEST + 1), count)
    return [" ".join(rng.choice(words, size)) for size in sizes]


def seconds_per_symbol(clips: Sequence[Clip], symbols_of: Any) -> float:
    """Returns the mean duration of a symbol in the recordings of the clips.

    Raises:
      UserError: there is no readable recording of a text.
    """
    seconds, symbols = 0.0, 0
    for clip in clips:
        try:
            info = read_info(clip.path)
        except AudioError:
            continue
        seconds, symbols = seconds + info.samples / info.rate, symbols + len(symbols_of(clip.text))
    if not symbols:
        raise UserError("The clips must have a readable recording.")
    return seconds / symbols


def table_of(sentences: Sequence[str], failures: dict[str, np.ndarray]) -> str:
    """Returns the numbers of failures by kind, for sentences of similar length and for all of them."""
    sizes = np.asarray([len(sentence.split()) for sentence in sentences])
    ranges = [(low, low + _STEP - 1) for low in range(1, _LONGEST, _STEP)] + [(1, _LONGEST)]
    rows = []
    for low, high in ranges:
        inside = (low <= sizes) & (sizes <= high)
        rows.append([f"{low} to {high}", inside.sum(), *(values[inside].sum() for values in failures.values()),
                     np.any(list(failures.values()), 0)[inside].sum()])
    return markdown_table(["words", "sentences", *failures, "any"], rows)


def main(argv: list[str]) -> None:
    """Speaks the sentences, and prints the table."""
    parser = make_parser(__doc__)
    parser.add_argument("logdir", help="log directory of the voice")
    parser.add_argument("--clips", required=True, help="list of clips, for words and speed")
    parser.add_argument("--location", default="", help="folder with wavs/ of these clips")
    parser.add_argument("--sentences", type=int, default=1000, help="number of sentences (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the sentences (default: %(default)s)")
    args = parser.parse_args(argv)

    import open_seq2seq
    from open_seq2seq.models.text2speech.evaluation import stop_failures

    clips = read_clips([args.clips], args.location)
    voice = open_seq2seq.load(args.logdir, {"data_layer_params/sentence_pause": None, "griffin_lim_iterations": 0})
    split = voice.model.data_layer.vocabulary.split  # type: ignore[attr-defined]
    pace = seconds_per_symbol(clips, split)
    sentences = random_sentences([clip.text for clip in clips], args.sentences, args.seed)
    spoken = voice.infer(sentences)
    expected = [pace * len(split(sentence)) for sentence in sentences]
    failures = stop_failures([one.seconds / seconds for one, seconds in zip(spoken, expected, strict=True)],
                             [one.ending for one in spoken])
    print(f"{pace * 1000:.0f} ms per symbol; {args.logdir}\n")
    print(table_of(sentences, failures))


if __name__ == "__main__":
    run_program(main)
