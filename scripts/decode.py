"""Decodes dumped logits by prefix beam search, searches for the best weights, judges by WER.

usage: python scripts/decode.py --logits logits.npz --labels dev.csv --lm words.arpa.gz
         --alpha 0.2 --alpha_max 1.0 --alpha_step 0.2 --beta 0 --beta_max 2 --beta_step 1
       python scripts/decode.py --mode infer --logits logits.npz --lm words.arpa.gz --alpha 0.6 --beta 1
         --infer_output_file transcripts.csv --dump_all_beams_to n_best.tsv
       python scripts/decode.py --mode rescore --n_best n_best.tsv --labels dev.csv --lm larger.arpa.gz --alpha 0.3

Logits come from `run.py --mode=infer` with decoder_params/infer_logits_to_pickle. In mode eval every pair of the grid
of alpha and beta is tried, all processors at work, and the best one is used for what is written. In mode rescore an
n-best list is ordered anew by another language model. References are the last column of the CSV of --labels, the
first one the utterance's name.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
from collections.abc import Callable, Sequence

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from open_seq2seq.decoding.ctc import CtcDecoder, Transcript, decode_all
from open_seq2seq.decoding.ctc.logits_file import LogitsDump, read_logits
from open_seq2seq.decoding.ctc.n_best import Candidate, read_n_best, rescore, write_n_best
from open_seq2seq.decoding.ngram import load_language_model
from open_seq2seq.decoding.ngram.text import characters_of_lines, read_transcripts, words_of_lines
from open_seq2seq.metrics.wer import ErrorRates, error_rates, report
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import DataError, UserError
from open_seq2seq.utils.script import run_script

Texts = dict[str, str]
CASES: dict[str, Callable[[str], str]] = {"as_is": str, "lower": str.lower, "upper": str.upper}


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--mode", choices=["eval", "infer", "rescore"], default="eval", help="(default: %(default)s)")
    add("--logits", metavar="FILE", help="dump of logits: .npz, or .pickle as of the original toolkit")
    add("--labels", metavar="CSV", help="references; eval needs them")
    add("--labels_case", choices=list(CASES), default="as_is", help="change the references' case, as lower_case in the "
        "config does (default: %(default)s)")
    add("--vocab", metavar="FILE", help="alphabet, one symbol a line, where the dump does not hold it")
    add("--lm", metavar="FILE", help="language model: ARPA, or KenLM's binary format")
    add("--lm_type", choices=["word", "character"], default="word", help="(default: %(default)s)")
    add("--lm_case", choices=list(CASES), default="as_is", help="(default: %(default)s)")
    add("--lm_vocabulary", metavar="FILE", help="words of a KenLM binary")
    add("--oov_penalty", type=float, help="cost in nats of words that the model has not; forbidden by default")
    for name, default in (("alpha", 0.5), ("beta", 1.0)):
        add(f"--{name}", type=float, default=default, help="(default: %(default)s)")
        add(f"--{name}_max", type=float, help="end of the grid; no grid by default")
        add(f"--{name}_step", type=float, default=0.1, help="step of the grid (default: %(default)s)")
    add("--beam_width", type=int, default=128, help="(default: %(default)s)")
    add("--n_best", metavar="FILE", help="list to rescore")
    add("--processes", type=int, default=os.cpu_count() or 1, help="(default: all processors)")
    add("--infer_output_file", metavar="CSV", help="where the transcripts go")
    add("--dump_all_beams_to", metavar="TSV", help="where all hypotheses go")
    return parser.parse_args(argv)


def check(args: argparse.Namespace) -> None:
    """Finds mistakes before any work.

    Raises:
      UserError: something is missing for the mode, or a grid is impossible.
    """
    needed = {"eval": ("logits", "labels"), "infer": ("logits", "infer_output_file"), "rescore": ("n_best", "lm")}
    missing = [f"--{name}" for name in needed[args.mode] if getattr(args, name) is None]
    if missing:
        raise UserError(f"--mode {args.mode} needs {' and '.join(missing)}.")
    if args.mode == "rescore" and args.oov_penalty is not None:
        raise UserError("--mode rescore gives unknown words their probability as <unk>: --oov_penalty is for "
                        "searching.")
    for name in ("alpha", "beta"):
        first, last = getattr(args, name), getattr(args, f"{name}_max")
        if getattr(args, f"{name}_step") <= 0:
            raise UserError(f"--{name}_step has to be above 0.")
        if last is not None and last < first:
            raise UserError(f"--{name}_max is {last:g}, below --{name} {first:g}, where the grid begins.")
        if args.mode == "infer" and last is not None:
            raise UserError(f"--mode infer takes one --{name}: search for the best one by --mode eval.")


def grid(args: argparse.Namespace, name: str) -> list[float]:
    """Returns the values of alpha or beta to try."""
    first, last, step = getattr(args, name), getattr(args, f"{name}_max"), getattr(args, f"{name}_step")
    if last is None:
        return [first]
    return [round(first + step * i, 10) for i in range(int((last - first) / step + 1e-6) + 1)]


def read_references(path: str, names: Sequence[str], case: str) -> Texts:
    """Returns the references of utterances, from a CSV of name, …, transcript.

    Raises:
      DataError: the file cannot be read, or has no reference of an utterance.
    """
    try:
        with open(path, encoding="utf-8", newline="") as stream:
            found = {row[0]: row[-1] for row in csv.reader(stream) if len(row) > 1}
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"The references {path} cannot be read: {error}.") from error
    missing = [name for name in names if name not in found]
    if missing:
        raise DataError(f"{path} has no reference of {missing[0]!r} ({len(missing)} of {len(names)} utterances lack "
                        "one): its first column has to hold the names in the dump.")
    return {name: CASES[case](found[name]) for name in names}


def greedy_texts(dump: LogitsDump, decoder: CtcDecoder) -> Texts:
    """Returns what each utterance's likeliest path says."""
    texts = {}
    for name, logits in dump.logits.items():
        path = logits.argmax(1)
        kept = path[np.r_[True, path[1:] != path[:-1]][:len(path)] & (path != len(dump.labels))]
        texts[name] = decoder.symbols.text(kept.tolist())
    return texts


