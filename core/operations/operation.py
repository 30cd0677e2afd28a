"""What an operation is: a method and a path, its parameters, the right that it needs, and the function behind it.

The table of operations is the only declaration of what an operator can ask. The management node of AMQP 1.0 and the
HTTP API read it, and the commands and the documentation are made from it. A parameter comes in the path, in the query
or in the body, over each of them alike; :func:`read` reads and checks the parameters of one call.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from enum import Enum
from types import GeneratorType, MappingProxyType
from typing import TYPE_CHECKING, Literal

from core.access.audit import shown_value
from core.access.checked_engine import CheckedEngine
from core.access.rights import ADMINISTRATOR, MANAGEMENT, MONITORING, POLICYMAKER, Rights
from core.config.audit import AuditEvent
from core.declaring import once_done
from core.errors import EngineError, Forbidden, Invalid
from core.slices import Walk
from core.virtual_hosts import VIRTUAL_HOST

if TYPE_CHECKING:  # front ends import this module, and must not load the server
    from core.control_plane import BrokerControl
    from core.engine.broker import Broker

TEXT_CHARACTERS_MAX = 1024
"""The most characters of a text. A queue's name has up to 255 bytes; percent-encoded in an AMQP 1.0 address, it has
three times as many."""
NUMBER_DIGITS_MAX = 15
"""The most digits of a number: JSON's numbers are exact up to 2^53."""
NUMBER_MAX = 10**NUMBER_DIGITS_MAX - 1
QUOTED_CHARACTERS_MAX = 48
"""The most characters of a wrong value that an error's text repeats."""


class Right(Enum):
    """What a caller may do, by the tags of its user. An operation that needs MONITOR changes nothing; its method is
    GET."""

    MANAGE = "manage"
    """See queues, exchanges and bindings, and declare what the user's permissions allow. It needs a permission on the
    virtual host."""
    MONITOR = "monitor"
    """See the broker, its queues, connections and messages."""
    OPERATE = "operate"
    """Act on what is there: move messages, close connections, drain the broker."""
    CONFIGURE = "configure"
    """Change policies. Without the tag administrator it needs a permission on the virtual host."""
    ADMINISTER = "administer"
    """See and change users and permissions, and import definitions."""


RIGHTS_OF_TAGS: Mapping[str, frozenset[Right]] = {
    ADMINISTRATOR: frozenset(Right),
    MONITORING: frozenset((Right.MANAGE, Right.MONITOR)),
    POLICYMAKER: frozenset((Right.MANAGE, Right.CONFIGURE)),
    MANAGEMENT: frozenset((Right.MANAGE,)),
}
"""What a user may do with each of RabbitMQ's tags."""


def permits(rights: Rights, right: Right) -> bool:
    """Whether a user's tags give this right, on the virtual host of these rights."""
    given = any(right in RIGHTS_OF_TAGS.get(tag, ()) for tag in rights.tags)
    needs_permission = right is Right.MANAGE or (right is Right.CONFIGURE and ADMINISTRATOR not in rights.tags)
    return given and (not needs_permission or rights.welcome)


NOUNS_OF_USERS = frozenset(("users", "permissions", "topic-permissions", "user-limits"))
NOUNS_OF_DEFINITIONS = frozenset(("policies", "definitions", "vhosts", "vhost-limits"))
"""How paths of operations on users, and on definitions, begin."""

