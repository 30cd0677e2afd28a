"""Checks the single entries of a file's lists: whether an entry has the fields and types that RabbitMQ writes, and
whether this broker accepts their values. Each wrong argument and key is reported separately, by the engine's own rules.

A missing field with a default gets it. An unknown field is a note, not a problem, because newer versions of RabbitMQ
add fields.
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, ClassVar

from core.definitions_file.document import Remark, Thing
from core.definitions_file.json_values import Path, cut, shown_path
from core.engine.options.arguments import CLASSIC, QUEUE_ARGUMENTS, QUEUE_TYPES, check_exchange_arguments, check_queue
from core.engine.options.policies import KEYS, checked
from core.engine.routing.exchanges import DEFAULT_EXCHANGE
from core.engine.routing.names import NAME_BYTES_MAX, RESERVED_PREFIX
from core.errors import EngineError
from core.interface import Binding, ExchangeDeclaration, ExchangeType, QueueDeclaration
from core.store.definitions import PolicyDeclaration

ONE_NODE = "it is for clusters, and this broker is one node"
NO_FEDERATION = "this broker has no federation"
OWN_MEMORY = "the broker divides its memory itself"
KEYS_WITHOUT_MEANING: Mapping[str, str] = {
    "queue-leader-locator": ONE_NODE,
    "queue-master-locator": ONE_NODE,
    "initial-cluster-size": ONE_NODE,
    "queue-version": "there is one kind of index",
    "max-in-memory-length": OWN_MEMORY,
    "max-in-memory-bytes": OWN_MEMORY,
    "stream-filter-size-bytes": "filter values are exact",
    "federation-upstream": NO_FEDERATION,
    "federation-upstream-set": NO_FEDERATION,
    "federation-upstream-pattern": NO_FEDERATION,
}
"""Keys of RabbitMQ's policies that would have no effect here. They are left out, with a note."""


@dataclass(frozen=True, slots=True)
class Allowed:
    """The allowed values of a field. Pydantic is not used, because importing it takes longer than the command that uses
    this."""

    words: str
    check: Callable[[object], bool]


STRING = Allowed("a string", lambda value: isinstance(value, str))
STRING_OR_NULL = Allowed("a string", lambda value: value is None or isinstance(value, str))
TRUTH = Allowed("true or false", lambda value: isinstance(value, bool))
WHOLE = Allowed("a whole number", lambda value: isinstance(value, int) and not isinstance(value, bool))
OBJECT = Allowed("an object", lambda value: isinstance(value, dict))
END = Allowed("'queue' or 'exchange'", lambda value: value in ("queue", "exchange"))

NAMED = {"name": STRING, "vhost": STRING}
DECLARED = {"durable": TRUTH, "auto_delete": TRUTH, "arguments": OBJECT}


