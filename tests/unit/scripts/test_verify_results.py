"""Result cards are complete, and a figure is compared with its card."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from open_seq2seq.utils.errors import UserError
from scripts import verify_results
from scripts.verify_results import CARDS, Card, figure_of, read_cards

ROOT = Path(__file__).parents[3]
WORDS = """table: scores
row: 1
what: a task
figure: 3.5 points
metric: points
values: [3, 4]
hardware: one core
page: p.md
"""


def anchors(page):
    """Returns the anchors of the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("card", read_cards(), ids=lambda card: card.name)
def test_what_a_card_names_exists(card):
    page, _, anchor = card.page.partition("#")
    assert (ROOT / page).exists()
    assert not anchor or anchor in anchors(ROOT / page)
    assert card.config is None or (ROOT / card.config).exists()
    assert not card.seeds or len(card.values) == len(card.seeds)
    assert re.fullmatch(r"2\d{3}-\d\d-\d\d", card.written)
    assert card.table != "scores" or card.data and card.hardware and card.seeds and card.minutes and card.config
    for command in card.commands:
        for path in re.findall(r"(?<![\w/])(?:scripts|benchmarks|example_configs)/[\w./-]+", command):
            assert (ROOT / path).exists(), path
    if card.curve:
        with open(Path(CARDS) / card.curve, encoding="utf-8") as file:
            updates = [int(row["updates"]) for row in csv.DictReader(file)]
        assert updates == sorted(set(updates))


def test_cards_have_different_places_in_their_tables():
    places = [(card.table, card.row) for card in read_cards()]
    assert len(set(places)) == len(places)
    assert {table for table, _ in places} == {"scores", "speeds", ""}


def test_the_figure_is_the_last_number_that_the_pattern_finds():
    assert figure_of("BLEU: 3.00\nBLEU: 1,234.50 of", r"BLEU: ([\d.,]+)") == 1234.5
    assert figure_of("no score", r"BLEU: ([\d.]+)") is None


@pytest.fixture
def cards(tmp_path, monkeypatch):
    """Returns a function that makes a folder with one card, ``points``, the folder of cards."""
    folder = tmp_path / "cards"
    folder.mkdir()
    monkeypatch.setattr(verify_results, "read_cards", lambda: read_cards(str(folder)))
    monkeypatch.chdir(tmp_path)

    def make(more="", words=WORDS):
        (folder / "points.yaml").write_text(words + more, encoding="utf-8")

    return make


def commands(*lines, band=0.5):
    return f"commands: {list(lines)!r}\npattern: 'points: (\\d+)'\nband: {band}\n"


def test_commands_run_in_a_new_folder_one_after_the_other(cards, tmp_path, capsys):
    cards(commands("echo 3 > number", 'echo "points: $(cat number)"'))
    verify_results.main(["points"])
    assert "points: 3 here, 3.5 recorded, band ±0.5" in capsys.readouterr().out
    assert (tmp_path / "verified" / "points" / "output.txt").read_text() == "points: 3\n"


def test_files_of_the_repository_and_the_data_are_found_from_the_folder_of_the_run(cards, tmp_path):
    data = tmp_path / "my scripts" / "a"
    data.mkdir(parents=True)
    (data / "scores").write_text("points: 4\n")
    cards(commands("ls scripts/verify_results.py run.py", "python --version", "cat {data}/scores"))
    verify_results.main(["points", f"--data_dir={data}"])


def test_a_figure_outside_of_the_band_is_exit_code_1(cards, capsys):
    cards(commands("echo points: 5"))
    with pytest.raises(SystemExit) as ended:
        verify_results.main(["points"])
    assert ended.value.code == 1
    assert "OUTSIDE" in capsys.readouterr().out


def test_without_names_cards_are_listed(cards, capsys):
    cards()
    verify_results.main([])
    assert "points: 3.5 points (no commands)" in capsys.readouterr().out


@pytest.mark.parametrize(("more", "words", "message"), [
    ("", ["point"], "did you mean points"),
    ("", ["points"], "points has no commands: p.md describes how"),
    (commands("cat {data}/x"), ["points"], "give the folder with --data_dir"),
    (commands("exit 3"), ["points"], "'exit 3' ended with exit code 3"),
    (commands("echo nothing"), ["points"], "contains no figure"),
    ("commands: [ls]\n", ["points"], "commands, pattern and band belong together"),
    ("colour: red\n", ["points"], "a card has no 'colour'"),
])
def test_mistakes_are_sentences(cards, more, words, message):
    cards(more)
    with pytest.raises(UserError, match=re.escape(message)):
        verify_results.main(words)


def test_an_earlier_verification_is_not_overwritten(cards):
    cards(commands("echo points: 4"))
    verify_results.main(["points"])
    with pytest.raises(UserError, match="exists: remove it"):
        verify_results.main(["points"])


def test_a_card_without_a_figure_is_named(cards):
    cards(words=WORDS.replace("figure: 3.5 points\n", ""))
    with pytest.raises(UserError, match=r"points\.yaml: .*figure"):
        verify_results.main([])


def test_an_installed_copy_has_no_cards(tmp_path):
    with pytest.raises(UserError, match="in the repository, not in the installed package"):
        read_cards(str(tmp_path))


def test_the_mean_is_that_of_the_values():
    assert Card("a", "scores", 1, "", "", "", [1.0, 2.0, 6.0], "", "").mean == 3.0
