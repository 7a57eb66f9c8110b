"""Tells by frequent words and scripts whether two columns of text are in the wrong order of their languages."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

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
