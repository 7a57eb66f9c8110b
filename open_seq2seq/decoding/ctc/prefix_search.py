"""Prefix beam search for CTC, vectorised over prefixes and symbols; no compiler, no graph.

Hannun et al. 2014, "First-Pass Large Vocabulary Continuous Speech Recognition using Bi-Directional Recurrent DNNs":
the beam holds label sequences (prefixes), each with the probability of all paths to it that end in a blank and of
all those that do not. Where several prefixes lead to the same one, their probabilities add up.

Most frames of a trained model have one symbol that is worth considering. Runs of such frames are processed at once.
"""

from __future__ import annotations

import copy
from typing import NamedTuple

import numpy as np

from open_seq2seq.decoding.ctc.frames import Frames, Pruning, prepare_frames
from open_seq2seq.decoding.ctc.prefix_tree import PrefixTree
from open_seq2seq.decoding.ctc.scorer import PrefixScorer

_INFINITY = np.inf


class Hypothesis(NamedTuple):
    """A label sequence that was found.

    Attributes:
      ids: its symbols.
      acoustic: log probability of all its paths that were not pruned, in nats.
      extra: what the scorer gave (language model and bonuses, weighted).
      score: the sum of both.
    """

    ids: np.ndarray
    acoustic: float
    extra: float
    score: float


class Beam(NamedTuple):
    """The prefixes that are kept.

    Attributes:
      nodes: in the tree of prefixes ``[beam]``.
      ends_blank: log probability of all paths that end in a blank ``[beam]``.
      ends_symbol: that of all paths that end in the prefix's last symbol ``[beam]``.
      totals: that of all paths ``[beam]``.
      extras: what the scorer gave so far ``[beam]``.
      scorer_floats: numbers of the scorer's own ``[rows, beam]``, see ``PrefixScorer``; any width where it has no rows.
      scorer_ints: likewise.
    """

    nodes: np.ndarray
    ends_blank: np.ndarray
    ends_symbol: np.ndarray
    totals: np.ndarray
    extras: np.ndarray
    scorer_floats: np.ndarray
    scorer_ints: np.ndarray

    def take(self, places: np.ndarray) -> Beam:
        """Returns the prefixes at some places ``[n]``."""
        return Beam(*(values[..., places] if len(values) else values for values in self))


class _Candidates(NamedTuple):
    """What one frame may make of a beam.

    Attributes:
      symbols: those that prefixes are extended by ``[symbols]``.
      totals: log probabilities of each prefix as it is, and extended by each symbol ``[beam, 1 + symbols]``.
      extras: what the scorer gives to each ``[beam, 1 + symbols]``; None without a scorer.
      ends_blank: log probability of the paths of each prefix as it is that end in a blank ``[beam]``.
      ends_symbol: that of those which end in its last symbol ``[beam]``.
    """

    symbols: np.ndarray
    totals: np.ndarray
    extras: np.ndarray | None
    ends_blank: np.ndarray
    ends_symbol: np.ndarray


