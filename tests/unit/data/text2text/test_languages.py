"""Columns in the wrong order of their languages, and no false alarms."""

from __future__ import annotations

import itertools

import pytest

from open_seq2seq.data.text2text.own_text import in_wrong_order, known_language, number_of_words

TEXTS = {  # the first sentences of the Universal Declaration of Human Rights, and everyday ones
    "en": ["All human beings are born free and equal in dignity and rights.", "They are endowed with reason.",
           "The man in the red car is waiting for the bus that goes to the city."],
    "de": ["Alle Menschen sind frei und gleich an Würde und Rechten geboren.", "Sie sind mit Vernunft begabt.",
           "Der Mann in dem roten Auto wartet auf den Bus, der in die Stadt fährt."],
    "fr": ["Tous les êtres humains naissent libres et égaux en dignité et en droits.", "Ils sont doués de raison.",
           "L'homme dans la voiture rouge attend le bus qui va dans la ville avec une femme."],
    "es": ["Todos los seres humanos nacen libres e iguales en dignidad y derechos.", "Están dotados de razón.",
           "El hombre en el coche rojo espera el autobús que va a la ciudad con una mujer y un perro."],
    "pt": ["Todos os seres humanos nascem livres e iguais em dignidade e em direitos.", "São dotados de razão.",
           "O homem no carro vermelho espera o autocarro que vai para a cidade com uma mulher e um cão."],
    "ru": ["Все люди рождаются свободными и равными в своем достоинстве и правах.", "Он не знает, что это так.",
           "Мужчина в красной машине ждет автобус, который едет в город."],
    "uk": ["Всі люди народжуються вільними і рівними у своїй гідності та правах.", "Він не знає, що це так.",
           "Чоловік у червоній машині чекає на автобус, який їде до міста."],
    "zh": ["人人生而自由，在尊严和权利上一律平等。", "他们赋有理性和良心。", "红色汽车里的男人在等去城里的公共汽车。"],
    "ja": ["すべての人間は、生まれながらにして自由である。", "人間は、理性と良心とを授けられている。",
           "赤い車の男は町へ行くバスを待っています。"],
    "th": ["มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกันในเกียรติศักดิ์และสิทธิ", "ต่างมีเหตุผลและมโนธรรม", "เขารอรถเมล์"],
    "ar": ["يولد جميع الناس أحرارا متساوين في الكرامة والحقوق", "وقد وهبوا عقلا وضميرا", "الرجل في السيارة الحمراء"],
    "xx": ["Bat zuk gorri doa hiri.", "Hamaika kalo miri.", "Sulo pana kiri ruma taka."],  # no language that is known
}


@pytest.mark.parametrize(("one", "other"), list(itertools.combinations(TEXTS, 2)))
def test_order_of_two_languages(one, other):
    columns = [TEXTS[one] * 6, TEXTS[other] * 6]
    assert in_wrong_order((one, other), columns) is False and in_wrong_order((other, one), columns[::-1]) is False
    assert in_wrong_order((other, one), columns) is True and in_wrong_order((one, other), columns[::-1]) is True


def test_nothing_is_said_without_knowledge():
    columns = [TEXTS["en"] * 9, TEXTS["de"] * 9]
    for languages in (("xx", "yy"), ("source", "target"), ("en", "en"), ("en", "en-GB")):
        assert in_wrong_order(languages, columns) is None
    assert in_wrong_order(("en", "simple"), [TEXTS["en"] * 9, TEXTS["en"] * 9]) is False
    assert in_wrong_order(("de", "en"), [TEXTS["en"][:1], TEXTS["de"][:1]]) is False  # too few words
    assert in_wrong_order(("de", "en"), [["x 1"] * 99, ["y 2"] * 99]) is False


def test_names_of_languages():
    names = {"en": "en", "en-US": "en", "pt_BR": "pt", "zh-Hant": "zh", "Spanish": "es", "spa": "es", "cn": "zh",
             "q": None, "No.": None}
    assert {name: known_language(name) for name in names} == names


@pytest.mark.parametrize(("text", "count"), [
    ("", 0), ("two words", 2), ("人人生而自由", 3), ("我有 iPhone 12。", 3), ("ひらがな", 2), ("한국어 문장", 2),
    ("สวัสดีครับ", 2),
])
def test_number_of_words(text, count):
    assert number_of_words(text) == count
