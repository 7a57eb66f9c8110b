"""Figures by processor: rows are added and replaced, and the documentation has the table that they make."""

from __future__ import annotations

import pytest

from benchmarks.measuring import processor_table
from benchmarks.measuring.processor_table import BEGIN, END, format_rows, put_row, put_table, read_rows, table_of
from benchmarks.measuring.settings import dtype_overrides, make_setting
from benchmarks.measuring.small_models import JASPER, TRANSFORMER, write_small_models
from open_seq2seq.config.loader import load_config
from open_seq2seq.config.options import RunOptions
from open_seq2seq.config.resolve import resolve
from open_seq2seq.parts.precision import KINDS
from open_seq2seq.run.training_setup import describe_sections
from open_seq2seq.utils.errors import UserError


def row(processor="Fast 9000", threads=2, mixed=150.0):
    return {"processor": processor, "instructions": "avx512_bf16", "threads": threads, "tensorflow": "2.21.0",
            "date": "2026-01-01", "raw": {kind: {"float32": 100.0, "bfloat16": 160.0} for kind in KINDS},
            "training": {TRANSFORMER: {"unit": "tokens", "float32": 100.0, "mixed": mixed}},
            "decoding": {"unit": "sentences", "float32": 10.0, "mixed": 12.0}}


def test_a_machine_has_one_row(tmp_path):
    path = tmp_path / "results" / "rows.yaml"
    assert read_rows(path) == []
    for new in (row(), row(threads=1), row("Another"), row(mixed=200.0)):
        put_row(new, path)
    assert read_rows(path) == [row("Another"), row(threads=1), row(mixed=200.0)]
    assert [file.name for file in path.parent.iterdir()] == ["rows.yaml"]


@pytest.mark.parametrize("content", ["a: 1", "[1, 2]", "text"])
def test_a_file_of_something_else_is_left_alone(tmp_path, content):
    path = tmp_path / "rows.yaml"
    path.write_text(content)
    with pytest.raises(UserError, match="not a list of processors"):
        put_row(row(), path)
    assert path.read_text() == content


def test_the_table_compares_mixed_with_float32(tmp_path):
    document = tmp_path / "page.md"
    document.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    rows = [row(), {**row("Slow 1", threads=1), "instructions": "", "training": {
        JASPER: {"unit": "frames", "float32": 2000.0, "mixed": 2000.0}}}]
    put_table(rows, document)
    assert table_of(document) == format_rows(rows)
    assert document.read_text().startswith("before\n") and document.read_text().endswith(f"{END}\nafter\n")
    head, _, first, second = [[cell.strip() for cell in line.strip("|").split("|")]
                              for line in table_of(document).splitlines()]
    assert head[3:] == [TRANSFORMER, JASPER, "decoding"]
    assert first[0] == "Fast 9000 (avx512_bf16), 2 threads" and first[1] == "100 GFLOP/s"
    assert first[2] == "1.60×, 1.60×, 1.60×"
    assert first[3] == "**1.50×** 100 → 150 tokens/s" and first[4] == "–" and first[5].startswith("**1.20×**")
    assert second[0] == "Slow 1 (no half-precision instructions), 1 thread" and second[3] == "–"
    assert second[4] == "**1.00×** 2,000 → 2,000 frames/s"


def test_a_page_without_a_place_is_explained(tmp_path):
    (tmp_path / "page.md").write_text("text\n")
    with pytest.raises(UserError, match="no place for the table"):
        put_table([], tmp_path / "page.md")


def test_the_page_has_the_table_of_the_file():
    assert table_of() == format_rows(read_rows()), "run python benchmarks/processors.py --table_only"
    assert processor_table.FIGURES.name == "processors.yaml"


def test_names_of_settings_say_what_is_bfloat16():
    assert dtype_overrides("mixed") == ["--dtype=mixed"]
    assert dtype_overrides("mixed/none") == ["--dtype=mixed", "--mixed_choice=[]"]
    assert dtype_overrides("mixed_float16/LogMax") == ["--dtype=mixed_float16", "--loss_scaling=LogMax"]
    assert make_setting("mixed/product+recurrence", on_gpu=False).overrides == (
        "--dtype=mixed", "--mixed_choice=['product', 'recurrence']")


@pytest.mark.long
def test_the_small_models_are_configs(tmp_path):
    configs = write_small_models(tmp_path)
    assert len(configs) == 4
    for path in configs.values():
        for mode in ("train", "infer"):
            config = resolve(load_config(str(path)), mode, [])
            assert describe_sections(RunOptions(mode=mode, config=config))[mode].full_params["random_seed"] == 0
