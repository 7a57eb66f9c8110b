"""Prepares a user's own sentence pairs: reads them, leaves out what would harm training, and splits them.

Tells by frequent words and scripts whether two columns of text are in the wrong order of their languages.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from xml.parsers import expat

import numpy as np

from open_seq2seq.data.own_tables import Kept, bare, groups_in_common, read_own_table, tidied
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.data_files import opened_text, shown
from open_seq2seq.utils.errors import DataError

# Frequent words of languages: code, names by which users may call it, words.
_WORDS = """
af afrikaans afr: die en van het is nie in te vir met sy op dat ek hy wat om aan ons hulle was sal
ar arabic ara: في من على إلى أن هذا هذه التي الذي ما لا عن مع كان هو هي كل بعد
be belarusian bel: і ў не на што я з ён як гэта да але за у ад для было
bg bulgarian bul: и на да се в не за е от че с са това по но до като си ще
ca catalan cat: el la els les de del que i en un una és per amb no es al com més però aquest són hi ha els
cs czech cz ces: a v se na je že s z do to o i jsem pro ale jako za po by jsou byl které při od tak už jeho
da danish dan: og at det i en som er på af for med den til ikke har de et om var jeg han hun kan fra ved skal blev
de german deu: der die das und ist nicht ein eine einen einem einer mit von den dem des auf für sich zu im auch sind
el greek ell: και το η ο να της του με για την από που είναι στο στη δεν
en english eng: the of and to in is was for that on with as at by it from are be this have not you they he his but an
eo esperanto epo: la kaj de en estas ne mi al por ke li ĝi kun por sed ili
es spanish spa: el la los las de del que y en un una es por con para no se su al lo como más pero está son este hay muy
et estonian est: ja on ei see et oli ka kui ta mis kes aga oma nad selle
eu basque eus: eta da ez du bat dira zen baina hau dute egin izan
fa persian fas: و در به از که این را با است برای آن می
fi finnish fin: ja on ei se että oli hän mutta joka kun ovat myös ole kuin niin mitä minä olen sen tämä
fr french fra: le la les des du et est une un dans que qui pour pas sur avec plus au par ce il elle nous vous sont
ga irish gle: an na agus ar tá go bhí leis don sé níl i
gl galician glg: o a os as de do da dos das que e en un unha é por con para non se no na ao máis como pero
hi hindi hin: के में है की और से का को ने पर हैं यह
hr croatian hrv bs bosnian: i u je se na da su za od s o ne to što kao koji ali iz bi sam nije
hu hungarian hun: a az és hogy nem is egy ez van volt de meg csak mint ha már el vagy
id indonesian ind: dan yang di ini itu dengan untuk tidak dari dalam akan pada ke adalah juga ada saya
is icelandic isl: og að í á er sem við ekki það til um var ég hann
it italian ita: il la lo gli le di del della dei che e è un una in per con non si da nel nella sono come ma più alla al
lt lithuanian lit: ir yra kad į su iš o ne kaip tai bet buvo už per
lv latvian lav: un ir ar no uz par kas ka bet tas to kā nav bija
mk macedonian mkd: и на да се во не за е од дека со ова
mr marathi mar: आणि आहे या व हे ते मी नाही होते
ms malay msa: dan yang di ini itu dengan untuk tidak dari dalam akan pada ke ialah juga ada saya boleh
nl dutch nld: de het een van en in is dat op te zijn met voor niet aan er die om ook als maar naar door bij wordt
no norwegian nor nb bokmål: og å det i en som er på av for med den til ikke har de et om var jeg han hun kan skal ble
pl polish pol: i w na nie się z do to jest że o jak po co za od ale przez są dla czy tym jego
pt portuguese por: o a os as de do da dos das que e em um uma é por com para não se no na ao mais como são está
ro romanian ron: și şi de în a la cu pe nu o un este din care să pentru mai au ce sunt al ale
ru russian rus: и в не на что я с он как это по но из за у от же для было так бы
sk slovak slk: a v sa na je že s z do to o aj som pre ale ako za po by sú bol ktoré pri od tak už
sl slovenian slv: in je v na se da za so z s ne ki bi tudi kot pa ni po od sem
sq albanian sqi: dhe të në e një për është me që nuk ka
sr serbian srp: и у је се на да су за од с о не то што као који али из i u je se na da su za od sa ne što kao koji ali
sv swedish swe: och att det i en som är på av för med den till inte har de ett om var jag han hon kan från vid ska
sw swahili swa: na ya wa kwa ni katika za la cha yake hii kuwa
tl tagalog tgl: ang ng sa na at mga ay hindi ito si ko
tr turkish tur: ve bir bu için da de ile ne çok daha var o gibi olarak ama değil en kadar sonra
uk ukrainian ua ukr: і в не на що я з він як це та до але за у від для було є
ur urdu urd: کے کی میں ہے اور سے کا کو نے پر
vi vietnamese vie: và của là có không được cho một các trong với đã người những này khi
"""
# Languages whose script tells them from most others.
_SCRIPTS_OF = {
    "am amharic amh ti": ("Ethiopic",), "bn bengali ben as": ("Bengali",), "gu gujarati guj": ("Gujarati",),
    "he hebrew heb yi": ("Hebrew",), "hy armenian hye": ("Armenian",), "ja japanese jp jpn": ("Kana", "Han"),
    "ka georgian kat": ("Georgian",), "km khmer khm": ("Khmer",), "kn kannada kan": ("Kannada",),
    "ko korean kr kor": ("Hangul",), "lo lao lao": ("Lao",), "ml malayalam mal": ("Malayalam",),
    "my burmese mya": ("Burmese",), "or odia": ("Odia",), "pa punjabi pan": ("Gurmukhi",),
    "si sinhala sin": ("Sinhala",), "ta tamil tam": ("Tamil",), "te telugu tel": ("Telugu",), "th thai tha": ("Thai",),
    "zh chinese cn zho cmn yue": ("Han",),
}
_RANGES = {
    "Latin": "A-Za-zÀ-ɏḀ-ỿ", "Greek": "Ͱ-Ͽἀ-῿", "Cyrillic": "Ѐ-ԯ", "Armenian": "԰-֏", "Hebrew": "\u0590-\u05ff",
    "Arabic": "\u0600-\u06ff\u0750-\u077f\ufb50-\ufdff\ufe70-\ufeff", "Devanagari": "\u0900-\u097f",
    "Bengali": "\u0980-\u09ff", "Gurmukhi": "\u0a00-\u0a7f", "Gujarati": "\u0a80-\u0aff", "Odia": "\u0b00-\u0b7f",
    "Tamil": "\u0b80-\u0bff", "Telugu": "\u0c00-\u0c7f", "Kannada": "\u0c80-\u0cff", "Malayalam": "\u0d00-\u0d7f",
    "Sinhala": "\u0d80-\u0dff", "Thai": "\u0e00-\u0e7f", "Lao": "\u0e80-\u0eff", "Burmese": "\u1000-\u109f",
    "Georgian": "Ⴀ-ჿ", "Ethiopic": "\u1200-\u139f", "Khmer": "\u1780-\u17ff", "Hangul": "ᄀ-ᇿ\u3130-\u318f가-힣",
    "Kana": "\u3040-\u30ff", "Han": "\u3400-\u4dbf一-鿿\uf900-\ufaff\U00020000-\U0003ffff",
}
# Letters in a word of scripts that are written without spaces.
_LETTERS_A_WORD = {("Kana", "Han"): 2, ("Thai", "Lao", "Burmese", "Khmer"): 5}
_OUTER = ".,;:!?¡¿\"'()[]…«»“”„‘’–—،؟।"
_LEAST = 10  # occurrences on which a decision is based
_LEAST_SHARE = 0.03
_FACTOR = 4.0  # how much more frequent the words or letters of a language are in its column than in the other one

Marks = frozenset[str]


_LINES = [line.partition(": ")[::2] for line in _WORDS.strip().splitlines()]
WORDS = {names.split()[0]: frozenset(words.split()) for names, words in _LINES}
"""Frequent words of each language, by its code."""
SCRIPTS = {names.split()[0]: frozenset(scripts) for names, scripts in _SCRIPTS_OF.items()}
"""Scripts of languages that have them for themselves, by code."""
_CODES = {name: names.split()[0] for names in (*(names for names, _ in _LINES), *_SCRIPTS_OF) for name in names.split()}
_LETTERS = {script: re.compile(f"[{ranges}]") for script, ranges in _RANGES.items()}
_UNSPACED = {count: re.compile(f"[{''.join(_RANGES[script] for script in scripts)}]")
             for scripts, count in _LETTERS_A_WORD.items()}


def known_language(name: str) -> str | None:
    """Returns the code of a language of which something is known; ``en`` for en, en-US, eng, or English."""
    return _CODES.get(re.split(r"[-_]", name.strip().lower())[0])


def number_of_words(text: str) -> int:
    """Returns the number of words of a text, estimated from the letters in scripts that are written without spaces."""
    number = 0
    for letters_a_word, letters in _UNSPACED.items():
        text, count = letters.subn(" ", text)
        number += -(-count // letters_a_word)
    return number + len(text.split())


def in_wrong_order(languages: Sequence[str], columns: Sequence[Sequence[str]]) -> bool | None:
    """Returns whether the first of two columns is in the second language, and the second in the first language.

    A language is recognised by its frequent words, or by the letters of its script, that the other language does not
    have. Each column is judged as a whole. A language of which nothing is known is not considered.

    Args:
      languages: names of the languages; see ``known_language``.
      columns: the sentences of both columns.

    Returns:
      None if nothing is known that distinguishes the languages.
    """
    names = [known_language(name) for name in languages]
    words = [WORDS.get(name or "", frozenset()) for name in names]
    scripts = [_scripts(name) for name in names]
    by_script = any(scripts[side] and not words[side] for side in (0, 1)) or bool(
        all(scripts) and not scripts[0] & scripts[1])
    marks = scripts if by_script else words
    margins = [marks[0] - marks[1], marks[1] - marks[0]]
    if not any(margins):
        return None
    counts = [_count_scripts(column) if by_script else _count_words(column) for column in columns]
    shares = [[_share(mark, count) for count in counts] for mark in margins]
    right, wrong = shares[0][0] + shares[1][1], shares[0][1] + shares[1][0]
    hits = sum(counts[1 - side][mark] for side in (0, 1) for mark in margins[side])
    return hits >= _LEAST and wrong >= _LEAST_SHARE and wrong > _FACTOR * right and all(
        shares[side][1 - side] >= shares[side][side] for side in (0, 1))


def _share(marks: Marks, counts: Counter[str]) -> float:
    return sum(counts[mark] for mark in marks) / max(1, sum(counts.values()))


def _scripts(name: str | None) -> Marks:
    text = "".join(WORDS.get(name or "", ()))
    return SCRIPTS.get(name or "") or frozenset(_count_scripts([text]))


def _count_words(texts: Iterable[str]) -> Counter[str]:
    return Counter(word.strip(_OUTER) for text in texts for word in text.lower().split())


def _count_scripts(texts: Iterable[str]) -> Counter[str]:
    counts = Counter[str]()
    for letter, count in Counter(letter for text in texts for letter in text).items():
        script = next((name for name, letters in _LETTERS.items() if letters.match(letter)), None)
        if script:
            counts[script] += count
    return counts


SUFFIXES = (".tmx", ".tmx.gz")
_MARKUP = {"bpt", "ept", "ph", "it", "ut"}  # elements in a segment that contain mark-up of another format, not text

Unit = tuple[int, dict[str, str]]
"""The line of a translation unit, counted from 1, and its texts by language, in lower case, such as ``en-us``."""


def read_tmx(path: str, languages: Sequence[str]) -> list[tuple[int, list[str]]]:
    """Returns the line and the texts in the given languages of each translation unit; a missing text is empty.

    ``en`` also means ``en-US`` and other variants. Entities that the file itself declares are refused, because a small
    file could make them expand to any size.

    Args:
      path: the file, plain or ``.gz``.
      languages: codes of the languages.

    Raises:
      DataError: the file cannot be read, is not valid XML, or has no unit in all these languages.
    """
    units = _Reader(path).units
    rows = [(line, [_text_in(texts, language) for language in languages]) for line, texts in units]
    if not any(all(texts) for _, texts in rows):
        count = Counter(language for _, texts in units for language in texts)
        there = ", ".join(language for language, _ in count.most_common(10)) or "none"
        raise DataError(f"{shown(path)} has no translation unit in {' and '.join(languages)}: give two of its "
                        f"languages ({there}) with --languages.")
    return rows


def _text_in(texts: dict[str, str], language: str) -> str:
    wanted = language.lower().replace("_", "-")
    return texts.get(wanted) or next((text for name, text in texts.items() if name.split("-")[0] == wanted), "")


class _Reader:
    """Parses a file; ``units`` are its translation units."""

    def __init__(self, path: str) -> None:
        self.units: list[Unit] = []
        self._path, self._language = path, ""
        self._text: list[str] | None = None  # the pieces of the segment that is being read
        self._codes = 0  # number of open elements that contain no text
        self._parser = expat.ParserCreate()
        self._parser.buffer_text = True
        self._parser.StartElementHandler, self._parser.EndElementHandler = self._start, self._end
        self._parser.CharacterDataHandler = self._add
        self._parser.EntityDeclHandler = self._parser.SkippedEntityHandler = self._refuse
        try:
            with opened_text(path) as file:
                self._parser.ParseFile(file)
        except expat.ExpatError as error:
            raise DataError(f"{shown(path)}:{error.lineno}: the file is not valid XML: "
                            f"{expat.ErrorString(error.code)}.") from error
        except (LookupError, ValueError) as error:  # an unknown encoding
            raise DataError(f"{shown(path)} cannot be read: {str(error).rstrip('.')}.") from error

    def _refuse(self, name: str, *more: Any) -> None:
        raise DataError(f"{shown(self._path)}:{self._parser.CurrentLineNumber}: the entity {name!r} is not supported: "
                        "write its text instead.")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if name == "tu":
            self.units.append((self._parser.CurrentLineNumber, {}))
        elif name == "tuv":
            self._language = attributes.get("xml:lang", attributes.get("lang", "")).lower().replace("_", "-")
        elif name == "seg":
            self._text = []
        self._codes += name in _MARKUP

    def _end(self, name: str) -> None:
        self._codes -= name in _MARKUP
        if name == "seg" and self._text is not None and self.units:
            self.units[-1][1].setdefault(self._language, re.sub(r"\s+", " ", "".join(self._text)).strip())
            self._text = None

    def _add(self, text: str) -> None:
        if self._text is not None and not self._codes:
            self._text.append(text)


_SHORT = 20  # number of characters up to which the ratio of lengths is not checked
_NAMES = {"source", "target", "src", "tgt", "trg"}  # what the first row may call the columns, besides languages
_MOST_WITHOUT_LETTERS = 0.5  # share of rows without letters above which a column is reported
# A pair counts as swapped if exchanging its sides raises its log-probability by more than _SURE, and by more than
# _SURE_PER_CHARACTER for each of its characters.
_SURE = 10.0
_SURE_PER_CHARACTER = 0.2


@dataclass(frozen=True)
class Pair:
    """A sentence pair with the number of its line in the file, counted from 1."""

    line: int
    source: str
    target: str


def read_table(path: str, languages: Sequence[str], columns: Sequence[int | str] | None = None,
               ) -> tuple[list[Pair], list[int | str]]:
    """Returns the pairs of a table (see ``read_own_table``), and the columns with the source and the target.

    A row that lacks a column has empty sentences. A column without letters in most rows, such as one of numbers, is
    reported.

    Args:
      path: the table.
      languages: names of both languages.
      columns: names of the columns, or numbers counted from 1. None: those that the first row names as the languages,
        otherwise the first two.

    Raises:
      DataError: the table cannot be read, or more than 5 % of its rows lack one of the columns.
    """
    table = read_own_table(path)
    names = [known_language(name) or name.lower() for name in table.names]
    wanted = [known_language(language) or language.lower() for language in languages]
    if columns is None and wanted[0] != wanted[1] and all(names.count(name) == 1 for name in wanted):
        columns = [table.names[names.index(name)] for name in wanted]
    if columns is None and table.has_names([]):
        raise DataError(f"{path} has the keys {', '.join(table.names)[:200]}: name those of the source and the target "
                        "with --columns.")
    columns = columns or [1, 2]
    titles = {names[column - 1] for column in columns if isinstance(column, int) and column <= len(names)}
    has_names = titles == set(wanted) or bool(titles and titles <= _NAMES)
    deco_print(table.describe(columns, has_names))
    rows = table.rows(columns, has_names)
    for place, column in enumerate(columns):
        count = sum(bool(values[place]) and not any(map(str.isalpha, values[place])) for _, values in rows)
        if count > _MOST_WITHOUT_LETTERS * len(rows):
            deco_print(f"WARNING: Column {column} of {path} has no letters in {count:,} of {len(rows):,} lines: if it "
                       "contains no sentences, name another one with --columns.")
    return [Pair(line, *values) for line, values in rows], list(columns)


def clean(pairs: Iterable[Pair], max_words: int, max_ratio: float) -> Kept[Pair]:
    """Leaves out pairs that are empty, too long, unequally long, untranslated, repeated, or have swapped languages.

    White space is normalised, and so is Unicode (NFC).

    Args:
      pairs: the pairs.
      max_words: maximum number of words on each side; see ``number_of_words``.
      max_ratio: maximum ratio of the number of characters of the longer side to that of the shorter side, relative to
        the ratio of most pairs, because some scripts write a sentence with a third of the characters of others.
    """
    kept, seen = Kept[Pair](), set()
    normal = [Pair(pair.line, tidied(pair.source), tidied(pair.target)) for pair in pairs]
    usual = _usual_ratio(normal)
    for pair in normal:
        reason = _fault(pair, max_words, max_ratio, usual)
        if not reason and (pair.source, pair.target) in seen:
            reason = "repeated"
        if reason:
            kept.drop(pair, reason)
        else:
            seen.add((pair.source, pair.target))
            kept.rows.append(pair)
    swapped = dict.fromkeys(swapped_pairs(kept.rows))
    for pair in swapped:
        kept.drop(pair, "languages in the wrong order")
    kept.rows = [pair for pair in kept.rows if pair not in swapped]
    return kept


def _usual_ratio(pairs: Sequence[Pair]) -> float:
    """Returns the median of the ratio of the source's number of characters to that of the target."""
    ratios = [len(pair.source) / len(pair.target) for pair in pairs if pair.source and pair.target]
    return float(np.median(ratios)) if ratios else 1.0


