"""Decodes dumped logits by prefix beam search and finds the language-model weights with the lowest WER.

usage: python scripts/decode.py --logits logits.npz --labels dev.csv --lm words.arpa.gz
         --alpha 0.2 --alpha_max 1.0 --alpha_step 0.2 --beta 0 --beta_max 2 --beta_step 1
       python scripts/decode.py --mode infer --logits logits.npz --lm words.arpa.gz --alpha 0.6 --beta 1
         --infer_output_file transcripts.csv --dump_all_beams_to n_best.tsv
       python scripts/decode.py --mode rescore --n_best n_best.tsv --labels dev.csv --lm letters.arpa.gz
         --lm_type character --alpha 0.3 --dump_all_beams_to rescored.tsv
       python scripts/decode.py --mode rescore --n_best beams.txt --labels dev.csv --lm lm_run --alpha 0.3

Logits are dumped by `run.py --mode=infer` with decoder_params/infer_logits_to_pickle. Mode eval does a grid search over
alpha and beta on all processors and writes the results of the best pair. Mode rescore sorts an n-best list with another
language model: an n-gram model, or the logdir of a language model that was trained with this toolkit. References are
read from lists in the data layer's formats. They are normalised as recorded in the dump, unless options say otherwise;
mode rescore reads no dump, so only the options apply. The options of the beam search have the same names and defaults
as in a config.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from open_seq2seq.config.params import Param
from open_seq2seq.data.speech2text.alphabet import NORMALIZATION, make_alphabet, text_normalizer
from open_seq2seq.data.speech2text.manifests import read_manifests
from open_seq2seq.decoding.ctc import CtcDecoder, Transcript, beam_search_params, decode_all
from open_seq2seq.decoding.ctc.decoder import left_out_remarks
from open_seq2seq.decoding.ctc.frames import says_nothing
from open_seq2seq.decoding.ctc.logits_file import LogitsDump, read_logits
from open_seq2seq.decoding.n_best import (
    Candidate,
    is_beam_dump,
    read_beam_dump,
    read_n_best,
    rescore,
    write_beam_dump,
    write_n_best,
)
from open_seq2seq.decoding.ngram import load_language_model
from open_seq2seq.decoding.ngram.estimation import CASES, characters_of_lines, words_of_lines
from open_seq2seq.decoding.ngram.model import sentence_scores
from open_seq2seq.metrics.wer import ErrorRates, error_rates, report
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import DataError, UserError
from open_seq2seq.utils.output_file import OutputFiles, check_no_input, check_output_file
from open_seq2seq.utils.script import ScriptParser, finite_float, run_script
from open_seq2seq.utils.unicode_text import TextIds

Texts = dict[str, str]
# The search's parameter n_best has no flag, because --n_best names a file. It is beam_width with --dump_all_beams_to,
# otherwise 1.
SEARCH: dict[str, Param] = {name: param for name, param in beam_search_params().items() if name != "n_best"}
DEFAULTS = {name: param.default for name, param in SEARCH.items()}
GRID = ("alpha", "beta")
LARGEST_GRID = 1000
MOST_PAIRS = 10_000
PROCESSES_PER_CPU = 8  # more would only take memory
RESCORING = {*GRID, "lm_path", "lm_type", "lm_case", "lm_vocabulary", "lm_sentence_end"}
OUTPUTS = ("infer_output_file", "dump_all_beams_to")


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    """Parses the command line; the result lacks search options that were not given, except alpha and beta."""
    parser = ScriptParser(__doc__)
    add = parser.add_argument
    add("--mode", choices=["eval", "infer", "rescore"], default="eval", help="(default: %(default)s)")
    add("--logits", metavar="FILE", help="dumped logits: .npz, or .pickle as written by NVIDIA's OpenSeq2Seq")
    add("--labels", metavar="LIST", nargs="+", help="references: CSV, JSON lines, LibriSpeech folders")
    add("--labels_case", choices=list(CASES), default="as_is", help="case conversion of the references, after the "
        "normalisation recorded in the dump (default: %(default)s)")
    add("--unicode_form", choices=["NFC", "NFD", "NFKC", "NFKD"],
        help="Unicode normalisation of the references (default: as recorded in the dump)")
    add("--remove_characters", help="characters to remove from the references (default: as recorded in the dump)")
    add("--vocab", metavar="FILE", help="alphabet, if the dump does not contain it: characters, one per line, or a "
        "SentencePiece .model")
    for name, param in SEARCH.items():
        _add_option(parser, name, param)
    for name in GRID:
        add(f"--{name}_max", type=finite_float,
            help=f"largest {name} of the grid search; without it, only --{name} is used")
        add(f"--{name}_step", type=finite_float, default=0.1, help="step of the grid search (default: %(default)s)")
    add("--n_best", metavar="FILE", help="n-best list to rescore, in one of the formats of --beams_format")
    add("--trust_code", action="store_true", default=None, help="allow the config of the logdir that --lm names to run "
        "code from outside the package")
    add("--processes", type=int, default=os.cpu_count() or 1, help="number of processes (default: one per processor)")
    add("--infer_output_file", metavar="CSV", help="output file for the transcripts")
    add("--dump_all_beams_to", metavar="FILE", help="output file for all hypotheses")
    add("--beams_format", choices=["tsv", "dump"], help="format of the file of --dump_all_beams_to: tab-separated "
        "values, or the beam dump of NVIDIA's OpenSeq2Seq, without the names of the utterances (default: tsv)")
    return parser.parse_args(argv)


def _add_option(parser: argparse.ArgumentParser, name: str, param: Param) -> None:
    """Adds a flag for a declared parameter of the search."""
    help_text = f"{param.doc} (default: {param.default})".replace("%", "%%")
    kinds = param.type if isinstance(param.type, tuple) else (param.type,)
    how: dict[str, Any] = {"choices": param.type} if isinstance(param.type, list) else {
        "type": finite_float if name in GRID else _boolean if bool in kinds else kinds[0]}
    default = param.default if name in GRID else argparse.SUPPRESS
    flags = ["--lm", "--lm_path"] if name == "lm_path" else [f"--{name}"]
    parser.add_argument(*flags, dest=name, default=default, help=help_text, **how)


def _boolean(text: str) -> bool:
    if text not in ("True", "False"):
        raise argparse.ArgumentTypeError(f"{text!r} is neither True nor False")
    return text == "True"


def search_options(args: argparse.Namespace) -> dict[str, Any]:
    """Returns the options of the search that were given, alpha and beta always included."""
    return {name: value for name, value in vars(args).items() if name in SEARCH}


def check(args: argparse.Namespace) -> None:
    """Checks the command line before any work.

    Raises:
      UserError: an option that the mode needs is missing, a grid is invalid, or an output file cannot be written.
    """
    given = {*search_options(args), *(name for name, value in vars(args).items() if value is not None)}
    needed = {"eval": ("logits", "labels"), "infer": ("logits", "infer_output_file"), "rescore": ("n_best", "lm_path")}
    missing = [name for name in needed[args.mode] if name not in given]
    if missing:
        raise UserError(f"--mode {args.mode} needs {_flags(missing)}.")
    if args.mode == "rescore":
        if not given & {"labels", *OUTPUTS}:
            raise UserError("--mode rescore has nothing to do: give --labels for error rates, or --infer_output_file "
                            "or --dump_all_beams_to for output files.")
        if idle := [name for name in search_options(args) if name not in RESCORING]:
            raise UserError(f"--mode rescore reorders a list and does no beam search: leave out {_flags(idle)}.")
    _check_language_model(args, given)
    if args.beams_format is not None and args.dump_all_beams_to is None:
        raise UserError("--beams_format is the format of --dump_all_beams_to: name that file, too.")
    if args.processes < 1:
        raise UserError(f"--processes is {args.processes} but has to be at least 1.")
    if args.processes > (most := PROCESSES_PER_CPU * (os.cpu_count() or 1)):
        raise UserError(f"--processes is {args.processes}, but more than {most} processes are not faster on this "
                        f"machine with {os.cpu_count()} processors: give at most {most}.")
    for name in GRID:
        _check_grid(args, name)
    if (pairs := len(grid(args, "alpha")) * len(grid(args, "beta"))) > MOST_PAIRS:
        raise UserError(f"The grid would have {pairs:,} pairs of alpha and beta, and each of them decodes all "
                        f"utterances: increase --alpha_step or --beta_step, so that there are at most {MOST_PAIRS:,}.")
    for name in OUTPUTS:
        if name in given:
            check_output_file(getattr(args, name), f"--{name}")
    check_no_input((getattr(args, name) for name in OUTPUTS),
                   (args.logits, args.vocab, args.n_best, getattr(args, "lm_path", None),
                    getattr(args, "lm_vocabulary", None), *(args.labels or ())))


def _check_language_model(args: argparse.Namespace, given: set[str]) -> None:
    """Raises UserError if an option or the mode does not suit the kind of language model, a file or a folder."""
    if not is_trained(args):
        if args.trust_code:
            raise UserError("--trust_code applies only to a trained language model: set --lm to its logdir, or leave "
                            "--trust_code out.")
    elif args.mode != "rescore":
        raise UserError(f"--lm is the folder {args.lm_path}, but the beam search of --mode {args.mode} needs the file "
                        "of an n-gram model: write n-best lists first, and rescore them with --mode rescore.")
    elif idle := sorted(name for name in given & RESCORING if name.startswith("lm_") and name != "lm_path"):
        raise UserError(f"--lm is the folder of a trained model: leave out {_flags(idle)}, used only by n-gram models.")


def is_trained(args: argparse.Namespace) -> bool:
    """Returns whether the language model is the logdir of a trained model, not the file of an n-gram model."""
    return os.path.isdir(getattr(args, "lm_path", ""))


def _flags(names: Sequence[str]) -> str:
    return " and ".join("--lm" if name == "lm_path" else f"--{name}" for name in names)


def _check_grid(args: argparse.Namespace, name: str) -> None:
    first, last, step = getattr(args, name), getattr(args, f"{name}_max"), getattr(args, f"{name}_step")
    if step <= 0:
        raise UserError(f"--{name}_step has to be above 0.")
    if last is not None and last < first:
        raise UserError(f"--{name}_max is {last:g}, below --{name} {first:g}, where the grid starts: increase it.")
    if last is not None and (last - first) / step >= LARGEST_GRID:
        raise UserError(f"--{name}_step is {step:g}, so the grid from {first:g} to {last:g} would have more than "
                        f"{LARGEST_GRID:,} values: increase it.")
    if last is not None and args.labels is None:
        raise UserError(f"--{name}_max requests a grid search, which needs references to choose the best pair: give "
                        f"--labels, or leave --{name}_max out and give only --{name}.")


def grid(args: argparse.Namespace, name: str) -> list[float]:
    """Returns the values of alpha or beta to try."""
    first, last, step = getattr(args, name), getattr(args, f"{name}_max"), getattr(args, f"{name}_step")
    if last is None:
        return [first]
    return [round(first + step * i, 10) for i in range(int((last - first) / step + 1e-6) + 1)]


def read_references(args: argparse.Namespace, names: Sequence[str], dumped: Mapping[str, Any]) -> Texts:
    """Returns the references of utterances, normalised as the dump and the options say.

    Args:
      args: the command line.
      names: names of the utterances.
      dumped: the data layer's options for the normalisation of transcripts, from the dump.

    Raises:
      DataError: a list cannot be read, or an utterance has no reference in any list.
    """
    found = {row.name: row.text for row in read_manifests(args.labels, None, needs_text=True)}
    missing = [name for name in names if found.get(name) is None]
    if missing:
        raise DataError(f"{' and '.join(args.labels)} has no reference for {missing[0]!r} ({len(missing)} of "
                        f"{len(names)} utterances lack one): use the same names for the recordings as in the list that "
                        "was decoded.")
    given = {name: value for name in NORMALIZATION if (value := getattr(args, name, None)) is not None}
    normalize = text_normalizer({"unicode_form": None, "lower_case": False, "remove_characters": "", **dumped, **given})
    return {name: CASES[args.labels_case](normalize(found[name] or "")) for name in names}


def greedy_texts(dump: LogitsDump, decoder: CtcDecoder) -> Texts:
    """Returns the text of each utterance's most likely path (greedy decoding)."""
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
    """Returns the transcripts of each utterance, best first, for each pair of weights."""
    results = decode_all([decoder.with_weights(*pair) for pair in pairs], dump.logits.values(), processes)
    return [dict(zip(dump.logits, result, strict=True)) for result in results]


