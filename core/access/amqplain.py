"""The SASL mechanism AMQPLAIN: name and password in clear text, as a field table of AMQP 0.9.1.

It is in no standard; AMQP brokers used it before PLAIN, and clients still offer it. The response is the contents of a
table without its length prefix: the fields ``LOGIN`` and ``PASSWORD``, both long strings. A field of another type ends
the attempt, so that no general table decoder is needed here.
"""

from dataclasses import dataclass

from core.access.exchange import SaslExchange
from core.access.login import Access, LoginPeer
from core.access.mechanisms import PasswordExchange

FIELDS_MAX = 8
"""The most fields in a response. Two are needed; a client may add a few more."""

_LONG_STRING = ord("S")


@dataclass(frozen=True, slots=True)
class Amqplain:
    """The mechanism AMQPLAIN for one peer."""

    access: Access
    peer: LoginPeer
    name: str = "AMQPLAIN"

    def start(self) -> SaslExchange:
        """Begin a new attempt."""
        return PasswordExchange(self.name, self.access, self.peer, _credentials)


def _credentials(response: bytes) -> tuple[bytes, bytes] | None:
    fields = long_strings(response)
    if fields is None or "LOGIN" not in fields or "PASSWORD" not in fields:
        return None
    return fields["LOGIN"], fields["PASSWORD"]


def long_strings(fields: bytes) -> dict[str, bytes] | None:
    """Return the fields of a table of long strings without duplicate names; None for any other table [0-9-1
    4.2.5.5]."""
    found: dict[str, bytes] = {}
    position = 0
    while position < len(fields):
        type_at = position + 1 + fields[position]
        value_at = type_at + 5
        if value_at > len(fields) or fields[type_at] != _LONG_STRING or len(found) == FIELDS_MAX:
            return None
        stop = value_at + int.from_bytes(fields[type_at + 1 : value_at])
        name = fields[position + 1 : type_at].decode("ascii", errors="replace")
        if stop > len(fields) or name in found:
            return None
        found[name] = fields[value_at:stop]
        position = stop
    return found
