"""What the broker keeps of a user that was made by command: the password's hash, tags, and permissions.

A record is kept as one text, JSON, in the definitions (:mod:`core.store.definitions`), so that a user is made, changed
and deleted as a whole. A password is kept as SCRAM keys. A user that was imported from RabbitMQ has RabbitMQ's hash
until the next login with PLAIN, which replaces it by SCRAM keys.
"""

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from core.access.limits import check_limits
from core.access.rights import Permission, TopicPermission, check_pattern
from core.config.access import HashName, ScramKeys
from core.errors import Invalid

RABBIT_SHA256, RABBIT_SHA512 = "rabbit_password_hashing_sha256", "rabbit_password_hashing_sha512"
RABBIT_ALGORITHMS: Mapping[str, str] = {RABBIT_SHA256: "sha256", RABBIT_SHA512: "sha512"}
"""RabbitMQ's names of hashes that can be imported. MD5 is refused."""
SCRAM_ALGORITHMS: Mapping[HashName, str] = {"sha256": "headgate_scram_sha256", "sha512": "headgate_scram_sha512"}
"""In definitions, the name of a hash that is a line of SCRAM keys."""
RABBIT_SALT_BYTES = 4
"""RabbitMQ's hash is base64 of a salt of four bytes and the digest of salt and password."""
NAME_BYTES_MAX = 255
TAGS_MAX = 32


@dataclass(frozen=True, slots=True)
class RabbitHash:
    """A password's hash as RabbitMQ keeps it."""

    algorithm: str
    """One of :data:`RABBIT_ALGORITHMS`."""
    salt: bytes
    digest: bytes

    @classmethod
    def parse(cls, text: str, algorithm: str) -> Self:
        """Raises Invalid, without repeating the hash."""
        if algorithm not in RABBIT_ALGORITHMS:
            there_are = ", ".join((*RABBIT_ALGORITHMS, *SCRAM_ALGORITHMS.values()))
            raise Invalid(f"hashing_algorithm '{algorithm[:64]}' is not known here; there are {there_are}")
        size = hashlib.new(RABBIT_ALGORITHMS[algorithm]).digest_size
        try:
            data = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            raise Invalid("password_hash must be in base64") from None
        if len(data) != RABBIT_SALT_BYTES + size:
            raise Invalid(f"password_hash must have {RABBIT_SALT_BYTES + size} bytes, not {len(data)}")
        return cls(algorithm, data[:RABBIT_SALT_BYTES], data[RABBIT_SALT_BYTES:])

    def render(self) -> str:
        """Return the text that :meth:`parse` accepts."""
        return base64.b64encode(self.salt + self.digest).decode("ascii")

    def fits(self, password: str) -> bool:
        """Whether it is the hash of this password, compared in constant time."""
        digest = hashlib.new(RABBIT_ALGORITHMS[self.algorithm], self.salt + password.encode()).digest()
        return hmac.compare_digest(digest, self.digest)


Secret = ScramKeys | RabbitHash
"""What is kept of a password."""


def parse_secret(text: str, algorithm: str) -> Secret | None:
    """Return what definitions have of a password: a hash and the name of its kind; None for an empty hash, with which
    no login succeeds. Raises Invalid."""
    if not text:
        return None
    if algorithm not in SCRAM_ALGORITHMS.values():
        return RabbitHash.parse(text, algorithm)
    try:
        keys = ScramKeys.parse(text)
    except ValueError as error:
        raise Invalid(f"password_hash {error}") from None
    if SCRAM_ALGORITHMS[keys.hash] != algorithm:
        raise Invalid(f"password_hash is of hashing_algorithm '{SCRAM_ALGORITHMS[keys.hash]}', not '{algorithm}'")
    return keys


def shown_secret(secret: Secret | None) -> tuple[str, str]:
    """Return the hash and the name of its kind, as definitions have them."""
    if secret is None:
        return "", RABBIT_SHA256
    if isinstance(secret, RabbitHash):
        return secret.render(), secret.algorithm
    return secret.render(), SCRAM_ALGORITHMS[secret.hash]


@dataclass(frozen=True, slots=True, kw_only=True)
class UserRecord:
    """A user of the broker. Permissions are by virtual host; topic permissions also by exchange."""

    name: str
    secret: Secret | None = field(default=None, repr=False)
    """None for a user that cannot log in with a password."""
    tags: tuple[str, ...] = ()
    permissions: Mapping[str, Permission] = field(default_factory=dict)
    topics: Mapping[str, Mapping[str, TopicPermission]] = field(default_factory=dict)
    limits: Mapping[str, int] = field(default_factory=dict)
    """By the names of :data:`core.access.limits.USER_LIMITS`."""

    def check(self) -> None:
        """Raises Invalid for a name, tags or patterns that cannot be used."""
        if not self.name or len(self.name.encode()) > NAME_BYTES_MAX or not self.name.isprintable():
            raise Invalid(f"a user's name must have 1 to {NAME_BYTES_MAX} bytes of printable characters")
        if len(self.tags) > TAGS_MAX or not all(tag and len(tag) <= NAME_BYTES_MAX for tag in self.tags):
            raise Invalid(f"a user may have {TAGS_MAX} tags of 1 to {NAME_BYTES_MAX} characters")
        check_limits(self.limits)
        for permission in self.permissions.values():
            for what in ("configure", "write", "read"):
                check_pattern(what, getattr(permission, what))
        for topics in self.topics.values():
            for topic in topics.values():
                check_pattern("write", topic.write)
                check_pattern("read", topic.read)

    def with_permission(self, virtual_host: str, permission: Permission | None) -> Self:
        """Return the record with another permission on a virtual host, or with None without one."""
        others = {host: one for host, one in self.permissions.items() if host != virtual_host}
        return replace(self, permissions=others if permission is None else {**others, virtual_host: permission})

    def with_topics(self, virtual_host: str, topics: Mapping[str, TopicPermission]) -> Self:
        """Return the record with these topic permissions on a virtual host, by exchange."""
        others = {host: one for host, one in self.topics.items() if host != virtual_host}
        return replace(self, topics={**others, virtual_host: topics} if topics else others)

    @property
    def password_kind(self) -> str:
        """What is kept of the password, in a word."""
        if self.secret is None:
            return "none"
        return "rabbitmq" if isinstance(self.secret, RabbitHash) else "scram"

    def render(self) -> str:
        """Return the text that is kept."""
        text, algorithm = shown_secret(self.secret)
        return json.dumps(
            {
                "hash": text,
                "algorithm": algorithm,
                "tags": list(self.tags),
                "permissions": {
                    host: {"configure": one.configure, "write": one.write, "read": one.read}
                    for host, one in self.permissions.items()
                },
                "topics": {
                    host: {name: {"write": one.write, "read": one.read} for name, one in topics.items()}
                    for host, topics in self.topics.items()
                },
            }
            | ({"limits": dict(self.limits)} if self.limits else {}),
            sort_keys=True,
        )

    @classmethod
    def parse(cls, name: str, text: str) -> Self:
        """Return the record of a text that is kept. Raises Invalid for one that this version cannot use."""
        try:
            said = json.loads(text)
            record = cls(
                name=name,
                secret=parse_secret(said["hash"], said["algorithm"]),
                tags=tuple(said["tags"]),
                permissions={host: Permission(**one) for host, one in said["permissions"].items()},
                topics={
                    host: {exchange: TopicPermission(**one) for exchange, one in topics.items()}
                    for host, topics in said["topics"].items()
                },
                limits=dict(said.get("limits", {})),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise Invalid(f"what is kept of user '{name}' cannot be read: {type(error).__name__}") from None
        record.check()
        return record
