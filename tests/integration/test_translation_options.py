"""Scores, prefixes, alignments and unknown tokens of translations, from the command line and from Python."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import tensorflow as tf

import open_seq2seq

pytestmark = pytest.mark.long

DATA = "--data_layer_params/"
SAMPLES = ("--decoder_params/sampling_temperature=1.0", "--decoder_params/n_best=2", "--decoder_params/alpha=0.0")


def rows(path):
    return [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]


def test_scores_of_translations_and_of_given_ones_agree(trained, command):
    code, _, err = command("--mode=infer", f"--infer_output_file={trained}/out.txt", "--save_scores=True", *SAMPLES)
    assert code == 0, err
    header, *scored = rows(trained / "out.scores.tsv")
    assert header == ["line", "rank", "score", "tokens", "text"] and len(scored) == 40
    texts = (trained / "out.txt").read_text(encoding="utf-8").splitlines()
    best = scored[::2]
    assert [row[4] for row in best] == texts and [row[0] for row in best] == [str(n) for n in range(1, 21)]
    assert all(row[1] == "1" and float(row[2]) >= float(next_row[2])
               for row, next_row in zip(best, scored[1::2], strict=True))

    code, out, err = command("--mode=infer", f"--infer_output_file={trained}/given.txt",
                             f"{DATA}score_file={trained}/out.txt")
    assert code == 0, err
    given = rows(trained / "given.txt")
    equal = 0
    for (log_prob, perplexity, tokens), (_, _, score, length, _) in zip(given, best, strict=True):
        assert math.isclose(float(perplexity), math.exp(-float(log_prob) / int(tokens)), rel_tol=1e-4)
        equal += tokens == length and math.isclose(float(log_prob), float(score), rel_tol=1e-4, abs_tol=1e-4)
    assert equal >= 5  # the others have no end, or contain special tokens, which their texts do not show
    assert f"Log probability: {sum(float(row[0]) for row in given):.2f}" in out

    (trained / "short.txt").write_text("a\n", encoding="utf-8")
    assert command("--mode=infer", f"{DATA}score_file={trained}/short.txt")[2].startswith(
        f"Error: {trained}/dev.src has 20 lines, but {trained}/short.txt has 1")


def test_alignments_prefixes_and_unknowns(trained, command):
    sources = ["a b c\tf e", "a X b\t", "c\ta", "d e"]  # X is not in the vocabulary
    (trained / "columns.txt").write_text("".join(line + "\n" for line in sources), encoding="utf-8")
    arguments = ("--mode=infer", f"--infer_output_file={trained}/out.txt", f"{DATA}prefix_column=True",
                 f"{DATA}source_file={trained}/columns.txt", "--replace_unknowns=True")
    code, _, err = command(*arguments, "--save_alignments=True", "--alignment_pictures=1")
    assert code == 0, err
    texts = (trained / "out.txt").read_text(encoding="utf-8").splitlines()
    assert texts[0].startswith("f e") and texts[2].startswith("a") and not any("<UNK>" in text for text in texts)
    folder = trained / "out.alignments"
    alignments = [json.loads(line) for line in (folder / "alignments.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [row["line"] for row in alignments] == [1, 2, 3, 4]
    assert [row["source"] for row in alignments][:2] == [["a", "b", "c", "</S>"], ["a", "X", "b", "</S>"]]
    for row in alignments:
        weights = np.asarray(row["attention"]).reshape(-1, len(row["source"]))
        assert len(weights) == len(row["target"])
        np.testing.assert_allclose(weights.sum(1), 1.0, atol=1e-3)
        assert row["hard"] == [[n, int(weights[n, :-1].argmax())] for n in range(len(weights))]
    assert (folder / "1.png").read_bytes().startswith(b"\x89PNG") and not (folder / "2.png").exists()

    (trained / "columns.txt").write_text("c\ta a a a a a\n", encoding="utf-8")
    code, _, err = command(*arguments)
    assert code == 2 and "columns.txt:1: the prefix has 6 tokens, but the translation may have only 4" in err


def test_sources_from_a_list_and_from_a_file(trained):
    model = open_seq2seq.Run(f"{trained}/config.py", {"prefix_column": True, "replace_unknowns": True}).load()
    lines = ["a b c", "f e d c b a\ta b", "d", "X\t"]
    texts = [found[0].text for found in model.infer(lines)]
    assert texts == [model.infer([line])[0][0].text for line in lines]
    assert texts[1].startswith("a b")
    (trained / "lines.txt").write_text("\n".join(lines), encoding="utf-8")
    assert [found[0].text for found in model.infer_file(str(trained / "lines.txt"))] == texts


@pytest.mark.parametrize(("arguments", "message"), [
    (("--decoder_params/beam_groups=2", "--decoder_params/beam_size=5"),
     "'decoder_params/beam_groups' is 2, but must divide beam_size (5)."),
    (("--decoder_params/sampling_temperature=0.0",), "'decoder_params/sampling_temperature' is 0.0"),
    (("--decoder_params/coverage_penalty=0.2", "--decoder_params/sampling_temperature=1.0"),
     "'decoder_params/coverage_penalty' is 0.2, but sampling does not use it"),
    (("--decoder_params/coverage_penalty=0.2", "--decoder_params/beam_size=1"), "but beam_size is 1, and greedy"),
    (("--decoder_params/coverage_penalty=0.2", "--decoder_params/beam_groups=2"), "cannot be combined"),
    (("--decoder_params/beam_rules=marian",), "one of 'wu', 'ctranslate2'"),
    ((f"{DATA}prefix_file=a", f"{DATA}score_file=b"), "'data_layer_params/score_file' is set"),
    ((f"{DATA}prefix_file=a", f"{DATA}prefix_column=True"), "'data_layer_params/prefix_file' is set, but"),
    ((f"{DATA}prefix_file=missing.txt",), "missing.txt"),
    (("--save_alignments=True", "--alignment_layer=3"), "the decoder has 1 layers"),
    (("--replace_unknowns=True", "--alignment_heads=[0, 2]"), "there are 2 heads: choose indices from 0 to 1"),
])
def test_mistakes_in_one_sentence(trained, command, arguments, message):
    code, _, err = command("--mode=infer", f"--infer_output_file={trained}/out.txt", *arguments)
    assert code == 2 and message in err and err.count("\n") == 1
    assert not (trained / "out.txt").exists()
    with tf.distribute.MirroredStrategy(["CPU:0"]).scope():  # fails if the error has left a variable scope changed
        pass
