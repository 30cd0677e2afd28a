"""Logins without sockets. The passwords of the users are hashed with few iterations.

Checks of passwords run at once, or when a test says so.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog
from structlog.testing import LogCapture

from core.access.attempts import Attempts
from core.access.audit import AuditedPeer, AuditLog
from core.access.login import Access, LoginPeer, PasswordCheck
from core.access.passwords import hash_password
from core.access.users import Users
from core.config.access import ITERATIONS_MIN, AccessSettings, HashName, ScramKeys, UserSettings

SALT = b"salt for the tests"


def user(name: str, password: str, *, iterations: int = ITERATIONS_MIN, hash_name: HashName = "sha256") -> UserSettings:
    """A user whose keys take little time to compute."""
    keys = hash_password(password, salt=SALT, iterations=iterations, hash_name=hash_name)
    return UserSettings(name=name, scram=keys)


def counting_bytes() -> Callable[[int], bytes]:
    """A source of bytes that differ from call to call and are the same in every run."""
    numbers = itertools.count()
    return lambda length: next(numbers).to_bytes(length)


def hash_at_once(check: PasswordCheck) -> bool:
    """Check the password at once: the ``submit`` of tests that are not about waiting."""
    work = check.begin()
    if work is not None:
        check.finish(work())
    return True


@dataclass
class Held:
    """Checks of passwords that wait until the test runs them."""

    most: int = 1000
    checks: list[PasswordCheck] = field(default_factory=list)

    def submit(self, check: PasswordCheck) -> bool:
        """See :class:`core.access.login.Access`."""
        if len(self.checks) == self.most:
            return False
        self.checks.append(check)
        return True

    def run(self) -> int:
        """Run the checks that wait; returns how many there were."""
        checks, self.checks = self.checks, []
        for check in checks:
            hash_at_once(check)
        return len(checks)


def nothing_kept(old: ScramKeys, new: ScramKeys) -> None:
    """Throw new keys away: for tests that look for none."""


def make_access(
    *users: UserSettings,
    submit: Callable[[PasswordCheck], bool] = hash_at_once,
    monotonic: Callable[[], float] = lambda: 0.0,
    keep: Callable[[ScramKeys, ScramKeys], None] = nothing_kept,
    iterations: int = ITERATIONS_MIN,
    random_bytes: Callable[[int], bytes] | None = None,
    anonymous: bool = False,
    log: LogCapture | None = None,
    audit: AuditLog | None = None,
    **settings: object,
) -> Access:
    """Everything that logins share. ``settings`` are those of the section ``access``."""
    own = AccessSettings.model_validate(settings)
    random_bytes = random_bytes or counting_bytes()
    return Access(
        users=Users(users, cache_seconds=own.password_cache, monotonic=monotonic, random_bytes=random_bytes),
        attempts=Attempts(own, monotonic=monotonic),
        submit=submit,
        random_bytes=random_bytes,
        log=structlog.wrap_logger(None, processors=[log or LogCapture()]),
        iterations=iterations,
        hash_name=own.password_hash,
        anonymous=anonymous,
        plain_without_tls=own.plain_without_tls,
        amqplain=own.amqplain,
        keep=keep,
        audit=audit,
    )


def from_here(
    *,
    loopback: bool = True,
    host: str = "",
    wake: Callable[[], None] = lambda: None,
    encrypted: bool = False,
    audit: AuditedPeer | None = None,
) -> LoginPeer:
    """A peer on this machine or, without ``loopback``, on another one."""
    address = host or ("127.0.0.1" if loopback else "192.0.2.1")
    return LoginPeer(address, loopback, wake, encrypted=encrypted, audit=audit)
