"""Bindings as the matchers see them: edges with a source, a destination and a condition; and which there are."""

from collections.abc import Callable, Hashable, Mapping
from itertools import chain, islice
from typing import NamedTuple, TypeVar

from core.engine.options.arguments import frozen
from core.interface import Binding

Headers = Callable[[], Mapping[str, object]]
"""Returns the message's fields that a headers exchange compares. Called only if the route has a headers exchange."""


class Node(NamedTuple):
    """The destination of a binding."""

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
        """Return the edge of a binding."""
        destination = Node(binding.destination_is_queue, binding.destination)
        return Edge(binding.source, destination, binding.binding_key, frozen(binding.arguments))


class BindingIndex:
    """The bindings of a virtual host, by their edges, their sources and their destinations."""

    __slots__ = ("_arriving", "_leaving", "all")

    def __init__(self) -> None:
        self.all: dict[Edge, Binding] = {}
        self._leaving: dict[str, dict[Edge, None]] = {}
        """Those from each exchange."""
        self._arriving: dict[Node, dict[Edge, None]] = {}

    def add(self, edge: Edge, binding: Binding) -> None:
        """Add a binding with its edge."""
        self.all[edge] = binding
        self._leaving.setdefault(edge.source, {})[edge] = None
        self._arriving.setdefault(edge.destination, {})[edge] = None

    def remove(self, edge: Edge) -> None:
        """Remove a binding that is there."""
        del self.all[edge]
        _drop(self._leaving, edge.source, edge)
        _drop(self._arriving, edge.destination, edge)

    def leaving(self, exchange: str) -> Mapping[Edge, None]:
        """Return the bindings from an exchange. It may change with the index."""
        return self._leaving.get(exchange, {})

    def arriving(self, node: Node) -> Mapping[Edge, None]:
        """Return the bindings to a queue or exchange. It may change with the index."""
        return self._arriving.get(node, {})

    def some_of(self, node: Node, most: int) -> list[Edge]:
        """Return bindings from and to a queue or exchange."""
        leaving = {} if node.is_queue else self.leaving(node.name)
        return list(islice(chain(leaving, self.arriving(node)), most))

    def has_some_of(self, node: Node) -> bool:
        """Return whether there are bindings from or to a queue or exchange."""
        return node in self._arriving or (not node.is_queue and node.name in self._leaving)


EdgeKey = TypeVar("EdgeKey")


def _drop(edges: dict[EdgeKey, dict[Edge, None]], key: EdgeKey, edge: Edge) -> None:
    """Remove an edge from its group, and the group if it is empty then."""
    group = edges[key]
    del group[edge]
    if not group:
        del edges[key]