def best_of_grid(pairs: list[tuple[float, float]], texts: list[Texts], references: Texts) -> int:
    """Prints the WER of each pair of weights and a report on the best pair; returns the index of the best pair."""
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
    with OutputFiles() as outputs:
        writer = csv.writer(outputs.open(path, newline=""), lineterminator="\n")
        writer.writerow(("wav_filename", "transcript"))
        writer.writerows(texts.items())
    deco_print(f"{path}: {len(texts)} transcripts")


def read_dump(args: argparse.Namespace) -> LogitsDump:
    """Returns the logits to decode; prints a warning if some are not finite.

    Raises:
      DataError: the dump or the alphabet cannot be read, they do not match, or the dump contains no utterances.
    """
    labels = make_alphabet(args.vocab, bpe=args.vocab.endswith(".model")).labels if args.vocab else None
    dump = read_logits(args.logits, labels)
    if not dump.logits:
        raise DataError(f"{args.logits} contains no utterances.")
    bad = [name for name, logits in dump.logits.items() if says_nothing(logits).any()]
    if bad:
        deco_print(f"Utterances with NaN or infinite logits: {len(bad)}, the first is {bad[0]}. Such frames are "
                   "decoded as blanks.")
    return dump


def write_results(args: argparse.Namespace, found: Mapping[str, Sequence[Transcript | Candidate]]) -> None:
    """Writes the requested output files.

    Args:
      args: the command line.
      found: hypotheses of each utterance, best first.
    """
    if args.infer_output_file is not None:
        write_transcripts(args.infer_output_file, {name: n_best[0].text for name, n_best in found.items()})
    if args.beams_format == "dump":
        write_beam_dump(args.dump_all_beams_to, found.values())
    elif args.dump_all_beams_to is not None:
        write_n_best(args.dump_all_beams_to, found)


