import builtins
import sys
from pathlib import Path

import numpy as np
import pytest

from open_seq2seq.data.text2speech import symbols
from open_seq2seq.data.text2speech.front_end import (
    Pronunciations,
    phonemes_of,
    sentences,
    spelled_out,
    spoken_at,
    tokens_of,
)
from open_seq2seq.data.text2speech.symbols import CharacterSymbols
from open_seq2seq.data.text2speech.text2speech import Text2SpeechDataLayer
from open_seq2seq.utils.errors import DataError, UserError

WORDS = Pronunciations({"hello": ["HH AH L OW"], "world": ["W ER L D"], "two": ["T UW"], "it's": ["IH T S"]})


@pytest.mark.parametrize(("text", "words"), [
    ("Dr. Smith paid $12.50 on March 3, 1998",
     "doctor Smith paid twelve dollars and fifty cents on March third, nineteen ninety eight"),
    ("at 10:30 or 9:05, and 7:00", "at ten thirty or nine oh five, and seven o'clock"),
    ("8:00pm, 10:05am, 10:30 AM, 8 pm, 7:00 p.m., 5p.m.", "eight p m, ten oh five a m, ten thirty a m, eight p m, "
     "seven p m, five p m"),
    ("2024-12-25", "December twenty fifth, twenty twenty four"), ("3 May", "the third of May"),
    ("the 1990s, the 80s", "the nineteen nineties, the eighties"), ("In 2010", "In twenty ten"),
    ("1,234,567.8", "one million two hundred and thirty four thousand five hundred and sixty seven point eight"),
    ("the 3rd, 1/2, 7/8", "the third, one half, seven over eight"), ("12 km", "twelve kilometers"),
    ("1 GB, 2 MB, 3 kHz, 50Hz, 5 M", "one gigabyte, two megabytes, three kilohertz, fifty hertz, five M"),
    ("-5 °C, 5-10", "minus five degrees Celsius, five to ten"), ("1 m, 90 mph", "one meter, ninety miles per hour"),
    ("$3 million, £1, €0.99", "three million dollars, one pound, ninety nine cents"),
    ("£5m, $3bn, €20k", "five million pounds, three billion dollars, twenty thousand euros"),
    ("$5M, $20K, $5B., US$5, -$5, (−£2k)", "five million dollars, twenty thousand dollars, five billion dollars., "
     "US five dollars, minus five dollars, (minus two thousand pounds)"),
    ("$5-$10, $10m-15m, about €1–2 million", "five dollars to ten dollars, ten million dollars to fifteen million "
     "dollars, about one million euros to two million euros"),
    ("$500 – $1m", "five hundred dollars to one million dollars"),
    ("5-6 km, 3–4 kg, -5 km", "five to six kilometers, three to four kilograms, minus five kilometers"),
    ("5pm-6pm, 10:30-11:00, 9 a.m.–5:30pm", "five p m to six p m, ten thirty to eleven o'clock, "
     "nine a m to five thirty p m"),
    ("3-5 May, May 3–5, 1998, the 30 May-2 June, 3rd-5th", "the third to the fifth of May, May third to fifth, "
     "nineteen ninety eight, the thirtieth of May to the second of June, third to fifth"),
    ("5%-10%, 5 km-6 km, 5°C–8°C, 1990s-2000s, 3-1/2", "five percent to ten percent, five kilometers to six "
     "kilometers, five degrees Celsius to eight degrees Celsius, nineteen nineties to two thousands, three -one half"),
    ("3 May 10:30, 3rd May 9am, 2020 May 5", "the third of May ten thirty, the third of May nine a m, twenty twenty "
     "May fifth"),
    ("No. 7, #4, 007", "number seven, number four, zero zero seven"), ("5% & more", "five percent and more"),
    ("1440p, 2000W, Windows2000, mp3",
     "fourteen forty p, two thousand W, Windows two thousand, mp three"),
    ("Mr.Smith met Dr.Lee, etc.", "mister Smith met doctor Lee, et cetera."),
    ("Python 3.10, 2.0, 0.10, 007.50", "Python three point one zero, two point zero, zero point one zero, "
     "zero zero seven point five zero"),
    ("It took 5 ms. Ms. Lee", "It took five milliseconds. miz Lee"), ("In 5 Ms. Lee", "In five miz Lee"),
    ("8 P.M. in the U.S.A., E.g. Paris, 20°C", "eight p m in the U S A, for example, Paris, twenty degrees Celsius"),
    ("on the 3rd May, The 4 July 1998", "on the third of May, the fourth of July, nineteen ninety eight"),
    ("ſt. ı.e.", "ſt ı.e."),
    ("9" * 20, " ".join(["nine"] * 20)), ("e.g. Philip, etc.", "for example, Philip, et cetera."),
])
def test_numbers_dates_money_and_abbreviations(text, words):
    pytest.importorskip("num2words")
    assert " ".join(spelled_out(text).replace(" ,", ",").split()) == words