class PrefixSearch:
    """A search over the frames of one utterance, which may come in pieces.

    Args:
      vocab_size: number of symbols, the blank included, which is the last.
      pruning: what is left out.
      scorer: language model and lexicon; none by default.
    """

    def __init__(self, vocab_size: int, pruning: Pruning | None = None, scorer: PrefixScorer | None = None) -> None:
        self._blank = vocab_size - 1
        self._pruning = pruning or Pruning()
        self._scorer = scorer
        self._tree = PrefixTree(self._blank)
        floats, ints = scorer.start() if scorer is not None else (np.zeros(0), np.zeros(0, np.int64))
        self._beam = Beam(np.array([0]), np.array([0.0]), np.array([-_INFINITY]), np.array([0.0]), np.array([0.0]),
                          floats[:, np.newaxis], ints.astype(np.int64)[:, np.newaxis])

    def advance(self, logits: np.ndarray) -> None:
        """Processes further frames ``[time, vocabulary]``.

        Raises:
          ValueError: another number of symbols.
        """
        if logits.ndim != 2 or logits.shape[1] != self._blank + 1:
            raise ValueError(f"Logits of shape {logits.shape} do not fit: [time, {self._blank + 1}] is needed, one "
                             "column for each symbol of the alphabet and a last one for the blank.")
        if not len(logits):
            return
        frames = prepare_frames(logits, self._pruning)
        time, end = 0, len(logits)
        while time < end:
            if frames.single[time] and self._take_run(frames, time, frames.run_end[time]):
                time = frames.run_end[time]
                continue
            self._step(frames, time)
            time += 1

    def fork(self) -> PrefixSearch:
        """Returns an independent copy, whose tree holds no more than the beam needs."""
        other = copy.copy(self)
        other._tree, nodes = self._tree.compacted(self._beam.nodes)
        # A scorer may change its numbers in place.
        other._beam = self._beam._replace(nodes=nodes, scorer_floats=self._beam.scorer_floats.copy(),
                                          scorer_ints=self._beam.scorer_ints.copy())
        return other

    def decide(self, open_symbols: int) -> None:
        """Drops prefixes that differ from the best one further back than by its last ``open_symbols`` symbols.

        Otherwise two readings of nearly the same probability would stay side by side in an endless stream.
        """
        beam = self._beam
        best = int(beam.nodes[np.argmax(beam.totals + beam.extras)])
        decided = self._tree.ancestor(best, open_symbols)
        self._beam = beam.take(self._tree.begin_with(beam.nodes, decided).nonzero()[0])

    def best(self, count: int = 1) -> list[Hypothesis]:
        """Returns the best hypotheses so far, as if the utterance ended here; best first."""
        beam = self._beam
        extras = beam.extras
        if self._scorer is not None:
            extras = extras + self._scorer.finish(beam.scorer_floats, beam.scorer_ints)
        scores = beam.totals + extras
        order = np.argsort(-scores, kind="stable")
        order = order[scores[order] > -_INFINITY][:count]
        return [Hypothesis(self._tree.symbols(int(beam.nodes[i])), float(beam.totals[i]), float(extras[i]),
                           float(scores[i])) for i in order]

    # Frames with several symbols.

    def _step(self, frames: Frames, time: int) -> None:
        symbols = frames.symbols[frames.begins[time]:frames.begins[time + 1]]
        if not self._try_step(frames.considered[time], frames.blanks[time], symbols):
            # The scorer forbids all that was considered: consider everything. A blank is never forbidden.
            everything = frames.log_probs[time].copy()
            everything[self._blank] = -_INFINITY
            self._try_step(everything, float(frames.log_probs[time, self._blank]), np.arange(self._blank))

    def _try_step(self, log_probs: np.ndarray, blank: float, symbols: np.ndarray) -> bool:
        """Processes a frame; returns whether any prefix is left, and if not, leaves the beam unchanged."""
        candidates = self._candidates(log_probs, blank, symbols)
        scores = candidates.totals if candidates.extras is None else candidates.totals + candidates.extras
        chosen = self._choose(scores.ravel())
        if chosen is None:
            return False
        self._beam = self._chosen_beam(candidates, chosen)
        return True

    def _candidates(self, log_probs: np.ndarray, blank: float, symbols: np.ndarray) -> _Candidates:
        """Returns what a frame may make of the beam.

        Beams are narrow most of the time, so the number of NumPy calls counts; ``take`` costs half of an index.

        Args:
          log_probs: of the symbols ``[vocabulary]``; -inf where not considered, and for the blank.
          blank: log probability of the blank.
          symbols: those that are considered ``[symbols]``, ascending.
        """
        beam = self._beam
        totals = np.empty((len(beam.totals), len(symbols) + 1))
        extended = totals[:, 1:]
        np.add(beam.totals[:, np.newaxis], log_probs.take(symbols), extended)
        last = self._tree.last.take(beam.nodes)
        of_last = log_probs.take(last)  # -inf where that is the blank: the prefix has no symbol yet
        ends_blank, ends_symbol = beam.totals + blank, beam.ends_symbol + of_last
        rows = (of_last > -_INFINITY).nonzero()[0]
        if len(rows):
            columns = symbols.searchsorted(last.take(rows))
            # A symbol that repeats the last one makes a new one only after a blank.
            extended[rows, columns] = beam.ends_blank.take(rows) + of_last.take(rows)
            if len(last) > 1:
                self._merge(extended, ends_symbol, rows, columns)
        np.logaddexp(ends_blank, ends_symbol, totals[:, 0])
        extras = None
        if self._scorer is not None:
            extras = np.empty(totals.shape)
            extras[:, 0] = beam.extras
            gains = self._scorer.extend(beam.scorer_floats, beam.scorer_ints, symbols)
            np.add(gains, extras[:, :1], extras[:, 1:])
        return _Candidates(symbols, totals, extras, ends_blank, ends_symbol)

    def _merge(self, extended: np.ndarray, ends_symbol: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> None:
        """Adds the extensions that lead to prefixes of the beam to those, and removes them.

        Args:
          extended: log probabilities of the extensions ``[beam, symbols]``.
          ends_symbol: those of the paths to each prefix that end in its last symbol ``[beam]``.
          rows: the prefixes whose last symbol is considered ``[n]``.
          columns: the column of that symbol in ``extended`` ``[n]``.
        """
        tree, nodes = self._tree, self._beam.nodes
        hashes, of_parents = tree.hashes.take(nodes), tree.parent_hashes.take(nodes.take(rows))
        parent, child = (hashes[:, np.newaxis] == of_parents).nonzero()
        if len(parent):
            column, child = columns.take(child), rows.take(child)
            ends_symbol[child] = np.logaddexp(ends_symbol.take(child), extended[parent, column])
            extended[parent, column] = -_INFINITY

    def _choose(self, scores: np.ndarray) -> np.ndarray | None:
        """Returns the indices of the best of the scores ``[n]``, or None where all are -inf."""
        best = scores[scores.argmax()]
        if best == -_INFINITY:
            return None
        # `best - inf` allows everything but what is impossible.
        chosen = (scores >= max(best - self._pruning.beam_threshold, -1e300)).nonzero()[0]
        width = self._pruning.beam_width
        if len(chosen) > width:
            chosen = chosen.take(scores.take(chosen).argpartition(len(chosen) - width)[len(chosen) - width:])
        return chosen

    def _chosen_beam(self, candidates: _Candidates, chosen: np.ndarray) -> Beam:
        """Returns the beam of the chosen candidates: first the prefixes that stay as they are, then the extended ones.

        Args:
          candidates: what the frame may make of the beam.
          chosen: indices of the flattened ``candidates.totals``.
        """
        width = len(candidates.symbols) + 1
        columns = chosen % width
        staying = len(chosen) - np.count_nonzero(columns)
        if 0 < staying < len(chosen):
            order = (columns > 0).argsort(kind="stable")
            chosen, columns = chosen.take(order), columns.take(order)
        parents = chosen // width
        old, stayed = self._beam, parents[:staying]
        totals = candidates.totals.take(chosen)
        ends_blank, ends_symbol = np.empty((2, len(chosen)))
        ends_blank[:staying], ends_blank[staying:] = candidates.ends_blank.take(stayed), -_INFINITY
        ends_symbol[:staying], ends_symbol[staying:] = candidates.ends_symbol.take(stayed), totals[staying:]
        extras = np.zeros(len(chosen)) if candidates.extras is None else candidates.extras.take(chosen)
        nodes, scorer_floats, scorer_ints = old.nodes.take(parents), old.scorer_floats, old.scorer_ints
        if self._scorer is not None:
            scorer_floats, scorer_ints = scorer_floats.take(parents, 1), scorer_ints.take(parents, 1)
        if staying < len(chosen):
            extended, symbols = parents[staying:], candidates.symbols.take(columns[staying:] - 1)
            nodes[staying:] = self._tree.add(nodes[staying:], symbols)
            if self._scorer is not None:
                scorer_floats[:, staying:], scorer_ints[:, staying:] = self._scorer.follow(
                    old.scorer_floats, old.scorer_ints, extended, symbols)
        return Beam(nodes, ends_blank, ends_symbol, totals, extras, scorer_floats, scorer_ints)

    # Runs of frames with one symbol each.

    def _take_run(self, frames: Frames, start: int, end: int) -> bool:
        """Processes frames that have one symbol each; returns False where prefixes differ in what it means to them."""
        repeats = self._repeats(frames.likeliest[start])
        if repeats is None:
            return False
        new = frames.likeliest[start:start + 1] if not repeats and frames.likeliest[start] != self._blank else []
        new += frames.new_symbols[frames.new_begins[start + 1]:frames.new_begins[end]]
        totals = self._beam.totals + (frames.likeliest_sums[end] - frames.likeliest_sums[start])
        beam = self._extend_all(totals, new)
        if beam is None:
            return False
        ends_blank, ends_symbol = np.full(len(beam.totals), -_INFINITY), beam.totals
        if frames.likeliest[end - 1] == self._blank:
            ends_blank, ends_symbol = ends_symbol, ends_blank
        self._beam = Beam(beam.nodes, ends_blank, ends_symbol, *beam[3:])
        return True

    def _repeats(self, symbol: int) -> bool | None:
        """Returns whether all paths end in this symbol, so that it repeats (True), or none does; None where some do."""
        if symbol == self._blank:
            return False
        repeating = self._tree.last.take(self._beam.nodes) == symbol
        if not np.count_nonzero((self._beam.ends_symbol > -_INFINITY) & repeating):
            return False
        all_do = np.count_nonzero((self._beam.ends_blank == -_INFINITY) & repeating) == len(repeating)
        return True if all_do else None

    def _extend_all(self, totals: np.ndarray, symbols: list[int]) -> Beam | None:
        """Extends every prefix by all the symbols, which may be none.

        Args:
          totals: log probabilities of the extended prefixes ``[beam]``.
          symbols: what all prefixes are extended by.

        Returns:
          Those not far below the best one, or None where none is left. ``ends_blank`` and ``ends_symbol`` do not count.
        """
        beam = self._beam
        if not symbols:
            return Beam(beam.nodes, totals, totals, totals, *beam[4:])
        if self._scorer is None:
            return Beam(self._tree.add_sequence(beam.nodes, symbols), totals, totals, totals, *beam[4:])
        gains, floats, ints = self._scorer.walk(beam.scorer_floats, beam.scorer_ints, symbols)
        beam = Beam(beam.nodes, totals, totals, totals, beam.extras + gains, floats, ints)
        chosen = self._choose(beam.totals + beam.extras)
        if chosen is None:
            return None
        beam = beam.take(chosen) if len(chosen) < len(totals) else beam
        return beam._replace(nodes=self._tree.add_sequence(beam.nodes, symbols))
