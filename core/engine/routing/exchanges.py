"""Exchanges: route a message by its routing key or headers to queues.

An exchange is a definition and a matcher. The matcher holds the bindings of the exchange and applies the rule of its
type. ``route`` visits each exchange at most once, so that a cycle of bindings ends. If no binding of an exchange
matches, the message goes to the alternate exchange, if the exchange has one. Each queue is returned once, in the order
in which it was found.

The default exchange "" has no bindings: every key is the name of a queue.

This module knows queues by name only. A result may be cached for other messages with the same key if ``route`` did not
call ``headers``.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import NamedTuple, Protocol

from core.engine.options.arguments import frozen
from core.engine.routing.edges import Edge, Headers, Node
from core.engine.routing.topic import TopicMatcher
from core.interface import ExchangeDeclaration, ExchangeType
from core.work import Work

DEFAULT_EXCHANGE = ""


class Matcher(Protocol):
    """The bindings of one exchange, by one routing rule."""

    def add(self, edge: Edge, arguments: Mapping[str, object]) -> None:
        """Add a new binding."""

    def remove(self, edge: Edge) -> None:
        """Remove an existing binding."""

    def match(self, key: str, headers: Headers, work: Work) -> Iterable[Node]:
        """Return the destinations of a message. A destination may be returned more than once."""


class DirectMatcher:
    """A direct exchange: the routing key equals the binding key."""

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
    """A fanout exchange: every message goes to all bound destinations."""

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
    """The condition of a binding to a headers exchange."""

    all_of_them: bool
    wanted: frozenset[Hashable]
    """Pairs of a header's name and its value (frozen). The value ``PRESENT`` only demands that the header is
    present."""

    @staticmethod
    def of(arguments: Mapping[str, object]) -> "HeadersRule":
        """Make the rule of a binding's arguments. ``x-match`` is ``all`` (default), ``any``, ``all-with-x`` or
        ``any-with-x``; the last two compare ``x-`` headers too."""
        how = str(arguments.get("x-match", "all"))
        with_x = how.endswith("-with-x")
        wanted = (
            (name, PRESENT if value is None else frozen(value))
            for name, value in arguments.items()
            if name != "x-match" and (with_x or not name.startswith("x-"))
        )
        return HeadersRule(how.startswith("all"), frozenset(wanted))


PRESENT = object()
"""The value that demands only the presence of a header."""

X_MATCH_VALUES = ("all", "any", "all-with-x", "any-with-x")


class HeadersMatcher:
    """A headers exchange: the message's headers fulfil the binding's arguments. The routing key is ignored.

    Bindings with the same rule form one group. A rule that demands all of its pairs is indexed under one pair only, the
    one that the fewest rules demand, and is checked if a message has this pair. A rule that demands any of its pairs is
    indexed under each pair. So only rules that share a pair with the message are checked, and not all rules.
    """

    __slots__ = ("_groups", "_places", "_rules", "_wanted_by")

    def __init__(self) -> None:
        self._groups: dict[HeadersRule, dict[Edge, None]] = {}
        self._rules: dict[Edge, HeadersRule] = {}
        self._places: dict[Hashable, dict[HeadersRule, None]] = {}
        """The rules indexed under each pair. Under None: rules that demand nothing, and so always match."""
        self._wanted_by: Counter[Hashable] = Counter()
        """How many rules demand each pair."""

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
    """A local-random exchange: each message goes to one bound destination. The routing key is ignored. Destinations are
    taken in turn, which is as even as a random choice."""

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
        """See :class:`Matcher`. It calls ``headers``, so that the result is not cached for the next message."""
        headers()
        edge = next(iter(self._edges), None)
        if edge is None:
            return []
        del self._edges[edge]
        self._edges[edge] = None  # moves to the end
        return [edge.destination]


MATCHERS: Mapping[ExchangeType, Callable[[], Matcher]] = {
    ExchangeType.DIRECT: DirectMatcher,
    ExchangeType.FANOUT: FanoutMatcher,
    ExchangeType.TOPIC: TopicMatcher,
    ExchangeType.HEADERS: HeadersMatcher,
    ExchangeType.LOCAL_RANDOM: LocalRandomMatcher,
}


class Exchange:
    """An exchange: its definition, its alternate exchange, and the bindings from it."""

    __slots__ = ("alternate", "declaration", "matcher")

    def __init__(self, declaration: ExchangeDeclaration) -> None:
        self.declaration = declaration
        self.matcher = MATCHERS[declaration.type]()
        alternate = declaration.arguments.get("alternate-exchange")
        self.alternate = alternate if isinstance(alternate, str) else None

    def match(self, keys: Iterable[str], headers: Headers, work: Work) -> list[Node]:
        """Return the destinations of a message with these keys."""
        nodes = [node for key in keys for node in self.matcher.match(key, headers, work)]
        if not nodes and self.alternate is not None:
            nodes.append(Node(False, self.alternate))
        return nodes


def route(
    exchanges: Mapping[str, Exchange], start: str, keys: tuple[str, ...], headers: Headers, work: Work
) -> list[str]:
    """Return the names of the queues to which a message is routed, each once. Exchanges that do not exist are
    skipped."""
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
