"""Model cards: read by the Hub's own parser, and never in the place of a file of the user's."""

from __future__ import annotations

import json

import pytest

from open_seq2seq.checkpoints import Snapshot, write_snapshot
from open_seq2seq.report.page import write_report

METRICS = {"val_loss": 0.5, "Eval_BLEU_Score": 31.25, "Eval_chrF_Score": 50.5, "Eval CER": 0.125}
CONFIG = "base_model: Text2Text\nbase_params: {encoder: TransformerEncoder, best_metric: Eval_chrF_Score}\n"


def write_run(folder, metrics):
    folder.mkdir()
    write_snapshot(Snapshot({}, {}, {"step": 7, "metrics": metrics, "processor": "A <b>CPU</b> | `x`"}, CONFIG),
                   folder / "model.ckpt-7")
    (folder / "samples" / "step-7").mkdir(parents=True)
    (folder / "samples" / "step-7" / "scores.json").write_text(json.dumps({"BLEU": {"signature": "tok:13a"}}))


def test_the_hubs_parser_reads_the_card(tmp_path):
    from huggingface_hub import ModelCard

    write_run(tmp_path / "run", METRICS)
    write_report(tmp_path / "run", license="apache-2.0", languages=["en", "no"], datasets=["wmt14"])
    card = ModelCard.load(tmp_path / "run" / "README.md")
    assert card.data.license == "apache-2.0" and card.data.language == ["en", "no"] and card.data.datasets == ["wmt14"]
    assert card.data.pipeline_tag == "translation" and "TransformerEncoder" in card.data.tags
    assert card.data.model_name == "run"
    found = {result.metric_type: result.metric_value for result in card.data.eval_results}
    assert found == {"bleu": 31.25, "chrf": 50.5, "cer": 12.5}
    assert next(iter(found)) == "chrf"  # the main metric comes first
    assert [result.metric_args for result in card.data.eval_results if result.metric_type == "bleu"] == [
        {"signature": "tok:13a"}]
    assert 'os2s.load(\'run\')' in card.text and "open_seq2seq translate run" in card.text
    assert "<b>" not in card.text and "`x`" not in card.text


def test_one_language_may_be_a_text_and_a_name_with_spaces_is_quoted(tmp_path):
    from huggingface_hub import ModelCard

    write_run(tmp_path / "my run", METRICS)
    write_report(tmp_path / "my run", languages="en", datasets="")
    card = ModelCard.load(tmp_path / "my run" / "README.md")
    assert card.data.language == ["en"] and card.data.datasets is None
    assert "open_seq2seq translate 'my run' my_input" in card.text


def test_the_scores_are_those_of_the_checkpoint_that_inference_chooses(tmp_path):
    write_run(tmp_path / "run", {})
    config = f"{CONFIG}infer_params: {{restore_best_checkpoint: true}}\n"
    write_snapshot(Snapshot({}, {}, {"step": 3, "metrics": METRICS}, config),
                   tmp_path / "run/best_models/val_loss=1-step-3")
    write_snapshot(Snapshot({}, {}, {"step": 8}, config), tmp_path / "run/model.ckpt-8")
    write_report(tmp_path / "run")
    assert "31.25" in (tmp_path / "run/README.md").read_text()


def test_a_card_without_scores_has_no_model_index(tmp_path):
    from huggingface_hub import ModelCard

    write_run(tmp_path / "run", {})
    write_report(tmp_path / "run")
    card = ModelCard.load(tmp_path / "run" / "README.md")
    assert card.data.eval_results is None and card.data.license is None


@pytest.mark.parametrize("make", [lambda path: path.write_text("mine"), lambda path: path.symlink_to("elsewhere"),
                                  lambda path: path.mkdir()])
def test_a_file_of_the_users_is_left_as_it_is(tmp_path, capsys, make):
    write_run(tmp_path / "run", METRICS)
    path = tmp_path / "run" / "README.md"
    make(path)
    before = path.lstat()
    assert write_report(tmp_path / "run").is_file()
    assert path.lstat() == before and "is left as it is" in capsys.readouterr().out


def test_a_card_is_written_again_until_its_mark_is_removed(tmp_path):
    write_run(tmp_path / "run", METRICS)
    path = tmp_path / "run" / "README.md"
    write_report(tmp_path / "run")
    write_report(tmp_path / "run", license="mit")
    text = path.read_text()
    assert "license: mit" in text
    path.write_text(text.replace(text.splitlines(keepends=True)[1], ""))
    write_report(tmp_path / "run", license="gpl-3.0")
    assert "license: mit" in path.read_text()


def test_names_on_the_command_line_are_texts(tmp_path):
    from open_seq2seq.cli import main

    write_run(tmp_path / "run", METRICS)
    for given, expected in (("no", "no"), ("[en, no]", "en, 'no'"), ("['en','no']", "en, 'no'")):
        assert main(["--mode=report", f"--logdir={tmp_path}/run", f"--language={given}", "--dataset=Common Voice"]) == 0
        text = (tmp_path / "run" / "README.md").read_text()
        assert expected in text.split("library_name")[0] and "datasets: [Common Voice]" in text
