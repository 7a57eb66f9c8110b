"""Trains or measures again what the cards in results/ record, and compares the figures.

usage: python scripts/verify_results.py [NAME …] [--data_dir=FOLDER] [--output_dir=verified]

Without names, lists the cards. The commands of a card run one after the other in a new folder, verified/NAME, whose
output.txt has the output of the last one; {data} in them stands for --data_dir. The figure is the last number that the
pattern of the card finds in this output, and it has to be within the band around the mean of the recorded ones. If one
is not, the exit code is 1.
"""

from __future__ import annotations

import argparse
import glob
import os
import re
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, ROOT)

from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import UserError, nearest_name
from open_seq2seq.utils.script import ScriptParser, run_script

CARDS = os.path.join(ROOT, "results")
TABLES = os.path.join(CARDS, "tables")


@dataclass(frozen=True)
class Card:
    """A published figure, and how it was measured; what is not known is None or empty.

    Attributes:
      name: the name of its file.
      table: the table of README that it is in: ``scores`` or ``speeds``; "" if only pages of the documentation have it.
      row: its place in the table, from 1.
      what: the task, model and data, as the table says.
      figure: the figure with its unit, as the table says.
      metric: what was measured, on which data, with its signature.
      values: the measured values, one for each seed.
      also: other figures of the same trainings, by what they are.
      seeds: their random seeds.
      page: the page and section of the documentation that describes it.
      config: the recipe.
      overrides: the words of the command line that change it.
      data: where the data are from.
      data_files: SHA-256 of files of the data, by name.
      hardware: the processor and the number of cores.
      gflops: speeds of products of 2,048 × 2,048 matrices on these cores, in GFLOP/s, by dtype.
      minutes: how long it took, start and evaluation included, for each seed.
      versions: versions of the main libraries, by name.
      written: the day on which the figure came into the documentation.
      commit: the commit that was measured.
      curve: a file in ``results/curves``.
      run_again: when the figure was last confirmed, and what was seen; None: not since it was first measured.
      commands: the lines of a shell that measure it again; paths of the repository are found from any folder.
      pattern: regular expression whose group is the figure in the output of the last command.
      band: largest difference from the mean of ``values`` that is expected of another seed or processor.
    """

    name: str
    table: str
    row: int
    what: str
    figure: str
    metric: str
    values: Sequence[float]
    hardware: str
    page: str
    also: dict[str, float] = field(default_factory=dict)
    seeds: Sequence[int] = ()
    config: str | None = None
    overrides: str = ""
    data: str = ""
    data_files: dict[str, str] = field(default_factory=dict)
    gflops: dict[str, float] = field(default_factory=dict)
    minutes: Sequence[float] = ()
    versions: dict[str, str] = field(default_factory=dict)
    written: str = ""
    commit: str | None = None
    curve: str | None = None
    run_again: str | None = None
    commands: Sequence[str] = ()
    pattern: str | None = None
    band: float | None = None

    @property
    def mean(self) -> float:
        """The mean of the values."""
        return statistics.fmean(self.values)


@dataclass(frozen=True)
class Table:
    """A card of a whole table of a page, in ``results/tables``; what is not known is empty.

    Attributes:
      name: the name of its file.
      what: what was measured.
      page: the page and section of the documentation that describes how, and has the table.
      columns: names of the columns, with their units.
      rows: cells as they are shown; ``{CARD.values[0]}``, ``{CARD.minutes[0]}`` or ``{CARD.also[NAME]}`` stands for
        a figure of a card.
      hardware: the processor and the number of cores.
      versions: versions of the main libraries, by name.
      command: what measures it.
      written: the day on which the figures came into the documentation.
      run_again: when it was last confirmed, and what was seen; None: not since it was first measured.
    """

    name: str
    what: str
    page: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    hardware: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    command: str = ""
    written: str = ""
    run_again: str | None = None


def read_tables(folder: str = TABLES) -> dict[str, Table]:
    """Returns the cards of tables in a folder by name.

    Raises:
      UserError: a file is not such a card, or a row has more or fewer cells than there are columns.
    """
    tables = {}
    for path in sorted(glob.glob(os.path.join(folder, "*.yaml"))):
        table = tables[_name_of(path)] = _read(path, Table)
        for row in table.rows:
            if len(row) != len(table.columns):
                raise UserError(f"{path}: the row of '{row[0]}' has {len(row)} cells for {len(table.columns)} columns.")
    return tables


