"""The parts that all logins of one broker share, and their one slow step: hashing a password.

A hash takes a fifth of a second by design, so the event loop never computes one. A :class:`PasswordCheck` is passed to
``Access.submit``. When a worker thread is free, the server calls :meth:`PasswordCheck.begin`, runs the returned
function in that thread, and passes the result to :meth:`PasswordCheck.finish`. Meanwhile the mechanism's exchange
replies ``wait``.

This module neither awaits nor starts threads. Only :meth:`PasswordCheck._prove` runs outside of the event loop.
"""

import hmac
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from structlog.typing import FilteringBoundLogger

from core.access.attempts import Attempts
from core.access.audit import AuditedPeer, AuditLog
from core.access.exchange import FAILURE, LATER, WAIT, Reply, success
from core.access.passwords import hash_password
from core.access.rights import VIRTUAL_HOST, Rights
from core.access.users import SALT_BYTES, StoredPassword, Users
from core.config.access import HashName, ScramKeys
from core.errors import EngineError, Invalid, LimitReached
from core.slices import Walk

if TYPE_CHECKING:  # 0.2 MiB, only for a broker that has tokens
    from core.access.tokens import Tokens

SENT_AS_IT_IS = ("PLAIN", "AMQPLAIN")
"""The mechanisms that send a password as it is."""
PASSWORD_CHARACTERS_MAX = 512
"""With it a password has no more bytes than the mechanisms take."""

FRAME_BYTES_BESIDE_TOKEN = 2048
"""For the name of the user and, in AMQP 0.9.1, the properties of the client, which come in the same frame."""


@dataclass(slots=True)
class LoginPeer:
    """The peer that tries to log in, as seen by the socket."""

    host: str
    loopback: bool
    wake: Callable[[], None]
    """Causes ``respond`` of the exchange to be called again after it has replied ``wait``."""
    certificate_name: str | None = None
    """The name that the peer's certificate proves; None if it has none."""
    node_names: tuple[str, ...] | None = None
    """The names that the certificate of another node proves; None for a client."""
    encrypted: bool = False
    """Whether the connection uses TLS."""
    audit: AuditedPeer | None = None
    """Where its logins are recorded; None if they are not."""
    asks_often: bool = False
    """Whether it shows its password or token with each request: then a login is recorded when the password is hashed,
    or a token is shown for the first time in a while."""
    token_rights: Callable[[str], Rights] | None = None
    """Returns the rights of the token with which the peer has logged in; None without one."""


class ThreadWork(Protocol):
    """Something of a login that a worker thread does."""

    def begin(self) -> "Callable[[], Proof] | None":
        """A thread is free: return the function for it to run. None if there is nothing to do any more."""

    def finish(self, proof: "Proof") -> None:
        """Process the thread's result."""

    def give_up(self, reason: str) -> None:
        """No thread was free in time."""


