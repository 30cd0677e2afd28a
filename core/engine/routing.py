"""Exchanges: from a routing key to the queues that want the message.

An exchange is a definition and a matcher; a matcher knows the bindings of one exchange by one rule. The
router walks the graph of exchanges, visiting each at most once, so that a cycle of bindings ends. An exchange
for which no binding matches hands the message to its alternate exchange, if it names one. Every queue is
named once, in the order found.

The default exchange "" has no bindings: every key is the name of a queue.

This module knows names only. Whether an answer may be kept for other messages with the same key, it tells by
not asking for the message's headers.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import NamedTuple, Protocol

from core.engine.arguments import frozen
from core.engine.edges import Edge, Headers, Node
from core.engine.topic import TopicMatcher
from core.interface import ExchangeDeclaration, ExchangeType
from core.work import Work

DEFAULT_EXCHANGE = ""


class Matcher(Protocol):
    """The bindings of one exchange, by one routing rule."""

    def add(self, edge: Edge, arguments: Mapping[str, object]) -> None:
        """Know a binding that is new here."""

    def remove(self, edge: Edge) -> None:
        """Forget a binding that is known."""

    def match(self, key: str, headers: Headers, work: Work) -> Iterable[Node]:
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

    def match(self, key: str, headers: Headers, work: Work) -> Iterable[Node]:
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

    def match(self, key: str, headers: Headers, work: Work) -> Iterable[Node]:
        """See :class:`Matcher`."""
        return (edge.destination for edge in self._edges)


class HeadersRule(NamedTuple):
    """The condition of bindings to a headers exchange."""

    all_of_them: bool
    wanted: frozenset[Hashable]
    """Pairs of a header's name and its value as a key, ``PRESENT`` as a value asks for presence only."""

    @staticmethod
    def of(arguments: Mapping[str, object]) -> "HeadersRule":
        """``x-match`` is all (default), any, or one of these -with-x, which compare ``x-`` headers too."""
        how = str(arguments.get("x-match", "all"))
        with_x = how.endswith("-with-x")
        wanted = (
            (name, PRESENT if value is None else frozen(value))
            for name, value in arguments.items()
            if name != "x-match" and (with_x or not name.startswith("x-"))
        )
        return HeadersRule(how.startswith("all"), frozenset(wanted))


PRESENT = object()
"""A value that every header has."""

X_MATCH_VALUES = ("all", "any", "all-with-x", "any-with-x")


class HeadersMatcher:
    """The message's headers fulfil the binding's arguments; the routing key does not matter.

    Bindings with the same rule are one group. A rule that wants all of its pairs stands under one pair only, the one
    that fewest rules want, and is looked at when a message has this pair; one that wants any stands under each pair. So
    a message meets the rules that its own headers lead to, and not all that there are.
    """

    __slots__ = ("_groups", "_places", "_rules", "_wanted_by")

    def __init__(self) -> None:
        self._groups: dict[HeadersRule, dict[Edge, None]] = {}
        self._rules: dict[Edge, HeadersRule] = {}
        self._places: dict[Hashable, dict[HeadersRule, None]] = {}
        """The rules that stand under each pair; under None those that want nothing, and have it."""
        self._wanted_by: Counter[Hashable] = Counter()
        """How many rules want a pair."""

    def add(self, edge: Edge, arguments: Mapping[str, object]) -> None:
        """See :class:`Matcher`."""
        rule = self._rules[edge] = HeadersRule.of(arguments)
        group = self._groups.get(rule)
        if group is not None:
            group[edge] = None
            return
        self._groups[rule] = {edge: None}
        if rule.all_of_them:
            self._place(min(rule.wanted, key=self._wanted_by.__getitem__, default=None), rule)
        else:
            for pair in rule.wanted:
                self._place(pair, rule)
        self._wanted_by.update(rule.wanted)

    def _place(self, pair: Hashable, rule: HeadersRule) -> None:
        self._places.setdefault(pair, {})[rule] = None

    def remove(self, edge: Edge) -> None:
        """See :class:`Matcher`."""
        rule = self._rules.pop(edge)
        group = self._groups[rule]
        del group[edge]
        if group:
            return
        del self._groups[rule]
        for pair in (*rule.wanted, None):
            rules = self._places.get(pair)
            if rules is not None:
                rules.pop(rule, None)
                if not rules:
                    del self._places[pair]
        self._wanted_by.subtract(rule.wanted)
        for pair in rule.wanted:
            if not self._wanted_by[pair]:
                del self._wanted_by[pair]

    def match(self, key: str, headers: Headers, work: Work) -> Iterable[Node]:
        """See :class:`Matcher`."""
        fields = headers()
        pairs: set[Hashable] = set()
        for name, value in fields.items():
            pairs.add((name, PRESENT))
            pairs.add((name, frozen(value)))
        looked_at = 0
        met: dict[HeadersRule, None] = {}
        for pair in (*pairs, None):
            for rule in self._places.get(pair, ()):
                looked_at += 1
                if not rule.all_of_them or rule.wanted <= pairs:
                    met[rule] = None
        work.spent += len(pairs) + looked_at
        return [edge.destination for rule in met for edge in self._groups[rule]]


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

    def match(self, key: str, headers: Headers, work: Work) -> Iterable[Node]:
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

    def match(self, keys: Iterable[str], headers: Headers, work: Work) -> list[Node]:
        """Where a message with these keys goes from here."""
        nodes = [node for key in keys for node in self.matcher.match(key, headers, work)]
        if not nodes and self.alternate is not None:
            nodes.append(Node(False, self.alternate))
        return nodes


def route(
    exchanges: Mapping[str, Exchange], start: str, keys: tuple[str, ...], headers: Headers, work: Work
) -> list[str]:
    """The names of the queues that a message goes to, each once; exchanges that do not exist are passed
    over."""
    queues: dict[str, None] = {}
    visited = {start}
    waiting = [start]
    while waiting:
        name = waiting.pop()
        if name == DEFAULT_EXCHANGE:
            queues.update(dict.fromkeys(keys))
            work.spent += len(keys)
        elif name in exchanges:
            nodes = exchanges[name].match(keys, headers, work)
            work.spent += 1 + len(keys) + len(nodes)
            for node in nodes:
                if node.is_queue:
                    queues[node.name] = None
                elif node.name not in visited:
                    visited.add(node.name)
                    waiting.append(node.name)
    return list(queues)
