"""Settings of authentication: who may connect, and how a password is kept.

A password is kept as SCRAM keys in one line, ``SCRAM-SHA-256$4096:SALT$STORED:SERVER`` with the last three in
base64 (the form is that of RFC 5803). From them a password can be checked, for PLAIN as for SCRAM, but not
found.
"""

import base64
import binascii
import re
from dataclasses import dataclass
from typing import Annotated, Self

from pydantic import BeforeValidator, Field

from core.config.section import Section
from core.config.units import Seconds

ITERATIONS_MIN = 4096
"""[RFC 7677 4]"""
ITERATIONS_MAX = 100_000
"""A log-in is computed in the event loop, at 0.25 us an iteration: with this many it holds up others for 25
ms."""
SALT_BYTES_MIN = 12
DIGEST_BYTES = 32

_SCRAM = re.compile(r"SCRAM-SHA-256\$([0-9]{1,8}):([^$:]+)\$([^$:]+):([^$:]+)")


@dataclass(frozen=True, slots=True)
class ScramKeys:
    """What is kept of a password [RFC 5802 3]."""

    iterations: int
    salt: bytes
    stored_key: bytes
    server_key: bytes

    @classmethod
    def parse(cls, text: str) -> Self:
        """From one line. Raises ValueError, without repeating the line."""
        match = _SCRAM.fullmatch(text)
        if match is None:
            raise ValueError("must be a line made by: headgate hash-password")
        try:
            salt, stored_key, server_key = (base64.b64decode(match[i], validate=True) for i in (2, 3, 4))
        except binascii.Error:
            raise ValueError("must have its salt and keys in base64") from None
        keys = cls(int(match[1]), salt, stored_key, server_key)
        if not ITERATIONS_MIN <= keys.iterations <= ITERATIONS_MAX:
            raise ValueError(f"must have {ITERATIONS_MIN} to {ITERATIONS_MAX} iterations")
        if len(salt) < SALT_BYTES_MIN or {len(stored_key), len(server_key)} != {DIGEST_BYTES}:
            raise ValueError(f"must have a salt of {SALT_BYTES_MIN} bytes or more and keys of {DIGEST_BYTES}")
        return keys

    def render(self) -> str:
        """One line, as :meth:`parse` takes it."""
        salt, stored_key, server_key = (
            base64.b64encode(part).decode("ascii") for part in (self.salt, self.stored_key, self.server_key)
        )
        return f"SCRAM-SHA-256${self.iterations}:{salt}${stored_key}:{server_key}"


def _parse_keys(value: object) -> object:
    return ScramKeys.parse(value) if isinstance(value, str) else value


class UserSettings(Section):
    """One user. Users have all rights."""

    name: str = Field(min_length=1, max_length=255)
    """What the client gives as its user name."""

    scram: Annotated[ScramKeys, BeforeValidator(_parse_keys)]
    """The keys of the password: a line made by headgate hash-password."""


class AccessSettings(Section):
    """How peers say who they are."""

    anonymous: bool = False
    """Whether ANONYMOUS, and connections without SASL, are let in from everywhere and beside users. While guest is the
    only user, peers on this machine may use ANONYMOUS either way, as guest."""

    password_cache: Seconds = Field(default=10.0, ge=0.0, le=3600.0)
    """How long a password that was right with PLAIN is not computed anew (which takes milliseconds)."""
