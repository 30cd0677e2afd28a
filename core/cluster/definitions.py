"""Definitions as the engine keeps them for all nodes of a cluster: the changes in their order, and what they add up to.

What a node has in its own data folder is a copy. The state is keys below ``topology/``; a change puts and deletes some
of these, so that a node that is new, or was away for long, reads the state instead of all changes.

A binding whose exchange or queue was deleted, and declared again, is none: its key is older than theirs. So a deletion
need not delete every such key at once.
"""

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple, TypeAlias

import cbor2

from core.cluster.keys import ClusterKeys
from core.engine.quorum.group_numbers import home_in, number_in_log, size_in
from core.engine.quorum.groups import SharedQueue
from core.engine.routing.agreement import AgreedChange, AgreedRemoval, ChangeKind
from core.engine.routing.topology import BUILT_IN_EXCHANGES
from core.interface import Binding, ExchangeDeclaration, ExchangeType, QueueDeclaration
from core.store.definitions import PolicyDeclaration
from core.store.order_database import StateKey

OPERATIONS_MAX = 120
"""The most operations of a change: etcd takes 128 in a transaction, and those of the order come to these."""
Undecodable = (cbor2.CBORDecodeError, TypeError, ValueError, AttributeError, KeyError)


Plain: TypeAlias = Any
"""What CBOR has decoded, from which anything may come."""


class StateOperation(NamedTuple):
    """What a change does to one key of the state, or to those from ``key`` to before ``end``."""

    key: bytes
    end: bytes = b""
    value: bytes | None = None
    """What is put; None if the keys are deleted."""


class TooLarge(Exception):
    """A change that does not fit into one transaction."""


def queue_key(keys: ClusterKeys, virtual_host: str, name: str) -> bytes:
    """The key of a queue. Names may have any characters, so the length of the first is in the key."""
    return keys.queues + _sized(virtual_host) + b"/" + name.encode()


def _sized(name: str) -> bytes:
    return b"%d:" % len(name.encode()) + name.encode()


def _names(keys: ClusterKeys, host: str, kind: str) -> bytes:
    return keys.names + _sized(host) + b"/" + kind.encode() + b"/"


def _arriving(keys: ClusterKeys, host: str, name: str, *, is_queue: bool) -> bytes:
    """What the keys of the bindings to a queue or exchange begin with."""
    return _names(keys, host, "bq" if is_queue else "bx") + _sized(name) + b"/"


def _binding_key(keys: ClusterKeys, host: str, one: Binding) -> bytes:
    rest = cbor2.dumps([one.source, one.binding_key, dict(one.arguments)], canonical=True)
    begin = _arriving(keys, host, one.destination, is_queue=one.destination_is_queue)
    return begin + blake2b(rest, digest_size=16).hexdigest().encode()


def _end(prefix: bytes) -> bytes:
    """Behind the last key with this beginning, which ends with a slash."""
    return prefix[:-1] + b"0"


# --- values -------------------------------------------------------------------------------------------------------


def _plain(value: object) -> object:
    match value:
        case SharedQueue(host, one, identity, home):
            plain = [host, one.name, dict(one.arguments), one.auto_delete, identity]
            if home_in(identity):
                return [plain]  # versions that would make a queue of their own do not know it
            return plain if one.durable and not one.exclusive else [*plain, one.durable, one.exclusive, home]
        case ExchangeDeclaration() as one:
            return [one.name, one.type.value, one.auto_delete, one.internal, dict(one.arguments)]
        case Binding() as one:
            return [one.source, one.destination, one.destination_is_queue, one.binding_key, dict(one.arguments)]
        case PolicyDeclaration() as one:
            return [one.name, one.pattern, one.priority, one.apply_to, dict(one.definition)]
        case AgreedRemoval() as one:
            return [list(one.queues), list(one.exchanges), [_plain(binding) for binding in one.bindings]]
        case _:
            return value


