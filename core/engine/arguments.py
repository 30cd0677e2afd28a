"""The arguments of queues and exchanges: which exist, which values they take, and which act already.

An argument that is accepted but does not act yet is one whose absence loses no message and keeps every
promise made to a publisher: limits that drop or expire messages, priorities, and hints. What would weaken a
promise (``x-sync``, a queue type) is refused until it acts.

==============================  ==================================  =====================================
argument                        values                              acts
==============================  ==================================  =====================================
x-queue-type                    ``classic``                         now (``quorum``, ``stream`` are refused)
x-single-active-consumer        boolean                             now
x-queue-mode, x-queue-version   ``default`` ``lazy``; 1 2           never: one kind of classic queue
x-queue-leader-locator,         string                              never: one node
x-queue-master-locator
x-max-length,                   integer >= 0                        later
x-max-length-bytes
x-overflow                      ``drop-head`` ``reject-publish``    later
                                ``reject-publish-dlx``
x-message-ttl                   integer >= 0, milliseconds          later
x-max-priority                  integer 1 to 255                    later: order of arrival until then
x-expires                       integer > 0, milliseconds           later
x-dead-letter-exchange          string                              later
x-dead-letter-routing-key       string, needs the exchange          later
alternate-exchange              string (exchanges)                  now
x-delayed-type                  string (exchanges)                  never: these types take no delay
==============================  ==================================  =====================================

Other arguments with the prefix ``x-`` are refused, because whoever sets one expects something of it.
Arguments without the prefix are the client's own and are kept.
"""

from collections.abc import Callable, Hashable, Mapping

from core.errors import Invalid, PreconditionFailed

Check = Callable[[object], bool]

CLASSIC = "classic"
LATER_TYPES = ("quorum", "stream")


def is_integer(value: object) -> bool:
    """A number that is not a boolean."""
    return isinstance(value, int) and not isinstance(value, bool)


def _one_of(*values: object) -> Check:
    return lambda value: not isinstance(value, bool) and value in values


def _at_least(minimum: int) -> Check:
    return lambda value: isinstance(value, int) and is_integer(value) and value >= minimum


def _text(value: object) -> bool:
    return isinstance(value, str)


def _boolean(value: object) -> bool:
    return isinstance(value, bool)


QUEUE_ARGUMENTS: Mapping[str, tuple[Check, str]] = {
    "x-single-active-consumer": (_boolean, "true or false"),
    "x-queue-mode": (_one_of("default", "lazy"), "'default' or 'lazy'"),
    "x-queue-version": (_one_of(1, 2), "1 or 2"),
    "x-queue-leader-locator": (_text, "a string"),
    "x-queue-master-locator": (_text, "a string"),
    "x-max-length": (_at_least(0), "an integer, 0 or more"),
    "x-max-length-bytes": (_at_least(0), "an integer, 0 or more"),
    "x-overflow": (
        _one_of("drop-head", "reject-publish", "reject-publish-dlx"),
        "'drop-head', 'reject-publish' or 'reject-publish-dlx'",
    ),
    "x-message-ttl": (_at_least(0), "an integer, 0 or more milliseconds"),
    "x-max-priority": (_one_of(*range(1, 256)), "an integer from 1 to 255"),
    "x-expires": (_at_least(1), "an integer, 1 or more milliseconds"),
    "x-dead-letter-exchange": (_text, "a string"),
    "x-dead-letter-routing-key": (_text, "a string"),
}
"""Besides the type: the check that a value passes, and what to say when it does not."""


EXCHANGE_ARGUMENTS = ("alternate-exchange", "x-delayed-type")
"""Both are names, so both must be strings."""


def queue_type(arguments: Mapping[str, object]) -> str:
    """The type that a queue's arguments name, or the default."""
    return str(arguments.get("x-queue-type", CLASSIC))


def check_queue_arguments(queue: str, arguments: Mapping[str, object]) -> None:
    """Raises Invalid for a queue type, PreconditionFailed for any other argument that cannot be met."""
    wanted = queue_type(arguments)
    if wanted in LATER_TYPES:
        raise Invalid(f"queue '{queue}': x-queue-type '{wanted}' is not supported yet; use '{CLASSIC}'")
    if wanted != CLASSIC:
        raise Invalid(f"queue '{queue}': there is no x-queue-type '{wanted}'; use '{CLASSIC}'")
    for name, value in arguments.items():
        if not name.startswith("x-") or name == "x-queue-type":
            continue
        if name not in QUEUE_ARGUMENTS:
            raise PreconditionFailed(f"queue '{queue}': argument {name} is not supported for type '{CLASSIC}'")
        check, allowed = QUEUE_ARGUMENTS[name]
        if not check(value):
            raise PreconditionFailed(f"queue '{queue}': argument {name} is {value!r}, it must be {allowed}")
    if "x-dead-letter-routing-key" in arguments and "x-dead-letter-exchange" not in arguments:
        raise PreconditionFailed(
            f"queue '{queue}': x-dead-letter-routing-key needs an x-dead-letter-exchange beside it"
        )


def check_exchange_arguments(exchange: str, arguments: Mapping[str, object]) -> None:
    """Raises PreconditionFailed for an argument that cannot be met."""
    for name, value in arguments.items():
        if name in EXCHANGE_ARGUMENTS:
            if not isinstance(value, str):
                raise PreconditionFailed(f"exchange '{exchange}': argument {name} is {value!r}, it must be a string")
        elif name.startswith("x-"):
            raise PreconditionFailed(f"exchange '{exchange}': argument {name} is not supported")


def frozen(value: object) -> Hashable:
    """A plain value as a key: equal for equal values, and a boolean is not a number."""
    if isinstance(value, Mapping):
        return ("map", frozenset((key, frozen(item)) for key, item in value.items()))
    if isinstance(value, list | tuple):
        return ("list", tuple(frozen(item) for item in value))
    if isinstance(value, bool):
        return ("bool", value)
    assert isinstance(value, Hashable)
    return value
