"""scripts/align_speech.py, run as a user runs it: from recordings to aligned lists that the data layer reads."""

from __future__ import annotations

import numpy as np
import pytest
import soundfile

from open_seq2seq.data.text2speech.clips import read_clips
from open_seq2seq.data.text2speech.front_end import Pronunciations
from open_seq2seq.data.text2speech.text2speech import Text2SpeechDataLayer
from open_seq2seq.data.text2speech.toy_voice import RATE, write_toy_voice
from open_seq2seq.utils.errors import DataError, UserError
from scripts.align_speech import main

PHONEMES = {"a": "AA", "e": "EH", "i": "IY", "o": "OW", "u": "UW"}


@pytest.fixture
def voice(tmp_path):
    """Five clips of the toy voice; two that cannot be used; and the pronunciations of their words."""
    write_toy_voice(str(tmp_path), {"train": 5})
    texts = [line.split("|")[1] for line in (tmp_path / "train.csv").read_text().splitlines()]
    lines = [f"train-{number:04d}|{text.capitalize()}!" for number, text in enumerate(texts)]
    soundfile.write(tmp_path / "wavs" / "silent.wav", np.zeros(RATE), RATE)
    (tmp_path / "metadata.csv").write_text("\n".join([*lines, "silent|a", "train-0000|--"]) + "\n", encoding="utf-8")
    words = sorted({word for text in texts for word in text.split()} | {"a"})
    (tmp_path / "own.dict").write_text("".join(
        f"{word} {' '.join(PHONEMES[letter] + '1' for letter in word)} # of the toy voice\n" for word in words)
        + "elsewhere QX1\n", encoding="utf-8")
    return tmp_path


def align(voice, *options):
    main([f"--data_dir={voice}", "--dev_clips=1", *options])
    return [(voice / name).read_text() for name in
            ("train_aligned.csv", "dev_aligned.csv", "phonemes.txt", "pronunciations.txt")]


def layer(voice, mode="train"):
    return Text2SpeechDataLayer({
        "dataset": "LJ", "dataset_location": str(voice), "dataset_files": [str(voice / "train_aligned.csv")],
        "durations": True, "symbols": "phonemes", "vocab_file": str(voice / "phonemes.txt"), "sample_freq": RATE,
        "pronunciations": str(voice / "pronunciations.txt"), "num_audio_features": 20, "output_type": "mel",
        "n_fft": 512, "feature_normalize": False}, mode=mode)


def test_a_mistyped_folder_is_not_created(tmp_path):
    with pytest.raises(DataError, match=r"none/metadata\.csv does not exist"):
        main([f"--data_dir={tmp_path}/none"])
    assert not (tmp_path / "none").exists()


def test_from_recordings_to_batches_and_a_resumed_run_is_the_same(voice, capsys, monkeypatch):
    pytest.importorskip("pocketsphinx")
    # Its dictionary takes seconds to read.
    monkeypatch.setattr("scripts.align_speech.pocketsphinx_pronunciations", lambda: Pronunciations({}))
    whole = align(voice, f"--pronunciations={voice}/own.dict")
    said = capsys.readouterr().out
    assert "1 is silent" in said and "1 have no words" in said and "base_config" in said
    clips = read_clips([str(voice / "train_aligned.csv")], str(voice))
    assert [clip.name for clip in clips] == [f"train-{number:04d}" for number in range(4)]
    for clip in clips:
        letters = "".join(clip.text.lower().split()).strip("!")
        spoken = [symbol for symbol in clip.symbols.split() if symbol not in ("SIL", ".")]
        assert spoken == [PHONEMES[letter] for letter in letters]
    targets = layer(voice).make_batch(np.arange(4))["target_tensors"]
    np.testing.assert_array_equal(targets[3].sum(1), targets[2])
    typed = layer(voice, "interactive_infer")
    ids = typed.make_interactive_batch([clips[0].text])["source_tensors"][0][0]
    assert typed.text_of(ids).replace("SIL ", "") == clips[0].symbols.replace("SIL ", "")
    progress = voice / "alignments.jsonl"
    lines = progress.read_text().splitlines(keepends=True)
    progress.write_text("".join(lines[:2]) + lines[2][:20])
    assert align(voice, f"--pronunciations={voice}/own.dict") == whole
    assert "2 clips" in capsys.readouterr().out and progress.read_text() == "".join(lines)
    path = voice / "wavs" / "train-0000.wav"
    soundfile.write(path, np.pad(soundfile.read(path)[0], (0, RATE)), RATE)
    longer = align(voice, f"--pronunciations={voice}/own.dict")[0].splitlines()[0].split("|")[3]
    assert "4 clips of" in capsys.readouterr().out
    assert sum(map(float, longer.split())) == pytest.approx(sum(clips[0].seconds) + 1.0, abs=1e-3)