def best_texts(results: Sequence[Mapping[str, Sequence[Transcript | Candidate]]]) -> list[Texts]:
    """Returns each utterance's best text, for each pair of weights."""
    return [{name: found[0].text for name, found in result.items()} for result in results]


def decode(args: argparse.Namespace, pairs: list[tuple[float, float]]) -> None:
    """Runs modes eval and infer with pairs (alpha, beta)."""
    dump = read_dump(args)
    options = {**DEFAULTS, **search_options(args)}
    decoder = CtcDecoder(dump.labels, {**options, "n_best": options["beam_width"] if args.dump_all_beams_to else 1})
    references = read_references(args, list(dump.logits), dump.normalization) if args.labels else None
    if references:
        deco_print(f"Greedy WER = {judge(references, greedy_texts(dump, decoder)).wer:.4f}")
    results = decode_grid(dump, decoder, pairs, args.processes)
    write_results(args, results[best_of_grid(pairs, best_texts(results), references) if references else 0])


def text_scorer(args: argparse.Namespace, texts: set[str]) -> Callable[[str], float]:
    """Returns a function that computes a text's natural log probability under the n-gram model.

    The number of units of the texts that the model does not know is printed.
    """
    options = {**DEFAULTS, **search_options(args)}
    model = load_language_model(options["lm_path"], options["lm_vocabulary"])
    words = reversed(list(enumerate(model.words)))
    is_of_words = options["lm_type"] == "word"
    change = CASES[options["lm_case"] if is_of_words else "as_is"]  # as in the search
    ids = TextIds({change(word): number for number, word in words}, -1)
    units = words_of_lines if is_of_words else characters_of_lines
    used = {unit for text in units(texts) for unit in text}
    unknown, cased = used - ids.keys(), model.words if is_of_words else []
    for line in left_out_remarks(f"Words of the lists that {options['lm_path']} does not know", sorted(unknown),
                                 len(used), lambda case: len(unknown & set(map(CASES[case], cased))),
                                 "use a language model of texts like these"):
        deco_print(line)

    def log_prob(text: str) -> float:
        scores, end = sentence_scores(model, (ids[unit] for unit in next(units([text]))))
        return sum(scores) + (end if options["lm_sentence_end"] else 0.0)

    return log_prob


