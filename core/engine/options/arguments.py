"""The arguments of queues and exchanges: which arguments each type of queue has, which values they take, and whether a
repeated declaration equals the existing one, arguments included.

=================================  ==================================  ======  ================================
argument                           values                              types   acts
=================================  ==================================  ======  ================================
x-queue-type                       ``classic`` ``quorum`` ``stream``   all     yes
x-max-length-bytes                 integer >= 0                        all     yes
x-sync                             ``always`` ``default``              all     yes; quorum queues always sync
x-queue-leader-locator             string                              all     q, s in a cluster
x-enqueued-time                    boolean                             all     yes: deliveries carry
                                                                               ``x-opt-enqueued-time``
x-max-length                       integer >= 0                        c q     yes
x-overflow                         ``drop-head`` ``reject-publish``    c q     yes
                                   ``reject-publish-dlx`` (c)
                                   ``block``
x-message-ttl                      integer >= 0, milliseconds          c q     yes
x-expires                          integer > 0, milliseconds           c q     yes
x-dead-letter-exchange             string                              c q     yes
x-dead-letter-routing-key          string, needs the exchange          c q     yes
x-single-active-consumer           boolean                             c q     yes
x-consumer-timeout                 integer > 0, milliseconds           c q     yes
x-sequence                         boolean                             c q     yes: deliveries carry
                                                                               ``x-opt-sequence``
x-deduplicate                      boolean                             c q     yes: repeats are dropped
x-max-priority                     integer 1 to 255                    c       yes
x-queue-mode                       ``default`` ``lazy``                c       yes
x-queue-version                    1 2                                 c       never: one kind of index
x-queue-master-locator             string                              c       never: one node
x-dead-letter-strategy             ``at-most-once`` ``at-least-once``  q       yes
x-delivery-limit, x-deliver-limit  integer >= -1; -1 is no limit       q       yes
x-quorum-initial-group-size,       integer > 0                         q       in a cluster: the least copies
x-quorum-target-group-size
x-max-in-memory-length,            integer >= 0                        q       never: the broker divides
x-max-in-memory-bytes                                                          its memory
x-max-age                          like ``7D`` or ``12h``              s       yes
x-stream-max-segment-size-bytes    integer > 0                         s       yes
x-stream-filter-size-bytes         integer 16 to 255                   s       never: filter values are exact
x-initial-cluster-size,            integer > 0                         s       in a cluster: the least copies
x-initial-group-size
alternate-exchange                 string                              exchanges; yes
x-delayed-type                     string                              exchanges; never: no type has a delay
=================================  ==================================  ======  ================================

Types: c classic, q quorum, s stream. The units of an age are those of RabbitMQ: Y years, M months, D days, h hours, m
minutes, s seconds. RabbitMQ's Python client spells ``x-delivery-limit`` as ``x-deliver-limit``, and
``x-initial-cluster-size`` as ``x-initial-group-size``; RabbitMQ itself ignores these two names.

Other arguments with the prefix ``x-`` are refused, because a client that sets one expects an effect. Arguments without
the prefix belong to the client and are kept.
"""

import re
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass

from core.errors import Inequivalent, Invalid, PreconditionFailed
from core.interface import ExchangeDeclaration, QueueDeclaration

Check = Callable[[object], bool]

CLASSIC, QUORUM, STREAM = QUEUE_TYPES = ("classic", "quorum", "stream")

INTEGER_MAX = 2**63 - 1
"""The largest number that every protocol can encode: a signed long."""
LINK_CREDIT_MAX = 2**32 - 1
"""The largest link credit there is: an unsigned integer [2.7.4]."""

_AGE = re.compile(r"[1-9][0-9]{0,8}[YMDhms]")
"""A number with its unit. At most nine digits keep the age in seconds small."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A check of a value, and the text for an error message that names the allowed values."""

    check: Check
    allowed: str


def is_integer(value: object) -> bool:
    """Return whether the value is an integer and not a boolean."""
    return isinstance(value, int) and not isinstance(value, bool)


