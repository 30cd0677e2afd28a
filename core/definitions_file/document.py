"""The contents of a definitions file: the engine's declarations, and remarks about places in the file.

A document has the same form whether it was read from a file or made from a broker's snapshots, so that the two can be
compared. Each kind is in the order of :func:`sort_key`, and each identity occurs once.
"""

import json
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from core.engine.options.arguments import frozen
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
        """Return all definitions in an order in which they can be made: bindings come after exchanges and queues."""
        return [*self.exchanges, *self.queues, *self.bindings, *self.policies]


@dataclass(frozen=True, slots=True)
class Remark:
    """A remark about one place in a file. ``path`` is like ``queues[3].arguments.x-max-length``, counted from
    0 as jq does; "" is the file as a whole."""

    path: str
    text: str

    def __str__(self) -> str:
        return f"{self.path or 'the file'}: {self.text}"


def kind_of(thing: Thing) -> str:
    """Return the word for the kind of definition."""
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
    """Return kind and name of a definition, for messages."""
    if not isinstance(thing, Binding):
        return f"{kind_of(thing)} '{thing.name}'"
    end = "queue" if thing.destination_is_queue else "exchange"
    told = f"binding from '{thing.source}' to {end} '{thing.destination}' by '{thing.binding_key}'"
    return f"{told} with {json.dumps(dict(thing.arguments), sort_keys=True)}" if thing.arguments else told


def identity(thing: Thing) -> Hashable:
    """Return the identity of a definition: a broker has at most one definition with it. A binding has no other
    properties."""
    if not isinstance(thing, Binding):
        return kind_of(thing), thing.name
    end = (thing.destination_is_queue, thing.destination)
    return "binding", thing.source, end, thing.binding_key, frozen(thing.arguments)


def sort_key(thing: Thing) -> tuple[str, ...]:
    """Return the sort key within a kind. The order is total, so that equal definitions give equal files."""
    if not isinstance(thing, Binding):
        return (thing.name,)
    end = "queue" if thing.destination_is_queue else "exchange"
    arguments = json.dumps(dict(thing.arguments), sort_keys=True)
    return thing.source, end, thing.destination, thing.binding_key, arguments


def summary(things: Sequence[Thing]) -> str:
    """Return the number of definitions of each kind, like "2 queues, 1 policy"."""
    plurals = {"exchange": "exchanges", "queue": "queues", "binding": "bindings", "policy": "policies"}
    counts = Counter(kind_of(thing) for thing in things)
    told = [
        f"{counts[kind]} {kind if counts[kind] == 1 else plural}" for kind, plural in plurals.items() if counts[kind]
    ]
    return ", ".join(told) or "nothing"
