"""The prefixes that a search has visited, as a tree of symbols."""

from __future__ import annotations

import numpy as np

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
