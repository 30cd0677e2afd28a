"""Topic matching: keys are words with dots between; in a binding ``*`` is any one word, ``#`` any number, also none.

Most binding keys are short and without ``#``. They stand in a tree, each step down is one word, and a message's key of
n words leads to 2**n places of it at most: for each word the branch of its name and that of ``*``. Binding keys with
``#``, or of more words than that is good for, are searched for in parallel: each is a chain of places, one bit each,
and a word of the message's key moves all bits on at once. So the time for a message is bounded by its words times the
groups of places, whatever the keys are; a tree would visit each place by itself.
"""

from collections.abc import Iterable, Iterator, Mapping

from core.engine.edges import Edge, Headers, Node
from core.work import Work

TREE_WORDS_MAX = 8
"""Of a binding key in the tree: 2**8 places are visited for a message at most."""

GROUP_PLACES_MAX = 1024
"""Bits of one group: an integer of 128 bytes. Larger ones would be slower to make for each literal word."""

WORDS_A_UNIT = 2
"""So many words through so many groups are one unit of :mod:`core.work`."""


class TopicMatcher:
    """See :class:`core.engine.routing.Matcher`."""

    __slots__ = ("_groups", "_homes", "_tree")

    def __init__(self) -> None:
        self._tree = TreeNode()
        self._groups: list[PlaceGroup] = []
        self._homes: dict[tuple[str, ...], PlaceGroup] = {}
        """Where each binding key is that is in a group."""

    def add(self, edge: Edge, arguments: Mapping[str, object]) -> None:
        """See :class:`core.engine.routing.Matcher`."""
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
        """See :class:`core.engine.routing.Matcher`."""
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
        """See :class:`core.engine.routing.Matcher`."""
        words = _words(key)
        work.spent += (len(words) + 1) * len(self._groups) // WORDS_A_UNIT
        found = self._tree.match(words, work)
        for group in self._groups:
            found += group.match(words)
        return [edge.destination for edges in found for edge in edges]


class TreeNode:
    """A place in the tree of short binding keys."""

    __slots__ = ("children", "edges")

    def __init__(self) -> None:
        self.children: dict[str, TreeNode] = {}
        self.edges: dict[Edge, None] = {}
        """The bindings whose key ends here."""

    def add(self, words: list[str], edge: Edge) -> None:
        """Below this place."""
        node = self
        for word in words:
            node = node.children.setdefault(word, TreeNode())
        node.edges[edge] = None

    def remove(self, words: list[str], edge: Edge) -> None:
        """A binding that is there."""
        path = [self]
        for word in words:
            path.append(path[-1].children[word])
        del path[-1].edges[edge]
        for parent, word in zip(reversed(path[:-1]), reversed(words), strict=True):
            child = parent.children[word]
            if not child.children and not child.edges:
                del parent.children[word]

    def match(self, words: list[str], work: Work) -> list[dict[Edge, None]]:
        """The bindings of each place that these words lead to."""
        places = [self]
        for word in words:
            places = list(_steps(places, word))
            if not places:
                break
            work.spent += len(places)
        return [place.edges for place in places if place.edges]


class PlaceGroup:
    """Some binding keys, as chains of bits: the bit at offset i of a chain says that its first i words are found."""

    __slots__ = ("_any_word", "_ends", "_free", "_last", "_literals", "_offsets", "_repeats", "_size", "_starts")

    def __init__(self) -> None:
        self._size = 0
        self._starts = 0
        self._last = 0
        self._repeats = 0
        """The places before ``#``: they stay as they are with any word, and their next is found with none."""
        self._any_word = 0
        """The places before ``*``."""
        self._literals: dict[str, int] = {}
        """The places before each word."""
        self._offsets: dict[tuple[str, ...], int] = {}
        self._ends: dict[int, dict[Edge, None]] = {}
        """The bindings of each chain, by its last place."""
        self._free: dict[int, list[int]] = {}
        """Where chains were that are gone, by their length."""

    @property
    def empty(self) -> bool:
        """True when no binding is left."""
        return not self._offsets

    def has_room(self, pattern: tuple[str, ...]) -> bool:
        """Whether this key has a place here; any has in an empty group."""
        return not self._size or self._size + len(pattern) < GROUP_PLACES_MAX or bool(self._free.get(len(pattern)))

    def add(self, pattern: tuple[str, ...], edge: Edge) -> None:
        """A binding with this key."""
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
        """A binding that is there. True when it was the last with this key."""
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
        """Enter a chain, or take it out."""
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
        """The bindings of each chain that these words go through."""
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
    """The same key without one ``#`` right behind another, which adds nothing."""
    return tuple(word for index, word in enumerate(words) if word != "#" or index == 0 or words[index - 1] != "#")


def _steps(places: Iterable[TreeNode], word: str) -> Iterator[TreeNode]:
    for place in places:
        for step in (word, "*") if word != "*" else ("*",):
            if step in place.children:
                yield place.children[step]
