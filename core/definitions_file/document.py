"""What a definitions file says once it is read: the engine's own declarations, and remarks about places of the file.

A document is the same thing whether it was read from a file or made from a broker's snapshots, so that the two can be
compared. Of each kind the order is that of :func:`sort_key`, and every identity is there once.
"""

import json
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from core.engine.arguments import frozen
from core.interface import Binding, ExchangeDeclaration, QueueDeclaration
from core.store.definitions import PolicyDeclaration

Thing = ExchangeDeclaration | QueueDeclaration | Binding | PolicyDeclaration


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """The definitions of one virtual host."""

    exchanges: Sequence[ExchangeDeclaration] = ()
    queues: Sequence[QueueDeclaration] = ()
    bindings: Sequence[Binding] = ()
    policies: Sequence[PolicyDeclaration] = ()

    def things(self) -> list[Thing]:
        """Everything, in an order in which it can be made: a binding comes behind both of its ends."""
        return [*self.exchanges, *self.queues, *self.bindings, *self.policies]


@dataclass(frozen=True, slots=True)
class Remark:
    """Something to be told of one place of a file. ``path`` is like ``queues[3].arguments.x-max-length``, counted from
    0 as jq does; "" is the file as a whole."""

    path: str
    text: str

    def __str__(self) -> str:
        return f"{self.path or 'the file'}: {self.text}"


def kind_of(thing: Thing) -> str:
    """The word for what it is."""
    match thing:
        case ExchangeDeclaration():
            return "exchange"
        case QueueDeclaration():
            return "queue"
        case Binding():
            return "binding"
        case PolicyDeclaration():
            return "policy"


def label(thing: Thing) -> str:
    """What it is and which one, for people."""
    if not isinstance(thing, Binding):
        return f"{kind_of(thing)} '{thing.name}'"
    end = "queue" if thing.destination_is_queue else "exchange"
    told = f"binding from '{thing.source}' to {end} '{thing.destination}' by '{thing.binding_key}'"
    return f"{told} with {json.dumps(dict(thing.arguments), sort_keys=True)}" if thing.arguments else told


def identity(thing: Thing) -> Hashable:
    """Equal for two that cannot be in one broker beside each other. A binding is nothing but its identity."""
    if not isinstance(thing, Binding):
        return kind_of(thing), thing.name
    end = (thing.destination_is_queue, thing.destination)
    return "binding", thing.source, end, thing.binding_key, frozen(thing.arguments)


def sort_key(thing: Thing) -> tuple[str, ...]:
    """The order within a kind; total, so that equal definitions are equal files."""
    if not isinstance(thing, Binding):
        return (thing.name,)
    end = "queue" if thing.destination_is_queue else "exchange"
    arguments = json.dumps(dict(thing.arguments), sort_keys=True)
    return thing.source, end, thing.destination, thing.binding_key, arguments


def summary(things: Sequence[Thing]) -> str:
    """How many of each kind, like "2 queues, 1 policy"."""
    plurals = {"exchange": "exchanges", "queue": "queues", "binding": "bindings", "policy": "policies"}
    counts = Counter(kind_of(thing) for thing in things)
    told = [
        f"{counts[kind]} {kind if counts[kind] == 1 else plural}" for kind, plural in plurals.items() if counts[kind]
    ]
    return ", ".join(told) or "nothing"
