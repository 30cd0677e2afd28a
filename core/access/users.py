"""The users that may connect, with the keys of their passwords, and a cache of recently verified passwords.

There are two kinds. Users in the configuration file have all rights and cannot be changed by command. Users of the
broker were made by command or import; they are kept in the definitions, with tags and permissions
(:mod:`core.access.records`). A name in the file hides the same name in the broker. While the file has no user and the
broker no administrator who can log in, guest may log in from this machine with all rights, so that the first
administrator can be made.

A peer must not learn which names exist, neither from the time of a reply nor from the values that SCRAM shows. So an
unknown name has keys too, derived from the name and a secret of this process: always the same salt, the hash and the
iteration count of some user, and keys that match no password. It costs the same work as a wrong password. So does a
user with a hash of RabbitMQ, which is compared in addition, and a user whose keys do not fit the mechanism of SCRAM
that the peer uses.
"""

import hashlib
import hmac
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple, Protocol
from weakref import WeakSet, WeakValueDictionary

from core.access.limits import UserLimits
from core.access.passwords import hash_password
from core.access.records import RabbitHash, UserRecord
from core.access.rights import ADMINISTRATOR, FULL, VIRTUAL_HOST, Permission, Rights, TopicPermission
from core.config.access import (
    DIGEST_BYTES,
    ITERATIONS_MIN,
    SCRAM_MECHANISMS,
    HashName,
    ScramKeys,
    UserSettings,
)
from core.errors import Invalid, LimitReached, NotFound, PreconditionFailed, StillGoing

GUEST = "guest"
"""User name and password if no users are configured; the examples of AMQP clients use them. Because they are not secret
and local clients connect often, the keys have the fewest iterations that SCRAM allows."""
ANONYMOUS = "anonymous"
"""The name of peers that need not log in. They have all rights, as users in the file, unless the broker has a user of
this name."""

SECRET_BYTES = 32
SALT_BYTES = 16
RETRY_S = 1.0
"""The wait before a change that the disk has refused is tried again."""
USERS_MAX = 10_000
"""The most users of the broker. Each takes about 1 KiB of memory."""


class UserStore(Protocol):
    """Keeps the records of users, each as a text by name."""

    def users(self) -> Mapping[str, str]:
        """All records."""

    def set_user(self, name: str, keys: str) -> None:
        """Keep a record, in place of the one with this name. Raises PreconditionFailed."""

    def remove_user(self, name: str) -> None:
        """Remove a record. Raises PreconditionFailed."""


class _Remembered(NamedTuple):
    digest: bytes
    until: float


class StoredPassword(NamedTuple):
    """What a password is compared with."""

    keys: ScramKeys
    rabbit: RabbitHash | None = None
    """If there is one, the password must fit it, and not the keys."""


