"""What the logins of one broker share, and the one step of them that takes long: a password's hash.

A hash takes a fifth of a second by design, so the event loop never computes one. A :class:`PasswordCheck` is handed to
``Access.submit``; the server begins it when a worker thread is free, runs what :meth:`PasswordCheck.begin` gives in
that thread, and hands the result to :meth:`PasswordCheck.finish`. Meanwhile the mechanism's exchange answers ``wait``.

Nothing here awaits, and no thread is begun here. Only :meth:`PasswordCheck._prove` runs outside of the event loop.
"""

import hmac
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from structlog.typing import FilteringBoundLogger

from core.access.attempts import Attempts
from core.access.exchange import FAILURE, LATER, WAIT, Reply, success
from core.access.passwords import hash_password
from core.access.users import SALT_BYTES, Users
from core.config.access import ScramKeys


@dataclass(frozen=True, slots=True)
class LoginPeer:
    """Who tries to log in, as far as the socket tells."""

    host: str
    loopback: bool
    wake: Callable[[], None]
    """Has the exchange be asked again, after it said ``wait``."""


@dataclass(slots=True, kw_only=True)
class Access:
    """Users, the limits on attempts, and the way to a worker thread."""

    users: Users
    attempts: Attempts
    submit: Callable[["PasswordCheck"], bool]
    """Takes a check, to begin it when a thread is free; False when too many wait."""
    random_bytes: Callable[[int], bytes]
    """Fit for secrets. Also called in worker threads."""
    log: FilteringBoundLogger
    iterations: int
    """Keys with fewer are made anew at a login that proves the password."""
    anonymous: bool
    """Whether peers may be anonymous from everywhere and beside users."""
    keep: Callable[[ScramKeys, ScramKeys], None]
    """Writes new keys where the old ones are kept, in a worker thread. Raises OSError and ValueError."""

    def put_off(self, mechanism: str, user: str, peer: LoginPeer) -> bool:
        """Whether this login is put off, for the failures before it."""
        reason = self.attempts.limit_reached(user, peer.host)
        if reason is not None:
            self.tell_put_off(mechanism, user, peer, reason)
        return reason is not None

    def tell_put_off(self, mechanism: str, user: str, peer: LoginPeer, reason: str) -> None:
        """Into the log."""
        self.log.warning("login-put-off", peer=peer.host, mechanism=mechanism, user=user, reason=reason)

    def failed(self, mechanism: str, user: str, peer: LoginPeer) -> Reply:
        """Count and tell a failure, which is the answer."""
        self.attempts.failed(user, peer.host)
        self.log.warning("login-failed", peer=peer.host, mechanism=mechanism, user=user)
        return FAILURE

    def succeeded(self, user: str, peer: LoginPeer) -> Reply:
        """Count a success, which is the answer."""
        self.attempts.succeeded(user, peer.host)
        return success(user)


class Proof(NamedTuple):
    """What a worker thread has found."""

    right: bool
    new_keys: ScramKeys | None = None
    """In place of keys with too few iterations."""
    problem: str | None = None
    """Why the new keys could not be kept."""


@dataclass(slots=True)
class PasswordCheck:
    """Whether a password is that of a user, for one attempt."""

    access: Access
    peer: LoginPeer
    mechanism: str
    user: str
    password: str
    reply: Reply = WAIT
    """The answer, once there is one."""
    _keys: ScramKeys | None = None

    def start(self) -> Reply:
        """The answer, where it needs no hash or cannot have one; else the check is submitted."""
        if not self._known():
            self._submit()
        return self.reply

    def begin(self) -> Callable[[], Proof] | None:
        """A thread is free: what it is to run. None when that is no longer needed: others have been answered since."""
        if self._known():
            self.peer.wake()
            return None
        self._keys = self._keys_now()
        return self._prove

    def finish(self, proof: Proof) -> None:
        """The thread's result."""
        users, keys = self.access.users, self._keys
        if keys != self._keys_now():  # another password has been set meanwhile, or the same one hashed anew
            self._submit()
            if self.reply is not WAIT:
                self.peer.wake()
            return
        if not proof.right:
            self.reply = self.access.failed(self.mechanism, self.user, self.peer)
        else:
            if proof.new_keys is not None:
                users.set_keys(self.user, proof.new_keys)
                self._tell_upgrade(proof)
            users.remember(self.user, self.password, loopback=self.peer.loopback)
            self.reply = self.access.succeeded(self.user, self.peer)
        self.peer.wake()

    def give_up(self, reason: str) -> None:
        """No thread was free in time, or too many waited for one."""
        self.access.tell_put_off(self.mechanism, self.user, self.peer, reason)
        self.reply = LATER
        self.peer.wake()

    def _submit(self) -> None:
        if not self.access.submit(self):
            self.give_up("hashes-waiting")

    def _known(self) -> bool:
        """Decide what can be decided without a hash. A limit comes first: what is remembered is no way around it."""
        if self.access.put_off(self.mechanism, self.user, self.peer):
            self.reply = LATER
        elif self.access.users.remembers(self.user, self.password, loopback=self.peer.loopback):
            self.reply = self.access.succeeded(self.user, self.peer)
        return self.reply is not WAIT

    def _keys_now(self) -> ScramKeys:
        return self.access.users.keys(self.user, loopback=self.peer.loopback)

    def _prove(self) -> Proof:
        """In a worker thread."""
        access, keys = self.access, self._keys
        assert keys is not None
        try:
            given = hash_password(self.password, salt=keys.salt, iterations=keys.iterations)
        except ValueError:
            return Proof(right=False)
        if not hmac.compare_digest(given.stored_key, keys.stored_key):
            return Proof(right=False)
        if keys.iterations >= access.iterations or not access.users.configured(self.user):
            return Proof(right=True)
        new = hash_password(self.password, salt=access.random_bytes(SALT_BYTES), iterations=access.iterations)
        try:
            access.keep(keys, new)
        except (OSError, ValueError) as error:
            return Proof(right=True, new_keys=new, problem=str(error))
        return Proof(right=True, new_keys=new)

    def _tell_upgrade(self, proof: Proof) -> None:
        log, iterations = self.access.log, self.access.iterations
        if proof.problem is None:
            log.info("password-hash-upgraded", user=self.user, iterations=iterations)
        else:
            remedy = "make its line with headgate hash-password"
            log.warning("password-hash-not-kept", user=self.user, reason=proof.problem, remedy=remedy)
