"""Prefix beam search for CTC, vectorised over prefixes and symbols; no compiler, no graph.

Hannun et al. 2014, "First-Pass Large Vocabulary Continuous Speech Recognition using Bi-Directional Recurrent DNNs":
the beam holds label sequences (prefixes), each with the probability of all paths to it that end in a blank and of
all those that do not. Where several prefixes lead to the same one, their probabilities add up.

Most frames of a trained model have one symbol that is worth considering. Stretches of such frames are taken at once.
"""

from __future__ import annotations

import copy
from typing import NamedTuple

import numpy as np

from open_seq2seq.decoding.ctc.frames import Frames, Pruning, prepare_frames
from open_seq2seq.decoding.ctc.scorer import NoScorer, PrefixScorer

# Rows of the beam's floating-point numbers and integers; the scorer's own follow.
_BLANK, _SYMBOL, _TOTAL, _EXTRA, _FLOATS = range(5)  # log probabilities by path's end, of both, and the scorer's sum
_NODE, _LAST, _HASH, _PARENT, _INTS = range(5)  # node, last symbol, hashes of the prefix and of the one before it
_MULTIPLIER, _INCREMENT = 6364136223846793005, 1442695040888963407
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
        self._rules: PrefixScorer = scorer or NoScorer()
        self._parents = np.full(1024, -1, np.int64)
        self._symbols = np.full(1024, -1, np.int64)
        self._num_nodes = 1
        self._said = np.zeros(0, np.int64)  # what stands before the tree's root
        self._marks = np.arange(1, vocab_size, dtype=np.int64) * _INCREMENT  # wraps, as hashes do
        floats, ints = self._rules.start()
        self._floats = np.concatenate([[0.0, -_INFINITY, 0.0, 0.0], floats])[:, np.newaxis]
        self._ints = np.concatenate([[0, self._blank, 1, 0], ints]).astype(np.int64)[:, np.newaxis]

    def advance(self, logits: np.ndarray) -> None:
        """Takes in further frames ``[time, vocabulary]``.

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
        """Returns a copy; what one of the two takes in from now on is nothing to the other."""
        other = copy.copy(self)
        other._floats, other._ints = self._floats.copy(), self._ints.copy()
        other._keep_living_nodes()
        return other

    def decide(self, open_symbols: int) -> None:
        """Drops prefixes that differ from the best one further back than by its last ``open_symbols`` symbols.

        Two readings of nearly the same probability would otherwise go on side by side in an endless stream.
        """
        root = int(self._ints[_NODE, np.argmax(self._floats[_TOTAL] + self._floats[_EXTRA])])
        for _ in range(open_symbols):
            root = int(self._parents[root]) if root > 0 else 0
        nodes = self._ints[_NODE]
        while (further := nodes > root).any():  # a parent's number is below its children's
            nodes = np.where(further, self._parents[nodes], nodes)
        agrees = nodes == root
        self._floats, self._ints = self._floats[:, agrees], self._ints[:, agrees]

    def _keep_living_nodes(self) -> None:
        """Makes a tree of its own of what the beam's prefixes do not share, so that a long stream needs little."""
        living = np.zeros(self._num_nodes, bool)
        living[0] = True
        nodes = np.unique(self._ints[_NODE])
        while len(nodes := nodes[~living[nodes]]):
            living[nodes] = True
            nodes = np.unique(self._parents[nodes])
        kept = living.nonzero()[0]
        kept = kept[self._share(kept):]  # the last shared node, or the root, is the new root
        number = np.zeros(self._num_nodes, np.int64)
        number[kept] = np.arange(len(kept))
        parents, symbols = np.full([2, max(1024, 2 * len(kept))], -1, np.int64)
        parents[1:len(kept)] = number[self._parents[kept[1:]]]
        symbols[1:len(kept)] = self._symbols[kept[1:]]
        self._parents, self._symbols, self._num_nodes = parents, symbols, len(kept)
        self._ints[_NODE] = number[self._ints[_NODE]]

    def _share(self, living: np.ndarray) -> int:
        """Adds the symbols that all prefixes begin with to those said; returns how many there are."""
        # A parent's number is below its children's: as long as each node has one child, the next one is that.
        children = np.bincount(np.searchsorted(living, self._parents[living[1:]]), minlength=len(living))
        first_end = int(np.searchsorted(living, self._ints[_NODE].min()))  # what follows it is not shared by all
        shared = min(int(np.argmax(children != 1)), first_end)
        self._said = np.concatenate([self._said, self._symbols[living[1:shared + 1]]])
        return shared

    def best(self, count: int = 1) -> list[Hypothesis]:
        """Returns the best hypotheses so far, as if the utterance ended here; best first."""
        extra = self._floats[_EXTRA] + self._rules.finish(self._floats[_FLOATS:], self._ints[_INTS:])
        acoustic = self._floats[_TOTAL]
        scores = acoustic + extra
        order = np.argsort(-scores, kind="stable")
        order = order[scores[order] > -_INFINITY][:count]
        return [Hypothesis(self._ids(int(self._ints[_NODE, i])), float(acoustic[i]), float(extra[i]), float(scores[i]))
                for i in order]

    def _ids(self, node: int) -> np.ndarray:
        found = []
        while node > 0:
            found.append(self._symbols[node])
            node = int(self._parents[node])
        return np.concatenate([self._said, np.array(found[::-1], np.int64)])

    # Frames with several symbols.

    def _step(self, frames: Frames, time: int) -> None:
        symbols = frames.symbols[frames.begins[time]:frames.begins[time + 1]]
        if not self._try_step(frames.considered[time], frames.blanks[time], symbols):
            # Whatever was worth considering is forbidden: everything is considered; a blank is never forbidden.
            everything = frames.log_probs[time].copy()
            everything[self._blank] = -_INFINITY
            self._try_step(everything, float(frames.log_probs[time, self._blank]), np.arange(self._blank))

    def _try_step(self, log_probs: np.ndarray, blank: float, symbols: np.ndarray) -> bool:
        """Goes one frame ahead; returns whether any prefix is left, and if not, leaves all as it was.

        Beams are narrow most of the time, so that calls count and not elements: ``take`` costs half of an index.
        """
        floats, ints = self._floats, self._ints
        last, total = ints[_LAST], floats[_TOTAL]
        extended_by = log_probs.take(symbols)
        totals = np.empty([len(total), len(symbols) + 1])  # of each prefix as it is, and with each symbol
        extended = totals[:, 1:]
        np.add(total[:, np.newaxis], extended_by, extended)
        # A symbol that repeats the last one makes a new one only after a blank.
        rows, columns = (last[:, np.newaxis] == symbols).nonzero()
        if len(rows):
            extended[rows, columns] = floats[_BLANK].take(rows) + extended_by.take(columns)
        stay = np.empty([2, len(total)])
        np.add(total, blank, stay[_BLANK])
        of_last = log_probs.take(last)  # nothing where that is the blank: no symbol was said yet
        np.add(floats[_SYMBOL], of_last, stay[_SYMBOL])
        if len(total) > 1:
            self._merge(extended, stay[_SYMBOL], symbols, of_last)
        np.logaddexp(stay[_BLANK], stay[_SYMBOL], totals[:, 0])
        extras, scores = None, totals
        if self._scorer is not None:
            extras = np.empty(totals.shape)
            extras[:, 0] = floats[_EXTRA]
            np.add(self._scorer.extend(floats[_FLOATS:], ints[_INTS:], symbols), extras[:, :1], extras[:, 1:])
            scores = totals + extras
        chosen = self._choose(scores.ravel())
        if chosen is None:
            return False
        self._keep(chosen, stay, totals, extras, symbols)
        return True

    def _merge(self, extended: np.ndarray, stay: np.ndarray, symbols: np.ndarray, of_last: np.ndarray) -> None:
        """Adds the extensions that lead to prefixes of the beam to those, and takes them out."""
        parent, child = (self._ints[_HASH][:, np.newaxis] == self._ints[_PARENT]).nonzero()
        if not len(parent):
            return
        considered = of_last.take(child) > -_INFINITY
        parent, child = parent[considered], child[considered]
        column = symbols.searchsorted(self._ints[_LAST].take(child))
        stay[child] = np.logaddexp(stay[child], extended[parent, column])
        extended[parent, column] = -_INFINITY

    def _choose(self, scores: np.ndarray) -> np.ndarray | None:
        """Returns the places of the best scores, or None where all are -inf."""
        best = scores[scores.argmax()]
        if best == -_INFINITY:
            return None
        # `best - inf` allows everything but what is impossible.
        chosen = (scores >= max(best - self._pruning.beam_threshold, -1e300)).nonzero()[0]
        width = self._pruning.beam_width
        if len(chosen) > width:
            chosen = chosen.take(scores.take(chosen).argpartition(len(chosen) - width)[len(chosen) - width:])
        return chosen

    def _keep(self, chosen: np.ndarray, stay: np.ndarray, totals: np.ndarray, extras: np.ndarray | None,
              symbols: np.ndarray) -> None:
        """Makes the beam of the chosen places in ``totals``: first what stays as it is, then what grows."""
        columns = chosen % (len(symbols) + 1)
        grows = columns.nonzero()[0]
        staying = len(chosen) - len(grows)
        if 0 < staying < len(chosen):
            order = np.concatenate([(columns == 0).nonzero()[0], grows])
            chosen, columns = chosen.take(order), columns.take(order)
        parents = chosen // (len(symbols) + 1)
        floats, ints = self._floats.take(parents, 1), self._ints.take(parents, 1)
        floats[_TOTAL] = floats[_SYMBOL] = totals.take(chosen)
        if extras is not None:
            floats[_EXTRA] = extras.take(chosen)
        floats[_BLANK] = -_INFINITY
        floats[:2, :staying] = stay.take(parents[:staying], 1)
        if staying < len(chosen):
            self._grow(floats[:, staying:], ints[:, staying:], parents[staying:], symbols.take(columns[staying:] - 1))
        self._floats, self._ints = floats, ints

    def _grow(self, floats: np.ndarray, ints: np.ndarray, parents: np.ndarray, symbols: np.ndarray) -> None:
        """Extends the prefixes of the columns, copies of ``parents`` of the beam, by ``symbols``."""
        ints[_NODE] = self._new_nodes(ints[_NODE], symbols)
        ints[_LAST] = symbols
        ints[_PARENT] = ints[_HASH]
        # A 64-bit hash names a prefix: two of one beam share it with a probability of about 1e-15.
        ints[_HASH] = ints[_HASH] * _MULTIPLIER + self._marks.take(symbols)
        if self._scorer is not None:
            floats[_FLOATS:], ints[_INTS:] = self._scorer.follow(
                self._floats[_FLOATS:], self._ints[_INTS:], parents, symbols)

    def _new_nodes(self, parents: np.ndarray, symbols: np.ndarray) -> np.ndarray:
        """Makes nodes of the tree of prefixes; returns their numbers."""
        first, end = self._num_nodes, self._num_nodes + len(parents)
        if end > len(self._parents):
            more = np.full(max(len(self._parents), len(parents)), -1, np.int64)
            self._parents, self._symbols = (np.concatenate([a, more]) for a in (self._parents, self._symbols))
        self._parents[first:end] = parents
        self._symbols[first:end] = symbols
        self._num_nodes = end
        return np.arange(first, end)

    # Stretches of frames with one symbol each.

    def _take_run(self, frames: Frames, start: int, end: int) -> bool:
        """Takes frames of which each has one symbol, when that is the same for all prefixes; else returns False."""
        stays = self._repeats(frames.likeliest[start])
        if stays is None:
            return False
        new = frames.likeliest[start:start + 1] if not stays and frames.likeliest[start] != self._blank else []
        new += frames.new_symbols[frames.new_begins[start + 1]:frames.new_begins[end]]
        total = self._floats[_TOTAL] + (frames.likeliest_sums[end] - frames.likeliest_sums[start])
        floats, ints = self._floats.copy(), self._ints
        if new:
            grown = self._grow_all(floats, new, total)
            if grown is None:
                return False
            floats, ints, total = grown
        floats[_TOTAL] = total
        ends_blank = frames.likeliest[end - 1] == self._blank
        floats[_BLANK], floats[_SYMBOL] = (total, -_INFINITY) if ends_blank else (-_INFINITY, total)
        self._floats, self._ints = floats, ints
        return True

    def _repeats(self, symbol: int) -> bool | None:
        """Returns whether a symbol goes on with what every path ends in, or with none; None where they differ."""
        if symbol == self._blank:
            return False
        repeating = self._ints[_LAST] == symbol
        if not np.count_nonzero((self._floats[_SYMBOL] > -_INFINITY) & repeating):
            return False
        all_do = np.count_nonzero((self._floats[_BLANK] == -_INFINITY) & repeating) == len(repeating)
        return True if all_do else None

    def _grow_all(self, floats: np.ndarray, symbols: list[int],
                  total: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """Extends every prefix by all the symbols; drops those that fall far below the best.

        Returns:
          The rows and the log probabilities of those that are left, or None where none is.
        """
        ints = self._ints
        if self._scorer is not None:
            gains, own_floats, own_ints = self._scorer.walk(floats[_FLOATS:], ints[_INTS:], symbols)
            floats[_EXTRA] += gains
            chosen = self._choose(total + floats[_EXTRA])
            if chosen is None:
                return None
            floats[_FLOATS:] = own_floats
            ints = np.concatenate([ints[:_INTS], own_ints])
            if len(chosen) < len(total):
                floats, ints, total = floats.take(chosen, 1), ints.take(chosen, 1), total.take(chosen)
        else:
            ints = ints.copy()
        width, count = ints.shape[1], len(symbols)
        for symbol in symbols:
            ints[_PARENT] = ints[_HASH]
            ints[_HASH] = ints[_HASH] * _MULTIPLIER + self._marks[symbol]
        parents = np.arange(self._num_nodes - 1, self._num_nodes + width * count - 1).reshape(width, count)
        parents[:, 0] = ints[_NODE]
        nodes = self._new_nodes(parents.ravel(), np.array(symbols * width)).reshape(width, count)
        ints[_NODE], ints[_LAST] = nodes[:, -1], symbols[-1]
        return floats, ints, total
