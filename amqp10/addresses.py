"""Addresses: how the termini of links and the ``to`` of messages name queues and exchanges.

AMQP 1.0 leaves the form of an address to the node that resolves it [3.5.3, 3.5.4]. Headgate takes the second
version of RabbitMQ's address form, and only that:

=============================  ==============================  ============================================
address                        as a target, or as ``to``       as a source
=============================  ==============================  ============================================
``/queues/:queue``             into this queue                 from this queue
``/exchanges/:exchange/:key``  through the exchange, this key  refused: messages are kept in queues only
``/exchanges/:exchange``       the same, with an empty key     refused
=============================  ==============================  ============================================

Every segment is percent-encoded UTF-8 [RFC 3986 2.1]: only letters, digits and ``-._~`` stand for themselves.
A character that should be encoded and is not is an error, never a guess: a client that does not encode its names
fails with the first name that contains a slash. The default exchange has no address; its use is ``/queues/:queue``.

Nothing is looked up here: an address that parses may name what does not exist. A command checks addresses too, so this
module does not import the interface of the engine: :mod:`amqp10.targets` makes the engine's targets of addresses.
"""

import re

from amqp10.errors import quote
from amqp10.wire.percent import percent_decode, percent_encode
from core.errors import Invalid

MANAGEMENT_ADDRESS = "/management"
"""The node behind both halves of a management link pair."""

NAME_BYTES_MAX = 255
"""Length of a name or a routing key in UTF-8. No longer one can exist (0.9.1 carries them in short strings
[0-9-1 4.2.5.3]), so an error text that quotes one is bounded too."""

UNIQUE_CHARACTERS_MAX = 64
"""Enough for any digest. It leaves 90 characters each for the container id and the link name."""

_FORMS = "'/queues/:queue', '/exchanges/:exchange/:key' or '/exchanges/:exchange'"
_DEFAULT_EXCHANGE_NAMES = ("", "amq.default")
_DYNAMIC_PREFIX = "amq.dyn"


class AddressError(Exception):
    """An address that cannot name a node. The text names the address and the form that it should have."""


def target_names(address: object) -> tuple[str | None, str]:
    """What a target's address, or the ``to`` of a message, names: None and a queue, or an exchange and a routing key.
    Raises AddressError."""
    match _segments(address):
        case ["queues", queue]:
            return None, _queue(queue, address)
        case ["exchanges", exchange]:
            return _exchange(exchange, address), ""
        case ["exchanges", exchange, key]:
            return _exchange(exchange, address), _decoded(key, "routing key", address)
    raise _no_form(address, _FORMS)


def parse_source(address: object) -> str:
    """The name of the queue that a source's address names. Raises AddressError."""
    match _segments(address):
        case ["queues", queue]:
            return _queue(queue, address)
        case ["exchanges", *_]:
            raise AddressError(
                f"address {quote(address)}: an exchange keeps no messages;"
                " bind a queue to it and consume from '/queues/:queue'"
            )
    raise _no_form(address, "'/queues/:queue'")


def named_queue(text: str) -> str:
    """The queue that an operator names, by its name or by an address. Raises Invalid."""
    try:
        return parse_source(text) if text.startswith("/") else text
    except AddressError as error:
        raise Invalid(str(error)) from error


def queue_address(name: str) -> str:
    """The address of a queue."""
    return f"/queues/{percent_encode(name)}"


def dynamic_queue_name(container_id: str, link_name: str, unique: str) -> str:
    """A name for the queue behind a dynamic node [3.5.3]: ``amq.dyn-<container>-<link>-<unique>``.

    The container id and the link name tell an operator whose queue it is. They are cut to fit, and every character
    that an address would percent-encode becomes ``_``, so that name and address read alike. The caller chooses
    ``unique``, which tells such queues apart and is never cut: letters and digits, at most 64 of them.
    """
    assert unique.isascii()
    assert unique.isalnum()
    assert len(unique) <= UNIQUE_CHARACTERS_MAX
    room = (NAME_BYTES_MAX - len(_DYNAMIC_PREFIX) - len(unique) - 3) // 2
    return "-".join((_DYNAMIC_PREFIX, _readable(container_id, room), _readable(link_name, room), unique))


def _segments(address: object) -> list[str]:
    """The segments between the slashes; an empty list for an address that is no path."""
    if not isinstance(address, str) or not address.startswith("/"):
        return []
    return address[1:].split("/")


def _queue(segment: str, address: object) -> str:
    name = _decoded(segment, "queue name", address)
    if not name:
        raise AddressError(f"address {quote(address)}: the queue name is empty; write '/queues/:queue'")
    return name


def _exchange(segment: str, address: object) -> str:
    name = _decoded(segment, "exchange name", address)
    if name in _DEFAULT_EXCHANGE_NAMES:
        raise AddressError(
            f"address {quote(address)}: the default exchange has no address; write '/queues/:queue' to reach a queue"
        )
    return name


def _decoded(segment: str, what: str, address: object) -> str:
    try:
        text = percent_decode(segment)
    except ValueError as fault:
        raise AddressError(f"address {quote(address)}: in the {what}, {fault}") from None
    if len(text) > NAME_BYTES_MAX // 4 and len(text.encode()) > NAME_BYTES_MAX:  # UTF-8 has 4 bytes at most for one
        raise AddressError(f"address {quote(address)}: the {what} is longer than {NAME_BYTES_MAX} bytes")
    return text


def _no_form(address: object, forms: str) -> AddressError:
    if address is None:
        return AddressError(f"there is no address; it must be {forms}")
    text = f"address {quote(address)} must be {forms}"
    suggestion = _second_version(address)
    return AddressError(f"{text}; here perhaps {quote(suggestion)}" if suggestion else text)


def _second_version(address: object) -> str | None:
    """The second-version form of an address in RabbitMQ's first version, or of a name whose slashes are not encoded."""
    if not isinstance(address, str) or not address:
        return None
    if not address.startswith("/"):
        return queue_address(address)
    match address[1:].split("/"):
        case ["queue" | "queues", first, *rest] if first or rest:
            return queue_address("/".join((first, *rest)))
        case ["amq", "queue", first, *rest] if first or rest:
            return queue_address("/".join((first, *rest)))
        case ["topic", first, *rest] if first or rest:
            return f"/exchanges/amq.topic/{percent_encode('/'.join((first, *rest)))}"
        case ["exchange" | "exchanges", exchange, first, *rest] if exchange not in _DEFAULT_EXCHANGE_NAMES:
            return f"/exchanges/{percent_encode(exchange)}/{percent_encode('/'.join((first, *rest)))}"
        case ["exchange", exchange] if exchange not in _DEFAULT_EXCHANGE_NAMES:
            return f"/exchanges/{percent_encode(exchange)}"
    return None


def _readable(text: str, length_max: int) -> str:
    return re.sub(r"[^A-Za-z0-9\-._~]", "_", text[:length_max])
