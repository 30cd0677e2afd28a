"""The console sessions: who has logged in with a browser, and until when.

A console session is named by a secret that the browser keeps in a cookie and that is new at every login. Only a digest
of the secret is kept, in memory; a restart of the broker ends all console sessions. A console session is no session of
AMQP 1.0.
"""

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256

from core.access.rights import Rights

SECRET_BYTES = 32
"""Bytes of a secret: 256 bits, which cannot be guessed or looked for."""
SESSIONS_PER_USER_MAX = 16
"""The most console sessions of one user, who may have several browsers. One user cannot take all places."""


@dataclass(slots=True, eq=False, kw_only=True)
class ConsoleSession:
    """One login of a browser."""

    rights: Rights
    """The rights of the user, which change in place."""
    is_user: bool
    """Whether a user has logged in, and not a client with a token."""
    holds: Callable[[], bool]
    """Returns whether the user still has the password and the tags of the login."""
    csrf_token: str
    """A text that a write has to show besides the cookie. Only pages of this server can read it."""
    digest: bytes
    ends: float
    """When the console session ends in any case, in monotonic seconds."""
    used: float
    """When the last request came, in monotonic seconds."""


class ConsoleSessions:
    """All console sessions, those that were not used for longest first."""

    def __init__(
        self,
        *,
        idle: float,
        age_max: float,
        sessions_max: int,
        random_bytes: Callable[[int], bytes],
        monotonic: Callable[[], float],
    ) -> None:
        """``idle`` and ``age_max`` are seconds: without a request, and since the login. ``random_bytes`` must be fit
        for secrets."""
        self._idle = idle
        self._age_max = age_max
        self._sessions_max = sessions_max
        self._random_bytes = random_bytes
        self._monotonic = monotonic
        self._by_digest: dict[bytes, ConsoleSession] = {}

    def __len__(self) -> int:
        """How many there are, with those that have ended and were not asked for since."""
        return len(self._by_digest)

    def begin(
        self, rights: Rights, *, is_user: bool, holds: Callable[[], bool] = lambda: True
    ) -> tuple[str, ConsoleSession]:
        """Make a console session; returns the secret that names it, which is not kept. If there are too many, the one
        of this user that was not used for longest ends, or that of another user if this one has none."""
        for session in [one for one in self._by_digest.values() if not self.lasts(one)]:
            self.end(session)
        own = [one for one in self._by_digest.values() if (one.rights.user, one.is_user) == (rights.user, is_user)]
        if len(own) >= SESSIONS_PER_USER_MAX or len(self._by_digest) >= self._sessions_max:
            self.end(own[0] if own else next(iter(self._by_digest.values())))
        secret, now = self._random_bytes(SECRET_BYTES).hex(), self._monotonic()
        session = ConsoleSession(
            rights=rights,
            is_user=is_user,
            holds=holds,
            csrf_token=self._random_bytes(SECRET_BYTES).hex(),
            digest=_digest(secret),
            ends=now + self._age_max,
            used=now,
        )
        self._by_digest[session.digest] = session
        return secret, session

    def find(self, secret: str) -> ConsoleSession | None:
        """Return the console session that a request names, which is used now; None if there is none or it has ended."""
        session = self._by_digest.get(_digest(secret))
        if session is None:
            return None
        if not self.lasts(session):
            self.end(session)
            return None
        session.used = self._monotonic()
        self._by_digest[session.digest] = self._by_digest.pop(session.digest)  # the last of them
        return session

    def lasts(self, session: ConsoleSession) -> bool:
        """Whether a console session has not ended."""
        now = self._monotonic()
        return (
            session.digest in self._by_digest
            and now < session.ends
            and now < session.used + self._idle
            and session.holds()
        )

    def end(self, session: ConsoleSession) -> None:
        """End a console session: its secret names nothing any more."""
        self._by_digest.pop(session.digest, None)


def _digest(secret: str) -> bytes:
    return sha256(secret.encode()).digest()
