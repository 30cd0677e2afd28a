"""Exchanges: from a routing key to the queues that want the message.

An exchange is a definition and a matcher; a matcher knows the bindings of one exchange by one rule. The
router walks the graph of exchanges, visiting each at most once, so that a cycle of bindings ends. An exchange
for which no binding matches hands the message to its alternate exchange, if it names one. Every queue is
named once, in the order found.

The default exchange "" has no bindings: every key is the name of a queue.

This module knows names only. Whether an answer may be kept for other messages with the same key, it tells by
not asking for the message's headers.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import NamedTuple, Protocol

from core.engine.arguments import frozen
from core.interface import Binding, ExchangeDeclaration, ExchangeType

DEFAULT_EXCHANGE = ""

Headers = Callable[[], Mapping[str, object]]
"""Gives the fields that a headers exchange compares. Not called unless one is on the way."""


class Node(NamedTuple):
    """What a binding leads to."""

    is_queue: bool
    name: str


class Edge(NamedTuple):
    """A binding's identity: two bindings with the same edge are the same binding."""

    source: str
    destination: Node
    key: str
    arguments: Hashable

    @staticmethod
    def of(binding: Binding) -> "Edge":
        """The edge that a binding makes."""
        destination = Node(binding.destination_is_queue, binding.destination)
        return Edge(binding.source, destination, binding.binding_key, frozen(binding.arguments))


class Matcher(Protocol):
    """The bindings of one exchange, by one routing rule."""

    def add(self, edge: Edge, arguments: Mapping[str, object]) -> None:
        """Know a binding that is new here."""

    def remove(self, edge: Edge) -> None:
        """Forget a binding that is known."""

    def match(self, key: str, headers: Headers) -> Iterable[Node]:
        """Where a message goes; a node may come more than once."""


class DirectMatcher:
    """The routing key equals the binding key."""

    __slots__ = ("_edges",)

    def __init__(self) -> None:
        self._edges: dict[str, dict[Edge, None]] = {}

    def add(self, edge: Edge, arguments: Mapping[str, object]) -> None:
        """See :class:`Matcher`."""
        self._edges.setdefault(edge.key, {})[edge] = None

    def remove(self, edge: Edge) -> None:
        """See :class:`Matcher`."""
        edges = self._edges[edge.key]
        del edges[edge]
        if not edges:
            del self._edges[edge.key]

    def match(self, key: str, headers: Headers) -> Iterable[Node]:
        """See :class:`Matcher`."""
        return (edge.destination for edge in self._edges.get(key, ()))


class FanoutMatcher:
    """Every message goes everywhere."""

    __slots__ = ("_edges",)

    def __init__(self) -> None:
        self._edges: dict[Edge, None] = {}

    def add(self, edge: Edge, arguments: Mapping[str, object]) -> None:
        """See :class:`Matcher`."""
        self._edges[edge] = None

    def remove(self, edge: Edge) -> None:
        """See :class:`Matcher`."""
        del self._edges[edge]

    def match(self, key: str, headers: Headers) -> Iterable[Node]:
        """See :class:`Matcher`."""
        return (edge.destination for edge in self._edges)


class TrieNode:
    """A place in the tree of binding keys; each step down is one word."""

    __slots__ = ("children", "edges", "repeats")

    def __init__(self, *, repeats: bool) -> None:
        self.children: dict[str, TrieNode] = {}
        self.edges: dict[Edge, None] = {}
        """The bindings whose key ends here."""
        self.repeats = repeats
        """True below ``#``, which matches any number of words."""

    @property
    def empty(self) -> bool:
        """True when no binding needs this place."""
        return not self.children and not self.edges


class TopicMatcher:
    """Keys are words with dots between; in a binding ``*`` is any one word and ``#`` any number, also none.

    Matching walks all places of the tree that the words so far may have led to at once, so that its time is
    bounded by words times places, whatever the keys are.
    """

    __slots__ = ("_root",)

    def __init__(self) -> None:
        self._root = TrieNode(repeats=False)

    def add(self, edge: Edge, arguments: Mapping[str, object]) -> None:
        """See :class:`Matcher`."""
        node = self._root
        for word in _words(edge.key):
            node = node.children.setdefault(word, TrieNode(repeats=word == "#"))
        node.edges[edge] = None

    def remove(self, edge: Edge) -> None:
        """See :class:`Matcher`."""
        words = _words(edge.key)
        path = [self._root]
        for word in words:
            path.append(path[-1].children[word])
        del path[-1].edges[edge]
        for parent, word in zip(reversed(path[:-1]), reversed(words), strict=True):
            if parent.children[word].empty:
                del parent.children[word]

    def match(self, key: str, headers: Headers) -> Iterable[Node]:
        """See :class:`Matcher`."""
        places = _with_empty_repeats([self._root])
        for word in _words(key):
            places = _with_empty_repeats(_steps(places, word))
        return (edge.destination for place in places for edge in place.edges)


def _words(key: str) -> list[str]:
    return key.split(".") if key else []


