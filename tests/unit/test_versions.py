"""The version, the changelog and the citation say the same."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path

import yaml

import open_seq2seq

ROOT = Path(__file__).parents[2]


def test_version_changelog_and_citation_agree():
    """The newest heading of the changelog is that of this version, with the day of its release or without a day."""
    headings = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    version, _, day = headings[0].partition(", ")
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert version == citation["version"] == open_seq2seq.__version__ and re.fullmatch(r"\d+\.\d+\.\d+", version)
    released = citation.get("date-released")
    assert (released.isoformat() if isinstance(released, date) else "unreleased") == day


def test_the_citation_has_what_its_format_requires():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert {"cff-version", "message", "title", "authors"} <= set(citation) and citation["license"] == "Apache-2.0"
    for reference in citation["references"]:
        assert {"type", "title", "authors"} <= set(reference) and reference["doi"].startswith("10.")


def test_pages_name_the_pythons_that_were_tested():
    tested = re.findall(r"Python :: (3\.\d+)", (ROOT / "setup.py").read_text(encoding="utf-8"))
    for page in ("README.md", "CHANGELOG.md", "docs/getting-started.md", "docs/versions.md"):
        assert f"{', '.join(tested[:-1])} and {tested[-1]}" in (ROOT / page).read_text(encoding="utf-8"), page


def test_the_exported_names_are_those_that_versions_promise():
    page = (ROOT / "docs" / "versions.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in page or f"open_seq2seq.{name}`" in page for name in open_seq2seq.__all__)
    assert all(hasattr(open_seq2seq, name) for name in open_seq2seq.__all__)