def judge(references: Texts, hypotheses: Texts) -> ErrorRates:
    """Returns the error rates of all utterances."""
    return error_rates(list(references.values()), [hypotheses[name] for name in references], list(references))


def decode_grid(dump: LogitsDump, decoder: CtcDecoder, pairs: list[tuple[float, float]],
                processes: int) -> list[dict[str, list[Transcript]]]:
    """Returns the transcripts of each utterance for each pair of weights."""
    results = decode_all([decoder.with_weights(*pair) for pair in pairs], dump.logits.values(), processes)
    return [dict(zip(dump.logits, result, strict=True)) for result in results]


def best_of_grid(pairs: list[tuple[float, float]], texts: list[Texts], references: Texts) -> int:
    """Prints the WER of each pair of weights; returns the number of the best one."""
    rates = [judge(references, found) for found in texts]
    for (alpha, beta), rate in zip(pairs, rates, strict=True):
        deco_print(f"alpha={alpha:g}, beta={beta:g}: WER={rate.wer:.4f}, CER={rate.cer:.4f}")
    best = min(range(len(pairs)), key=lambda i: (rates[i].words.errors, rates[i].characters.errors))
    deco_print(f"BEST: alpha={pairs[best][0]:g}, beta={pairs[best][1]:g}, WER={rates[best].wer:.4f}")
    for line in report(rates[best]):
        deco_print(line, offset=1)
    return best


def write_transcripts(path: str, texts: Texts) -> None:
    """Writes a CSV with the header wav_filename,transcript."""
    with open(path, "w", encoding="utf-8", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(("wav_filename", "transcript"))
        writer.writerows(texts.items())
    deco_print(f"{path}: {len(texts)} transcripts")


def decode(args: argparse.Namespace, pairs: list[tuple[float, float]]) -> None:
    """Modes eval and infer."""
    labels = [line for line in read_transcripts(args.vocab) if line] if args.vocab else None
    dump = read_logits(args.logits, labels)
    if not dump.logits:
        raise DataError(f"{args.logits} holds no utterances.")
    options = {key: getattr(args, key) for key in ("beam_width", "lm_type", "lm_case", "lm_vocabulary", "oov_penalty")}
    decoder = CtcDecoder(dump.labels, {**options, "lm_path": args.lm,
                                       "n_best": args.beam_width if args.dump_all_beams_to else 1})
    best = 0
    references = read_references(args.labels, list(dump.logits), args.labels_case) if args.labels else None
    if references:
        deco_print(f"Greedy WER = {judge(references, greedy_texts(dump, decoder)).wer:.4f}")
    results = decode_grid(dump, decoder, pairs, args.processes)
    texts = [{name: found[0].text for name, found in result.items()} for result in results]
    if references:
        best = best_of_grid(pairs, texts, references)
    if args.infer_output_file:
        write_transcripts(args.infer_output_file, texts[best])
    if args.dump_all_beams_to:
        write_n_best(args.dump_all_beams_to, results[best])


def text_scorer(args: argparse.Namespace) -> Callable[[str], float]:
    """Returns the language model's log probability of a text, as a function of the text."""
    model = load_language_model(args.lm, args.lm_vocabulary)
    ids = {CASES[args.lm_case](word): number for number, word in reversed(list(enumerate(model.words)))}
    units = characters_of_lines if args.lm_type == "character" else words_of_lines

    def log_prob(text: str) -> float:
        state, total = np.array([model.start_state()]), 0.0
        for unit in next(units([text])):
            score, state = model.score(state, np.array([ids.get(unit, -1)]))
            total += float(score[0])
        return total + float(model.score_end(state)[0])

    return log_prob


def rescore_list(args: argparse.Namespace, pairs: list[tuple[float, float]]) -> None:
    """Mode rescore."""
    n_best = read_n_best(args.n_best)
    if not n_best:
        raise DataError(f"{args.n_best} holds no utterances.")
    log_prob = text_scorer(args)
    scores = {text: log_prob(text) for candidates in n_best.values() for text in {c.text for c in candidates}}
    results: list[dict[str, list[Candidate]]] = [rescore(n_best, scores.__getitem__, *pair) for pair in pairs]
    texts = [{name: found[0].text for name, found in result.items()} for result in results]
    best = 0
    if args.labels:
        best = best_of_grid(pairs, texts, read_references(args.labels, list(n_best), args.labels_case))
    if args.infer_output_file:
        write_transcripts(args.infer_output_file, texts[best])


def main(argv: list[str] | None = None) -> None:
    """Does what the command line asks."""
    args = parse_args(argv)
    check(args)
    pairs = [(alpha, beta) for alpha in grid(args, "alpha") for beta in grid(args, "beta")]
    if args.mode == "rescore":
        rescore_list(args, pairs)
    else:
        decode(args, pairs)


if __name__ == "__main__":
    run_script(main)