def _value(kind: ChangeKind, plain: Plain) -> object:
    """The value of a change. Raises one of :data:`Undecodable`."""
    match kind, plain:
        case ChangeKind.QUEUE, [host, name, arguments, auto_delete, identity, *more]:
            number_in_log(identity)
            size_in(identity)
            durable, exclusive, home = more or (True, False, "")
            declaration = QueueDeclaration(
                name=_text(name),
                durable=bool(durable),
                exclusive=bool(exclusive),
                auto_delete=bool(auto_delete),
                arguments=dict(arguments),
            )
            return SharedQueue(_text(host), declaration, identity, _text(home))
        case ChangeKind.QUEUE, [[*of_a_home]]:
            return _value(kind, of_a_home)
        case ChangeKind.EXCHANGE, [name, type_, auto_delete, internal, arguments, *_]:
            return ExchangeDeclaration(
                name=_text(name),
                type=ExchangeType(type_),
                auto_delete=bool(auto_delete),
                internal=bool(internal),
                arguments=dict(arguments),
            )
        case ChangeKind.BINDING, [source, destination, to_queue, key, arguments, *_]:
            return Binding(
                source=_text(source),
                destination=_text(destination),
                destination_is_queue=bool(to_queue),
                binding_key=_text(key),
                arguments=dict(arguments),
            )
        case ChangeKind.POLICY, [name, pattern, priority, apply_to, definition, *_]:
            return PolicyDeclaration(
                name=_text(name),
                pattern=_text(pattern),
                priority=int(priority),
                apply_to=_text(apply_to),
                definition=dict(definition),
            )
        case ChangeKind.REMOVAL, [queues, exchanges, bindings, *_]:
            found = [_value(ChangeKind.BINDING, one) for one in bindings]
            return AgreedRemoval(
                tuple(map(_text, queues)),
                tuple(map(_text, exchanges)),
                tuple(one for one in found if isinstance(one, Binding)),
            )
        case ChangeKind.USER, str() as record:
            return record
        case ChangeKind.HOST_SETTINGS, dict() as settings:
            return settings
        case ((ChangeKind.HOST | ChangeKind.HOST_REMOVAL | ChangeKind.USER_REMOVAL | ChangeKind.POLICY_REMOVAL), None):
            return None
    raise ValueError(f"no value of {kind}")


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("a name is no text")
    return value


def encoded(change: AgreedChange) -> bytes:
    """A change as the value of its key in the order."""
    return cbor2.dumps([change.kind.value, change.host, change.name, _plain(change.value)])


def decoded(data: bytes) -> AgreedChange | None:
    """The change in a value; None if it is none, or of a newer version."""
    try:
        kind, host, name, plain, *_ = cbor2.loads(data)
        kind = ChangeKind(kind)
        return AgreedChange(kind, _text(host), _text(name), _value(kind, plain))
    except Undecodable:
        return None


# --- the state ----------------------------------------------------------------------------------------------------


def operations(keys: ClusterKeys, change: AgreedChange) -> list[StateOperation]:
    """What a change puts and deletes. Raises TooLarge."""
    host, name, value = change.host, change.name, change.value
    data = cbor2.dumps(_plain(value))
    match change.kind:
        case ChangeKind.QUEUE:
            return [StateOperation(queue_key(keys, host, name), value=data)]
        case ChangeKind.EXCHANGE:
            return [StateOperation(_names(keys, host, "x") + name.encode(), value=data)]
        case ChangeKind.BINDING:
            assert isinstance(value, Binding)
            return [StateOperation(_binding_key(keys, host, value), value=data)]
        case ChangeKind.REMOVAL:
            assert isinstance(value, AgreedRemoval)
            return _removing(keys, host, value)
        case ChangeKind.POLICY:
            return [StateOperation(_names(keys, host, "p") + name.encode(), value=data)]
        case ChangeKind.POLICY_REMOVAL:
            return [StateOperation(_names(keys, host, "p") + name.encode())]
        case ChangeKind.USER:
            return [StateOperation(keys.users + name.encode(), value=data)]
        case ChangeKind.USER_REMOVAL:
            return [StateOperation(keys.users + name.encode())]
        case ChangeKind.HOST:
            return [StateOperation(keys.hosts + name.encode(), value=cbor2.dumps({}))]
        case ChangeKind.HOST_SETTINGS:
            return [StateOperation(keys.hosts + name.encode(), value=data)]
        case ChangeKind.HOST_REMOVAL:
            names, queues = keys.names + _sized(name) + b"/", keys.queues + _sized(name) + b"/"
            return [
                StateOperation(keys.hosts + name.encode()),
                StateOperation(names, _end(names)),
                StateOperation(queues, _end(queues)),
            ]


def _removing(keys: ClusterKeys, host: str, removal: AgreedRemoval) -> list[StateOperation]:
    found = []
    for name in removal.queues:
        arriving = _arriving(keys, host, name, is_queue=True)
        found += [StateOperation(queue_key(keys, host, name)), StateOperation(arriving, _end(arriving))]
    for name in removal.exchanges:
        arriving = _arriving(keys, host, name, is_queue=False)
        found += [StateOperation(_names(keys, host, "x") + name.encode()), StateOperation(arriving, _end(arriving))]
    found += (StateOperation(_binding_key(keys, host, one)) for one in removal.bindings)
    if len(found) > OPERATIONS_MAX:
        raise TooLarge(
            f"it removes {len(removal.exchanges)} exchanges at once, and half of {OPERATIONS_MAX} are possible"
        )
    return found