@dataclass(slots=True)
class Findings:
    """The problems and notes about a file so far."""

    problems: list[Remark]
    notes: list[Remark]

    def problem(self, path: Path, text: str) -> None:
        """Add a problem, which forbids the use of the whole file."""
        self.problems.append(Remark(shown_path(path), text))

    def note(self, path: Path, text: str) -> None:
        """Add a note about something that is left out."""
        self.notes.append(Remark(shown_path(path), text))


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeEntry:
    """An exchange as RabbitMQ writes it."""

    allowed: ClassVar[Mapping[str, Allowed]] = {**NAMED, "type": STRING, "internal": TRUTH, **DECLARED}

    name: str
    vhost: str = ""
    type: str
    durable: bool = True
    auto_delete: bool = False
    internal: bool = False
    arguments: dict[str, object] = field(default_factory=dict)

    def thing(self, path: Path, found: Findings) -> ExchangeDeclaration | None:
        """Return the declaration; None if the entry is left out or wrong."""
        if self.name == DEFAULT_EXCHANGE or self.name.startswith(RESERVED_PREFIX):
            found.note(path, f"exchange '{self.name}' is the broker's own, as it is everywhere")
            return None
        _check_name(found, (*path, "name"), self.name)
        for argument, value in self.arguments.items():
            _check(found, (*path, "arguments", argument), check_exchange_arguments, self.name, {argument: value})
        try:
            kind = ExchangeType(self.type)
        except ValueError:
            types = ", ".join(known.value for known in ExchangeType)
            found.problem((*path, "type"), f"there is no type {cut(self.type)}; use one of {types}, or take it out")
            return None
        return ExchangeDeclaration(
            name=self.name,
            type=kind,
            durable=self.durable,
            auto_delete=self.auto_delete,
            internal=self.internal,
            arguments=self.arguments,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueEntry:
    """A queue as RabbitMQ writes it."""

    allowed: ClassVar[Mapping[str, Allowed]] = {**NAMED, "type": STRING_OR_NULL, "exclusive": TRUTH, **DECLARED}

    name: str
    vhost: str = ""
    type: str | None = None
    """The same as x-queue-type, or the type that results from the virtual host's default type."""
    durable: bool = True
    auto_delete: bool = False
    exclusive: bool = False
    arguments: dict[str, object] = field(default_factory=dict)

    def thing(self, path: Path, found: Findings) -> QueueDeclaration | None:
        """Return the declaration; None if the entry is left out or wrong."""
        if self.name.startswith(RESERVED_PREFIX):
            found.note(path, f"queue '{self.name}' was named by a broker for a client that is gone")
            return None
        if self.exclusive:
            found.note(path, f"queue '{self.name}' is exclusive and goes with its connection")
            return None
        _check_name(found, (*path, "name"), self.name)
        arguments = self._arguments(path, found)
        declaration = QueueDeclaration(
            name=self.name, durable=self.durable, auto_delete=self.auto_delete, arguments=arguments
        )
        if not self._wrong_arguments(path, arguments, found):
            _check(found, path, check_queue, declaration)
        return declaration

    def _arguments(self, path: Path, found: Findings) -> dict[str, object]:
        if self.type is None:
            return self.arguments
        if "x-queue-type" not in self.arguments:
            return self.arguments if self.type == CLASSIC else {**self.arguments, "x-queue-type": self.type}
        if self.arguments["x-queue-type"] != self.type:
            found.problem((*path, "type"), f"it is {cut(self.type)}, and x-queue-type says otherwise; take one out")
        return self.arguments

    def _wrong_arguments(self, path: Path, arguments: Mapping[str, object], found: Findings) -> bool:
        kind = arguments.get("x-queue-type", CLASSIC)
        if not isinstance(kind, str) or kind not in QUEUE_TYPES:
            place = (*path, "arguments", "x-queue-type")
            found.problem(place, f"there is no type {cut(kind)}; use one of {', '.join(QUEUE_TYPES)}")
            return True
        before = len(found.problems)
        for name, value in arguments.items():
            place, rule = (*path, "arguments", name), QUEUE_ARGUMENTS[kind].get(name)
            if rule is None and name.startswith("x-"):
                found.problem(place, f"queues of type '{kind}' do not have this argument; take it out")
            elif rule is not None and not rule.check(value):
                found.problem(place, f"it is {cut(value)}, it must be {rule.allowed}")
        return len(found.problems) > before


@dataclass(frozen=True, slots=True, kw_only=True)
class BindingEntry:
    """A binding as RabbitMQ writes it."""

    allowed: ClassVar[Mapping[str, Allowed]] = {
        "source": STRING,
        "vhost": STRING,
        "destination": STRING,
        "destination_type": END,
        "routing_key": STRING,
        "arguments": OBJECT,
    }

    source: str
    vhost: str = ""
    destination: str
    destination_type: str
    routing_key: str = ""
    arguments: dict[str, object] = field(default_factory=dict)

    def thing(self, path: Path, found: Findings) -> Binding | None:
        """Return the declaration; None if the entry is left out or wrong."""
        to_queue = self.destination_type == "queue"
        if self.source == DEFAULT_EXCHANGE:
            found.note(path, "every queue is bound to the default exchange by its name, and nothing else is")
            return None
        if to_queue and self.destination.startswith(RESERVED_PREFIX):
            found.note(path, f"queue '{self.destination}' was named by a broker for a client that is gone")
            return None
        _check_name(found, (*path, "source"), self.source)
        _check_name(found, (*path, "destination"), self.destination)
        if len(self.routing_key.encode()) > NAME_BYTES_MAX:
            found.problem((*path, "routing_key"), f"it is longer than {NAME_BYTES_MAX} bytes; shorten it")
        return Binding(
            source=self.source,
            destination=self.destination,
            destination_is_queue=to_queue,
            binding_key=self.routing_key,
            arguments=self.arguments,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyEntry:
    """A policy as RabbitMQ writes it."""

    allowed: ClassVar[Mapping[str, Allowed]] = {
        **NAMED,
        "pattern": STRING,
        "apply-to": STRING,
        "priority": WHOLE,
        "definition": OBJECT,
    }

    name: str
    vhost: str = ""
    pattern: str
    apply_to: str = "all"
    priority: int = 0
    definition: dict[str, object]

    def thing(self, path: Path, found: Findings) -> PolicyDeclaration | None:
        """Return the declaration; None if the entry is left out or wrong."""
        before = len(found.problems)
        kept: dict[str, object] = {}
        for key, value in self.definition.items():
            place, rule = (*path, "definition", key), KEYS.get(key)
            if key in KEYS_WITHOUT_MEANING:
                found.note(place, KEYS_WITHOUT_MEANING[key])
            elif rule is None:
                found.problem(place, "policies do not have this key; take it out")
            elif not rule.check(value):
                found.problem(place, f"it is {cut(value)}, it must be {rule.allowed}")
            else:
                kept[key] = value
        if self.definition and not kept:
            if len(found.problems) == before:
                found.note(path, f"policy '{self.name}' says nothing else")
            return None
        declaration = PolicyDeclaration(
            name=self.name, pattern=self.pattern, priority=self.priority, apply_to=self.apply_to, definition=kept
        )
        if len(found.problems) == before:
            _check(found, path, checked, declaration)
        return declaration


EntryModel = type[ExchangeEntry] | type[QueueEntry] | type[BindingEntry] | type[PolicyEntry]


def thing_at(path: Path, value: object, *, model: EntryModel, found: Findings) -> Thing | None:
    """Return the declaration of an entry, or None. An entry with problems may still give a declaration, so that it can
    be compared with the others."""
    if not isinstance(value, dict):
        found.problem(path, f"it is {cut(value)}, it must be an object")
        return None
    before = len(found.problems)
    needed = {one.name for one in fields(model) if one.default is MISSING and one.default_factory is MISSING}
    said: dict[str, Any] = {}
    for written, allowed in model.allowed.items():
        name = written.replace("-", "_")
        if written not in value:
            if name in needed:
                found.problem((*path, written), "it is missing")
        elif allowed.check(value[written]):
            said[name] = value[written]
        else:
            found.problem((*path, written), f"it is {cut(value[written])}, it must be {allowed.words}")
    return model(**said).thing(path, found) if len(found.problems) == before else None


def known_fields(model: EntryModel) -> frozenset[str]:
    """Return the fields of an entry as they are spelled in the file."""
    return frozenset(model.allowed)


def _check_name(found: Findings, path: Path, name: str) -> None:
    if not name:
        found.problem(path, "it is empty; give it a name")
    elif "\r" in name or "\n" in name:
        found.problem(path, f"{cut(name)} contains a line break; take it out")
    elif (size := len(name.encode())) > NAME_BYTES_MAX:
        found.problem(path, f"{cut(name)} has {size} bytes, names have at most {NAME_BYTES_MAX}")


def _check(found: Findings, path: Path, check: Callable[..., object], *values: object) -> None:
    """Run a check of the engine, and add its error as a problem."""
    try:
        check(*values)
    except EngineError as error:
        found.problem(path, str(error))
