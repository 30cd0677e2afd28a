"""Bindings as the matchers see them: edges with a source, a destination and a condition."""

from collections.abc import Callable, Hashable, Mapping
from typing import NamedTuple

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
