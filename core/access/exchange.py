"""The interface of a SASL mechanism for the protocols that carry it [RFC 4422 3]: it replies to responses.

A reply is a plain pair, so that this package and the protocols need not share classes. ``("challenge", data)``
continues the exchange. ``("success", identity in UTF-8)``, ``("failure", b"")`` and ``("later", b"")`` end it.
``("wait", b"")`` means that the answer is being computed.
"""

from typing import Literal, Protocol

Reply = tuple[Literal["challenge", "success", "failure", "later", "wait"], bytes]

FAILURE: Reply = ("failure", b"")
"""It gives no reason, so that an attacker does not learn whether the name exists."""

LATER: Reply = ("later", b"")
"""No decision was made: there were too many failures, or too many logins wait. The peer may try again."""

WAIT: Reply = ("wait", b"")
"""Call ``respond`` again, with b"", when the peer was woken. Input from the peer has to wait until then."""


def success(identity: str) -> Reply:
    """Return the reply to a peer that has proven this identity."""
    return "success", identity.encode()


class SaslExchange(Protocol):
    """One authentication attempt of one peer."""

    def respond(self, response: bytes) -> Reply:
        """Answer the initial response (b"" if there is none) or the response to a challenge. Raises nothing.

        It is not called again after the exchange has ended. After ``wait`` it is called with b"" until there is another
        answer.
        """


class SaslMechanism(Protocol):
    """A SASL mechanism for one peer."""

    @property
    def name(self) -> str:
        """The name of the mechanism; for those in a standard, as registered with IANA."""

    def start(self) -> SaslExchange:
        """Begin a new attempt."""
