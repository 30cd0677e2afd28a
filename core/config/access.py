"""Settings of authentication: who may connect, how a password is kept, and how often one may be tried.

A password is kept as SCRAM keys in one line, ``SCRAM-SHA-256$600000:SALT$STORED:SERVER`` with the last three in base64
(the form is that of RFC 5803), or the same with SHA-512. These keys suffice to check a password, for PLAIN as for SCRAM
with the same hash, but the password cannot be computed from them.
"""

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field

from core.config.section import Section
from core.config.units import Seconds, Unit

ITERATIONS_MIN = 4096
"""[RFC 7677 4]"""
ITERATIONS = 600_000
"""PBKDF2 rounds that OWASP's Password Storage Cheat Sheet asks for with HMAC-SHA-256 since 2023: a quarter of a
second."""
ITERATIONS_MAX = 5_000_000
"""These take 2 s in a worker thread: well below the time that a handshake may take."""
Logins = Annotated[int, Unit("logins")]
Threads = Annotated[int, Unit("threads")]
SALT_BYTES_MIN = 12

HashName = Literal["sha256", "sha512"]
SCRAM_MECHANISMS: Mapping[HashName, str] = {"sha512": "SCRAM-SHA-512", "sha256": "SCRAM-SHA-256"}
"""The mechanism that needs keys with this hash, the best first."""
DIGEST_BYTES: Mapping[HashName, int] = {"sha512": 64, "sha256": 32}

_SCRAM = re.compile(r"SCRAM-(SHA-256|SHA-512)\$([0-9]{1,8}):([^$:]+)\$([^$:]+):([^$:]+)")


@dataclass(frozen=True, slots=True)
class ScramKeys:
    """The keys that are stored for a password [RFC 5802 3]."""

    iterations: int
    salt: bytes
    stored_key: bytes
    server_key: bytes
    hash: HashName = "sha256"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse one line. Raises ValueError, without repeating the line."""
        match = _SCRAM.fullmatch(text)
        if match is None:
            raise ValueError("must be a line made by: headgate hash-password")
        try:
            salt, stored_key, server_key = (base64.b64decode(match[i], validate=True) for i in (3, 4, 5))
        except binascii.Error:
            raise ValueError("must have its salt and keys in base64") from None
        name: HashName = "sha512" if match[1] == "SHA-512" else "sha256"
        keys = cls(int(match[2]), salt, stored_key, server_key, name)
        if not ITERATIONS_MIN <= keys.iterations <= ITERATIONS_MAX:
            raise ValueError(f"must have {ITERATIONS_MIN} to {ITERATIONS_MAX} iterations")
        size = DIGEST_BYTES[name]
        if len(salt) < SALT_BYTES_MIN or {len(stored_key), len(server_key)} != {size}:
            raise ValueError(f"must have a salt of {SALT_BYTES_MIN} bytes or more and keys of {size}")
        return keys

    def render(self) -> str:
        """Return one line that :meth:`parse` accepts."""
        salt, stored_key, server_key = (
            base64.b64encode(part).decode("ascii") for part in (self.salt, self.stored_key, self.server_key)
        )
        return f"{SCRAM_MECHANISMS[self.hash]}${self.iterations}:{salt}${stored_key}:{server_key}"


def _parse_keys(value: object) -> object:
    return ScramKeys.parse(value) if isinstance(value, str) else value


class UserSettings(Section):
    """One user. Users in this file have all rights."""

    name: str = Field(min_length=1, max_length=255)
    """The user name that the client gives."""

    scram: Annotated[ScramKeys, BeforeValidator(_parse_keys)]
    """The keys of the password: a line made by headgate hash-password."""


class AccessSettings(Section):
    """How peers authenticate."""

    anonymous: bool = False
    """Whether ANONYMOUS, and connections without SASL, are admitted from all addresses and beside other users. While
    guest is the only user, peers on this machine may use ANONYMOUS either way, as guest."""

    plain_without_tls: bool = False
    """Whether peers on other machines may log in with PLAIN and AMQPLAIN without TLS: the password can then be read on
    the network. Peers on this machine, and peers with TLS, always may. Behind a proxy that ends TLS, and in a container
    with a published port, it must be true."""

    amqplain: bool = True
    """Whether AMQP 0.9.1 offers AMQPLAIN beside PLAIN, for clients that know no other mechanism."""

    password_cache: Seconds = Field(default=300.0, ge=0.0, le=3600.0)
    """How long a password that was correct with PLAIN is not hashed again. A change of users ends this time at once."""

    password_hash: HashName = "sha256"
    """The hash of a password's keys. Keys fit one mechanism, SCRAM-SHA-256 or SCRAM-SHA-512, and PLAIN. With sha512, a
    user with keys of sha256 gets new keys at the next login with PLAIN, written into this file; while both kinds are
    there, clients that may use PLAIN are not offered SCRAM."""

    password_iterations: Annotated[int, Unit("rounds")] = Field(
        default=ITERATIONS, ge=ITERATIONS_MIN, le=ITERATIONS_MAX
    )
    """Rounds of PBKDF2 that a password's keys should have. A user with fewer gets new keys at the next login with
    PLAIN, written into this file."""

    hashes_running_max: Threads = Field(default=2, ge=1, le=64)
    """Passwords that are hashed at the same time, each in a thread of its own."""

    hashes_waiting_max: Logins = Field(default=1024, ge=1, le=1_000_000)
    """Logins that wait for a thread."""

    failed_logins_per_user_and_address: Logins = Field(default=20, ge=1, le=1_000_000)
    """Failed logins as one user from one address within failed_logins_window; a login that succeeds forgets them."""

    failed_logins_per_address: Logins = Field(default=200, ge=1, le=1_000_000)
    """Failed logins from one address (of IPv6, one network of 64 bits), whatever the user. Does not count for users who
    have logged in from there before."""

    failed_logins_per_user: Logins = Field(default=2000, ge=1, le=1_000_000)
    """Failed logins as one user from all addresses. Does not count where that user has logged in before."""

    failed_logins_window: Seconds = Field(default=60.0, ge=1.0, le=86_400.0)
    """The time over which failed logins are forgotten, evenly."""

    failed_logins_remembered_max: Logins = Field(default=20_000, ge=100, le=10_000_000)
    """Users and addresses whose failed logins are counted."""