def test_digits_need_the_library(monkeypatch, tmp_path):
    real = builtins.__import__

    def missing(name, *args):
        if name == "num2words":
            raise ImportError(name)
        return real(name, *args)

    (tmp_path / "vocab.txt").write_text("\n".join("a eglnostuw"), encoding="utf-8")
    characters = CharacterSymbols(str(tmp_path / "vocab.txt"))
    assert ["".join(characters.split(text)) for text in ("A 1 ", "“1 t”", "1 x%")] == ["a one", "“ one t”", "1 x%"]
    monkeypatch.setattr(builtins, "__import__", missing)
    assert characters.unknown(characters.split("a 1")) == ["1"]
    with pytest.raises(DataError, match=r"number 12 .*pip install open-seq2seq\[numbers\]"):
        phonemes_of("Hello 12", WORDS)


@pytest.mark.parametrize(("text", "symbols"), [
    ("Hello, world!", "SIL HH AH L OW , W ER L D ."), ("“Hello” – world?!", "SIL HH AH L OW , W ER L D ?"),
    ("It’s [[ SIL Z UW ]] (world)…", "SIL IH T S SIL Z UW , W ER L D ."), ("hello-world", "SIL HH AH L OW W ER L D ."),
    (" -- ?", ""), ("", ""), ("Two [[ SIL\n Z ]]", "SIL T UW SIL Z ."),
    ("HELLO: two hellos", "SIL HH AH L OW , T UW HH AH L OW Z ."),
])
def test_marks_words_and_phonemes(text, symbols):
    found, guesses = phonemes_of(text, WORDS)
    assert " ".join(found) == symbols and set(guesses) <= {"hellos"}
    assert not tokens_of(text) or tokens_of(text)[-1].kind == "mark"


def test_an_abbreviation_before_phonemes_does_not_end_the_text():
    assert [token.text for token in tokens_of("Dr. [[ S M IH TH ]] met Mr. [[ L\n IY ]] etc. [[ AH0 ]]")] == [
        "doctor", "S M IH TH", "met", "mister", "L IY", "et", "cetera", "AH0", "."]


def test_a_model_speaks_words_with_its_own_pronunciations(tmp_path, capsys):
    (tmp_path / "own.dict").write_text("hello HH AH L OW\n", encoding="utf-8")
    (tmp_path / "phonemes.txt").write_text("\n".join(["SIL", "HH", "AH", "L", "OW", "Z"]) + "\n", encoding="utf-8")
    params = {"dataset": "LJ", "vocab_file": str(tmp_path / "phonemes.txt"), "symbols": "phonemes",
              "output_type": "mel", "num_audio_features": 8, "feature_normalize": False}
    layer = Text2SpeechDataLayer({**params, "pronunciations": str(tmp_path / "own.dict")}, mode="interactive_infer")
    batch = layer.make_interactive_batch(["Hello, hellos!", "[[ OW ]]", "hello " * 5000, ""])
    assert "guessed: hellos HH AH L OW Z;" in capsys.readouterr().out
    assert [layer.text_of(ids[:12]) for ids in batch["source_tensors"][0][[0, 1, 3]]] == [
        "SIL HH AH L OW HH AH L OW Z", "SIL OW", ""]
    assert np.asarray(batch["source_tensors"][1]).max() > 20000
    without = Text2SpeechDataLayer(params, mode="interactive_infer")
    assert without.text_of(without.make_interactive_batch(["[[ HH AH ]]"])["source_tensors"][0][0]) == "SIL HH AH"
    texts = ["[speed 0.8] [[ HH ]]", "[[ HH ]]"]
    batch = without.make_interactive_batch(texts)
    np.testing.assert_array_equal(batch["speeds"], np.float32([0.8, 1.0]))
    assert (batch["source_tensors"][0][0] == batch["source_tensors"][0][1]).all()
    without.refuse_speeds("Tacotron2Decoder")
    with pytest.raises(DataError, match=r"\[speed 0.8\], but Tacotron2Decoder predicts no durations"):
        without.make_interactive_batch(texts)
    with pytest.raises(DataError, match="no pronunciations are given"):
        without.make_interactive_batch(["Hello"])