def integer(low: int, high: int = INTEGER_MAX, unit: str = "") -> Rule:
    """Return the rule that a value is an integer within these bounds, both inclusive."""
    bounds = f"{low} or more" if high == INTEGER_MAX else f"from {low} to {high}"
    separator = "," if high == INTEGER_MAX else ""
    return Rule(
        lambda value: isinstance(value, int) and is_integer(value) and low <= value <= high,
        f"an integer{separator} {bounds}{f' {unit}' if unit else ''}",
    )


def one_of(*values: str | int) -> Rule:
    """Return the rule that a value is one of these words or numbers."""
    *others, last = map(repr, values)
    return Rule(lambda value: not isinstance(value, bool) and value in values, f"{', '.join(others)} or {last}")


TEXT = Rule(lambda value: isinstance(value, str), "a string")
BOOLEAN = Rule(lambda value: isinstance(value, bool), "true or false")
MAX_AGE = Rule(
    lambda value: isinstance(value, str) and _AGE.fullmatch(value) is not None,
    "a number above 0 with one of the units Y, M, D, h, m and s, like '7D'",
)
COUNT = integer(0)
POSITIVE = integer(1)
OVERFLOW = one_of("drop-head", "reject-publish", "reject-publish-dlx", "block")

_EVERY_TYPE: Mapping[str, Rule] = {
    "x-queue-type": one_of(*QUEUE_TYPES),
    "x-queue-leader-locator": TEXT,
    "x-max-length-bytes": COUNT,
    "x-sync": one_of("always", "default"),
    "x-enqueued-time": BOOLEAN,
}

_CLASSIC_AND_QUORUM: Mapping[str, Rule] = {
    **_EVERY_TYPE,
    "x-single-active-consumer": BOOLEAN,
    "x-max-length": COUNT,
    "x-message-ttl": integer(0, unit="milliseconds"),
    "x-expires": integer(1, unit="milliseconds"),
    "x-dead-letter-exchange": TEXT,
    "x-dead-letter-routing-key": TEXT,
    "x-consumer-timeout": integer(1, unit="milliseconds"),
    "x-sequence": BOOLEAN,
    "x-deduplicate": BOOLEAN,
}

QUEUE_ARGUMENTS: Mapping[str, Mapping[str, Rule]] = {
    CLASSIC: {
        **_CLASSIC_AND_QUORUM,
        "x-overflow": OVERFLOW,
        "x-max-priority": integer(1, 255),
        "x-queue-mode": one_of("default", "lazy"),
        "x-queue-version": one_of(1, 2),
        "x-queue-master-locator": TEXT,
    },
    QUORUM: {
        **_CLASSIC_AND_QUORUM,
        "x-overflow": one_of("drop-head", "reject-publish", "block"),
        "x-dead-letter-strategy": one_of("at-most-once", "at-least-once"),
        "x-delivery-limit": integer(-1),
        "x-deliver-limit": integer(-1),
        "x-quorum-initial-group-size": POSITIVE,
        "x-quorum-target-group-size": POSITIVE,
        "x-max-in-memory-length": COUNT,
        "x-max-in-memory-bytes": COUNT,
    },
    STREAM: {
        **_EVERY_TYPE,
        "x-max-age": MAX_AGE,
        "x-stream-max-segment-size-bytes": POSITIVE,
        "x-stream-filter-size-bytes": integer(16, 255),
        "x-initial-cluster-size": POSITIVE,
        "x-initial-group-size": POSITIVE,
    },
}
"""The rules by queue type and argument name."""

EXCHANGE_ARGUMENTS = ("alternate-exchange", "x-delayed-type")
"""Both take a name as their value, so the value must be a string."""


def queue_type(arguments: Mapping[str, object]) -> str:
    """Return the queue type that the arguments name, or the default."""
    return str(arguments.get("x-queue-type", CLASSIC))


