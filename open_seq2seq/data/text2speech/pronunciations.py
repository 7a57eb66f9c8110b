"""Pronunciations of words, as in CMUdict, and guesses for words that are not listed."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from open_seq2seq.utils.data_files import read_lines, shown
from open_seq2seq.utils.errors import DataError

_VARIANT = re.compile(r"\(\d+\)$")
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

        Lines that begin with ``;;;`` and those without words are skipped, and so is the rest of a line after `` #``.

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
            variants.setdefault(word.lower(), []).append(phonemes[0].strip())
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
