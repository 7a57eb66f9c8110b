from open_seq2seq.data.text2speech.sentences import sentences


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


def test_long_sentences_are_divided_between_words():
    text = "one two three, four five six seven, " * 30
    parts = texts(text, 0.3, 40)
    assert " ".join(parts) == text.strip() and max(map(len, parts)) <= 40
    assert sum(part.endswith(",") for part in parts) >= len(parts) - 1
