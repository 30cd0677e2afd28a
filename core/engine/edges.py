"""What a binding is to those that match: where it comes from, where it leads, and under which condition."""

from collections.abc import Callable, Hashable, Mapping
from typing import NamedTuple

from core.engine.arguments import frozen
from core.interface import Binding

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