def _steps(places: Iterable[TrieNode], word: str) -> Iterator[TrieNode]:
    for place in places:
        if place.repeats:
            yield place
        for step in (word, "*"):
            if step in place.children:
                yield place.children[step]


def _with_empty_repeats(places: Iterable[TrieNode]) -> dict[TrieNode, None]:
    """The places, and those below them that ``#`` reaches with no word."""
    reached: dict[TrieNode, None] = {}
    for place in places:
        node: TrieNode | None = place
        while node is not None and node not in reached:
            reached[node] = None
            node = node.children.get("#")
    return reached


class HeadersRule(NamedTuple):
    """The condition of one binding to a headers exchange."""

    all_of_them: bool
    wanted: Mapping[str, object]
    """None as a value asks for presence only."""

    @staticmethod
    def of(arguments: Mapping[str, object]) -> "HeadersRule":
        """``x-match`` is all (default), any, or one of these -with-x, which compare ``x-`` headers too."""
        how = str(arguments.get("x-match", "all"))
        with_x = how.endswith("-with-x")
        wanted = {
            name: value
            for name, value in arguments.items()
            if name != "x-match" and (with_x or not name.startswith("x-"))
        }
        return HeadersRule(how.startswith("all"), wanted)

    def accepts(self, headers: Mapping[str, object]) -> bool:
        """True when all, or any, of the wanted headers are there with the wanted values."""
        found = (
            name in headers and (value is None or frozen(headers[name]) == frozen(value))
            for name, value in self.wanted.items()
        )
        return all(found) if self.all_of_them else any(found)


X_MATCH_VALUES = ("all", "any", "all-with-x", "any-with-x")


class HeadersMatcher:
    """The message's headers fulfil the binding's arguments; the routing key does not matter."""

    __slots__ = ("_rules",)

    def __init__(self) -> None:
        self._rules: dict[Edge, HeadersRule] = {}

    def add(self, edge: Edge, arguments: Mapping[str, object]) -> None:
        """See :class:`Matcher`."""
        self._rules[edge] = HeadersRule.of(arguments)

    def remove(self, edge: Edge) -> None:
        """See :class:`Matcher`."""
        del self._rules[edge]

    def match(self, key: str, headers: Headers) -> Iterable[Node]:
        """See :class:`Matcher`."""
        fields = headers()
        return [edge.destination for edge, rule in self._rules.items() if rule.accepts(fields)]


class LocalRandomMatcher:
    """Each message goes to one bound node; the routing key does not matter. They are taken in turn, which is as even
    as chance and needs none."""

    __slots__ = ("_edges",)

    def __init__(self) -> None:
        self._edges: dict[Edge, None] = {}

    def add(self, edge: Edge, arguments: Mapping[str, object]) -> None:
        """See :class:`Matcher`."""
        self._edges[edge] = None

    def remove(self, edge: Edge) -> None:
        """See :class:`Matcher`."""
        del self._edges[edge]

    def match(self, key: str, headers: Headers) -> Iterable[Node]:
        """See :class:`Matcher`. Asks for the headers, since the answer must not be kept for the next message."""
        headers()
        edge = next(iter(self._edges), None)
        if edge is None:
            return []
        del self._edges[edge]
        self._edges[edge] = None  # to the end of the line
        return [edge.destination]


MATCHERS: Mapping[ExchangeType, Callable[[], Matcher]] = {
    ExchangeType.DIRECT: DirectMatcher,
    ExchangeType.FANOUT: FanoutMatcher,
    ExchangeType.TOPIC: TopicMatcher,
    ExchangeType.HEADERS: HeadersMatcher,
    ExchangeType.LOCAL_RANDOM: LocalRandomMatcher,
}


class Exchange:
    """An exchange's definition with the bindings that leave it."""

    __slots__ = ("alternate", "declaration", "matcher")

    def __init__(self, declaration: ExchangeDeclaration) -> None:
        self.declaration = declaration
        self.matcher = MATCHERS[declaration.type]()
        alternate = declaration.arguments.get("alternate-exchange")
        self.alternate = alternate if isinstance(alternate, str) else None

    def match(self, keys: Iterable[str], headers: Headers) -> list[Node]:
        """Where a message with these keys goes from here."""
        nodes = [node for key in keys for node in self.matcher.match(key, headers)]
        if not nodes and self.alternate is not None:
            nodes.append(Node(False, self.alternate))
        return nodes


def route(exchanges: Mapping[str, Exchange], start: str, keys: tuple[str, ...], headers: Headers) -> list[str]:
    """The names of the queues that a message goes to, each once; exchanges that do not exist are passed
    over."""
    queues: dict[str, None] = {}
    visited = {start}
    waiting = [start]
    while waiting:
        name = waiting.pop()
        if name == DEFAULT_EXCHANGE:
            queues.update(dict.fromkeys(keys))
        elif name in exchanges:
            for node in exchanges[name].match(keys, headers):
                if node.is_queue:
                    queues[node.name] = None
                elif node.name not in visited:
                    visited.add(node.name)
                    waiting.append(node.name)
    return list(queues)