def log_probs(args: argparse.Namespace, texts: set[str]) -> dict[str, float]:
    """Returns the natural log probability of each text under the language model."""
    if is_trained(args):
        from open_seq2seq import rescoring  # imports TensorFlow

        return rescoring.log_probs(args.lm_path, texts, bool(args.trust_code))
    log_prob = text_scorer(args, texts)
    return {text: log_prob(text) for text in texts}


def read_lists(args: argparse.Namespace) -> dict[str, list[Candidate]]:
    """Returns the n-best lists to rescore, by utterance.

    A beam dump does not name the utterances. Its lists get the names of the utterances in --labels, in the same order;
    without --labels, the names are numbers from 0.

    Raises:
      DataError: the file is invalid or contains no lists, or --labels has another number of utterances.
    """
    if not is_beam_dump(args.n_best):
        found = read_n_best(args.n_best)
    else:
        lists = read_beam_dump(args.n_best)
        names = [str(number) for number in range(len(lists))]
        if args.labels:
            names = list(dict.fromkeys(row.name for row in read_manifests(args.labels, None, needs_text=True)))
        if len(lists) != len(names):
            raise DataError(f"{args.n_best} contains the lists of {len(lists)} utterances, but "
                            f"{' and '.join(args.labels)} has {len(names)} names: give the list that was decoded.")
        found = dict(zip(names, lists, strict=True))
    if not found:
        raise DataError(f"{args.n_best} contains no utterances.")
    return found


def rescore_list(args: argparse.Namespace, pairs: list[tuple[float, float]]) -> None:
    """Runs mode rescore with pairs (alpha, beta)."""
    n_best = read_lists(args)
    references = read_references(args, list(n_best), {}) if args.labels else None
    scores = log_probs(args, {c.text for candidates in n_best.values() for c in candidates})
    results = [rescore(n_best, scores.__getitem__, *pair) for pair in pairs]
    write_results(args, results[best_of_grid(pairs, best_texts(results), references) if references else 0])


def main(argv: list[str] | None = None) -> None:
    """Runs the script."""
    args = parse_args(argv)
    check(args)
    pairs = [(alpha, beta) for alpha in grid(args, "alpha") for beta in grid(args, "beta")]
    if args.mode == "rescore":
        rescore_list(args, pairs)
    else:
        decode(args, pairs)


if __name__ == "__main__":
    run_script(main)