Kind = Literal["text", "number", "flag", "map", "list"]


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of an operation. A parameter that is null counts as one that is not given."""

    name: str
    sentence: str
    """What it means, for the help of a command and for the documentation."""
    kind: Kind = "text"
    _: KW_ONLY
    in_path: bool = False
    """It is a segment of the path, which has its name in braces."""
    is_document: bool = False
    """Its value is the whole body, a map that may be large. Such an operation has no other parameter in the body."""
    required: bool = False
    """A call without it is refused. A parameter in the path is always given."""
    default: str | int | bool | None = None
    low: int = 0
    high: int = NUMBER_MAX
    """``low`` and ``high`` are the smallest and the largest value of a number."""
    characters_max: int = TEXT_CHARACTERS_MAX
    cut: bool = False
    """A text that is too long is cut, and not refused."""
    choices: tuple[str, ...] = ()
    """The only values of a text, if there are any. A path whose segment is none of them does not exist."""
    remedy: str = ""
    """What the error's text about a wrong value adds."""
    secret: bool = False
    """No record and no text has its value."""
    suggests: tuple[str, ...] = ()
    """Values of a text, or keys of a map, that a form offers. Others may be possible; the engine checks them."""
    ignored: bool = False
    """It is accepted for the sake of RabbitMQ's tools and has no effect, so a form does not ask for it."""

    def value_of(self, given: object) -> object:
        """Return the value of what a call has given. A query has texts only, so a text such as ``5`` or ``true`` is a
        number or a flag too. Raises Invalid."""
        value = given
        if isinstance(given, str):
            value = self._of_text(given)
        if not self._is_right(value):
            raise Invalid(f"{self.name} must be {self.expected}, not {quoted(given)}{self.remedy}")
        return value

    def _of_text(self, given: str) -> object:
        match self.kind:
            case "number":
                digits = given.removeprefix("-")
                is_number = digits.isascii() and digits.isdigit() and len(digits) <= NUMBER_DIGITS_MAX
                return int(given) if is_number else given
            case "flag":
                return {"true": True, "false": False}.get(given, given)
            case "text":
                if self.cut:
                    return given[: self.characters_max]
                if len(given) > self.characters_max:
                    raise Invalid(f"{self.name} must have at most {self.characters_max} characters, not {len(given)}")
        return given

    @property
    def expected(self) -> str:
        """Return what a value must be, in words that follow "must be"."""
        match self.kind:
            case "number":
                return f"a number from {self.low} to {self.high}"
            case "flag":
                return "true or false"
            case "map":
                return "a map with strings as keys"
            case "list":
                return "a list"
        return f"one of {', '.join(self.choices)}" if self.choices else "a string"

    def _is_right(self, value: object) -> bool:
        match self.kind:
            case "number":
                return isinstance(value, int) and not isinstance(value, bool) and self.low <= value <= self.high
            case "flag":
                return isinstance(value, bool)
            case "map":
                return isinstance(value, dict) and all(isinstance(key, str) for key in value)
            case "list":
                return isinstance(value, list)
        return isinstance(value, str) and (not self.choices or value in self.choices)


VHOST = Parameter("vhost", "The virtual host.", default=VIRTUAL_HOST)
"""The virtual host of what an operation names."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """The parameters of one call by name; all have been checked, and None stands for those that were not given."""

    values: Mapping[str, object]
    rights: Rights
    """Those of the caller, on the virtual host that the call names, or on the default one."""

    def host(self, control: "BrokerControl") -> "Broker":
        """The engine of the virtual host that the call names. Raises NotFound."""
        return control.hosts.named(self.text("vhost"))

    def engine(self, control: "BrokerControl") -> CheckedEngine:
        """The same, with the rights of the caller."""
        return CheckedEngine(self.host(control), self.rights)

    def text(self, name: str) -> str:
        """Return a text that was given, or has a default."""
        value = self.values[name]
        assert isinstance(value, str)
        return value

    def optional_text(self, name: str) -> str | None:
        """Return a text; None where it was not given."""
        return None if self.values[name] is None else self.text(name)

    def number(self, name: str) -> int:
        """Return a number that was given, or has a default."""
        value = self.values[name]
        assert isinstance(value, int)
        return value

    def optional_number(self, name: str) -> int | None:
        """Return a number; None where it was not given."""
        return None if self.values[name] is None else self.number(name)

    def flag(self, name: str) -> bool:
        """Return a flag; False where it was not given."""
        return self.values[name] is True

    def list(self, name: str) -> list[object]:
        """Return a list; an empty one where it was not given."""
        value = self.values[name]
        assert isinstance(value, list | None)
        return value or []

    def map(self, name: str) -> dict[str, object]:
        """Return a map; an empty one where it was not given."""
        value = self.values[name]
        assert isinstance(value, dict | None)
        return value or {}


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a call: a status with the meaning of HTTP's, and a value of plain types.

    The value is None, a text, a map or a list. Lists in it may have many entries, so that readers encode them entry by
    entry.
    """

    status: int
    value: object = None


