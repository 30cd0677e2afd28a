"""Compares the definitions of a file with those of a broker, and makes the steps that change the broker accordingly.

Exchanges and queues cannot be changed: a different one would have to be deleted first, with its messages, and only an
operator may do that. A policy is replaced. A binding has no properties besides its identity, so it either exists or
not.

Every step is idempotent, and definitions are made before others that need them. So if an import is interrupted, the
same import again completes it.
"""

from collections.abc import Hashable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import StrEnum

from core.definitions_file.document import Document, Remark, Thing, identity, label
from core.definitions_file.json_values import cut
from core.engine.options.arguments import frozen, queue_type
from core.engine.routing.topology import BUILT_IN_EXCHANGES
from core.interface import Binding, ExchangeDeclaration, QueueDeclaration
from core.slices import Walk, gathered, run_at_once


class Change(StrEnum):
    """The relation of a definition in the file to that in the broker."""

    CREATE = "create"
    CHANGE = "change"
    """A policy that is different in the broker."""
    CONFLICT = "conflict"
    """An exchange or queue that is different in the broker, and would have to be deleted first."""
    UNCHANGED = "unchanged"
    EXTRA = "extra"
    """In the broker only."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One definition of the file, or an extra one of the broker, with its change."""

    change: Change
    thing: Thing
    fields: Sequence[str] = ()
    """If both have it, the differing fields, in words."""


class Action(StrEnum):
    """The action of a step."""

    DECLARE = "declare"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class Step:
    """One change of the broker. It is idempotent."""

    action: Action
    thing: Thing


def compare(wanted: Document, found: Document) -> list[Difference]:
    """Return all definitions of both: first those of the file, in an order in which they can be made, then the extra
    ones of the broker, in an order in which they can be deleted."""
    return run_at_once(comparing(wanted, found))


def comparing(wanted: Document, found: Document) -> Walk[list[Difference]]:
    """``compare`` as a walk."""
    here: dict[Hashable, Thing] = {}
    for thing in found.things():
        here[identity(thing)] = thing
        yield None
    differences = yield from gathered(_difference(thing, here.pop(identity(thing), None)) for thing in wanted.things())
    return differences + (yield from gathered(Difference(Change.EXTRA, thing) for thing in reversed(here.values())))


def steps(differences: Sequence[Difference], *, delete_extra: bool) -> list[Step]:
    """Return the steps in order. Conflicts have no steps."""
    declared = [one.thing for one in differences if one.change in (Change.CREATE, Change.CHANGE)]
    deleted = [one.thing for one in differences if one.change is Change.EXTRA and delete_extra]
    return [
        *(Step(Action.DECLARE, thing) for thing in declared),
        *(Step(Action.DELETE, thing) for thing in deleted),
        *(Step(Action.DECLARE, thing) for thing in _gone_with(deleted, differences)),
    ]


def _gone_with(deleted: Sequence[Thing], differences: Sequence[Difference]) -> list[Thing]:
    """Return definitions of the file that may be deleted together with the extra ones: an auto-delete exchange is
    deleted with the last binding from it, and the bindings to it are deleted too. They are declared again, which does
    nothing if they still exist."""
    kept = [one.thing for one in differences if one.change not in (Change.EXTRA, Change.CONFLICT)]
    fleeting = {thing.name for thing in kept if isinstance(thing, ExchangeDeclaration) and thing.auto_delete}
    if not any(isinstance(thing, Binding) and thing.source in fleeting for thing in deleted):
        return []
    return [thing for thing in kept if _touches(thing, fleeting)]


def _touches(thing: Thing, exchanges: AbstractSet[str]) -> bool:
    """Return whether it is one of these exchanges, or a binding from or to one of them."""
    if isinstance(thing, Binding):
        return thing.source in exchanges or (not thing.destination_is_queue and thing.destination in exchanges)
    return isinstance(thing, ExchangeDeclaration) and thing.name in exchanges


def unknown_ends(wanted: Document, found: Document) -> list[Remark]:
    """Return remarks about bindings of the file whose source or destination is neither in the file nor in the broker:
    the broker would refuse them."""
    exchanges = {exchange.name for exchange in (*wanted.exchanges, *found.exchanges)} | BUILT_IN_EXCHANGES.keys()
    queues = {queue.name for queue in (*wanted.queues, *found.queues)}
    remarks = []
    for binding in wanted.bindings:
        ends = queues if binding.destination_is_queue else exchanges
        kind = "queue" if binding.destination_is_queue else "exchange"
        if binding.source not in exchanges:
            remarks.append(Remark(label(binding), f"there is no exchange '{binding.source}' in the file or the broker"))
        if binding.destination not in ends:
            remarks.append(
                Remark(label(binding), f"there is no {kind} '{binding.destination}' in the file or the broker")
            )
    return remarks


def _difference(wanted: Thing, found: Thing | None) -> Difference:
    if found is None:
        return Difference(Change.CREATE, wanted)
    mine, theirs = _fields(wanted), _fields(found)
    fields = [
        f"{name} is {_told(theirs.get(name))}, the file says {_told(mine.get(name))}"
        for name in sorted(mine.keys() | theirs.keys())
        if frozen(mine.get(name)) != frozen(theirs.get(name))
    ]
    if not fields:
        return Difference(Change.UNCHANGED, wanted)
    fixed = isinstance(wanted, ExchangeDeclaration | QueueDeclaration)
    return Difference(Change.CONFLICT if fixed else Change.CHANGE, wanted, fields)


def _fields(thing: Thing) -> Mapping[str, object]:
    """Return the fields that are compared, in the same way as the broker compares declarations."""
    match thing:
        case QueueDeclaration():
            arguments = {**thing.arguments, "x-queue-type": queue_type(thing.arguments)}
            return {"durable": thing.durable, "auto_delete": thing.auto_delete, **_named("argument", arguments)}
        case ExchangeDeclaration():
            return {
                "type": thing.type.value,
                "durable": thing.durable,
                "auto_delete": thing.auto_delete,
                "internal": thing.internal,
                **_named("argument", thing.arguments),
            }
        case Binding():
            return {}
    return {
        "pattern": thing.pattern,
        "priority": thing.priority,
        "apply-to": thing.apply_to,
        **_named("key", thing.definition),
    }


def _named(what: str, values: Mapping[str, object]) -> dict[str, object]:
    return {f"{what} {name}": value for name, value in values.items()}


def _told(value: object) -> str:
    return "not set" if value is None else cut(value)
