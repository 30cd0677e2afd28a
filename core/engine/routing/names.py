"""Rules for the names of queues and exchanges, and for what a binding may name."""

from core.engine.routing.exchanges import DEFAULT_EXCHANGE, X_MATCH_VALUES
from core.errors import Forbidden, Invalid
from core.interface import Binding

RESERVED_PREFIX = "amq."
NAME_BYTES_MAX = 255
"""Length of queue and exchange names in UTF-8: what 0.9.1 can carry in a short string [0-9-1 4.2.5.3]."""


def check_name(kind: str, name: str) -> None:
    """Raises Invalid."""
    if not name:
        raise Invalid(f"a {kind} needs a name that is not empty")
    if "\r" in name or "\n" in name:
        raise Invalid(f"{kind} name {name!r} contains a line break")
    if len(name.encode()) > NAME_BYTES_MAX:
        raise Invalid(f"{kind} name '{name[:40]}…' is longer than {NAME_BYTES_MAX} bytes")


def check_not_reserved(kind: str, name: str) -> None:
    """Raises Forbidden for a name that only the broker may give."""
    if name.startswith(RESERVED_PREFIX):
        raise Forbidden(f"{kind} '{name}': the prefix '{RESERVED_PREFIX}' is reserved for the broker")


def check_not_default(exchange: str) -> None:
    """Raises Forbidden for the default exchange."""
    if exchange == DEFAULT_EXCHANGE:
        raise Forbidden("the default exchange cannot be declared, deleted, bound or unbound")


def check_x_match(binding: Binding) -> None:
    """Raises Invalid for a wrong x-match of a binding from a headers exchange."""
    how = binding.arguments.get("x-match", "all")
    if how not in X_MATCH_VALUES:
        raise Invalid(f"binding argument x-match is {how!r}, it must be one of {', '.join(X_MATCH_VALUES)}")


def default_binding(queue: str) -> Binding:
    """Return the binding from the default exchange to a queue."""
    return Binding(
        source=DEFAULT_EXCHANGE, destination=queue, destination_is_queue=True, binding_key=queue, arguments={}
    )
