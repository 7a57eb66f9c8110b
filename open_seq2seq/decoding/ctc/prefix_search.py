"""Prefix beam search for CTC in NumPy, vectorised over prefixes and symbols.

Hannun et al. 2014, "First-Pass Large Vocabulary Continuous Speech Recognition using Bi-Directional Recurrent DNNs":
the beam holds label sequences (prefixes). For each prefix, the search stores the probability of its paths that end in a
blank, and that of its paths that end in its last symbol. If extensions of several prefixes give the same prefix, their
probabilities are summed.

In most frames of a trained model, only one symbol is considered. Consecutive frames with one symbol are processed at
once.
"""

from __future__ import annotations

import copy
from typing import NamedTuple, Protocol

import numpy as np

from open_seq2seq.decoding.ctc.frames import Frames, Pruning, prepare_frames

_MIN_SIZE = 1024
_MULTIPLIER, _INCREMENT = 6364136223846793005, 1442695040888963407


class PrefixTree:
    """A tree of prefixes: each node has a parent and a last symbol, and a higher number than its parent.

    Node 0 is the root: the empty prefix or, in a tree returned by ``compacted``, the common beginning of its prefixes.
    A prefix that was dropped from the beam and is found again gets a new node with the same hash.

    Args:
      blank: id that stands for the last symbol of the empty prefix.

    Attributes:
      last: each node's last symbol ``[capacity]``.
      hashes: hash of each node's prefix ``[capacity]``. Hashes collide in a beam with a probability of about 1e-15.
        Of each sequence added by ``add_sequence``, only the last node has a hash.
      parent_hashes: hash of each node's prefix without its last symbol ``[capacity]``.
    """

    def __init__(self, blank: int) -> None:
        self._make_room(_MIN_SIZE)
        self.last[0], self.hashes[0], self.parent_hashes[0] = blank, 1, 0
        self._count = 1
        self._root_symbols = np.zeros(0, np.int64)
        self._marks = np.arange(1, blank + 1, dtype=np.int64) * _INCREMENT  # overflow wraps around

    def _make_room(self, size: int) -> None:
        self._parents, self.last, self.hashes, self.parent_hashes = np.zeros([4, size], np.int64)

    def add(self, parents: np.ndarray, symbols: np.ndarray) -> np.ndarray:
        """Extends, for each i, the prefix of node ``parents[i]`` by ``symbols[i]``; returns the new nodes ``[n]``."""
        first, end = self._append(parents, symbols)
        hashes = self.hashes.take(parents)
        self.parent_hashes[first:end] = hashes
        hashes *= _MULTIPLIER
        hashes += self._marks.take(symbols)
        self.hashes[first:end] = hashes
        return np.arange(first, end)

    def add_sequence(self, parents: np.ndarray, symbols: list[int]) -> np.ndarray:
        """Extends each node in ``parents`` ``[n]`` by the same sequence of symbols; returns the last nodes ``[n]``."""
        width, length = len(parents), len(symbols)
        # Each new node's parent is the node before it, except for the nodes of the first symbol.
        before = np.arange(self._count - 1, self._count + width * length - 1).reshape(width, length)
        before[:, 0] = parents
        first, end = self._append(before.ravel(), np.array(symbols * width))
        nodes = np.arange(first + length - 1, end, length)
        hashes = self.hashes.take(parents)
        for symbol in symbols:
            shorter, hashes = hashes, hashes * _MULTIPLIER + self._marks[symbol]
        self.parent_hashes[nodes], self.hashes[nodes] = shorter, hashes
        return nodes

    def _append(self, parents: np.ndarray, symbols: np.ndarray) -> tuple[int, int]:
        """Adds nodes without hashes; returns the range of their numbers as (first, last + 1)."""
        first, end = self._count, self._count + len(parents)
        if end > len(self.last):
            old = self._parents, self.last, self.hashes, self.parent_hashes
            self._make_room(len(self.last) + max(len(self.last), len(parents)))
            for new, values in zip((self._parents, self.last, self.hashes, self.parent_hashes), old, strict=True):
                new[:len(values)] = values
        self._parents[first:end] = parents
        self.last[first:end] = symbols
        self._count = end
        return first, end

    def symbols(self, node: int) -> np.ndarray:
        """Returns the symbols of a node's prefix."""
        found = []
        while node > 0:
            found.append(self.last[node])
            node = int(self._parents[node])
        return np.concatenate([self._root_symbols, np.array(found[::-1], np.int64)])

    def ancestor(self, node: int, generations: int) -> int:
        """Returns the node ``generations`` levels above a node, or the root."""
        for _ in range(generations):
            node = int(self._parents[node])
        return node

    def begin_with(self, nodes: np.ndarray, ancestor: int) -> np.ndarray:
        """Returns whether each of the prefixes ``nodes`` ``[n]`` begins with the prefix ``ancestor``."""
        while (further := nodes > ancestor).any():
            nodes = np.where(further, self._parents[nodes], nodes)
        return nodes == ancestor

    def compacted(self, nodes: np.ndarray) -> tuple[PrefixTree, np.ndarray]:
        """Returns a new tree with only the prefixes ``nodes`` ``[n]``, and the nodes of these prefixes in the new tree.

        The root of the new tree is the common beginning of the prefixes.
        """
        needed = np.zeros(self._count, bool)
        needed[0] = True
        new = np.unique(nodes)
        while len(new := new[~needed[new]]):
            needed[new] = True
            new = np.unique(self._parents[new])
        kept = needed.nonzero()[0]
        num_shared = self._num_shared(kept, int(nodes.min()))
        shared, kept = self.last[kept[1:num_shared + 1]], kept[num_shared:]  # the last shared node is the new root
        numbers = np.zeros(self._count, np.int64)
        numbers[kept] = np.arange(len(kept))
        tree = PrefixTree(len(self._marks))
        tree._make_room(max(_MIN_SIZE, 2 * len(kept)))
        tree._count, tree._root_symbols = len(kept), np.concatenate([self._root_symbols, shared])
        tree._parents[1:tree._count] = numbers[self._parents[kept[1:]]]
        tree.last[:tree._count] = self.last[kept]
        tree.hashes[:tree._count], tree.parent_hashes[:tree._count] = self.hashes[kept], self.parent_hashes[kept]
        return tree, numbers[nodes]

    def _num_shared(self, kept: np.ndarray, shortest: int) -> int:
        """Returns the number of symbols, after the root's, with which all prefixes begin.

        Args:
          kept: the nodes of the prefixes and all their ancestors, ascending, the root first.
          shortest: the lowest of the prefixes' nodes; symbols after it are not shared by all prefixes.
        """
        # Nodes have higher numbers than their parents, so the only child of a node is the next node.
        children = np.bincount(np.searchsorted(kept, self._parents[kept[1:]]), minlength=len(kept))
        return min(int(np.argmax(children != 1)), int(np.searchsorted(kept, shortest)))


