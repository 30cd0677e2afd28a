"""The definitions of a virtual host, and how they are kept: the rows of :mod:`core.store.definitions`."""

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import cbor2

from core.interface import Binding, ExchangeDeclaration, ExchangeType, QueueDeclaration

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyDeclaration:
    """A policy that an operator has declared for queues or exchanges."""

    name: str
    pattern: str
    """A regular expression, searched for in names."""
    priority: int = 0
    apply_to: str = "all"
    definition: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class StoredQueue:
    """A queue, its number and its identity."""

    id: int
    declaration: QueueDeclaration
    identity: str
    """New with each declaration; 32 hexadecimal digits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Definitions:
    """All definitions of one virtual host, in the order of their declaration."""

    queues: Sequence[StoredQueue] = ()
    exchanges: Sequence[ExchangeDeclaration] = ()
    bindings: Sequence[Binding] = ()
    policies: Sequence[PolicyDeclaration] = ()


def loaded(connection: sqlite3.Connection, host: str) -> Definitions:
    """Return all definitions of a virtual host. Raises sqlite3.Error, ValueError, CBORDecodeError."""

    found = connection.execute("SELECT id FROM vhosts WHERE name = ?", (host,)).fetchone()

    def select(query: str, make: Callable[..., ResultT]) -> list[ResultT]:
        return [make(*row) for row in connection.execute(query, found)] if found else []

    return Definitions(
        queues=select(
            "SELECT id, name, auto_delete, arguments, identity FROM queues WHERE vhost = ? ORDER BY id", _queue
        ),
        exchanges=select(
            "SELECT name, type, auto_delete, internal, arguments FROM exchanges WHERE vhost = ? ORDER BY rowid",
            _exchange,
        ),
        bindings=select(
            "SELECT source, destination, to_queue, binding_key, arguments FROM bindings WHERE vhost = ? ORDER BY id",
            _binding,
        ),
        policies=select(
            "SELECT name, pattern, priority, apply_to, definition FROM policies WHERE vhost = ? ORDER BY rowid",
            _policy,
        ),
    )


def packed(value: Mapping[str, object]) -> bytes:
    """Encode arguments canonically, so that equal values are equal bytes."""
    return cbor2.dumps(dict(value), canonical=True)


def _unpacked(data: bytes) -> dict[str, object]:
    value = cbor2.loads(data)
    if not isinstance(value, dict):
        raise ValueError(f"a map was kept, and {type(value).__name__} is there")
    return value


def _queue(number: int, name: str, auto_delete: int, arguments: bytes, identity: str) -> StoredQueue:
    declaration = QueueDeclaration(name=name, auto_delete=bool(auto_delete), arguments=_unpacked(arguments))
    return StoredQueue(number, declaration, identity)


def _exchange(name: str, kind: str, auto_delete: int, internal: int, arguments: bytes) -> ExchangeDeclaration:
    return ExchangeDeclaration(
        name=name,
        type=ExchangeType(kind),
        auto_delete=bool(auto_delete),
        internal=bool(internal),
        arguments=_unpacked(arguments),
    )


def _binding(source: str, destination: str, to_queue: int, key: str, arguments: bytes) -> Binding:
    return Binding(
        source=source,
        destination=destination,
        destination_is_queue=bool(to_queue),
        binding_key=key,
        arguments=_unpacked(arguments),
    )


def _policy(name: str, pattern: str, priority: int, apply_to: str, definition: bytes) -> PolicyDeclaration:
    return PolicyDeclaration(
        name=name, pattern=pattern, priority=priority, apply_to=apply_to, definition=_unpacked(definition)
    )