@dataclass(slots=True, kw_only=True)
class Access:
    """The users, the limits on attempts, and the access to worker threads."""

    users: Users
    attempts: Attempts
    submit: Callable[[ThreadWork], bool]
    """Queues a check until a thread is free. Returns False if too many checks wait."""
    random_bytes: Callable[[int], bytes]
    """Must be fit for secrets. It is also called in worker threads."""
    log: FilteringBoundLogger
    iterations: int
    """Keys with fewer iterations are replaced after a successful login."""
    hash_name: HashName
    """The hash of new keys. Where it is sha512, keys of sha256 are replaced too."""
    anonymous: bool
    """Whether peers may be anonymous from any host, even if users are configured."""
    plain_without_tls: bool
    """Whether peers on other machines may send their password without TLS."""
    amqplain: bool
    """Whether AMQP 0.9.1 offers AMQPLAIN."""
    keep: Callable[[ScramKeys, ScramKeys], None]
    """Replaces old keys by new ones in the configuration file, in a worker thread. Raises OSError and ValueError."""
    audit: AuditLog | None = None
    """The audit log; None if there is none."""
    tokens: "Tokens | None" = None
    """What checks tokens; None while none are accepted."""

    def audited(self, protocol: str, host: str, port: int, connection: str = "") -> AuditedPeer | None:
        """Return the audit log for one peer; None if there is none."""
        return None if self.audit is None else AuditedPeer(self.audit, protocol, host, port, connection)

    def is_token(self, name: str, password: str) -> bool:
        """Return whether what a client gives as its password is a token."""
        return self.tokens is not None and self.tokens.takes(name, password)

    def largest_login(self, own: int) -> int:
        """Return the bytes of the largest frame of a login, where ``own`` bytes suffice without tokens."""
        tokens = self.tokens
        return own if tokens is None else max(own, tokens.settings.token_bytes_max + FRAME_BYTES_BESIDE_TOKEN)

    def rights_of(self, peer: LoginPeer, user: str, virtual_host: str = VIRTUAL_HOST) -> Rights:
        """Return the rights of a peer that has logged in, on a virtual host: those of its token, or of the user."""
        return (
            self.users.rights_of(user, virtual_host) if peer.token_rights is None else peer.token_rights(virtual_host)
        )

    def takes_password_of(self, peer: LoginPeer) -> bool:
        """Return whether the peer may send its password as it is: with TLS, from this machine, or where the
        configuration allows it."""
        return peer.encrypted or peer.loopback or self.plain_without_tls

    def new_keys(self, password: str, hash_name: HashName) -> ScramKeys:
        """Derive keys with a new salt, in a worker thread. Raises ValueError for a password that cannot be used."""
        salt = self.random_bytes(SALT_BYTES)
        return hash_password(password, salt=salt, iterations=self.iterations, hash_name=hash_name)

    def put_off(self, mechanism: str, user: str, peer: LoginPeer) -> bool:
        """Return whether this login is put off because of earlier failures; if so, log it."""
        reason = self.attempts.limit_reached(user, peer.host)
        if reason is not None:
            self.tell_put_off(mechanism, user, peer, reason)
        return reason is not None

    def tell_put_off(self, mechanism: str, user: str, peer: LoginPeer, reason: str) -> None:
        """Log that a login was put off."""
        self.log.warning("login-put-off", peer=peer.host, mechanism=mechanism, user=user, reason=reason)
        if peer.audit is not None:
            peer.audit.record("logins", "login", "put-off", user, {"mechanism": mechanism, "reason": reason})

    def failed(self, mechanism: str, user: str, peer: LoginPeer) -> Reply:
        """Count and log a failed login. Returns the reply."""
        self.attempts.failed(user, peer.host)
        self.log.warning("login-failed", peer=peer.host, mechanism=mechanism, user=user)
        self._tell_refused(mechanism, user, peer)
        return FAILURE

    def refused_token(self, mechanism: str, user: str, peer: LoginPeer, reason: str, text: str) -> Reply:
        """Log a token that is refused. It is no failure that counts. ``user`` is "" where the token has not proven one.
        Returns the reply."""
        self.log.warning("token-refused", peer=peer.host, mechanism=mechanism, reason=reason, text=text)
        if peer.audit is not None:
            peer.audit.record("logins", "login", "refused", user, {"mechanism": mechanism, "reason": text})
        return FAILURE

    def not_offered(self, peer: LoginPeer, mechanism: str) -> None:
        """Have the audit log record a peer that has chosen a mechanism which it is not offered. It is no failure that
        counts: nothing was tried."""
        if peer.audit is not None:
            why = "without TLS" if mechanism in SENT_AS_IT_IS and not self.takes_password_of(peer) else "not offered"
            peer.audit.record("logins", "login", "refused", "", {"mechanism": mechanism, "reason": why})

    def refused_anonymous(self, mechanism: str, peer: LoginPeer) -> Reply:
        """Refuse a login without a name. It is no failure that counts. Returns the reply."""
        self._tell_refused(mechanism, "", peer)
        return FAILURE

    def _tell_refused(self, mechanism: str, user: str, peer: LoginPeer) -> None:
        if peer.audit is not None:
            why = "no user" if not user else "wrong credentials" if self.users.configured(user) else "unknown user"
            peer.audit.record("logins", "login", "refused", user, {"mechanism": mechanism, "reason": why})

    def succeeded(self, mechanism: str, user: str, peer: LoginPeer, *, remembered: bool = False) -> Reply:
        """Count a successful login. Returns the reply. ``remembered``: its password was right a moment ago."""
        self.attempts.succeeded(user, peer.host)
        return self.admitted(mechanism, user, peer, remembered=remembered)

    def admitted(self, mechanism: str, user: str, peer: LoginPeer, *, remembered: bool = False) -> Reply:
        """Record a login, also of a peer that needs no password. Returns the reply."""
        if peer.audit is not None and not (remembered and peer.asks_often):
            peer.audit.record("logins", "login", "done", user, {"mechanism": mechanism})
        return success(user)


class Proof(NamedTuple):
    """The result of a worker thread."""

    right: bool
    new_keys: ScramKeys | None = None
    """New keys to replace those with too few iterations; None if not needed."""
    problem: str | None = None
    """Why the new keys could not be written; None if they were."""


