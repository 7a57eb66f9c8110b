"""The report of a run: complete, offline, small, and safe for logdirs that come from somebody else."""

from __future__ import annotations

import html
import json
import re
from html.parser import HTMLParser

import pytest

from open_seq2seq.metrics.names import is_score, metric_name, shown_value
from open_seq2seq.report.page import figures, thinned, write_report
from open_seq2seq.training.loop.metrics_file import MetricsFile
from open_seq2seq.utils.errors import UserError


def write_run(folder, steps=20):
    table = MetricsFile(folder)
    for step in range(1, steps + 1):
        table.write(step, step / 10, {"train_loss": 3.0 / step, "learning_rate": 1e-3 * step, "loss_scale": 1.0})
    table.write(steps, 2.0, {"val_loss": 0.5, "Eval_BLEU_Score": 31.25})
    checkpoint = folder / f"model.ckpt-{steps}"
    checkpoint.mkdir()
    (checkpoint / "config.yaml").write_text("base_model: Text2Text\nlogdir: <b>x</b>\n")
    samples = folder / "samples" / f"step-{steps}"
    samples.mkdir(parents=True)
    (samples / "texts.json").write_text(json.dumps({"train_source": "una casa", "train_prediction": "<script>"}))
    worst = [{"example": "line 7", "chrF": "3.1", "prediction": "cat"}]
    (samples / "worst_examples.json").write_text(json.dumps(worst))
    (samples / "attention.png").write_bytes(b"\x89PNG rest")
    (samples / "speech.wav").write_bytes(b"RIFF rest")


class Tags(HTMLParser):
    VOID = {"meta", "img"}
    CDATA_CONTENT_ELEMENTS = ("script", "style")

    def __init__(self):
        super().__init__()
        self.open, self.seen, self.sources = [], set(), []

    def handle_starttag(self, tag, attrs):
        self.seen.add(tag)
        self.sources += [value for name, value in attrs if name in ("src", "href")]
        self.open += [] if tag in self.VOID else [tag]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


DAMAGED_ROWS = {"long step": f"{'9' * 401},1.0,train_loss,0.5", "longer step": f"{'9' * 5000},1.0,train_loss,0.5",
                "long field": f"3,1.0,{'x' * 200_000},0.5", "open quote": '3,1.0,"train_loss,0.5',
                "words": "three,1.0,train_loss,0.5", "zero byte": "3,1.0,a\0b,0.5,"}


@pytest.mark.parametrize("name", DAMAGED_ROWS)
def test_damaged_rows_are_left_out(tmp_path, name):
    table = MetricsFile(tmp_path)
    table.write(1, 0.1, {"train_loss": 2.0})
    with open(tmp_path / "metrics.csv", "a", encoding="utf-8") as file:
        file.write(DAMAGED_ROWS[name] + "\n")
    table.write(4, 0.4, {"train_loss": 1.0})
    with open(tmp_path / "metrics.csv", "a", encoding="utf-8") as file:
        file.write("5,0.5,train_loss,0.25\n" * (20_000 if name == "open quote" else 1))
    assert table.history("train_loss") == {1: 2.0, 4: 1.0, 5: 0.25}
    assert "0.25 at 5" in write_report(tmp_path).read_text(encoding="utf-8")


def test_worst_examples_with_very_many_names_are_shown_in_part(tmp_path):
    write_run(tmp_path)
    rows = [{f"{number}": "x"} for number in range(60_000)]
    (tmp_path / "samples" / "step-20" / "worst_examples.json").write_text(json.dumps(rows))
    text = write_report(tmp_path).read_text(encoding="utf-8")
    assert "Worst examples" in text and len(text.partition("BEGIN bokeh")[0]) < 100_000


def own_part(text):
    """The page without the scripts: Bokeh's own, and the data of the curves."""
    return re.sub("<script.*?</script>", "", text, flags=re.DOTALL)


def curves_in(text):
    """(title, the numbers of values of its lines) of each chart, from what Bokeh draws."""
    titles = re.findall("<figcaption>([^<]*)</figcaption><div", text)
    (document,) = re.findall("docs_json = '(.*)';", text)
    roots = next(iter(json.loads(html.unescape(document).replace("\\\\", "\\")).values()))["roots"]
    return [(title, json.dumps(root).count("ColumnDataSource")) for title, root in zip(titles, roots, strict=True)]


