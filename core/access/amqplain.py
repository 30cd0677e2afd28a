"""The SASL mechanism AMQPLAIN: name and password in the clear, as a field table of AMQP 0.9.1.

No standard has it; AMQP brokers spoke it before PLAIN, and clients still offer it. The response is the inside of
a table, without the length before it: the fields ``LOGIN`` and ``PASSWORD``, long strings both. Nothing else is
understood, so that no table reader is needed here: one of another type ends the attempt.
"""

from dataclasses import dataclass

from core.access.exchange import SaslExchange
from core.access.login import Access, LoginPeer
from core.access.mechanisms import PasswordExchange

FIELDS_MAX = 8
"""There are two. Some clients might say more about themselves, but none so much."""

_LONG_STRING = ord("S")


@dataclass(frozen=True, slots=True)
class Amqplain:
    """Name and password in the clear, in a field table."""

    access: Access
    peer: LoginPeer
    name: str = "AMQPLAIN"

    def start(self) -> SaslExchange:
        """A fresh attempt."""
        return PasswordExchange(self.name, self.access, self.peer, _credentials)


def _credentials(response: bytes) -> tuple[bytes, bytes] | None:
    fields = long_strings(response)
    if fields is None or "LOGIN" not in fields or "PASSWORD" not in fields:
        return None
    return fields["LOGIN"], fields["PASSWORD"]


def long_strings(fields: bytes) -> dict[str, bytes] | None:
    """The fields of a table that has long strings only, each once; None for anything else [0-9-1 4.2.5.5]."""
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
