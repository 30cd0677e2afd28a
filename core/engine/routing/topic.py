"""Topic matching. Keys are words separated by dots. In a binding key ``*`` matches any one word, ``#`` any number of
words.

Most binding keys are short and have no ``#``. They are kept in a tree with one word for each step down. A message's key
of n words reaches at most 2**n nodes of the tree, because each word follows the branch of its own name and the branch
of ``*``. Binding keys with ``#``, or with more than ``TREE_WORDS_MAX`` words, are matched in parallel as bits of
integers. Each such key is a chain of places with one bit for each place, and a word of the message's key advances all
bits at once. So the time for a message is bounded by its number of words times the number of groups, whatever the keys
are; a tree would visit each place by itself.
"""

from collections.abc import Iterable, Iterator, Mapping

from core.engine.routing.edges import Edge, Headers, Node
from core.work import Work

TREE_WORDS_MAX = 8
"""The most words of a binding key in the tree: at most 2**8 nodes are visited for a message."""

GROUP_PLACES_MAX = 1024
"""The most bits in one group: an integer of 128 bytes. Larger integers would make each literal word slower."""

WORDS_A_UNIT = 2
"""This many words in one group cost one unit of :mod:`core.work`."""


class TopicMatcher:
    """See :class:`core.engine.routing.exchanges.Matcher`."""

    __slots__ = ("_groups", "_homes", "_tree")

    def __init__(self) -> None:
        self._tree = TreeNode()
        self._groups: list[PlaceGroup] = []
        self._homes: dict[tuple[str, ...], PlaceGroup] = {}
        """The group of each binding key that is not in the tree."""

    def add(self, edge: Edge, arguments: Mapping[str, object]) -> None:
        """See :class:`core.engine.routing.exchanges.Matcher`."""
        words = _words(edge.key)
        if "#" not in words and len(words) <= TREE_WORDS_MAX:
            self._tree.add(words, edge)
            return
        pattern = _collapsed(words)
        home = self._homes.get(pattern)
        if home is None:
            home = next((group for group in reversed(self._groups) if group.has_room(pattern)), None)
            if home is None:
                home = PlaceGroup()
                self._groups.append(home)
            self._homes[pattern] = home
        home.add(pattern, edge)

    def remove(self, edge: Edge) -> None:
        """See :class:`core.engine.routing.exchanges.Matcher`."""
        words = _words(edge.key)
        if "#" not in words and len(words) <= TREE_WORDS_MAX:
            self._tree.remove(words, edge)
            return
        pattern = _collapsed(words)
        home = self._homes[pattern]
        if home.remove(pattern, edge):
            del self._homes[pattern]
        if home.empty:
            self._groups.remove(home)

    def match(self, key: str, headers: Headers, work: Work) -> Iterable[Node]:
        """See :class:`core.engine.routing.exchanges.Matcher`."""
        words = _words(key)
        work.spent += (len(words) + 1) * len(self._groups) // WORDS_A_UNIT
        found = self._tree.match(words, work)
        for group in self._groups:
            found += group.match(words)
        return [edge.destination for edges in found for edge in edges]


class TreeNode:
    """A node in the tree of short binding keys."""

    __slots__ = ("children", "edges")

    def __init__(self) -> None:
        self.children: dict[str, TreeNode] = {}
        self.edges: dict[Edge, None] = {}
        """The bindings whose key ends at this node."""

    def add(self, words: list[str], edge: Edge) -> None:
        """Add a binding below this node."""
        node = self
        for word in words:
            node = node.children.setdefault(word, TreeNode())
        node.edges[edge] = None

    def remove(self, words: list[str], edge: Edge) -> None:
        """Remove an existing binding below this node."""
        path = [self]
        for word in words:
            path.append(path[-1].children[word])
        del path[-1].edges[edge]
        for parent, word in zip(reversed(path[:-1]), reversed(words), strict=True):
            child = parent.children[word]
            if not child.children and not child.edges:
                del parent.children[word]

    def match(self, words: list[str], work: Work) -> list[dict[Edge, None]]:
        """Return the bindings of each node that these words reach."""
        places = [self]
        for word in words:
            places = list(_steps(places, word))
            if not places:
                break
            work.spent += len(places)
        return [place.edges for place in places if place.edges]


