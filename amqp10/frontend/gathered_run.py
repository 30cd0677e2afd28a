"""Messages of one link that were checked one by one, gathered into runs for the engine."""

from dataclasses import dataclass
from typing import NamedTuple

from amqp10.errors import LinkFault
from core.interface import ExchangeTarget, Target
from core.message import Attributes, Run


@dataclass(frozen=True, slots=True)
class Unrouted:
    """A message that cannot be routed for a reason of its own, with the error for its publisher."""

    fault: LinkFault


class CheckedMessage(NamedTuple):
    """One message after the check, with the values that the engine needs."""

    entry: bytes
    attributes: Attributes
    target: Target
    routing_keys: tuple[str, ...]


class GatheredRun:
    """Messages that go to the engine together, from one event. They differ in their bytes, and may differ in their
    attributes and, without x-cc, in their routing keys."""

    __slots__ = ("attributes", "entries", "first", "keys", "routing_keys", "target")

    def __init__(self, first: int, target: Target | None, routing_keys: tuple[str, ...] = ()) -> None:
        """``first`` is the number of the first message; ``target`` None is replaced by that of the first message."""
        self.first = first
        self.target = target
        self.routing_keys = routing_keys
        self.entries: list[bytes] = []
        self.attributes: list[Attributes] = []
        """Of each message."""
        self.keys: list[str] | None = None
        """The routing key of each message, once they differ."""

    def admits(self, target: Target, routing_keys: tuple[str, ...]) -> bool:
        """Count a message in; its entry and attributes have to be appended. False if it cannot go together with the
        messages before it."""
        first = self.target
        if first is None or not self.entries:
            self.target, self.routing_keys = target, routing_keys
            return True
        if routing_keys != self.routing_keys:
            return False
        if self.keys is None and target == first:
            return True
        if routing_keys or not (isinstance(first, ExchangeTarget) and isinstance(target, ExchangeTarget)):
            return False
        if first.exchange != target.exchange:
            return False
        if self.keys is None:
            self.keys = [first.routing_key] * len(self.entries)
        self.keys.append(target.routing_key)
        return True

    def extend(self, messages: list[bytes], header_ends: list[int], attributes: list[Attributes]) -> None:
        """Append plain messages for the same target, given whole."""
        self.entries += [message[end:] for message, end in zip(messages, header_ends, strict=True)]
        self.attributes += attributes

    def run(self) -> Run:
        """The messages for the engine, which owns the lists from then on."""
        attributes = self.attributes
        alike = len(set(map(id, attributes))) == 1
        return Run(self.first, self.entries, attributes[0] if alike else attributes, self.routing_keys)