DONE = Reply(204)
"""The answer of an operation that has nothing to tell."""

Handler = Callable[["BrokerControl", Arguments], Reply | Walk[Reply]]
"""Carries out an operation, at once or as a walk. Raises EngineError."""


@dataclass(frozen=True, slots=True)
class AnswerField:
    """One field of an answer, with the type of its value and what it means."""

    name: str
    kind: Kind
    sentence: str


@dataclass(frozen=True, slots=True)
class Shape:
    """What an operation answers.

    A ``page`` is a map of ``items``, which are rows, and ``next``. ``fields`` are those of a map or of each row;
    rows of :data:`core.rows.KINDS` have fields of their own.
    """

    form: Literal["nothing", "text", "map", "rows", "page", "events"]
    fields: tuple[AnswerField, ...] = ()
    status: int = 200


NOTHING = Shape("nothing", status=204)


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """Parameters of a call of the broker in tests/core/operations, and its answer."""

    parameters: Mapping[str, object] = field(default_factory=dict)
    answer: object = None
    """For a map: some of its fields. For rows: the first of them, or some of its fields."""


@dataclass(frozen=True, slots=True)
class Spelling:
    """Another way in which an operation may be asked for, kept for clients that know it."""

    method: str
    path: str
    _: KW_ONLY
    status: int | None = None
    """The status of its answer, where it is not the operation's."""
    within: str = ""
    """The answer is a map with this key, and the operation's answer as its value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One entry of the table."""

    name: str
    """The noun and the verb of its command, for example ``queues.move``."""
    method: str
    path: str
    """Below ``/headgate``, with ``{name}`` for each segment that is a parameter."""
    summary: str
    """One sentence: the help of its command, and its row in the documentation."""
    handler: Handler
    right: Right
    parameters: tuple[Parameter, ...] = ()
    answer: Shape = NOTHING
    example: Example = Example()
    also: tuple[Spelling, ...] = ()
    is_audited: bool = False
    """Whether the audit log records it though it changes nothing: it shows messages, or hashes of passwords."""

    @property
    def document(self) -> Parameter | None:
        """Return the parameter whose value is the whole body; None for an operation whose body has parameters."""
        return next((parameter for parameter in self.parameters if parameter.is_document), None)

    @property
    def audit_event(self) -> AuditEvent:
        """The kind of event under which the audit log has it."""
        noun = self.path.split("/")[1]
        if noun in NOUNS_OF_USERS:
            return "users"
        return "definitions" if self.right is Right.MANAGE or noun in NOUNS_OF_DEFINITIONS else "operations"

    def shown_parameters(self, path: Mapping[str, str], given: Iterable[tuple[str, object]]) -> dict[str, object]:
        """Return the parameters of a call for the audit log: no secret, and of a document the lengths of its lists."""
        known = {parameter.name: parameter for parameter in self.parameters}
        shown: dict[str, object] = {}
        for name, value in (*path.items(), *given):
            parameter = known.get(name)
            if parameter is None or value is None:
                continue
            if parameter.is_document:
                value = (
                    {key: len(part) for key, part in value.items() if isinstance(part, list)}
                    if isinstance(value, dict)
                    else None
                )
            shown[name] = "(secret)" if parameter.secret else shown_value(value)
        return shown

    def shown_reason(self, error: Exception) -> str:
        """Return why a call has failed, for the audit log: without the text of an error that may quote a secret."""
        if isinstance(error, EngineError) and not isinstance(error, Invalid):
            return str(error)
        has_secret = any(one.secret or one.is_document for one in self.parameters)
        return "the parameters are wrong" if has_secret else str(error)

    def check_right(self, rights: Rights) -> None:
        """Raises Forbidden if the caller lacks the right that this operation needs."""
        if not permits(rights, self.right):
            tags = ", ".join(sorted(rights.tags)) or "none"
            if any(self.right in RIGHTS_OF_TAGS.get(tag, ()) for tag in rights.tags):
                raise Forbidden(
                    f"{self.name} needs the right {self.right.value}: user '{rights.user}' has the tag for it, and no "
                    f"permission on the virtual host '{rights.virtual_host[:QUOTED_CHARACTERS_MAX]}'"
                )
            needed = " or ".join(tag for tag, given in RIGHTS_OF_TAGS.items() if self.right in given)
            raise Forbidden(
                f"{self.name} needs the right {self.right.value}, which user '{rights.user}' does not have: it needs "
                f"the tag {needed}, and the tags are {tags}"
            )

    def carry_out(self, control: "BrokerControl", arguments: Arguments) -> Walk[Reply]:
        """Carry it out. Raises EngineError."""
        answer = yield from once_done(lambda: self.handler(control, arguments))
        if answer is None:
            return DONE
        if isinstance(answer, GeneratorType):
            answer = yield from answer
        assert isinstance(answer, Reply)
        return answer

    def in_body(self, body: Mapping[str, object]) -> Iterable[tuple[str, object]]:
        """Return the parameters that a body has, by name."""
        return body.items() if self.document is None else [(self.document.name, body)]

    @property
    def spellings(self) -> tuple[Spelling, ...]:
        """Return all ways to ask for it. The first is the one that the documentation names."""
        return (Spelling(self.method, self.path), *self.also)


