"""Reads the bytes of a file into a document. If there are problems, all are reported at once and the document is empty.

A file may be from RabbitMQ, of a whole broker or of one virtual host, or from Headgate. *Problems* forbid its use.
*Notes* say what is left out because this broker does not have it. If there may be many such entries, there is one note
for each kind and not for each entry. Nothing is left out without a note.
"""

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from heapq import nsmallest

from core.definitions_file.document import Document, Remark, Thing, identity, label, sort_key
from core.definitions_file.entries import (
    BindingEntry,
    EntryModel,
    ExchangeEntry,
    Findings,
    PolicyEntry,
    QueueEntry,
    known_fields,
    thing_at,
)
from core.definitions_file.json_values import Path, cut, parse
from core.engine.options.arguments import CLASSIC
from core.engine.routing.exchanges import X_MATCH_VALUES
from core.engine.routing.topology import BUILT_IN_EXCHANGES
from core.interface import Binding, ExchangeDeclaration, ExchangeType, QueueDeclaration
from core.slices import Walk, in_order, run_at_once
from core.store.definitions import PolicyDeclaration

DEFAULT_HOST = "/"

SECTIONS: Mapping[str, EntryModel] = {
    "exchanges": ExchangeEntry,
    "queues": QueueEntry,
    "bindings": BindingEntry,
    "policies": PolicyEntry,
}
"""The lists that are imported, in the order in which their definitions can be made."""

LIMITS = "limits are in the configuration file"
LEFT_OUT: Mapping[str, str] = {
    "global_parameters": "they are settings of a cluster of RabbitMQ",
    "limits": LIMITS,
}
PARAMETERS: Mapping[str, str] = {
    "operator_policy": "there are no operator policies; make it a policy with a high priority",
    "vhost-limits": LIMITS,
    "shovel": "this broker has no shovels",
    "federation-upstream": "this broker has no federation",
    "federation-upstream-set": "this broker has no federation",
}
ABOUT_USERS = ("users", "permissions", "topic_permissions")
"""Lists that :mod:`core.access.user_definitions` reads."""
ABOUT_THE_FILE = frozenset(
    {
        "rabbit_version",
        "rabbitmq_version",
        "rabbitmq_definition_format",
        "product_name",
        "product_version",
        "original_cluster_name",
        "original_vhost_name",
        "explanation",
        "description",
        "metadata",
        "tags",
    }
)
"""Keys about the origin of the file, or that describe its virtual host. They are ignored without a note."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The result of reading a file. If there are problems, the document is empty."""

    document: Document
    problems: list[Remark]
    notes: list[Remark]
    users: Mapping[str, object] = field(default_factory=dict)
    """The lists about users, as the file has them; the broker checks them."""


def read(data: bytes, *, host: str = DEFAULT_HOST) -> Reading:
    """Read the definitions of one virtual host from a file. Entries without a virtual host belong to any."""
    value, problems = parse(data)
    if problems:
        return Reading(document=Document(), problems=problems, notes=[])
    return examine(value, host=host)


def examine(value: object, *, host: str = DEFAULT_HOST) -> Reading:
    """Read definitions from a JSON value, which must have passed ``problems_of``."""
    return run_at_once(examining(value, host=host))


def examining(value: object, *, host: str = DEFAULT_HOST) -> Walk[Reading]:
    """``examine`` as a walk."""
    found = Findings([], [])
    if not isinstance(value, dict):
        found.problem((), f"it is {cut(value)}, it must be an object with the keys {', '.join(SECTIONS)}")
        return Reading(document=Document(), problems=found.problems, notes=[])
    yield from _check_host(value, host, found)
    things: list[Placed] = []
    for section in SECTIONS:
        for placed in _things(section, value.get(section, []), host, found):
            if placed is not None:
                things.append(placed)
            yield None
    yield from _note_the_rest(value, host, found)
    yield from _check_matches(things, found)
    document = Document() if found.problems else (yield from _sorted([thing for _, thing in things]))
    users = {name: value[name] for name in ABOUT_USERS if value.get(name)}
    return Reading(document=document, problems=found.problems, notes=found.notes, users=users)


def _sorted(things: list[Thing]) -> Walk[Document]:
    exchanges, queues, bindings, policies = [], [], [], []
    for thing in (yield from in_order(things, key=sort_key)):
        match thing:
            case ExchangeDeclaration():
                exchanges.append(thing)
            case QueueDeclaration():
                queues.append(thing)
            case Binding():
                bindings.append(thing)
            case PolicyDeclaration():
                policies.append(thing)
        yield None
    return Document(exchanges=exchanges, queues=queues, bindings=bindings, policies=policies)


Placed = tuple[tuple[str, int], Thing]