def test_phonemes_of_espeak(monkeypatch):
    class Backend:
        def phonemize(self, texts, strip):
            return [text.lower().replace("hello", "həlˈoʊ") for text in texts]

    path = Path(__file__).parents[4] / "example_configs/text2speech/ipa.txt"
    monkeypatch.setattr(symbols, "_espeak", lambda language: Backend())
    ipa = symbols.EspeakSymbols(str(path), "en-us")
    assert "".join(ipa.split("Hello, [[ wˈɜːld ]]!")) == "həlˈoʊ, wˈɜːld !" and ipa.split(" ") == []
    assert "".join(ipa.split("Hello [[ hello\nhello ]]")) == "həlˈoʊ hello hello"
    assert not ipa.unknown(ipa.split("Hello, [[ wˈɜːldɔ̃ ]]!")) and ipa.unknown(ipa.split("[[ A5 ]]")) == ["A", "5"]
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "phonemizer.backend", None)
    with pytest.raises(UserError, match=r"pip install open-seq2seq\[espeak\]"):
        symbols.EspeakSymbols(str(path), "en-us")


def texts(*arguments):
    return [one.text for one in sentences(*arguments)]


def test_sentences_end_at_marks_but_not_in_abbreviations_or_phonemes():
    assert texts("Hello, Mr. Smith! How are you?  Fine ", 0.3) == ["Hello, Mr. Smith!", "How are you?", "Fine"]
    assert texts("say [[ HH . AH ]] now", 0.3) == ["say [[ HH . AH ]] now"]
    assert texts("Gov. Brown met Sen. Lee. They left in Dec. and came back.", 0.3) == [
        "Gov. Brown met Sen. Lee.", "They left in Dec. and came back."]
    assert sentences(" ", 0.3) == [("", 0.0)]


def test_pauses_are_those_of_the_text():
    assert sentences("[pause 9] a [pause 0.4] Bee. c [Pause 1]", 0.3) == [("a", 0.4), ("Bee.", 0.3), ("c", 1.0)]


def test_speeds_are_those_of_the_text():
    found = sentences("One. two [speed 0.8] three, [pause 1] [Speed 2]four. Five [speed 1.0] six", 0.3)
    assert [(*spoken_at(one.text)[:2], one.pause) for one in found] == [
        ("One.", 1.0, 0.3), ("two", 1.0, 0.0), ("three,", 0.8, 1.0), ("four.", 2.0, 0.3), ("Five", 2.0, 0.0),
        ("six", 1.0, 0.0)]
    assert spoken_at("[speed 99] a") == ("a", 10.0, "") and spoken_at("[pause 2] a") == ("[pause 2] a", 1.0, "")


def test_speakers_are_those_of_the_text():
    found = sentences("One. [speaker the second] two [speed 2] three. four [Speaker first ]five [speaker] six", 0.3)
    assert [(*spoken_at(one.text), one.pause) for one in found] == [
        ("One.", 1.0, "", 0.3), ("two", 1.0, "the second", 0.0), ("three.", 2.0, "the second", 0.3),
        ("four", 2.0, "the second", 0.0), ("five [speaker] six", 2.0, "first", 0.0)]
    assert spoken_at("[speed 2] [speaker a] b") == ("b", 2.0, "a") == spoken_at("[speaker a] [speed 2] b")


def test_long_sentences_are_divided_between_words():
    text = "one two three, four five six seven, " * 30
    parts = texts(text, 0.3, 40)
    assert " ".join(parts) == text.strip() and max(map(len, parts)) <= 40
    assert sum(part.endswith(",") for part in parts) >= len(parts) - 1