class PrefixScorer(Protocol):
    """Scores prefixes in addition to the acoustic model; scores are weighted natural logarithms.

    A gain is what an extension adds to the score of a prefix. The scorer defines a state for each prefix: a column of
    ``floats`` ``[rows, beam]`` and a column of ``ints`` ``[rows, beam]``; each scorer has its own numbers of rows. The
    search stores the states and passes them to the scorer's methods, which may change both arrays in place.
    """

    def start(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns the empty prefix's state: floats ``[rows]`` and ints ``[rows]``."""

    def extend(self, floats: np.ndarray, ints: np.ndarray, symbols: np.ndarray) -> np.ndarray:
        """Returns the gain of extending each prefix by each symbol, ``[beam, len(symbols)]``; -inf forbids the symbol.

        The symbols are in ascending order.
        """

    def follow(self, floats: np.ndarray, ints: np.ndarray, parents: np.ndarray,
               symbols: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the states after extending, for each i, prefix ``parents[i]`` by ``symbols[i]``; both are ``[n]``."""

    def walk(self, floats: np.ndarray, ints: np.ndarray,
             symbols: list[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns the gain ``[beam]`` of extending each prefix by a sequence of symbols, and the states after it."""

    def finish(self, floats: np.ndarray, ints: np.ndarray) -> np.ndarray:
        """Returns the gain ``[beam]`` of each prefix if the utterance ends after it."""


_INFINITY = np.inf


class Hypothesis(NamedTuple):
    """A label sequence found by the search.

    Attributes:
      ids: the symbols.
      acoustic: log probability of all paths of the sequence that were not pruned, in nats.
      extra: the scorer's weighted score (language model and bonuses).
      score: ``acoustic`` + ``extra``.
    """

    ids: np.ndarray
    acoustic: float
    extra: float
    score: float


class Beam(NamedTuple):
    """The prefixes that are kept.

    Attributes:
      nodes: nodes of the prefixes in the tree ``[beam]``.
      ends_blank: log probability of each prefix's paths that end in a blank ``[beam]``.
      ends_symbol: log probability of each prefix's paths that end in its last symbol ``[beam]``.
      totals: log probability of all paths of each prefix ``[beam]``.
      extras: the scorer's score of each prefix so far ``[beam]``.
      scorer_floats: the scorer's floating-point states ``[rows, beam]``, see ``PrefixScorer``; without rows, the second
        dimension is arbitrary.
      scorer_ints: the scorer's integer states, also ``[rows, beam]``.
    """

    nodes: np.ndarray
    ends_blank: np.ndarray
    ends_symbol: np.ndarray
    totals: np.ndarray
    extras: np.ndarray
    scorer_floats: np.ndarray
    scorer_ints: np.ndarray

    def take(self, places: np.ndarray) -> Beam:
        """Returns the beam of the prefixes at the indices ``places`` ``[n]``."""
        return Beam(*(values[..., places] if len(values) else values for values in self))


class _Candidates(NamedTuple):
    """The prefixes of a beam after one frame, unchanged or extended, before pruning.

    Attributes:
      symbols: the symbols that prefixes are extended by ``[symbols]``.
      totals: log probability of each prefix unchanged (column 0) and extended by each symbol ``[beam, 1 + symbols]``.
      extras: the scorer's scores of the same ``[beam, 1 + symbols]``; None without a scorer.
      ends_blank: log probability of each unchanged prefix's paths that end in a blank ``[beam]``.
      ends_symbol: log probability of each unchanged prefix's paths that end in its last symbol ``[beam]``.
    """

    symbols: np.ndarray
    totals: np.ndarray
    extras: np.ndarray | None
    ends_blank: np.ndarray
    ends_symbol: np.ndarray


class PrefixSearch:
    """A search over the frames of one utterance, which may be given in chunks.

    Args:
      vocab_size: number of symbols, including the blank, which is the last.
      pruning: limits of the search.
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
        """Processes the next frames ``[time, vocabulary]``.

        Raises:
          ValueError: the logits have the wrong number of symbols.
        """
        if logits.ndim != 2 or logits.shape[1] != self._blank + 1:
            raise ValueError(f"The logits must have the shape [time, {self._blank + 1}] (one column for each symbol of "
                             f"the alphabet, and a last one for the blank), got {logits.shape}.")
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
        """Returns an independent copy of the search, whose tree contains only the prefixes in the beam."""
        other = copy.copy(self)
        other._tree, nodes = self._tree.compacted(self._beam.nodes)
        # The scorer's states are copied, because a scorer may change them in place.
        other._beam = self._beam._replace(nodes=nodes, scorer_floats=self._beam.scorer_floats.copy(),
                                          scorer_ints=self._beam.scorer_ints.copy())
        return other

    def decide(self, open_symbols: int) -> None:
        """Keeps only prefixes that begin with all but the last ``open_symbols`` symbols of the best prefix.

        Otherwise, prefixes that differ early in an endless stream could all stay in the beam, and the tree of prefixes
        would grow without limit.
        """
        beam = self._beam
        best = int(beam.nodes[np.argmax(beam.totals + beam.extras)])
        decided = self._tree.ancestor(best, open_symbols)
        self._beam = beam.take(self._tree.begin_with(beam.nodes, decided).nonzero()[0])

    def best(self, count: int = 1) -> list[Hypothesis]:
        """Returns at most ``count`` hypotheses, best first, as if the utterance ended after the frames so far."""
        beam = self._beam
        extras = beam.extras
        if self._scorer is not None:
            extras = extras + self._scorer.finish(beam.scorer_floats, beam.scorer_ints)
        scores = beam.totals + extras
        order = np.argsort(-scores, kind="stable")
        order = order[scores[order] > -_INFINITY][:count]
        return [Hypothesis(self._tree.symbols(int(beam.nodes[i])), float(beam.totals[i]), float(extras[i]),
                           float(scores[i])) for i in order]

    # Processing of single frames, in which several symbols are considered.

    def _step(self, frames: Frames, time: int) -> None:
        symbols = frames.symbols[frames.begins[time]:frames.begins[time + 1]]
        if not self._try_step(frames.considered[time], frames.blanks[time], symbols):
            # The scorer forbids every symbol that pruning has left, and pruning has excluded the blank. With all
            # symbols, the step succeeds, because the blank is never forbidden.
            everything = frames.log_probs[time].copy()
            everything[self._blank] = -_INFINITY
            self._try_step(everything, float(frames.log_probs[time, self._blank]), np.arange(self._blank))

    def _try_step(self, log_probs: np.ndarray, blank: float, symbols: np.ndarray) -> bool:
        """Processes a frame; if no prefix is left, returns False and leaves the beam unchanged."""
        candidates = self._candidates(log_probs, blank, symbols)
        scores = candidates.totals if candidates.extras is None else candidates.totals + candidates.extras
        chosen = self._choose(scores.ravel())
        if chosen is None:
            return False
        self._beam = self._chosen_beam(candidates, chosen)
        return True

    def _candidates(self, log_probs: np.ndarray, blank: float, symbols: np.ndarray) -> _Candidates:
        """Returns the prefixes after a frame, unchanged or extended.

        Beams are usually narrow, so the number of NumPy calls determines the time; ``take`` is faster than indexing.

        Args:
          log_probs: log probabilities of the symbols ``[vocabulary]``; -inf where not considered, and for the blank.
          blank: log probability of the blank.
          symbols: the considered symbols ``[symbols]``, ascending.
        """
        beam = self._beam
        totals = np.empty((len(beam.totals), len(symbols) + 1))
        extended = totals[:, 1:]
        np.add(beam.totals[:, np.newaxis], log_probs.take(symbols), extended)
        last = self._tree.last.take(beam.nodes)
        of_last = log_probs.take(last)  # -inf for the empty prefix, whose last symbol is the blank
        ends_blank, ends_symbol = beam.totals + blank, beam.ends_symbol + of_last
        rows = (of_last > -_INFINITY).nonzero()[0]
        if len(rows):
            columns = symbols.searchsorted(last.take(rows))
            # Repeating the last symbol extends the prefix only after a blank.
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
        """Merges extensions that equal a prefix of the beam into that prefix, in place.

        Args:
          extended: log probabilities of the extensions ``[beam, symbols]``.
          ends_symbol: log probability of each prefix's paths that end in its last symbol ``[beam]``.
          rows: indices of the prefixes whose last symbol is not pruned in this frame ``[n]``.
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
        """Returns the indices of the scores ``[n]`` that are kept by the pruning, or None if all are -inf."""
        best = scores[scores.argmax()]
        if best == -_INFINITY:
            return None
        # An infinite threshold excludes only scores of -inf.
        chosen = (scores >= max(best - self._pruning.beam_threshold, -1e300)).nonzero()[0]
        width = self._pruning.beam_width
        if len(chosen) > width:
            chosen = chosen.take(scores.take(chosen).argpartition(len(chosen) - width)[len(chosen) - width:])
        return chosen

    def _chosen_beam(self, candidates: _Candidates, chosen: np.ndarray) -> Beam:
        """Returns the beam of the chosen candidates: unchanged prefixes first, then extended ones.

        Args:
          candidates: the prefixes after the frame, before pruning.
          chosen: indices into the flattened ``candidates.totals``.
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

    # Processing of runs of consecutive frames. In each frame of a run, only one symbol is considered, which may differ
    # from frame to frame.

    def _take_run(self, frames: Frames, start: int, end: int) -> bool:
        """Processes the run of frames from ``start`` to ``end`` (exclusive).

        Returns False, and leaves the beam unchanged, if the first symbol repeats the last symbol of some paths but not
        of all, or if the scorer forbids all extensions.
        """
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
        """Returns True if all paths in the beam end in this symbol, False if none do or it is the blank, else None."""
        if symbol == self._blank:
            return False
        repeating = self._tree.last.take(self._beam.nodes) == symbol
        if not np.count_nonzero((self._beam.ends_symbol > -_INFINITY) & repeating):
            return False
        all_do = np.count_nonzero((self._beam.ends_blank == -_INFINITY) & repeating) == len(repeating)
        return True if all_do else None

    def _extend_all(self, totals: np.ndarray, symbols: list[int]) -> Beam | None:
        """Extends every prefix by the same sequence of symbols.

        Args:
          totals: log probabilities of the extended prefixes ``[beam]``.
          symbols: the sequence; may be empty.

        Returns:
          The extended prefixes after pruning, or None if none is left; their ``ends_blank`` and ``ends_symbol`` are not
          valid, and the caller replaces them.
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
