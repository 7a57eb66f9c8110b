"""Spells out numbers, money, dates, times and abbreviations of English texts, as they are spoken."""

from __future__ import annotations

import re
from collections.abc import Callable

from open_seq2seq.utils.errors import DataError

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
_LONG = {"e.g.": "for example,", "i.e.": "that is,", "a.m.": "a m", "p.m.": "p m", "U.S.": "U S", "U.K.": "U K",
         "Ph.D.": "P h D", "°C": " degrees Celsius", "°F": " degrees Fahrenheit"}
_SIGNS = {"&": "and", "+": "plus", "=": "equals", "@": "at", "%": "percent", "°": "degrees", "§": "section"}
_MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
           "November", "December")
_CURRENCIES = {"$": ("dollar", "cent"), "€": ("euro", "cent"), "£": ("pound", "penny")}
_UNITS = {"km": "kilometer", "m": "meter", "cm": "centimeter", "mm": "millimeter", "kg": "kilogram", "g": "gram",
          "mg": "milligram", "lb": "pound", "lbs": "pound", "oz": "ounce", "ft": "foot",
          "mph": "mile per hour", "kmh": "kilometer per hour", "km/h": "kilometer per hour", "hz": "hertz",
          "khz": "kilohertz", "gb": "gigabyte", "mb": "megabyte", "s": "second", "ms": "millisecond", "min": "minute",
          "h": "hour"}
_PLURALS = {"foot": "feet", "hertz": "hertz", "kilohertz": "kilohertz", "penny": "pence",
            "mile per hour": "miles per hour", "kilometer per hour": "kilometers per hour"}
_FRACTIONS = {("1", "2"): "one half", ("1", "4"): "one quarter", ("3", "4"): "three quarters", ("1", "3"): "one third",
              ("2", "3"): "two thirds"}
_DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_LONGEST = 15  # digits of a number that is read as one; longer ones are read digit by digit
_NUMBER = r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?"
_MONTH = "|".join(_MONTHS)
_YEAR = r"(?:1[1-9]|20)\d\d"


def spelled_out(text: str) -> str:
    """Returns an English text with numbers, money, dates, times, units and abbreviations as words.

    Years are recognised by their value: four digits from 1100 to 2099 without a comma.

    Raises:
      DataError: the text has digits, but num2words is not installed.
    """
    for short, words in _LONG.items():
        text = text.replace(short, words)
    text = re.sub(rf"\b({'|'.join(ABBREVIATIONS)})\.(?=\s*(\S?))", _abbreviation, text, flags=re.IGNORECASE)
    text = re.sub(r"\b(No|no|Nos)\.(?=\s*\d)|#(?=\d)", "number", text)
    if re.search(r"\d", text):
        for pattern, replace in _PATTERNS:
            text = re.sub(pattern, replace, text)
    return re.sub("[" + re.escape("".join(_SIGNS)) + "]", lambda match: f" {_SIGNS[match[0]]} ", text)


def _abbreviation(match: re.Match[str]) -> str:
    """Keeps the period of an abbreviation that ends the text."""
    return ABBREVIATIONS[match[1].lower()] + ("" if match[2] else ".")


def _words(number: str, to: str = "cardinal") -> str:
    """Returns a number in digits as words; ``to`` is ``cardinal``, ``ordinal`` or ``year``."""
    number = number.replace(",", "")
    whole = number.partition(".")[0]
    if len(whole) > _LONGEST or (len(whole) > 1 and whole.startswith("0")):
        return " ".join("point" if char == "." else _DIGITS[int(char)] for char in number)
    try:
        from num2words import num2words
    except ImportError as error:
        raise DataError(f"The number {number} cannot be spelled out without num2words: run `pip install "
                        "open-seq2seq[numbers]`, or write it in words.") from error
    words = num2words(number if "." in number else int(number), to=to)
    return re.sub("[-,]", " ", words).replace("  ", " ")


