"""Measured figures in tables of the pages come from cards, and the rule that finds them knows figures from facts."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.verify_results import read_tables
from tests.unit.figures_in_tables import is_figure, measured, tables

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_tables_of_figures_are_made_from_cards(page):
    text = page.read_text(encoding="utf-8")
    lines = text.split("\n")
    by_hand = [f"line {start + 1}, column {column}" for start, _, header, rows in tables(text)
               if (column := measured(header, rows))
               and not any(line.startswith("<!-- ") for line in lines[start - 2:start])]
    assert by_hand == [], "make a card in results/tables, and run python docs/make_reference.py"


def test_every_card_of_a_table_is_shown_on_its_page():
    for table in read_tables().values():
        page = (ROOT / table.page.partition("#")[0]).read_text(encoding="utf-8")
        assert f"<!-- results: tables/{table.name} -->" in page, table.name


@pytest.mark.parametrize(("cell", "expected"), [
    ("1.49× (0.76–1.30)", True), ("**39.2**; 39.5", True), ("not within 100 s, no message", False), ("477 ms", True),
    ("`beam_size` 4", False), ("", False), ("more than 500 updates", True), ("float, above 0", False)])
def test_figures_are_told_from_words(cell, expected):
    assert is_figure(cell) is expected


def test_settings_are_facts():
    assert measured(["parameter", "default"], [["a", "3"], ["b", "4"]]) is None
    assert measured(["model", "time"], [["a", "3 s"], ["b", "4 s"]]) == "time"