class StateReading:
    """What a node reads of the state, page by page."""

    def __init__(self, keys: ClusterKeys) -> None:
        self._keys = keys
        self._born: dict[tuple[ChangeKind, str, str], int] = {}
        """When each exchange and queue was made."""
        self._bindings: list[tuple[AgreedChange, int]] = []
        self._others: dict[ChangeKind, list[AgreedChange]] = {}
        self.unreadable: list[bytes] = []
        """Keys whose values this version does not know."""

    def take(self, page: Sequence[StateKey]) -> None:
        """Take the keys of a page."""
        for one in page:
            try:
                self._take(bytes(one.key), cbor2.loads(one.value) if one.value else None, one)
            except Undecodable:
                self.unreadable.append(bytes(one.key))

    def _take(self, key: bytes, plain: object, one: StateKey) -> None:
        keys = self._keys
        if key in (keys.topology_number, keys.topology_version):
            return
        if key.startswith(keys.users):
            name = key[len(keys.users) :].decode()
            self._add(AgreedChange(ChangeKind.USER, "", name, _value(ChangeKind.USER, plain)))
        elif key.startswith(keys.hosts):
            name = key[len(keys.hosts) :].decode()
            self._add(AgreedChange(ChangeKind.HOST, "", name))
            self._add(AgreedChange(ChangeKind.HOST_SETTINGS, "", name, _value(ChangeKind.HOST_SETTINGS, plain)))
        elif key.startswith(keys.queues):
            queue = _value(ChangeKind.QUEUE, plain)
            assert isinstance(queue, SharedQueue)
            self._named(ChangeKind.QUEUE, queue.virtual_host, queue.declaration.name, queue, one)
        elif key.startswith(keys.names):
            host, rest = _cut(key[len(keys.names) :])
            kind, _, rest_of_key = rest[1:].partition(b"/")
            if kind == b"x":
                self._named(ChangeKind.EXCHANGE, host, rest_of_key.decode(), _value(ChangeKind.EXCHANGE, plain), one)
            elif kind == b"p":
                value = _value(ChangeKind.POLICY, plain)
                self._add(AgreedChange(ChangeKind.POLICY, host, rest_of_key.decode(), value))
            else:
                binding = _value(ChangeKind.BINDING, plain)
                assert isinstance(binding, Binding)
                change = AgreedChange(ChangeKind.BINDING, host, f"{binding.source} to {binding.destination}", binding)
                self._bindings.append((change, one.mod_revision))

    def _named(self, kind: ChangeKind, host: str, name: str, value: object, one: StateKey) -> None:
        self._add(AgreedChange(kind, host, name, value))
        self._born[kind, host, name] = one.create_revision

    def changes(self) -> Iterator[AgreedChange]:
        """The state as the changes that make it, in an order in which they can be made."""
        for kind in (ChangeKind.HOST, ChangeKind.HOST_SETTINGS, ChangeKind.EXCHANGE, ChangeKind.QUEUE):
            yield from self._others.get(kind, ())
        yield from (change for change, revision in self._bindings if self._is_there(change, revision))
        for kind in (ChangeKind.POLICY, ChangeKind.USER):
            yield from self._others.get(kind, ())

    def _add(self, change: AgreedChange) -> None:
        self._others.setdefault(change.kind, []).append(change)

    def _is_there(self, change: AgreedChange, revision: int) -> bool:
        binding = change.value
        assert isinstance(binding, Binding)
        kind = ChangeKind.QUEUE if binding.destination_is_queue else ChangeKind.EXCHANGE
        ends = (ChangeKind.EXCHANGE, binding.source), (kind, binding.destination)
        return all(self._is_older(of, change.host, name, revision) for of, name in ends)

    def _is_older(self, kind: ChangeKind, host: str, name: str, revision: int) -> bool:
        born = self._born.get((kind, host, name))
        if born is None:
            return kind is ChangeKind.EXCHANGE and name in BUILT_IN_EXCHANGES
        return born <= revision


def _cut(sized: bytes) -> tuple[str, bytes]:
    size, _, rest = sized.partition(b":")
    return rest[: int(size)].decode(), rest[int(size) :]