def operation(
    name: str,
    method: str,
    path: str,
    *parameters: Parameter,
    right: Right | None = None,
    answer: Shape = NOTHING,
    example: Mapping[str, object] = MappingProxyType({}),
    gives: object = None,
    also: tuple[Spelling, ...] = (),
    is_audited: bool = False,
) -> Callable[[Handler], Operation]:
    """Make an operation of its handler, whose docstring is the summary. Without ``right``, a GET needs MONITOR, any
    other method OPERATE. ``example`` and ``gives`` are the parameters and the answer of its example."""

    def made(handler: Handler) -> Operation:
        assert handler.__doc__ is not None
        return Operation(
            name=name,
            method=method,
            path=path,
            summary=" ".join(handler.__doc__.split()),
            handler=handler,
            right=right or (Right.MONITOR if method == "GET" else Right.OPERATE),
            parameters=parameters,
            answer=answer,
            example=Example(parameters=example, answer=gives),
            also=also,
            is_audited=is_audited,
        )

    return made


def read(
    parameters: Iterable[Parameter], path: Mapping[str, str], given: Iterable[tuple[str, object]], rights: Rights
) -> Arguments:
    """Read the parameters of a call: those in its path, and those in its query and body, which may repeat what the path
    says.

    Raises Invalid for one that is missing, unknown, given more than once, or wrong.
    """
    known = {parameter.name: parameter for parameter in parameters}
    values: dict[str, object] = {name: known[name].value_of(text) for name, text in path.items()}
    free = {name: parameter for name, parameter in known.items() if name not in values}
    for name, value in given:
        if name in path and value is not None and value != path[name]:
            raise Invalid(f"{name}: the path says {quoted(path[name])}")
        if name in path:
            continue
        if name not in free:
            raise Invalid(f"there is no parameter {quoted(name)} here; there are: {', '.join(free) or 'none'}")
        if name in values:
            raise Invalid(f"{name} is given more than once")
        if value is not None:
            values[name] = free[name].value_of(value)
    for name, parameter in free.items():
        if name not in values:
            if parameter.required:
                raise Invalid(f"{name} is missing")
            values[name] = parameter.default
    return Arguments(values, rights)


def quoted(value: object) -> str:
    """Return a value of a call for an error's text: escaped, and cut to a bounded length."""
    if isinstance(value, str | bytes):
        shown = repr(value[:QUOTED_CHARACTERS_MAX])
        return shown if len(value) <= QUOTED_CHARACTERS_MAX else f"{shown}… ({len(value)} long)"
    if isinstance(value, bool | int | float) or value is None:
        return repr(value) if not isinstance(value, int) or value.bit_length() < 64 else "a number of more than 64 bits"
    return f"a value of type {type(value).__name__}"