def check_queue(declaration: QueueDeclaration) -> None:
    """Check the type and arguments of a queue. Raises Invalid for an unknown type, and for a property that the type
    does not allow. Raises PreconditionFailed for any other argument that is wrong."""
    about = f"queue '{declaration.name}'"
    arguments = declaration.arguments
    kind = queue_type(arguments)
    if kind not in QUEUE_TYPES:
        raise Invalid(
            f"{about}: there is no x-queue-type '{kind}'; use {QUEUE_ARGUMENTS[CLASSIC]['x-queue-type'].allowed}"
        )
    if kind != CLASSIC:
        _check_kept(about, kind, declaration)
    rules = QUEUE_ARGUMENTS[kind]
    for name, value in arguments.items():
        if not name.startswith("x-"):
            continue
        if name not in rules:
            raise PreconditionFailed(f"{about}: argument {name} is not supported for type '{kind}'")
        if not rules[name].check(value):
            raise PreconditionFailed(f"{about}: argument {name} is {value!r}, it must be {rules[name].allowed}")
    if "x-dead-letter-routing-key" in arguments and "x-dead-letter-exchange" not in arguments:
        raise PreconditionFailed(f"{about}: x-dead-letter-routing-key needs an x-dead-letter-exchange beside it")


def _check_kept(about: str, kind: str, declaration: QueueDeclaration) -> None:
    """Quorum queues and streams outlive connections and consumers. Raises Invalid for a declaration that says
    otherwise."""
    wrong = {
        "not durable": not declaration.durable,
        "exclusive": declaration.exclusive,
        "auto-delete": declaration.auto_delete,
    }
    for what, is_so in wrong.items():
        if is_so:
            raise Invalid(f"{about}: a queue of type '{kind}' cannot be {what}; use type '{CLASSIC}'")


def check_exchange_arguments(exchange: str, arguments: Mapping[str, object]) -> None:
    """Raises PreconditionFailed for an argument that the broker does not support, or with a wrong value."""
    for name, value in arguments.items():
        if name in EXCHANGE_ARGUMENTS:
            if not isinstance(value, str):
                raise PreconditionFailed(f"exchange '{exchange}': argument {name} is {value!r}, it must be a string")
        elif name.startswith("x-"):
            raise PreconditionFailed(f"exchange '{exchange}': argument {name} is not supported")


def frozen(value: object) -> Hashable:
    """Turn a plain value into a hashable key. Equal values give equal keys; a boolean never equals a number."""
    if isinstance(value, Mapping):
        return ("map", frozenset((key, frozen(item)) for key, item in value.items()))
    if isinstance(value, list | tuple):
        return ("list", tuple(frozen(item) for item in value))
    if isinstance(value, bool):
        return ("bool", value)
    assert isinstance(value, Hashable)
    return value


def check_same_queue(existing: QueueDeclaration, wanted: QueueDeclaration) -> None:
    """Raises Inequivalent, which names the difference, if a repeated declaration differs from the existing one."""
    about = f"queue '{existing.name}'"
    _check_same(about, "durable", existing.durable, wanted.durable)
    _check_same(about, "exclusive", existing.exclusive, wanted.exclusive)
    _check_same(about, "auto_delete", existing.auto_delete, wanted.auto_delete)
    _check_same_arguments(
        about,
        {**existing.arguments, "x-queue-type": queue_type(existing.arguments)},
        {**wanted.arguments, "x-queue-type": queue_type(wanted.arguments)},
    )


def check_same_exchange(existing: ExchangeDeclaration, wanted: ExchangeDeclaration) -> None:
    """Raises Inequivalent, which names the difference, if a repeated declaration differs from the existing one."""
    about = f"exchange '{existing.name}'"
    _check_same(about, "type", existing.type.value, wanted.type.value)
    _check_same(about, "durable", existing.durable, wanted.durable)
    _check_same(about, "auto_delete", existing.auto_delete, wanted.auto_delete)
    _check_same(about, "internal", existing.internal, wanted.internal)
    _check_same_arguments(about, existing.arguments, wanted.arguments)


def _check_same_arguments(about: str, existing: Mapping[str, object], wanted: Mapping[str, object]) -> None:
    for name in sorted(existing.keys() | wanted.keys()):
        _check_same(about, f"argument {name}", existing.get(name), wanted.get(name))


def _check_same(about: str, field: str, existing: object, wanted: object) -> None:
    if frozen(existing) != frozen(wanted):
        raise Inequivalent(f"{about}: {field} is {_shown(existing)}, the declaration asks for {_shown(wanted)}")


def _shown(value: object) -> str:
    return "not set" if value is None else repr(value)
