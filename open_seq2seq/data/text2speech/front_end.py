"""From text to what is spoken: sentences, words and marks, numbers and abbreviations as words, and phonemes.

Pronunciations of words are listed, as in CMUdict, or guessed.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from open_seq2seq.utils.data_files import read_lines, shown
from open_seq2seq.utils.errors import DataError

_VARIANT = re.compile(r"\(\d+\)$")
_PROBABILITIES = re.compile(r"^(?:\d+\.\d+\s+)+")  # in dictionaries of the Montreal Forced Aligner
_STRESS = re.compile(r"(?<=[A-Z])[012](?=\s|$)")  # in CMUdict, after a vowel
_SHORTEST_PART = 3  # letters of each word of a compound
_VOICELESS, _HISSING = {"P", "T", "K", "F", "TH"}, {"S", "Z", "SH", "ZH", "CH", "JH"}

# English letters and groups of letters, the longest first; `_` is the end of the word.
_RULES = {rule: sounds.split() for rule, sounds in (line.split(":") for line in """
tion:SH AH N,sion:ZH AH N,ight:AY T,ough:OW,augh:AO,tch:CH,sch:S K,dge:JH,igh:AY,eau:OW,ous_:AH S,ture:CH ER,
ch:CH,sh:SH,th:TH,ph:F,wh:W,ck:K,ng:NG,qu:K W,gh:G,kn:N,wr:R,bb:B,cc:K,dd:D,ff:F,gg:G,ll:L,mm:M,nn:N,pp:P,rr:R,
ss:S,tt:T,zz:Z,ee:IY,ea:IY,oo:UW,ou:AW,ow:OW,oi:OY,oy:OY,ai:EY,ay:EY,ei:EY,ey:IY,au:AO,aw:AO,ie:IY,oa:OW,ue:UW,ew:UW,
ar:AA R,er:ER,ir:ER,or:AO R,ur:ER,ce:S,ci:S IH,cy:S IY,ge:JH,gi:JH IH,le_:AH L,es_:Z,ed_:D,e_:,y_:IY,a_:AH,o_:OW,
a:AE,b:B,c:K,d:D,e:EH,f:F,g:G,h:HH,i:IH,j:JH,k:K,l:L,m:M,n:N,o:AA,p:P,q:K,r:R,s:S,t:T,u:AH,v:V,w:W,x:K S,y:IY,z:Z
""".replace("\n", "").split(","))}
_LETTERS = {letter: sounds.split() for letter, sounds in (line.split(":") for line in """
a:EY,b:B IY,c:S IY,d:D IY,e:IY,f:EH F,g:JH IY,h:EY CH,i:AY,j:JH EY,k:K EY,l:EH L,m:EH M,n:EH N,o:OW,p:P IY,q:K Y UW,
r:AA R,s:EH S,t:T IY,u:Y UW,v:V IY,w:D AH B AH L Y UW,x:EH K S,y:W AY,z:Z IY
""".replace("\n", "").split(","))}


class Pronunciations:
    """The phonemes of words, the most frequent variant of each word first.

    Args:
      variants: dict of word in lower case → its pronunciations, as phonemes separated by spaces.
    """

    def __init__(self, variants: Mapping[str, Sequence[str]]) -> None:
        self._variants = variants

    @classmethod
    def read(cls, path: str) -> Pronunciations:
        """Reads a file with lines ``word PH PH …``; variants have the same word, or ``word(2)``.

        Lines that begin with ``;;;`` and those without words are skipped, and so are the rest of a line after `` #``
        and probabilities, such as ``0.99``, before the phonemes.

        Raises:
          DataError: the file is missing, not UTF-8 or has no pronunciations, or a line has only a word.
        """
        variants: dict[str, list[str]] = {}
        for number, line in enumerate(read_lines(path, "The file of pronunciations"), 1):
            word, *phonemes = line.partition(" #")[0].split(None, 1) or [""]
            if not word or word.startswith(";;;"):
                continue
            if not phonemes:
                raise DataError(f"{shown(path)}:{number}: the line {shown(line[:60])!r} has no phonemes, but it must "
                                "be a word and its phonemes, separated by spaces, such as: hello HH AH L OW.")
            if word.endswith(")"):
                word = _VARIANT.sub("", word)
            variants.setdefault(word.lower(), []).append(_PROBABILITIES.sub("", phonemes[0].strip()))
        if not variants:
            raise DataError(f"{shown(path)} has no pronunciations: write one word per line, such as: hello HH AH L OW.")
        return cls(variants)

    def without_stress(self) -> Pronunciations:
        """Returns these pronunciations without the digits of stress after vowels, such as ``AH0``."""
        return Pronunciations({word: [_STRESS.sub("", phonemes) for phonemes in variants]
                               for word, variants in self._variants.items()})

    def only(self, words: Collection[str]) -> Pronunciations:
        """Returns the pronunciations of these words."""
        return Pronunciations({word: variants for word, variants in self._variants.items() if word in words})

    def unknown(self, phonemes: Collection[str]) -> tuple[str, str] | None:
        """Returns the first (word, phoneme) whose phoneme is not one of ``phonemes``; None if there is none."""
        return next(((word, phoneme) for word, variants in self._variants.items() for variant in variants
                     for phoneme in variant.split() if phoneme not in phonemes), None)

    def replaced_by(self, other: Pronunciations) -> Pronunciations:
        """Returns these pronunciations with the words of others, which replace those of the same words."""
        return Pronunciations({**self._variants, **other._variants})

    def with_first(self, chosen: Mapping[str, Sequence[str]]) -> Pronunciations:
        """Returns these pronunciations with the given one of each word first."""
        firsts = {word: [" ".join(one), *(" ".join(rest) for rest in self.of(word) if rest != tuple(one))]
                  for word, one in chosen.items()}
        return Pronunciations({**self._variants, **firsts})

    def of(self, word: str) -> list[tuple[str, ...]]:
        """Returns the pronunciations of a word, with or without accents; none if it is not listed."""
        word = word.lower().replace("’", "'")
        plain = "".join(char for char in unicodedata.normalize("NFKD", word) if not unicodedata.combining(char))
        forms = (word, plain, plain.strip("'"))
        variants = next((self._variants[form] for form in forms if form in self._variants), ())
        return [tuple(phonemes.split()) for phonemes in variants]

    def lines(self, words: Iterable[str] | None = None) -> Iterator[str]:
        """Yields the lines of a file of these pronunciations, or of those of some words."""
        for word in sorted(self._variants) if words is None else words:
            variants = self._variants.get(word) or map(" ".join, self.of(word))
            for number, phonemes in enumerate(variants, 1):
                yield f"{word}{f'({number})' if number > 1 else ''} {phonemes}"

    def guessed(self, word: str) -> tuple[str, ...]:
        """Returns a guess at the English pronunciation of a word that is not listed.

        A word in upper case or without vowels is spelled. Otherwise it is taken apart into a listed word and an ending,
        or two listed words; if that is impossible, rules for groups of letters apply.
        """
        plain = "".join(char for char in unicodedata.normalize("NFKD", word) if char.isascii() and char.isalpha())
        lower = plain.lower()
        if (word.isupper() and len(plain) > 1) or not set(lower) & set("aeiouy"):
            return tuple(sound for letter in lower for sound in _LETTERS[letter])
        return self._inflected(lower) or self._compound(lower) or _by_rules(lower)

    def _inflected(self, word: str) -> tuple[str, ...]:
        """Returns a listed word with one of the endings -s, -ed, -ing and -ly; () if there is none."""
        for ending, sounds in (("s", None), ("ed", None), ("ing", ("IH", "NG")), ("ly", ("L", "IY"))):
            stem = word.removesuffix(ending)
            if stem == word or len(stem) < _SHORTEST_PART:
                continue
            for base in (stem, f"{stem}e", stem[:-1] if stem[-1] == stem[-2] else stem):
                if listed := self.of(base):
                    return (*listed[0], *(sounds or _ending(ending, listed[0][-1])))
        return ()

    def _compound(self, word: str) -> tuple[str, ...]:
        for size in range(len(word) - _SHORTEST_PART, _SHORTEST_PART - 1, -1):
            first, second = self.of(word[:size]), self.of(word[size:])
            if first and second:
                return (*first[0], *second[0])
        return ()


def _ending(ending: str, last: str) -> tuple[str, ...]:
    if ending == "s":
        return ("IH", "Z") if last in _HISSING else ("S",) if last in _VOICELESS else ("Z",)
    return ("IH", "D") if last in ("T", "D") else ("T",) if last in _VOICELESS | (_HISSING - {"Z", "ZH", "JH"}) else (
        "D",)


def _by_rules(word: str) -> tuple[str, ...]:
    sounds: list[str] = []
    rest = f"{word}_"
    while rest != "_" and rest:
        rule = next(rest[:size] for size in range(min(5, len(rest)), 0, -1) if rest[:size] in _RULES)
        sounds += _RULES[rule]
        rest = rest[len(rule):]
    return tuple(sounds)


SILENCE = "SIL"
"""The symbol of silence: at the beginning, and at pauses without a mark."""
MARKS = (",", ".", "?")
"""Symbols of the marks at which a voice pauses or changes its melody; their duration is that of the pause."""
ABBREVIATIONS = {
    "mr": "mister", "mrs": "missus", "ms": "miz", "dr": "doctor", "prof": "professor", "st": "saint", "jr": "junior",
    "sr": "senior", "capt": "captain", "gen": "general", "col": "colonel", "lt": "lieutenant", "sgt": "sergeant",
    "rev": "reverend", "hon": "honorable", "gov": "governor", "sen": "senator", "rep": "representative", "inc":
    "incorporated", "corp": "corporation", "ltd": "limited", "co": "company", "bros": "brothers", "dept": "department",
    "approx": "approximately", "vs": "versus", "etc": "et cetera", "ave": "avenue", "blvd": "boulevard", "mt": "mount",
    "vol": "volume", "jan": "January", "feb": "February", "aug": "August", "sept": "September", "oct": "October",
    "nov": "November", "dec": "December",
}
"""Abbreviations that end with a period."""
_LONG = {"e.g.": "for example,", "i.e.": "that is,", "a.m.": "a m", "p.m.": "p m", "u.s.a.": "U S A", "u.s.": "U S",
         "u.k.": "U K", "ph.d.": "P h D", "°c": "degrees Celsius", "°f": "degrees Fahrenheit"}
_SIGNS = {"&": "and", "+": "plus", "=": "equals", "@": "at", "%": "percent", "°": "degrees", "§": "section"}
_MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
           "November", "December")
_SCALES = {"k": "thousand", "m": "million", "bn": "billion", "b": "billion"}
_CURRENCIES = {"$": ("dollar", "cent"), "€": ("euro", "cent"), "£": ("pound", "penny")}
_UNITS = {"km": "kilometer", "m": "meter", "cm": "centimeter", "mm": "millimeter", "kg": "kilogram", "g": "gram",
          "mg": "milligram", "lb": "pound", "lbs": "pound", "oz": "ounce", "ft": "foot",
          "mph": "mile per hour", "kmh": "kilometer per hour", "km/h": "kilometer per hour", "hz": "hertz",
          "khz": "kilohertz", "gb": "gigabyte", "mb": "megabyte", "Hz": "hertz", "kHz": "kilohertz", "GB": "gigabyte",
          "MB": "megabyte", "s": "second", "ms": "millisecond", "min": "minute", "h": "hour"}
_UNIT = "|".join(sorted(map(re.escape, _UNITS), key=len, reverse=True))
_PLURALS = {"foot": "feet", "hertz": "hertz", "kilohertz": "kilohertz", "penny": "pence",
            "mile per hour": "miles per hour", "kilometer per hour": "kilometers per hour"}
_FRACTIONS = {("1", "2"): "one half", ("1", "4"): "one quarter", ("3", "4"): "three quarters", ("1", "3"): "one third",
              ("2", "3"): "two thirds"}
_DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_LONGEST = 15  # digits of a number that is read as one; longer ones are read digit by digit
_NUMBER = r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?"
_SCALE = r"(?i:\s?(?:thousand|million|billion|trillion)|k|m|bn?)\b"
_MONTH = "|".join(_MONTHS)
_DAY_NUMBER = r"[1-9]|[12]\d|3[01]"
_ORDINAL = "(?:st|nd|rd|th)?"
_DAYS = rf"(?:(?P<first>{_DAY_NUMBER}){_ORDINAL}\s?[-–]\s?)?(?P<day>{_DAY_NUMBER}){_ORDINAL}"
_UP_TO = rf"(?P<to>\s?[-–](?=\d|(?:{_MONTH})\b))?"
_OF_NUMBER = rf"\s?(?:[ap] m|[%°]|degrees (?:Celsius|Fahrenheit)|{_UNIT})|st|nd|rd|th|'?s"  # what may follow a number
_YEAR = r"(?:1[1-9]|20)\d\d"
_WORD = r"[^\W\d_]+(?:['’][^\W\d_]+)*['’]?|['’](?:tis|twas|em|til|cause|bout|round)\b"
_TOKEN = re.compile(rf"\[\[(?P<raw>.*?)\]\]|(?P<word>{_WORD})|(?P<mark>[.,;:!?…()—–]|(?<=\s)-(?=\s)|--)|(?P<digit>\d+)",
                    re.IGNORECASE | re.DOTALL)
_MARK_OF = {"?": "?", ".": ".", "!": ".", "…": ","}
_TAG = re.compile(r"\[(?=speaker|\w+\s+\d+(?:\.\d+)?\s*\])"  # a name, or a number
                  r"(pause|speed|speaker)\s+([^\s\[\]|][^\[\]|]*)\]", re.IGNORECASE)
_LONGEST_PAUSE = 60.0
_SLOWEST, _FASTEST = 0.1, 10.0
_PHONEMES = re.compile(r"\[\[.*?\]\]", re.DOTALL)
_END = re.compile(r"[.!?…]+[\"'”’)\]]*(?=\s)")
_AT_END = re.compile(r"[.!?…][\"'”’)\]]*\s*$")
_ABBREVIATION = re.compile(rf"(?:^|\W)(?:[a-z]|no|e\.g|i\.e|{'|'.join(ABBREVIATIONS)})\.$", re.IGNORECASE)
_LONGEST_ABBREVIATION = 20  # characters before the end of a sentence that are searched for one
_BREAK = re.compile(r"[,;:—–]+(?=\s)")


class Token(NamedTuple):
    """A word, a mark, or phonemes in a text.

    Attributes:
      kind: ``word``, ``mark`` or ``raw``.
      text: the word as it is written, one of ``MARKS``, or phonemes separated by spaces.
    """

    kind: str
    text: str


def tokens_of(text: str) -> list[Token]:
    """Returns the words and marks of a text, after numbers and abbreviations have been spelled out.

    Phonemes in double brackets, ``[[ HH AH L OW ]]``, also over several lines, are kept. Other characters separate
    words. Of several marks in a row, the strongest is kept; the text ends with a mark, ``.`` if it has none.

    Raises:
      DataError: the text has digits, but num2words is not installed.
    """
    tokens: list[Token] = []
    phonemes = iter(_PHONEMES.findall(text))
    text = _PHONEMES.sub(lambda match: next(phonemes), spelled_out(_PHONEMES.sub("[[]]", text)))
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or ""
        value = _MARK_OF.get(match[kind], ",") if kind == "mark" else " ".join(match[kind].split())
        if kind != "mark":
            tokens.append(Token(kind, value))
        elif tokens and tokens[-1].kind == "mark":
            tokens[-1] = Token(kind, max(tokens[-1].text, value, key=MARKS.index))
        elif tokens:
            tokens.append(Token(kind, value))
    if tokens and tokens[-1].kind != "mark":
        tokens.append(Token("mark", "."))
    elif tokens and tokens[-1].text == ",":
        tokens[-1] = Token("mark", ".")
    return tokens


def phonemes_of(text: str, pronunciations: Pronunciations) -> tuple[list[str], dict[str, tuple[str, ...]]]:
    """Returns the symbols of a text as in aligned lists: ``SIL``, phonemes and marks; none for a text without words.

    Returns:
      The symbols, and a dict of word that has no pronunciation → the guess that is used for it.

    Raises:
      DataError: the text has digits, but num2words is not installed.
    """
    symbols, guesses = [SILENCE], {}
    for token in tokens_of(text):
        if token.kind != "word":
            symbols += token.text.split()
        elif variants := pronunciations.of(token.text):
            symbols += variants[0]
        else:
            guesses[token.text] = pronunciations.guessed(token.text)
            symbols += guesses[token.text]
    return symbols if len(symbols) > 1 else [], guesses


class Sentence(NamedTuple):
    """A sentence, which may begin with speaker and speed (see ``spoken_at``), and the seconds of silence after it."""

    text: str
    pause: float


def sentences(text: str, pause: float, longest: int = 300) -> list[Sentence]:
    """Divides a text into sentences; a text without any is one sentence, whose text is empty.

    Sentences end after ``.``, ``!`` or ``?`` before white space, except in frequent abbreviations, and at
    ``[pause 0.4]``, which gives the silence in seconds, up to a minute, and has no effect before the first word. What
    follows ``[speed 0.8]`` has this speed, up to the next one, and what follows ``[speaker NAME]`` this speaker. Longer
    sentences are divided after commas, then between words. Phonemes in ``[[ ]]`` are never divided.

    Args:
      text: the text.
      pause: seconds of silence between sentences.
      longest: number of characters above which a sentence is divided.
    """
    parts = _TAG.split(text)
    result: list[Sentence] = []
    speed = speaker = ""
    for part, kind, value in zip(parts[::3], [*parts[1::3], ""], [*parts[2::3], ""], strict=True):
        pieces = [piece for sentence in _cut(part, _END) for piece in _short(sentence, longest)]
        result += [Sentence(speaker + speed + piece, pause) for piece in pieces]
        if result and kind.lower() == "pause":
            result[-1] = Sentence(result[-1].text, min(float(value), _LONGEST_PAUSE))
        elif pieces and not (kind and _AT_END.search(part)):
            result[-1] = Sentence(result[-1].text, 0.0)
        if kind.lower() == "speed":
            speed = f"[speed {value.strip()}] " if float(value) != 1.0 else ""
        elif kind.lower() == "speaker":
            speaker = f"[speaker {value.strip()}] "
    return result or [Sentence("", 0.0)]


class Spoken(NamedTuple):
    """A text, and how it is to be spoken.

    Attributes:
      text: the text.
      speed: its speed, from 0.1 to 10.
      speaker: name of its speaker; "" if it names none.
    """

    text: str
    speed: float = 1.0
    speaker: str = ""


def spoken_at(text: str) -> Spoken:
    """Returns a text without ``[speed 0.8]`` and ``[speaker NAME]`` at its beginning, and what they say."""
    spoken = Spoken(text)
    while (match := _TAG.match(spoken.text)) and match[1].lower() != "pause":
        rest, value = spoken.text[match.end():].lstrip(), match[2].strip()
        if match[1].lower() == "speed":
            spoken = Spoken(rest, min(max(float(value), _SLOWEST), _FASTEST), spoken.speaker)
        else:
            spoken = Spoken(rest, spoken.speed, value)
    return spoken


def _short(sentence: str, longest: int) -> Iterator[str]:
    """Yields the parts of a sentence, which have at most ``longest`` characters where words allow it."""
    if len(sentence) <= longest:
        yield sentence
        return
    words = [word for clause in _cut(sentence, _BREAK)
             for word in ([clause] if len(clause) <= longest else _words(clause))]
    part = ""
    for word in words:
        if part and len(part) + 1 + len(word) > longest:
            yield part
            part = ""
        part = f"{part} {word}".strip()
    yield part


def _words(text: str) -> list[str]:
    """Returns words; phonemes in ``[[ ]]`` count as one."""
    return re.findall(rf"{_PHONEMES.pattern}\S*|\S+", text, re.DOTALL)


def _cut(text: str, ends: re.Pattern[str]) -> list[str]:
    """Returns the parts of a text that end where ``ends`` matches, without empty ones and white space around them."""
    phonemes = [match.span() for match in _PHONEMES.finditer(text)]
    places = [end for end in (match.end() for match in ends.finditer(text))
              if not any(start < end < stop for start, stop in phonemes)
              and not (ends is _END and _ABBREVIATION.search(text[max(0, end - _LONGEST_ABBREVIATION):end]))]
    parts = [text[start:end].strip() for start, end in zip([0, *places], [*places, len(text)], strict=True)]
    return [part for part in parts if part]


def spelled_out(text: str) -> str:
    """Returns an English text with numbers, money, dates, times, units and abbreviations as words.

    Years are recognised by their value: four digits from 1100 to 2099 without a comma.

    Raises:
      DataError: the text has digits, but num2words is not installed.
    """
    for pattern, words_of in _PATTERNS:
        text = re.sub(pattern, functools.partial(_separated, words_of), text)
    return re.sub("[" + re.escape("".join(_SIGNS)) + "]", lambda match: f" {_SIGNS[match[0]]} ", text)


def _separated(words_of: Callable[[re.Match[str]], str], match: re.Match[str]) -> str:
    """Returns the words of a match, with spaces between them and letters or digits next to it."""
    before, after = match.string[match.start() - 1:match.start()], match.string[match.end():match.end() + 1]
    return " " * before.isalnum() + words_of(match) + " " * after.isalnum()


def _abbreviation(match: re.Match[str]) -> str:
    """Keeps the period of an abbreviation that ends the text."""
    return ABBREVIATIONS.get(match[1].lower(), match[1]) + ("" if match[2] else ".")


def _number_words(number: str, to: str = "cardinal") -> str:
    """Returns a number in digits as words; ``to`` is ``cardinal``, ``ordinal`` or ``year``."""
    number, point, decimals = number.replace(",", "").partition(".")
    if point:
        return " ".join([_number_words(number), "point", *(_DIGITS[int(digit)] for digit in decimals)])
    if len(number) > _LONGEST or (len(number) > 1 and number.startswith("0")):
        return " ".join(_DIGITS[int(digit)] for digit in number)
    try:
        from num2words import num2words
    except ImportError as error:
        raise DataError(f"The number {number} cannot be spelled out without num2words: run `pip install "
                        "open-seq2seq[numbers]`, or write it in words.") from error
    return re.sub("[-,]", " ", num2words(int(number), to=to)).replace("  ", " ")


def _several(count: str, noun: str) -> str:
    """Returns a noun in the singular or plural, after its count."""
    return f"{_number_words(count)} {noun if count == '1' else _PLURALS.get(noun, noun + 's')}"


def _money(match: re.Match[str]) -> str:
    currency, small = _CURRENCIES[match["sign"]]
    if scale := (match["scale"] or "").strip().lower():
        return f"{_number_words(match['amount'])} {_SCALES.get(scale, scale)} {currency}s"
    whole, _, cents = match["amount"].partition(".")
    parts = [_several(whole.replace(",", ""), currency)] if whole.strip("0,") or not cents.strip("0") else []
    if cents.strip("0"):
        parts.append(_several(str(int((cents + "0")[:2])), small))
    return " and ".join(parts)


def _both_amounts(match: re.Match[str]) -> str:
    """Writes ``$10-15m`` as ``$10m to $15m``, but ``$500-1m`` as ``$500 to $1m``."""
    lowest, highest = (float(match[name].replace(",", "")) for name in ("lowest", "highest"))
    scale = match["scale"] or (match["common"] if lowest < highest else "") or ""
    return f"{match['sign']}{match['lowest']}{scale} to {match['sign']}"


def _date(match: re.Match[str]) -> str:
    """Spells a date with a month in words: ``March 3, 1998``, ``3 March 1998`` or ``3-5 March``."""
    days, year = [_number_words(match[name], "ordinal") for name in ("first", "day") if match[name]], match["year"]
    is_first = match.start("month") < match.start("day")
    words = f"{match['month']} {' to '.join(days)}" if is_first else f"the {' to the '.join(days)} of {match['month']}"
    return words + (f", {_number_words(year, 'year')}" if year else "") + " to" * bool(match["to"])


def _iso_date(match: re.Match[str]) -> str:
    day, year = _number_words(str(int(match[3])), "ordinal"), _number_words(match[1], "year")
    return f"{_MONTHS[int(match[2]) - 1]} {day}, {year}"


def _time(match: re.Match[str]) -> str:
    hour, minute = _number_words(str(int(match[1]))), match[2]
    if minute == "00":
        return hour if match[3] else f"{hour} o'clock"
    return f"{hour} {'oh ' if minute[0] == '0' else ''}{_number_words(str(int(minute)))}"


def _decade(match: re.Match[str]) -> str:
    words = _number_words(match[1], "year")
    return f"{words[:-1]}ies" if words.endswith("y") else f"{words}s"


def _fraction(match: re.Match[str]) -> str:
    named = _FRACTIONS.get((match[1], match[2]))
    return named or f"{_number_words(match[1])} over {_number_words(match[2])}"


_PATTERNS: tuple[tuple[str, Callable[[re.Match[str]], str]], ...] = (
    (rf"(?i)(?<![^\W\d_])(?:{'|'.join(map(re.escape, _LONG))})(?:(?<=\.)|\b)",
     lambda match: _LONG.get(match[0].lower(), match[0])),  # ı and ſ equal i and s only in the pattern
    # After a number, "ms." are milliseconds.
    (rf"(?i)\b(?<!\d\s(?=(?-i:ms)))({'|'.join(ABBREVIATIONS)})\.(?=\s*(\S?))", _abbreviation),
    (r"\b(No|no|Nos)\.(?=\s*\d)|#(?=\d)", lambda match: "number"),
    (r"(?i)(?<=\d)\s?([ap])\s?m\b", lambda match: f"{match[1].lower()} m"),
    (rf"(?P<sign>[$€£])\s?(?P<lowest>{_NUMBER})(?P<scale>{_SCALE})?\s?[-–](?:\s?(?P=sign)\s?)?"
     rf"(?=(?P<highest>{_NUMBER})(?P<common>{_SCALE})?)", _both_amounts),
    (r"(?<![\w.])[-−](?=[$€£]\s?\d)", lambda match: "minus"),
    (rf"(?P<sign>[$€£])\s?(?P<amount>{_NUMBER})(?P<scale>{_SCALE})?", _money),
    (r"\b(\d{4})-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])\b", _iso_date),
    (rf"(?<!\b\d\s)(?<!\b\d\d\s)(?<!\d(?:st|nd|rd|th)\s)\b"  # in "3 May 10:30", the day comes first
     rf"(?P<month>{_MONTH})\s{_DAYS}\b(?:,?\s(?P<year>{_YEAR})\b)?{_UP_TO}", _date),
    (rf"\b(?:[Tt]he\s)?{_DAYS}\s(?P<month>{_MONTH})\b(?:,?\s(?P<year>{_YEAR})\b)?{_UP_TO}", _date),
    (rf"(?<!\d)(\d+(?:{_OF_NUMBER})?)\s?[-–](?=\d)(?!\d+/)", lambda match: f"{match[1]} to"),
    (r"\b([01]?\d|2[0-3]):([0-5]\d)\b(?=( [ap] m\b)?)", _time),
    (r"\b((?:1[1-9]|20)\d0|[2-9]0)'?s\b", _decade),
    (r"\b(\d+(?:,\d{3})*)(?:st|nd|rd|th)\b", lambda match: _number_words(match[1], "ordinal")),
    (r"(?<![\d/])(\d{1,3})/(\d{1,3})(?![\d/])", _fraction),
    (rf"(?<![\w.])[-−](?={_NUMBER})", lambda match: "minus"),
    (rf"(?<![^\W_])({_NUMBER})\s?({_UNIT})(?![\w'])",
     lambda match: _several(match[1], _UNITS[match[2]])),
    (rf"(?<![\d.,]){_YEAR}(?![\d,]*\d|\.\d)", lambda match: _number_words(match[0], "year")),
    (_NUMBER, lambda match: f" {_number_words(match[0])} "),
)