class Users:
    """The users of the configuration file and of the broker; if there are none, guest for loopback peers."""

    def __init__(
        self,
        users: Iterable[UserSettings],
        *,
        cache_seconds: float,
        monotonic: Callable[[], float],
        random_bytes: Callable[[int], bytes],
        store: UserStore | None = None,
    ) -> None:
        """``users`` are those of the configuration file. ``monotonic`` is only for the cache; ``random_bytes`` must be
        fit for secrets; ``store`` has the users of the broker, and is None where they need not be kept."""
        self._guest_salt = random_bytes(SALT_BYTES)
        self._guest_keys: ScramKeys | None = None
        self._secret = random_bytes(SECRET_BYTES)
        self._cache_seconds = cache_seconds
        self._monotonic = monotonic
        self._right: dict[str, _Remembered] = {}
        self._rights: dict[str, dict[str, Rights]] = {}
        """Of users that have connected, by virtual host."""
        self._of_tokens: WeakSet[Rights] = WeakSet()
        """Those that come from tokens, of one connection each."""
        self._limits: WeakValueDictionary[str, UserLimits] = WeakValueDictionary()
        """By user; also of a name that only tokens have, for as long as it has rights."""
        self.virtual_hosts: Callable[[], Iterable[str]] = lambda: (VIRTUAL_HOST,)
        """Returns the names of all virtual hosts: users in the file have all rights on each."""
        self._store = store
        self.unusable: list[str] = []
        """Why records that are kept cannot be used. Their users cannot log in."""
        self._records: dict[str, UserRecord] = {}
        for name, text in {} if store is None else store.users().items():
            try:
                self._records[name] = UserRecord.parse(name, text)
            except Invalid as error:
                self.unusable.append(str(error))
        self.replace(users)

    def replace(self, users: Iterable[UserSettings]) -> None:
        """Replace all users of the file. Open connections stay; the cache of passwords is emptied."""
        self._keys = {user.name: user.scram for user in users}
        self._recount()
        self._right.clear()
        for name in list(self._limits):
            self._apply_limits(name)
        for name in [name for name in self._rights if self._exists(name)]:
            self._refresh(name)

    # --- who there is ------------------------------------------------------------------------------------------

    @property
    def names(self) -> list[str]:
        """The names of all users."""
        return list(dict.fromkeys((*self._keys, *self._records, *([GUEST] if self._has_guest else []))))

    def _exists(self, name: str) -> bool:
        return name in self._keys or name in self._records or (name == GUEST and self._has_guest)

    def in_file(self, name: str) -> bool:
        """Whether the user stands in the configuration file."""
        return name in self._keys

    def is_own(self, name: str) -> bool:
        """Whether this is a user of the broker, and not hidden by the file."""
        return name in self._records and name not in self._keys

    def record(self, name: str) -> UserRecord:
        """Return the record of any user: that of a user in the file has all rights, and no password. Raises
        NotFound."""
        if name in self._keys or (name not in self._records and self._exists(name)):
            return UserRecord(name=name, tags=(ADMINISTRATOR,), permissions=dict.fromkeys(self.virtual_hosts(), FULL))
        found = self._records.get(name)
        if found is None:
            raise NotFound(f"there is no user '{name}'")
        return found

    def records(self) -> Sequence[UserRecord]:
        """Return the records of the users of the broker, by name."""
        return [self._records[name] for name in sorted(self._records)]

    def rights_of(self, name: str, virtual_host: str = VIRTUAL_HOST) -> Rights:
        """Return the rights of a user on a virtual host, which change in place; those of a name without a user allow
        nothing."""
        rights = self._rights.get(name, {}).get(virtual_host)
        if rights is None:
            elsewhere = partial(self.rights_of, name)
            rights = Rights(name, None, virtual_host=virtual_host, elsewhere=elsewhere, limits=self.limits_of(name))
            self._apply(rights)
            if rights.welcome or (virtual_host == VIRTUAL_HOST and (self._exists(name) or name == ANONYMOUS)):
                self._rights.setdefault(name, {})[virtual_host] = rights
        return rights

    def limits_of(self, name: str) -> UserLimits:
        """Return the one count of what a user has open, on all virtual hosts and with tokens of the name, too."""
        limits = self._limits.get(name)
        if limits is None:
            limits = self._limits[name] = UserLimits(name)
            self._apply_limits(name)
        return limits

    def add_rights_of_token(self, rights: Rights) -> None:
        """Have the rights of a token's connection end with their virtual host."""
        self._of_tokens.add(rights)

    def close_virtual_host(self, virtual_host: str) -> None:
        """Close the connections that use a virtual host, because it is being deleted."""
        ended = [rights for rights in self._of_tokens if rights.virtual_host == virtual_host]
        ended += [found for rights in self._rights.values() if (found := rights.pop(virtual_host, None)) is not None]
        for rights in ended:
            rights.end(f"vhost '{virtual_host}' was deleted")

    def forget_virtual_host(self, virtual_host: str) -> Iterator[float]:
        """Take a virtual host that is being deleted from all users, one at each step; yields the seconds to wait."""
        for name in list(self._records):
            record = self._records.get(name)
            while record is not None and virtual_host in {*record.permissions, *record.topics}:
                try:
                    self._keep(record.with_permission(virtual_host, None).with_topics(virtual_host, {}))
                    yield 0.0
                except (PreconditionFailed, StillGoing):  # the disk is full, or the nodes of a cluster do not agree yet
                    yield RETRY_S
                record = self._records.get(name)

    def _apply(self, rights: Rights) -> None:
        name = rights.user
        if name == ANONYMOUS and not self._exists(name):
            rights.change(FULL, {}, frozenset((ADMINISTRATOR,)))
        elif self._exists(name):
            record = self.record(name)
            host = rights.virtual_host
            rights.change(record.permissions.get(host), record.topics.get(host, {}), frozenset(record.tags))
        else:
            rights.change(None, {}, frozenset())

    def _apply_limits(self, name: str) -> None:
        """Give a user that has anything open, or had, the limits of its record."""
        if (limits := self._limits.get(name)) is not None:
            limits.set(self.record(name).limits if self._exists(name) else {})

    def _refresh(self, name: str) -> None:
        for rights in list(self._rights.get(name, {}).values()):
            self._apply(rights)
        if not (self._exists(name) or name == ANONYMOUS):
            self._rights.pop(name, None)

    # --- changing the users of the broker ----------------------------------------------------------------------

    def check_changeable(self, name: str) -> None:
        """Raises PreconditionFailed for a user in the configuration file."""
        if name in self._keys:
            raise PreconditionFailed(
                f"user '{name}' stands in the configuration file and has all rights; change the file, or remove the "
                "user there"
            )

    def set(self, record: UserRecord) -> bool:
        """Make a user, or replace the one with this name; it applies at once. Returns whether there was none.

        Raises Invalid, PreconditionFailed, LimitReached.
        """
        self.check_changeable(record.name)
        record.check()
        is_new = record.name not in self._records
        if is_new and len(self._records) >= USERS_MAX:
            raise LimitReached(f"there are {USERS_MAX} users, and no more are possible; delete some")
        if self._records.get(record.name) != record:
            self._keep(record)
        return is_new

    def _keep(self, record: UserRecord) -> None:
        if self._store is not None:
            self._store.set_user(record.name, record.render())
        self._records[record.name] = record
        self._changed(record.name)

    def follow(self, name: str, record: UserRecord | None) -> None:
        """Have a user of the broker as the other nodes of a cluster have it; None for none. A user in the file hides
        it. Raises PreconditionFailed."""
        if record is not None:
            if self._records.get(name) != record:
                self._keep(record)
        elif name in self._records:
            self._forget(name)

    def delete(self, name: str) -> None:
        """Delete a user: the user's connections are closed. Raises NotFound, PreconditionFailed."""
        self.check_changeable(name)
        if name not in self._records:
            raise NotFound(f"there is no user '{name}'")
        self._forget(name)

    def _forget(self, name: str) -> None:
        if self._store is not None:
            self._store.remove_user(name)
        del self._records[name]
        self._changed(name)

    def set_limit(self, name: str, limit: str, most: int | None) -> None:
        """Set how many connections or channels a user may have, or remove the limit. Raises Invalid, NotFound,
        PreconditionFailed."""
        record = self._changeable(name)
        limits = {**record.limits}
        if most is None:
            limits.pop(limit, None)
        else:
            limits[limit] = most
        self.set(replace(record, limits=limits))

    def set_permission(self, name: str, permission: Permission | None, virtual_host: str = VIRTUAL_HOST) -> bool:
        """Set or clear what a user may do on a virtual host. Returns whether there was no permission."""
        record = self._changeable(name)
        self.set(record.with_permission(virtual_host, permission))
        return virtual_host not in record.permissions

    def set_topic_permission(
        self, name: str, exchange: str | None, topic: TopicPermission | None, virtual_host: str = VIRTUAL_HOST
    ) -> bool:
        """Set or clear what a user may do with the keys of an exchange; None clears all. Returns whether there was no
        permission."""
        record = self._changeable(name)
        topics = dict(record.topics.get(virtual_host, {}))
        was_there = exchange in topics
        if exchange is None:
            topics.clear()
        elif topic is None:
            topics.pop(exchange, None)
        else:
            topics[exchange] = topic
        self.set(record.with_topics(virtual_host, topics))
        return not was_there

    def _changeable(self, name: str) -> UserRecord:
        self.check_changeable(name)
        record = self._records.get(name)
        if record is None and self._exists(name):
            raise PreconditionFailed(f"user '{name}' is the default user with all rights; make users of your own")
        return self.record(name)

    def _changed(self, name: str) -> None:
        self._recount()
        self._right.pop(name, None)
        self._apply_limits(name)
        self._refresh(name)

    def _recount(self) -> None:
        """Find out again what depends on all users."""
        records = self._records.values()
        secrets = (*self._keys.values(), *(record.secret for record in records))
        self._works = sorted({(keys.hash, keys.iterations) for keys in secrets if isinstance(keys, ScramKeys)})
        self.has_rabbit_hashes = any(isinstance(record.secret, RabbitHash) for record in records)
        """Whether a user has a hash of RabbitMQ, with which SCRAM is impossible."""
        able = any(ADMINISTRATOR in record.tags and record.secret is not None for record in records)
        self._has_guest = not self._keys and not able
        if self._has_guest or not self._works:
            self._works = sorted({*self._works, ("sha256", ITERATIONS_MIN)})
        kinds = {one for one, _ in self._works}
        self.hashes: tuple[HashName, ...] = tuple(one for one in SCRAM_MECHANISMS if one in kinds)
        """The hashes of keys that users have, the best first. There is always one."""

    # --- passwords ---------------------------------------------------------------------------------------------

    def guest_is_welcome(self, *, loopback: bool) -> bool:
        """Return whether a peer may log in as guest: it is the default user, and the peer is on this machine."""
        return loopback and self._has_guest and GUEST not in self._records

    def credentials(self, name: str, *, loopback: bool) -> StoredPassword:
        """Return what a password of this user is compared with; for an unknown name, what fits no password."""
        record = self._login_record(name, loopback)
        rabbit = record.secret if record is not None and isinstance(record.secret, RabbitHash) else None
        return StoredPassword(self.keys(name, loopback=loopback), rabbit)

    def keys(self, name: str, *, loopback: bool, hash_name: HashName | None = None) -> ScramKeys:
        """Return the keys of a user; for an unknown name, keys that match no password. With ``hash_name``, keys of
        another hash match no password either."""
        keys = self._keys.get(name)
        if (record := self._login_record(name, loopback)) is not None:
            keys = record.secret if isinstance(record.secret, ScramKeys) else None
        elif keys is None and name == GUEST and self.guest_is_welcome(loopback=loopback):
            if self._guest_keys is None:
                self._guest_keys = hash_password(GUEST, salt=self._guest_salt, iterations=ITERATIONS_MIN)
            keys = self._guest_keys
        return self._decoy(name, hash_name) if keys is None or hash_name not in (None, keys.hash) else keys

    def _login_record(self, name: str, loopback: bool) -> UserRecord | None:
        """The user of the broker that logs in with this name. One with the name guest can do so from this machine only,
        as with RabbitMQ, because its password is often guest."""
        return None if name in self._keys or (name == GUEST and not loopback) else self._records.get(name)

    def configured(self, name: str) -> bool:
        """Return whether there is a user of this name; guest as the default user does not count."""
        return name in self._keys or name in self._records

    def set_keys(self, name: str, keys: ScramKeys) -> None:
        """Replace a user's keys by new keys of the same password. Raises PreconditionFailed."""
        if name in self._keys:
            self._keys[name] = keys
            self._recount()
        else:
            self.set(replace(self._records[name], secret=keys))

    def remember(self, name: str, password: str, *, loopback: bool) -> None:
        """Remember for ``cache_seconds`` that this password is right."""
        until = self._monotonic() + self._cache_seconds
        self._right[name] = _Remembered(self._right_digest(name, password, loopback), until)

    def remembers(self, name: str, password: str, *, loopback: bool) -> bool:
        """Return whether this password was recently right, for the user's current keys."""
        remembered = self._right.get(name)
        if remembered is None or self._monotonic() >= remembered.until:
            return False
        return hmac.compare_digest(remembered.digest, self._right_digest(name, password, loopback))

    def _right_digest(self, name: str, password: str, loopback: bool) -> bytes:
        return self._digest(b"right", name, password, self.keys(name, loopback=loopback).stored_key)

    def _decoy(self, name: str, hash_name: HashName | None) -> ScramKeys:
        """Keys that match no password. Those of each hash have a salt of their own: a user's salt is not that of its
        decoy, so one salt for all hashes would tell that a name is unknown."""
        works = [one for one in self._works if hash_name in (None, one[0])] or [(hash_name or "sha256", ITERATIONS_MIN)]
        kind, iterations = works[int.from_bytes(self._digest(b"iterations", name)[:4]) % len(works)]
        salt, stored, server = (self._digest(b"decoy", kind, what, name) for what in ("salt", "stored", "server"))
        size = DIGEST_BYTES[kind]
        return ScramKeys(iterations, salt[:SALT_BYTES], stored[:size], server[:size], kind)

    def _digest(self, purpose: bytes, *parts: str | bytes) -> bytes:
        """Return a keyed digest. The length of each part is included, so that different parts never give the same
        input."""
        digest = hmac.new(self._secret, purpose, hashlib.sha512)
        for part in parts:
            data = part.encode() if isinstance(part, str) else part
            digest.update(len(data).to_bytes(4) + data)
        return digest.digest()