@dataclass(slots=True)
class PasswordCheck:
    """The check of one attempt's password."""

    access: Access
    peer: LoginPeer
    mechanism: str
    user: str
    password: str
    reply: Reply = WAIT
    """The reply; ``WAIT`` until it is known."""
    _compared: StoredPassword | None = None

    def start(self) -> Reply:
        """Return the reply if it needs no hash or no thread can be had; else submit the check and return ``WAIT``."""
        if not self._known():
            self._submit()
        return self.reply

    def begin(self) -> Callable[[], Proof] | None:
        """A thread is free: return the function for it to run. None if the reply is known meanwhile, from other
        attempts."""
        if self._known():
            self.peer.wake()
            return None
        self._compared = self._credentials()
        return self._prove

    def finish(self, proof: Proof) -> None:
        """Process the thread's result."""
        users = self.access.users
        if self._compared != self._credentials():  # the user's keys were replaced meanwhile
            self._submit()
            if self.reply is not WAIT:
                self.peer.wake()
            return
        if not proof.right:
            self.reply = self.access.failed(self.mechanism, self.user, self.peer)
        else:
            if proof.new_keys is not None:
                self._tell_upgrade(self._upgraded(proof, proof.new_keys))
            users.remember(self.user, self.password, loopback=self.peer.loopback)
            self.reply = self.access.succeeded(self.mechanism, self.user, self.peer)
        self.peer.wake()

    def give_up(self, reason: str) -> None:
        """End the attempt with ``LATER``: no thread was free in time, or too many checks wait."""
        self.access.tell_put_off(self.mechanism, self.user, self.peer, reason)
        self.reply = LATER
        self.peer.wake()

    def _submit(self) -> None:
        if not self.access.submit(self):
            self.give_up("hashes-waiting")

    def _known(self) -> bool:
        """Set the reply if no hash is needed. Limits come first: they apply to remembered passwords too."""
        if self.access.put_off(self.mechanism, self.user, self.peer):
            self.reply = LATER
        elif self.access.users.remembers(self.user, self.password, loopback=self.peer.loopback):
            self.reply = self.access.succeeded(self.mechanism, self.user, self.peer, remembered=True)
        return self.reply is not WAIT

    def _upgraded(self, proof: Proof, keys: ScramKeys) -> Proof:
        """Use the new keys; those of a user of the broker are kept here."""
        try:
            self.access.users.set_keys(self.user, keys)
        except EngineError as error:
            return proof._replace(problem=str(error))
        return proof

    def _credentials(self) -> StoredPassword:
        return self.access.users.credentials(self.user, loopback=self.peer.loopback)

    def _prove(self) -> Proof:
        """Hash and compare the password, in a worker thread."""
        access, compared = self.access, self._compared
        assert compared is not None
        keys, rabbit = compared
        try:
            given = hash_password(self.password, salt=keys.salt, iterations=keys.iterations, hash_name=keys.hash)
        except ValueError:
            return Proof(right=False)
        right = hmac.compare_digest(given.stored_key, keys.stored_key)
        if rabbit is not None:  # the keys, which match no password, were compared for the same work
            right = rabbit.fits(self.password)
        if not right:
            return Proof(right=False)
        kind = access.hash_name if rabbit is not None or keys.hash == "sha256" else keys.hash
        good = keys.iterations >= access.iterations and kind == keys.hash and rabbit is None
        if good or not access.users.configured(self.user):
            return Proof(right=True)
        new = access.new_keys(self.password, kind)
        if not access.users.in_file(self.user):
            return Proof(right=True, new_keys=new)
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


@dataclass(slots=True)
class NewPassword:
    """The hash of a password that a user is to have."""

    access: Access
    password: str
    keys: ScramKeys | None = None
    """The hash; None until it is known."""
    problem: str | None = None
    """Why there is no hash."""

    def hashing(self) -> Walk[ScramKeys]:
        """Return the hash, when a thread has computed it. Raises Invalid for a password that cannot be used, and
        LimitReached if no thread is free in time."""
        if len(self.password) > PASSWORD_CHARACTERS_MAX:
            raise Invalid(f"a password may have {PASSWORD_CHARACTERS_MAX} characters, not {len(self.password)}")
        if not self.access.submit(self):
            raise LimitReached("too many logins wait for a thread; try again later")
        while self.keys is None:
            if self.problem is not None:
                raise Invalid(self.problem)
            yield None
        return self.keys

    def begin(self) -> Callable[[], Proof]:
        """A thread is free: return the function for it to run."""
        return self._hash

    def finish(self, proof: Proof) -> None:
        """Process the thread's result."""
        self.keys, self.problem = proof.new_keys, proof.problem

    def give_up(self, reason: str) -> None:
        """No thread was free in time."""
        self.problem = f"the password was not hashed: {reason}"

    def _hash(self) -> Proof:
        access = self.access
        try:
            keys = access.new_keys(self.password, access.hash_name)
        except ValueError as error:
            return Proof(right=False, problem=f"the password cannot be used: {error}")
        return Proof(right=True, new_keys=keys)
