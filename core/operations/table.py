"""How the operation of a request is found by its method and path, and carried out.

A path is split into segments before it is percent-decoded: the virtual host ``/`` is the segment ``%2F``, and the
identity of a link has slashes too. If several paths fit, the one with a literal segment at the first difference is
used.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from core.access.audit import PARAMETERS, AuditedPeer, AuditResult
from core.access.rights import ADMINISTRATOR, Rights
from core.config.audit import AuditEvent
from core.errors import Forbidden
from core.operations.no_such import NoSuchMethod, NoSuchPath
from core.operations.operation import Operation, Reply, Spelling, quoted, read
from core.slices import Walk
from core.virtual_hosts import VIRTUAL_HOST

if TYPE_CHECKING:
    from core.control_plane import BrokerControl


@dataclass(frozen=True, slots=True)
class PathEntry:
    """One way to ask for an operation."""

    operation: Operation
    spelling: Spelling
    path: str
    """The whole path."""
    segments: tuple[str, ...]
    """The segments of the whole path."""

    def fits(self, segments: Sequence[str]) -> bool:
        """Whether these are segments of this path, apart from the choices of its parameters."""
        pairs = zip(self.segments, segments, strict=True)
        return all(own.startswith("{") or own == given for own, given in pairs)

    def values(self, segments: Sequence[str]) -> dict[str, str]:
        """Return the values of the parameters in the path."""
        pairs = zip(self.segments, segments, strict=True)
        return {own[1:-1]: given for own, given in pairs if own.startswith("{")}

    def wrong_choice(self, segments: Sequence[str]) -> str:
        """Return what is wrong with a parameter in the path that is none of its choices; "" if all are."""
        values = self.values(segments)
        for parameter in self.operation.parameters:
            value = values.get(parameter.name)
            if value is not None and parameter.choices and value not in parameter.choices:
                there_are = ", ".join(parameter.choices)
                return f"there is no {parameter.name} {quoted(value)} here; there are {there_are}{parameter.remedy}"
        return ""


@dataclass(frozen=True, slots=True)
class Call:
    """A request whose operation was found: the operation, how it was asked for, and the values in its path."""

    operation: Operation
    spelling: Spelling
    path: Mapping[str, str]

    def carry_out(
        self,
        control: "BrokerControl",
        given: Iterable[tuple[str, object]],
        rights: Rights,
        audit: AuditedPeer | None = None,
    ) -> Walk[Reply]:
        """Carry the operation out with the parameters of its query and body, for a caller with these rights. ``audit``
        records it. Raises EngineError."""
        if audit is None:
            return (yield from self._carried_out(control, given, rights))
        given = [*given]
        tell = partial(self._tell, audit, given, rights)
        try:
            reply = yield from self._carried_out(control, given, rights)
        except Forbidden as error:
            tell("refused", str(error))
            raise
        except Exception as error:  # of the engine, or of the protocol that asks; it is raised again
            tell("failed", self.operation.shown_reason(error))
            raise
        tell("done")
        return reply

    def _tell(
        self,
        audit: AuditedPeer,
        given: Iterable[tuple[str, object]],
        rights: Rights,
        result: AuditResult,
        reason: str = "",
    ) -> None:
        own = self.operation
        if own.method == "GET" and not own.is_audited and result != "refused":
            return
        shown = own.shown_parameters(self.path, given)
        event: AuditEvent = "refusals" if result == "refused" else own.audit_event
        audit.record(event, own.name, result, rights.user, {"reason": reason, PARAMETERS: shown or None})

    def _carried_out(
        self, control: "BrokerControl", given: Iterable[tuple[str, object]], rights: Rights
    ) -> Walk[Reply]:
        fields = list(given)
        named = [self.path.get("vhost"), *(value for name, value in fields if name == "vhost")]
        host = next((one for one in named if isinstance(one, str)), None)
        if host is None and self._on_a_host and rights.virtual_host != VIRTUAL_HOST:
            fields.append(("vhost", rights.virtual_host))
        there = self._rights_there(control, host, rights)
        if ADMINISTRATOR not in rights.tags or control.hosts.find(there.virtual_host) is not None:
            self.operation.check_right(there)  # else the operation says that there is no such virtual host
        arguments = read(self.operation.parameters, self.path, fields, there)
        answer = yield from self.operation.carry_out(control, arguments)
        value = {self.spelling.within: answer.value} if self.spelling.within else answer.value
        return Reply(self.spelling.status or answer.status, value)

    @property
    def _on_a_host(self) -> bool:
        """Whether the operation is on one virtual host: that of the connection, if the call names none."""
        found = self.operation.parameters
        return any(one.name == "vhost" and one.default == VIRTUAL_HOST for one in found) and "vhost" not in self.path

    def _rights_there(self, control: "BrokerControl", host: str | None, rights: Rights) -> Rights:
        """Return the caller's rights on the virtual host that the call names. Without one, they are those on the
        caller's own, or on the first that the caller may use, if the operation is on none."""
        if host is not None:
            return rights.on(host)
        if any(parameter.name == "vhost" for parameter in self.operation.parameters):
            return rights
        return where_welcome(rights, control.hosts.names)


def where_welcome(rights: Rights, hosts: Iterable[str]) -> Rights:
    """Return the rights of the same user on the first of these virtual hosts that it may use, if these rights are on
    none."""
    if rights.welcome:
        return rights
    return next((there for name in hosts if (there := rights.on(name)).welcome), rights)


class OperationTable:
    """Operations by method and path."""

    def __init__(self, operations: Mapping[str, Iterable[Operation]]) -> None:
        """``operations`` are by what stands before their paths."""
        self.entries = [
            PathEntry(operation, spelling, path := f"{before}{spelling.path}", tuple(path.split("/")[1:]))
            for before, group in operations.items()
            for operation in group
            for spelling in operation.spellings
        ]
        # a literal segment sorts before a parameter, at the first place where two paths differ
        self.entries.sort(key=lambda one: [segment.startswith("{") for segment in one.segments])
        self._by_length: dict[int, list[PathEntry]] = {}
        for entry in self.entries:
            self._by_length.setdefault(len(entry.segments), []).append(entry)

    def find(self, method: str, segments: Sequence[str]) -> Call:
        """Return the call of a request with these segments, which are decoded. Raises NoSuchPath, NoSuchMethod."""
        fitting = [entry for entry in self._by_length.get(len(segments), ()) if entry.fits(segments)]
        there = [entry for entry in fitting if not entry.wrong_choice(segments)]
        if not there:
            raise NoSuchPath(fitting[0].wrong_choice(segments) if fitting else "there is no such path")
        for entry in there:
            if entry.spelling.method == method:
                return Call(entry.operation, entry.spelling, entry.values(segments))
        raise NoSuchMethod([*dict.fromkeys(entry.spelling.method for entry in there)])
