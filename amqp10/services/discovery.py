"""Which hosts there are, whether they are well, and what they have done: each says it when it is asked.

The question is the command ``services:describe``, which every host of every service answers. It goes to all hosts of a
type, or of all types, as a multicast whose copies each get an answer. There is no list of hosts anywhere, so none can
be out of date; a host that does not answer in time is not there.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from inspect import isawaitable

from amqp10.services.bodies import plain, read
from amqp10.services.commands import HealthCheck
from amqp10.services.counts import CommandCounts
from amqp10.services.errors import BadBody
from amqp10.services.naming import ServiceName

DESCRIBE = "services:describe"
"""The command; names that begin with ``services:`` are the kit's own."""
OWN_PREFIX = "services:"
HOSTS_MAX = 10_000
"""Answers that are kept of one question; more are dropped."""


@dataclass(frozen=True, slots=True)
class CommandDescription:
    """What one command has done at one host; see :class:`amqp10.services.counts.CommandCounts`."""

    requests: int
    errors: int
    retried: int
    seconds: float
    longest_s: float
    last_error: str


@dataclass(frozen=True, slots=True)
class HostDescription:
    """What one host says of itself."""

    type: str
    host: str
    up_s: float
    """Seconds since its service was opened."""
    problem: str | None
    """What its health check found; None when it is well, or has no check."""
    in_hand: int
    """Requests that are being executed."""
    in_flight: int
    """Calls, casts and answers of its own that are not over."""
    suppressed: int
    """Duplicates that were not executed again."""
    uncertain: int
    """Requests that another process may have executed, and that were not executed."""
    answers_lost: int
    """Answers that could not be delivered."""
    commands: dict[str, CommandDescription]

    @property
    def healthy(self) -> bool:
        """The health check found nothing."""
        return self.problem is None


def described(
    place: ServiceName,
    counts: Mapping[str, CommandCounts],
    *,
    up_s: float,
    problem: str | None,
    in_hand: int,
    in_flight: int,
    suppressed: int,
    uncertain: int,
    answers_lost: int,
) -> HostDescription:
    """The description of a host. The kit's own commands are left out."""
    return HostDescription(
        type=place.type,
        host=place.host or "",
        up_s=up_s,
        problem=problem,
        in_hand=in_hand,
        in_flight=in_flight,
        suppressed=suppressed,
        uncertain=uncertain,
        answers_lost=answers_lost,
        commands={
            name: CommandDescription(
                requests=one.requests,
                errors=one.errors,
                retried=one.retried,
                seconds=one.seconds,
                longest_s=one.longest_s,
                last_error=one.last_error,
            )
            for name, one in counts.items()
            if not name.startswith(OWN_PREFIX)
        },
    )


async def problem_found(check: HealthCheck | None) -> str | None:
    """What the health check of a host finds; None when it is well, or has no check."""
    if check is None:
        return None
    try:
        found = check()
        if isawaitable(found):
            found = await found
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None if found is None or found is True else str(found) or "the health check said no"


def hosts_in(answers: list[object]) -> list[HostDescription]:
    """The hosts that have answered, by type and host. Answers of other programs, which are no descriptions, are left
    out."""
    hosts = []
    for answer in answers:
        try:
            hosts.append(read(HostDescription, answer))
        except BadBody:
            continue
    return sorted(hosts, key=lambda one: (one.type, one.host))


def as_body(description: HostDescription) -> object:
    """The body of the answer."""
    return plain(description)