def _things(section: str, entries: object, host: str, found: Findings) -> Iterator[Placed | None]:
    """Yield the definitions of a list, each with its place; None for each entry without a definition."""
    if not isinstance(entries, list):
        found.problem((section,), f"it is {cut(entries)}, it must be an array")
        return
    model = SECTIONS[section]
    known = known_fields(model)
    elsewhere: Counter[str] = Counter()
    unknown: Counter[str] = Counter()
    first: dict[Hashable, int] = {}
    for index, entry in enumerate(entries):
        if isinstance(entry, dict):
            theirs = entry.get("vhost", host)
            if isinstance(theirs, str) and theirs != host:
                elsewhere[theirs] += 1
                yield None
                continue
            unknown.update(entry.keys() - known)
        thing = thing_at((section, index), entry, model=model, found=found)
        if thing is None:
            yield None
            continue
        before = first.setdefault(identity(thing), index)
        if before != index:
            found.problem((section, index), f"{label(thing)} is there already, at {section}[{before}]; keep one")
        yield (section, index), thing
    for name, count in sorted(elsewhere.items()):
        found.note((section,), f"{count} of virtual host {cut(name)}; those of {cut(host)} were asked for")
    for name, count in sorted(unknown.items()):
        found.note((section,), f"the field {cut(name)} of {count}; it is not known here")


def _check_host(value: Mapping[str, object], host: str, found: Findings) -> Walk[None]:
    """Add a problem if the file has virtual hosts, but not the requested one."""
    hosts: set[str] = set()
    for section, key in (*((section, "vhost") for section in SECTIONS), ("vhosts", "name")):
        for entry in _objects(value, section):
            name = entry.get(key)
            if isinstance(name, str):
                hosts.add(name)
            yield None
    if hosts and host not in hosts:
        there = ", ".join(map(repr, nsmallest(10, hosts)))
        found.problem((), f"it has no virtual host {host!r}; there is {there}; choose one of them")


def _note_the_rest(value: Mapping[str, object], host: str, found: Findings) -> Walk[None]:
    for key, entries in value.items():
        if key in SECTIONS or key in ABOUT_THE_FILE or key in ABOUT_USERS:
            continue
        if key in ("vhosts", "parameters") and not isinstance(entries, list):
            found.problem((key,), f"it is {cut(entries)}, it must be an array")
        elif key == "vhosts":
            yield from _note_hosts(value, host, found)
        elif key == "default_queue_type":
            _note_default_type((key,), entries, found)
        elif key == "parameters":
            kinds: Counter[str] = Counter()
            for entry in _objects(value, key):
                kinds[str(entry.get("component"))[:80]] += 1
                yield None
            for kind, count in sorted(kinds.items()):
                why = PARAMETERS.get(kind, "they are of a plugin of RabbitMQ")
                found.note((key,), f"{count} of component {kind!r}; {why}")
        elif key not in LEFT_OUT:
            found.note((key,), "this key is not known here")
        elif entries:
            count = len(entries) if isinstance(entries, list | dict) else 1
            found.note((key,), f"{count} of them; {LEFT_OUT[key]}")


def _note_hosts(value: Mapping[str, object], host: str, found: Findings) -> Walk[None]:
    for index, entry in enumerate(_objects(value, "vhosts")):
        yield None
        metadata = entry.get("metadata")
        if entry.get("name") != host:
            found.note(("vhosts", index), f"virtual host {cut(entry.get('name'))}; {host!r} was asked for")
            continue
        default = metadata.get("default_queue_type") if isinstance(metadata, dict) else None
        _note_default_type(("vhosts", index, "default_queue_type"), entry.get("default_queue_type", default), found)


def _note_default_type(path: Path, default: object, found: Findings) -> None:
    if default not in (None, "undefined", CLASSIC):
        found.note(path, f"it is {cut(default)}; a queue without x-queue-type is {CLASSIC} here")


def _objects(value: Mapping[str, object], section: str) -> Iterator[dict[str, object]]:
    """Return the objects of a list; none if the value is not a list."""
    entries = value.get(section)
    return (entry for entry in entries if isinstance(entry, dict)) if isinstance(entries, list) else iter(())


def _check_matches(things: list[Placed], found: Findings) -> Walk[None]:
    """Check x-match of bindings to headers exchanges. For an exchange that is not in the file, the broker checks it."""
    headers = {name for name, kind in BUILT_IN_EXCHANGES.items() if kind is ExchangeType.HEADERS}
    for _, thing in things:
        if isinstance(thing, ExchangeDeclaration) and thing.type is ExchangeType.HEADERS:
            headers.add(thing.name)
        yield None
    for path, thing in things:
        yield None
        if isinstance(thing, Binding) and thing.source in headers:
            how = thing.arguments.get("x-match", "all")
            if how not in X_MATCH_VALUES:
                place = (*path, "arguments", "x-match")
                found.problem(place, f"it is {cut(how)}, it must be one of {', '.join(X_MATCH_VALUES)}")
