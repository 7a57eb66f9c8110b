"""Chooses translations from n-best lists with the help of a trained language model.

usage: python scripts/rescore.py --n_best out.scores.tsv --lm lm_run --alpha 0.2 --beta 0.5
         --output_file rescored.txt
       python scripts/rescore.py --n_best dev.scores.tsv --lm lm_run --alpha 0 0.1 0.2 0.4 --beta 0 0.5
         --references dev.de

The lists are written by `run.py --mode=infer` with save_scores and decoder_params/n_best. A hypothesis' score becomes
score + alpha · log probability + beta · number of words. With references, the BLEU of each pair of alpha and beta is
printed, and the best pair is used. Lists of speech recognition are rescored by scripts/decode.py.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from open_seq2seq.utils.script import quiet_tensorflow

quiet_tensorflow()

from open_seq2seq.decoding.n_best import rescore
from open_seq2seq.metrics.bleu import TOKENIZERS, corpus_bleu, tokenizer_hint, tokenizer_problem
from open_seq2seq.models.text2text.translations import read_scores
from open_seq2seq.rescoring import log_probs
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.data_files import read_lines
from open_seq2seq.utils.errors import DataError, UserError
from open_seq2seq.utils.output_file import OutputFiles, check_no_input, check_output_file
from open_seq2seq.utils.script import ScriptParser, finite_float, run_script


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    """Parses and checks the command line.

    Raises:
      UserError: options contradict one another, or the output file cannot be written.
    """
    parser = ScriptParser(__doc__)
    add = parser.add_argument
    add("--n_best", required=True, metavar="FILE", help="n-best lists: a file <output>.scores.tsv written by inference")
    add("--lm", required=True, metavar="LOGDIR", help="folder of a language model's run")
    add("--alpha", type=finite_float, nargs="+", required=True, help="weights of the log probability to try")
    add("--beta", type=finite_float, nargs="+", default=[0.0], help="bonuses per word to try (default: 0)")
    add("--references", metavar="FILE", help="file with a reference for each line of the source")
    add("--bleu_tokenizer", choices=TOKENIZERS, default="13a", help="sacreBLEU's tokenizer (default: 13a)")
    add("--output_file", metavar="FILE", help="output file for the best translation of each line")
    add("--trust_code", action="store_true", help="allow the language model's config to run code from outside the "
        "package")
    args = parser.parse_args(argv)
    if problem := tokenizer_problem(args.bleu_tokenizer):
        raise UserError(f"--bleu_tokenizer={args.bleu_tokenizer} {problem}, or choose another tokenizer.")
    if args.references is None:
        if args.output_file is None:
            raise UserError("There is nothing to do: give --output_file, or --references for BLEU.")
        if len(args.alpha) * len(args.beta) > 1:
            raise UserError("The best of several values of --alpha and --beta is chosen by BLEU: give --references, or "
                            "one value of each.")
    if args.output_file is not None:
        check_output_file(args.output_file, "--output_file")
        check_no_input([args.output_file], [args.n_best, args.references])
    return args


def best_of(pairs: list[tuple[float, float]], translations: list[list[str]], references: list[str],
            tokenizer: str) -> int:
    """Prints the BLEU of each pair of weights and returns the index of the best pair."""
    results = [corpus_bleu(texts, references, tokenizer) for texts in translations]
    bleus = [result.bleu for result in results]
    if hint := tokenizer_hint(references, tokenizer):
        deco_print(f"WARNING: this BLEU says little, because {hint} as --bleu_tokenizer.")
    for (alpha, beta), bleu in zip(pairs, bleus, strict=True):
        deco_print(f"alpha={alpha:g}, beta={beta:g}: BLEU={bleu:.2f}")
    best = max(range(len(pairs)), key=bleus.__getitem__)
    deco_print(f"BEST: alpha={pairs[best][0]:g}, beta={pairs[best][1]:g}, BLEU={bleus[best]:.2f} "
               f"({results[best].signature})")
    return best


def main(argv: list[str] | None = None) -> None:
    """Runs the script."""
    args = parse_args(argv)
    n_best = read_scores(args.n_best)
    if not n_best:
        raise DataError(f"{args.n_best} contains no hypotheses.")
    references = list(read_lines(args.references, "The references")) if args.references is not None else None
    if references is not None and len(references) != len(n_best):
        raise DataError(f"{args.references} has {len(references)} lines, but {args.n_best} contains hypotheses for "
                        f"{len(n_best)}: give the references of the file that was translated.")
    scores = log_probs(args.lm, (c.text for candidates in n_best.values() for c in candidates), args.trust_code)
    pairs = list(itertools.product(args.alpha, args.beta))
    translations = [[found[0].text for found in rescore(n_best, scores.__getitem__, *pair).values()] for pair in pairs]
    best = best_of(pairs, translations, references, args.bleu_tokenizer) if references is not None else 0
    if args.output_file is not None:
        with OutputFiles() as outputs:
            outputs.open(args.output_file).writelines(text + "\n" for text in translations[best])
        deco_print(f"{args.output_file}: {len(n_best)} translations")


if __name__ == "__main__":
    run_script(main)