def _fault(pair: Pair, max_words: int, max_ratio: float, usual_ratio: float) -> str:
    if not pair.source or not pair.target:
        return "empty on one side"
    if max(number_of_words(pair.source), number_of_words(pair.target)) > max_words:
        return f"longer than {max_words} words"
    # As many characters as most pairs would have if both sides were in the script with the longer sentences.
    shorter, longer = sorted((len(pair.source) / min(usual_ratio, 1.0), len(pair.target) * max(usual_ratio, 1.0)))
    if longer > _SHORT and longer > max_ratio * shorter:
        return f"one side more than {max_ratio:g} times as long"
    if pair.source == pair.target and any(map(str.isalpha, pair.source)) and number_of_words(pair.source) > 3:
        return "not translated"
    return ""


def swapped_pairs(pairs: Sequence[Pair]) -> list[Pair]:
    """Returns the pairs whose source looks like a target, and whose target looks like a source.

    Compares trigrams of characters with those of the other pairs: a pair is swapped if it is far more probable with its
    sides exchanged.
    """
    sides = [Counter[str](), Counter[str]()]
    for pair in pairs:
        sides[0].update(_trigrams(pair.source))
        sides[1].update(_trigrams(pair.target))
    kinds = len(sides[0].keys() | sides[1].keys()) + 1
    totals = [math.log(sum(side.values()) + kinds) for side in sides]

    def favour(found: Sequence[str], own: tuple[Counter[str], Counter[str]]) -> float:
        """Returns the log-probability of trigrams as a source minus that as a target, estimated from other pairs."""
        return sum(math.log(sides[0][gram] - own[0][gram] + 1) - math.log(sides[1][gram] - own[1][gram] + 1)
                   for gram in found) - len(found) * (totals[0] - totals[1])

    wrong = []
    for pair in pairs:
        # Computed again, because the trigrams of all pairs need much memory.
        source, target = _trigrams(pair.source), _trigrams(pair.target)
        own = Counter(source), Counter(target)
        gain = favour(target, own) - favour(source, own)
        if gain > max(_SURE, _SURE_PER_CHARACTER * (len(source) + len(target))):
            wrong.append(pair)
    return wrong