def read_cards(folder: str = CARDS) -> list[Card]:
    """Returns the cards in a folder, sorted by name.

    Raises:
      UserError: there are no cards, or a file is not a card.
    """
    paths = sorted(glob.glob(os.path.join(folder, "*.yaml")))
    if not paths:
        raise UserError(f"{folder} has no result cards: they are in the repository, not in the installed package.")
    return [_card(path) for path in paths]


def _name_of(path: str) -> str:
    return os.path.basename(path).removesuffix(".yaml")


def _read(path: str, kind: Any) -> Any:
    import yaml

    with open(path, encoding="utf-8") as file:
        values: dict[str, Any] = yaml.safe_load(file)
    unknown = set(values) - {one.name for one in fields(kind)}
    if unknown:
        raise UserError(f"{path}: a card has no '{min(unknown)}'.")
    try:
        return kind(name=_name_of(path), **values)
    except TypeError as error:
        raise UserError(f"{path}: {error}.") from error


def _card(path: str) -> Card:
    card: Card = _read(path, Card)
    if bool(card.commands) != (card.pattern is not None) or bool(card.commands) != (card.band is not None):
        raise UserError(f"{path}: commands, pattern and band belong together.")
    return card


def figure_of(output: str, pattern: str) -> float | None:
    """Returns the last number that a pattern finds in the output of a command; None if there is none."""
    numbers = re.findall(pattern, output)
    return float(numbers[-1].replace(",", "")) if numbers else None


def verify(card: Card, folder: str, data_dir: str | None) -> bool:
    """Runs the commands of a card in a new folder; returns whether the figure is within the card's band.

    Raises:
      UserError: the card has no commands, they need data that are not given, or one of them fails.
    """
    if not card.commands:
        raise UserError(f"{card.name} has no commands: {card.page} describes how it was measured on {card.hardware}.")
    if data_dir is None and any("{data}" in command for command in card.commands):
        raise UserError(f"{card.name} needs its data ({card.data}): give the folder with --data_dir.")
    os.makedirs(folder)
    start, output = time.monotonic(), ""
    for command in card.commands:
        deco_print(command)
        output = _run(with_paths(command, data_dir), folder)
    seconds, value = time.monotonic() - start, figure_of(output, card.pattern or "")
    if value is None:
        raise UserError(f"{card.name}: the output of the last command contains no figure; see {folder}/output.txt.")
    is_within = abs(value - card.mean) <= (card.band or 0.0)
    deco_print(f"{card.name}: {value:g} here, {card.mean:g} recorded, band ±{card.band:g}, {seconds / 60:.1f} min: "
               f"{'within' if is_within else 'OUTSIDE of'} the band")
    return is_within


def with_paths(command: str, data_dir: str | None) -> str:
    """Returns a command of a card with the paths of the repository and of the data."""
    line = re.sub(r"(?<![\w/.])(?=(run\.py|scripts/|benchmarks/|example_configs/))", lambda _: shlex.quote(ROOT) + "/",
                  command)
    return line.replace("{data}", shlex.quote(os.path.abspath(data_dir or "")))


def _run(line: str, folder: str) -> str:
    """Runs a command in a folder, writes its output to output.txt there, and returns it."""
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)])
    code = subprocess.run(["bash", "-c", f"exec > output.txt 2>&1\n{line}"], cwd=folder, check=False,
                          env={**os.environ, "PATH": path}).returncode
    output = os.path.join(folder, "output.txt")
    if code != 0:
        raise UserError(f"'{line}' ended with exit code {code}; its output is {output}.")
    with open(output, encoding="utf-8", errors="replace") as file:
        return file.read()


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    """Parses the command line."""
    parser = ScriptParser(__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="cards to verify; none: list the cards")
    parser.add_argument("--data_dir", help="folder of the data that the commands need")
    parser.add_argument("--output_dir", default="verified", help="folder for the new runs (default: %(default)s)")
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> None:
    """Verifies the named cards, or lists all of them."""
    args = parse_args(argv)
    cards = {card.name: card for card in read_cards()}
    for name in args.names:
        if name not in cards:
            near = nearest_name(name, cards)
            raise UserError(f"There is no card {name}" + (f": did you mean {near}?" if near else "."))
        if os.path.exists(folder := os.path.join(args.output_dir, name)):
            raise UserError(f"{folder} exists: remove it, or choose another folder with --output_dir.")
    if not args.names:
        for card in cards.values():
            deco_print(f"{card.name}: {card.figure}" + (
                "" if card.commands else " (no commands)") + (f"; {card.run_again}" if card.run_again else ""))
        return
    within = [verify(cards[name], os.path.join(args.output_dir, name), args.data_dir) for name in args.names]
    if not all(within):
        raise SystemExit(1)


if __name__ == "__main__":
    run_script(main)