def _several(count: str, noun: str) -> str:
    """Returns a noun in the singular or plural, after its count."""
    return f"{_words(count)} {noun if count == '1' else _PLURALS.get(noun, noun + 's')}"


def _money(match: re.Match[str]) -> str:
    currency, small = _CURRENCIES[match["sign"]]
    if match["scale"]:
        return f"{_words(match['amount'])} {match['scale']} {currency}s"
    whole, _, cents = match["amount"].partition(".")
    parts = [_several(whole.replace(",", ""), currency)] if whole.strip("0,") or not cents.strip("0") else []
    if cents.strip("0"):
        parts.append(_several(str(int((cents + "0")[:2])), small))
    return " and ".join(parts)


def _date(match: re.Match[str]) -> str:
    """Spells a date with a month in words: ``March 3, 1998`` or ``3 March 1998``."""
    day, year = _words(match["day"], "ordinal"), match["year"]
    first = f"{match['month']} {day}" if match.start("month") < match.start("day") else f"the {day} of {match['month']}"
    return first + (f", {_words(year, 'year')}" if year else "")


def _iso_date(match: re.Match[str]) -> str:
    return f"{_MONTHS[int(match[2]) - 1]} {_words(str(int(match[3])), 'ordinal')}, {_words(match[1], 'year')}"


def _time(match: re.Match[str]) -> str:
    hour, minute = _words(str(int(match[1]))), match[2]
    if minute == "00":
        return hour if match[3] else f"{hour} o'clock"
    return f"{hour} {'oh ' if minute[0] == '0' else ''}{_words(str(int(minute)))}"


def _decade(match: re.Match[str]) -> str:
    words = _words(match[1], "year")
    return f"{words[:-1]}ies" if words.endswith("y") else f"{words}s"


def _fraction(match: re.Match[str]) -> str:
    named = _FRACTIONS.get((match[1], match[2]))
    return named or f"{_words(match[1])} over {_words(match[2])}"


_PATTERNS: tuple[tuple[str, Callable[[re.Match[str]], str]], ...] = (
    (rf"(?P<sign>[$€£])\s?(?P<amount>{_NUMBER})(?:\s(?P<scale>thousand|million|billion|trillion)\b)?", _money),
    (r"\b(\d{4})-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])\b", _iso_date),
    (rf"\b(?P<month>{_MONTH})\s(?P<day>[1-9]|[12]\d|3[01])(?:st|nd|rd|th)?\b(?:,?\s(?P<year>{_YEAR})\b)?", _date),
    (rf"\b(?P<day>[1-9]|[12]\d|3[01])(?:st|nd|rd|th)?\s(?P<month>{_MONTH})\b(?:,?\s(?P<year>{_YEAR})\b)?", _date),
    (r"\b([01]?\d|2[0-3]):([0-5]\d)\b(?=\s?([ap]\s?\.?m\b)?)", _time),
    (r"\b((?:1[1-9]|20)\d0|[2-9]0)'?s\b", _decade),
    (r"\b(\d+(?:,\d{3})*)(?:st|nd|rd|th)\b", lambda match: _words(match[1], "ordinal")),
    (r"(?<![\d/])(\d{1,3})/(\d{1,3})(?![\d/])", _fraction),
    (rf"({_NUMBER})\s?({'|'.join(sorted(map(re.escape, _UNITS), key=len, reverse=True))})(?![\w'])",
     lambda match: _several(match[1], _UNITS[match[2]])),
    (r"(?<=\d)\s?[-–](?=\d)", lambda match: " to "),
    (rf"(?<![\w.])[-−](?={_NUMBER})", lambda match: "minus "),
    (rf"(?<![\d.,]){_YEAR}(?![\d,]*\d|\.\d)", lambda match: _words(match[0], "year")),
    (_NUMBER, lambda match: f" {_words(match[0])} "),
)