def _trigrams(text: str) -> list[str]:
    padded = f"  {text.lower()} "
    return [padded[place:place + 3] for place in range(len(padded) - 2)]


def split(pairs: Sequence[Pair], sizes: Sequence[int], seed: int = 0) -> list[list[Pair]]:
    """Splits pairs at random so that no sentence of one part occurs in another part.

    Sentences count as equal if they differ only in case, punctuation or white space.

    Args:
      pairs: the pairs.
      sizes: number of pairs of each part to hold out. A part can get a few pairs more, because pairs with a common
        sentence stay together.
      seed: seed of the choice.

    Returns:
      The remaining pairs, then a part for each of ``sizes``. Within a part, pairs are in the order of ``pairs``.

    Raises:
      DataError: there are too few pairs, or too few different ones.
    """
    groups = groups_in_common([enumerate((bare(pair.source), bare(pair.target))) for pair in pairs])
    order = np.random.Generator(np.random.Philox(seed)).permutation(len(groups))
    # Small groups first, so that sentences with many translations stay in the largest part.
    queue = sorted(order.tolist(), key=lambda number: len(groups[number]))
    parts: list[list[int]] = []
    for size in sizes:
        part: list[int] = []
        while len(part) < size and queue:
            part += groups[queue.pop(0)]
        parts.append(part)
    largest = [index for number in queue for index in groups[number]]
    if len(largest) < sum(sizes) or any(len(part) < size for part, size in zip(parts, sizes, strict=True)):
        wanted = " and ".join(f"{size:,}" for size in sizes)
        raise DataError(f"{len(pairs):,} usable pairs ({len(groups):,} groups without a common sentence) are too few "
                        f"to hold out {wanted} pairs: give smaller --dev_size and --test_size, or more pairs.")
    return [[pairs[index] for index in sorted(part)] for part in (largest, *parts)]