def text_grid(seconds, *phones):
    def tier(name, items):
        intervals = "".join(f'intervals [{n}]:\nxmin = {a}\nxmax = {b}\ntext = "{t}"\n' for n, (a, b, t) in enumerate(
            items, 1))
        return f'item [1]:\nclass = "IntervalTier"\nname = "{name}"\nxmin = 0\nxmax = {seconds}\n{intervals}'
    words = [(phones[0][0], phones[-1][1], "aoi")]
    return 'File type = "ooTextFile"\nObject class = "TextGrid"\n' + tier("words", words) + tier("phones", phones)


def test_alignments_of_other_aligners(voice):
    (voice / "metadata.csv").write_text("train-0000|Aoi? aoi, aoi?\ntrain-0001|Aoi\n", encoding="utf-8")
    (voice / "grids").mkdir()
    ends = [soundfile.info(voice / "wavs" / f"train-000{number}.wav").duration for number in range(2)]
    parts = (0.1, 0.25, "A1"), (0.25, 0.4, "o:"), (0.5, 0.6, "i")
    for number, end in enumerate(ends):
        (voice / "grids" / f"train-000{number}.TextGrid").write_text(text_grid(end, *parts), encoding="utf-8")
    (voice / "phones.ctm").write_text("".join(f"train-000{number} 1 {a} {b - a:.3f} {name}_B\n" for a, b, name in parts
                                              for number in range(2)), encoding="utf-8")
    for source in ("grids", "phones.ctm"):
        train, dev, phonemes, pronunciations = align(voice, f"--alignments={voice / source}")
        for line, mark, end in zip((train, dev), "?.", ends, strict=True):
            _, _, symbols, seconds = line.strip().split("|")
            assert symbols == f"SIL A1 o: SIL i {mark}"
            values = list(map(float, seconds.split()))
            assert values[:5] == pytest.approx([0.1, 0.15, 0.15, 0.1, 0.1]) and sum(values) == pytest.approx(end)
        assert phonemes.split() == ["SIL", ",", ".", "?", "A1", "i", "o:"]
    assert pronunciations == ""


@pytest.mark.parametrize(("options", "message"), [
    (["--alignments=none.ctm"], "none.ctm"), (["--dev_clips=0"], "at least 1"), (["--metadata=none.csv"], "none.csv"),
    (["--alignments={voice}/bad.ctm"], "bad.ctm:1: .* recording channel start"),
    (["--alignments={voice}/grids"], "0000.TextGrid has no tier 'phones'"),
    (["--alignments={voice}/spn.ctm"], "without phonemes at 0.00"),
    (["--alignments={voice}/long.ctm"], "0 clips could be aligned"),
    (["--pronunciations={voice}/bad.ctm"], "bad.ctm:1: .* has no phonemes"),
    (["--pronunciations={voice}/zz.dict"], "zz.dict: .* of 'a' has the phoneme 'ZZ', .* knows only AA AE"),
])
def test_mistakes_are_named(voice, options, message):
    (voice / "bad.ctm").write_text("a\n", encoding="utf-8")
    (voice / "zz.dict").write_text("bee B YY\na AH0 ZZ\n", encoding="utf-8")
    (voice / "spn.ctm").write_text("train-0000 1 0 0.1 spn\n", encoding="utf-8")
    (voice / "long.ctm").write_text("train-0000 1 0 100 a\n", encoding="utf-8")
    (voice / "grids").mkdir()
    (voice / "grids" / "train-0000.TextGrid").write_text("Text\n", encoding="utf-8")
    with pytest.raises((DataError, UserError), match=message):
        align(voice, *(option.format(voice=voice) for option in options))


def test_pronunciations_are_files_like_cmudict(tmp_path):
    path = tmp_path / "words.dict"
    path.write_text(";;; CMUdict\nthe DH AH\nthe(2) DH IY\nThe DH\nplay P L EY\nground G R AW N D\n"
                    "ice\t0.99\t0.16\t1.0\t1.02\tAY S\n")  # with the probabilities of the Montreal Forced Aligner
    words = Pronunciations.read(str(path))
    assert words.of("The") == [("DH", "AH"), ("DH", "IY"), ("DH",)] and words.of("none") == []
    assert words.with_first({"the": ("DH", "IY")}).of("the")[0] == ("DH", "IY")
    again = tmp_path / "again.dict"
    again.write_text("\n".join(words.lines()) + "\n")
    assert list(Pronunciations.read(str(again)).lines()) == list(words.lines())
    for line in ("playground P L EY G R AW N D", "plays P L EY Z", "ices AY S IH Z", "NBC EH N B IY S IY",
                 "grounded G R AW N D IH D", "shunk SH AH N K", "ïces AY S IH Z", "bcd B IY S IY D IY"):
        word, _, guess = line.partition(" ")
        assert " ".join(words.guessed(word)) == guess