class PlaceGroup:
    """A group of binding keys as chains of bits. Bit i of a chain is set while matching if the first i words of the key
    have matched."""

    __slots__ = ("_any_word", "_ends", "_free", "_last", "_literals", "_offsets", "_repeats", "_size", "_starts")

    def __init__(self) -> None:
        self._size = 0
        self._starts = 0
        self._last = 0
        self._repeats = 0
        """The places before a ``#``: they stay set for any word, and their next place is set without a word."""
        self._any_word = 0
        """The places before a ``*``."""
        self._literals: dict[str, int] = {}
        """The places before each literal word."""
        self._offsets: dict[tuple[str, ...], int] = {}
        self._ends: dict[int, dict[Edge, None]] = {}
        """The bindings of each chain, by its last place."""
        self._free: dict[int, list[int]] = {}
        """Offsets of removed chains that can be used again, by their length."""

    @property
    def empty(self) -> bool:
        """Whether no binding is left."""
        return not self._offsets

    def has_room(self, pattern: tuple[str, ...]) -> bool:
        """Return whether this key fits into the group. Any key fits into an empty group."""
        return not self._size or self._size + len(pattern) < GROUP_PLACES_MAX or bool(self._free.get(len(pattern)))

    def add(self, pattern: tuple[str, ...], edge: Edge) -> None:
        """Add a binding with this key."""
        offset = self._offsets.get(pattern)
        if offset is None:
            free = self._free.get(len(pattern))
            if free:
                offset = free.pop()
            else:
                offset = self._size
                self._size += len(pattern) + 1
            self._offsets[pattern] = offset
            self._ends[offset + len(pattern)] = {}
            self._toggle(pattern, offset)
        self._ends[offset + len(pattern)][edge] = None

    def remove(self, pattern: tuple[str, ...], edge: Edge) -> bool:
        """Remove an existing binding. Returns True if it was the last one with this key."""
        offset = self._offsets[pattern]
        edges = self._ends[offset + len(pattern)]
        del edges[edge]
        if edges:
            return False
        del self._offsets[pattern], self._ends[offset + len(pattern)]
        self._toggle(pattern, offset)
        self._free.setdefault(len(pattern), []).append(offset)
        return True

    def _toggle(self, pattern: tuple[str, ...], offset: int) -> None:
        """Add a chain, or remove it."""
        self._starts ^= 1 << offset
        self._last ^= 1 << offset + len(pattern)
        for place, word in enumerate(pattern, offset):
            bit = 1 << place
            if word == "#":
                self._repeats ^= bit
            elif word == "*":
                self._any_word ^= bit
            else:
                literal = self._literals.pop(word, 0) ^ bit
                if literal:
                    self._literals[word] = literal

    def match(self, words: list[str]) -> list[dict[Edge, None]]:
        """Return the bindings of each chain that these words match."""
        repeats, any_word, literals = self._repeats, self._any_word, self._literals
        found = self._starts
        found |= (found & repeats) << 1
        for word in words:
            found = (found & repeats) | ((found & (any_word | literals.get(word, 0))) << 1)
            if not found:
                return []
            found |= (found & repeats) << 1
        found &= self._last
        ends = []
        while found:
            lowest = found & -found
            ends.append(self._ends[lowest.bit_length() - 1])
            found ^= lowest
        return ends


def _words(key: str) -> list[str]:
    return key.split(".") if key else []


def _collapsed(words: list[str]) -> tuple[str, ...]:
    """Return the key with repeated ``#`` reduced to one, which matches the same."""
    return tuple(word for index, word in enumerate(words) if word != "#" or index == 0 or words[index - 1] != "#")


def _steps(places: Iterable[TreeNode], word: str) -> Iterator[TreeNode]:
    for place in places:
        for step in (word, "*") if word != "*" else ("*",):
            if step in place.children:
                yield place.children[step]