def test_the_page_is_complete_offline_and_escaped(tmp_path):
    write_run(tmp_path)
    path = write_report(tmp_path)
    text = path.read_text(encoding="utf-8")
    assert path == tmp_path / "report.html" and len(text) < 3_000_000
    tags = Tags()
    tags.feed(text)
    assert tags.open == [] and "link" not in tags.seen and "default-src 'none'" in text
    assert [source[:15] for source in tags.sources] == ["data:image/png;", "data:audio/wav;"]
    for words in ("BLEU</td><td>31.25 at 20", "0.15 at 20", "una casa", "&lt;script&gt;", "line 7", "Text2Text",
                  "&lt;b&gt;x", "model.ckpt-20", "Worst examples", "translation", "BLEU: 31.25"):
        assert words in own_part(text), words
    # The losses together and the learning rate; not the scale, which is constant, nor BLEU, which has a single value.
    assert curves_in(text) == [("Loss", 2), ("Learning rate", 1)]


def test_runs_are_shown_side_by_side(tmp_path):
    for name, steps in (("one", 20), ("t<w>o", 10)):
        (tmp_path / name).mkdir()
        write_run(tmp_path / name, steps)
    path = write_report(tmp_path / "one", tmp_path / "t<w>o")
    text = path.read_text(encoding="utf-8")
    assert path == tmp_path / "one" / "comparison.html" and "t<w>o" not in text
    assert curves_in(text)[0] == ("Training loss", 2)
    assert "<th>one</th><th>t&lt;w&gt;o</th>" in text and not (tmp_path / "one" / "README.md").exists()


def test_names_of_metrics_are_those_of_people():
    names = ("Eval_BLEU_Score", "Eval_BLEU_Score_de", "Eval CER", "learning_rate")
    assert [metric_name(name).title for name in names] == ["BLEU", "BLEU, de", "Character error (%)", "Learning rate"]
    assert shown_value("Eval WER", 0.0192) == "1.92" and is_score("Eval WER") and not is_score("learning_rate")
    assert metric_name("Eval_BLEU_Score").rises and not metric_name("Eval CER").rises


def test_a_report_is_written_again_but_a_users_file_stays(tmp_path):
    write_run(tmp_path)
    write_report(tmp_path)
    MetricsFile(tmp_path).write(21, 2.1, {"val_loss": 0.25})
    assert "0.25 at 21" in own_part(write_report(tmp_path).read_text())
    (tmp_path / "report.html").write_text("mine")
    with pytest.raises(UserError, match="is not a report"):
        write_report(tmp_path)
    assert (tmp_path / "report.html").read_text() == "mine"


def test_what_is_damaged_or_linked_is_left_out(tmp_path):
    write_run(tmp_path)
    secret = tmp_path / "secret"
    secret.write_text('{"key": "hidden"}')
    (tmp_path / "samples" / "step-20" / "texts-2.json").symlink_to(secret)
    (tmp_path / "samples" / "step-20" / "worst_examples.json").write_text("[" * 100_000)
    (tmp_path / "metrics.csv").open("ab").write(b"x,y\n30,1,val_loss,nan\n\xff\n31,1,val_loss,inf\n")
    text = own_part(write_report(tmp_path).read_text())
    assert "hidden" not in text and "Worst examples" not in text and "0.5 at 20" in text


@pytest.mark.parametrize("make", [lambda path: None, lambda path: path.mkdir(), lambda path: path.write_text("x")])
def test_a_folder_without_a_run_is_one_sentence(tmp_path, make):
    make(tmp_path / "run")
    with pytest.raises(UserError, match="give the folder of a run"):
        write_report(tmp_path / "run")


def test_curves_of_any_values_and_names_are_drawn():
    values = [{5: 1.0}, {1: 2.0, 2: 2.0}, {1: float("nan"), 2: 3.0, 3: float("inf")}, {1: -1e30, 9: 1e-30}]
    names = ["a<b", "$$x$$", "</script><b>'\\"]
    text = figures({name: {name: row, f"{name}2": row} for name in names for row in values})
    assert len(curves_in(text)) == len(names) and "<b>" not in own_part(text)
    tags = Tags()
    tags.feed(text)
    assert tags.open == [] and tags.seen == {"figure", "figcaption", "div", "p", "span", "script"}


def test_long_curves_are_thinned_to_their_means():
    points = [(step, float(step)) for step in range(10_001)]
    short = thinned(points)
    assert len(short) <= 501 and short[-1] == points[-1]
    assert all(abs(value - step) <= 11 for step, value in short)
