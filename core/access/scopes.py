"""The rights that the scopes of a token give, in RabbitMQ's grammar.

A scope for this broker is ``read:HOST/NAME``, ``write:HOST/NAME`` or ``configure:HOST/NAME``, with a third part
``/KEY`` for routing keys and binding keys of topic exchanges, or ``tag:TAG``. Each part is percent-encoded, and ``*``
stands for any text: ``read:%2F/orders.*``. A scope of another form gives nothing. As with RabbitMQ, one without a third
part gives no right to the keys of a topic exchange.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import unquote_to_bytes

from core.access.rights import ANSWERS_KEPT, EVERYTHING, AccessKind, Permission, TopicPermission, check_pattern

KINDS: tuple[AccessKind, ...] = ("configure", "write", "read")
TAG = "tag:"
NO_MATCH = "[^\\x00-\\x{10FFFF}]"
"""A pattern of RE2 that no text has."""


@dataclass(frozen=True, slots=True)
class Scope:
    """One scope that gives a right. The parts are wildcard patterns, still percent-encoded."""

    kind: AccessKind
    virtual_host: str
    name: str
    key: str | None = None
    """None for a scope that says nothing of keys."""


@dataclass(frozen=True, slots=True)
class Scopes:
    """What the scopes of one token give."""

    rights: tuple[Scope, ...]
    tags: frozenset[str]

    def check(self) -> None:
        """Raises Invalid if there are too many for the patterns that they become. A part of them is never too many."""
        for kind in KINDS:
            scopes = [scope for scope in self.rights if scope.kind == kind]
            check_pattern(f"the scopes for {kind}", _any_of(scope.name for scope in scopes))
            check_pattern(f"the scopes for {kind} with keys", _any_of(scope.key for scope in scopes if scope.key))

    def permission(self, virtual_host: str) -> Permission | None:
        """The permission on a virtual host; None if no scope names it."""
        here = self._on(virtual_host)
        if not here:
            return None
        configure, write, read = (_any_of(scope.name for scope in here if scope.kind == kind) for kind in KINDS)
        return Permission(configure=configure, write=write, read=read)

    def topics(self, virtual_host: str) -> "ScopedTopics":
        """What may be done with the keys of topic exchanges on a virtual host."""
        return ScopedTopics(tuple(self._on(virtual_host)))

    def _on(self, virtual_host: str) -> Sequence[Scope]:
        return [scope for scope in self.rights if _fits(scope.virtual_host, virtual_host)]


@dataclass(frozen=True, slots=True)
class ScopedTopics:
    """The topic permissions of scopes, which name exchanges by wildcards, as :class:`core.access.rights.Topics`."""

    scopes: tuple[Scope, ...]
    _known: dict[str, TopicPermission | None] = field(default_factory=dict, compare=False, repr=False)

    def get(self, exchange: str) -> TopicPermission | None:
        """The permission for the keys of an exchange; None if any key may be used."""
        if exchange not in self._known:
            if len(self._known) >= ANSWERS_KEPT:
                self._known.clear()
            self._known[exchange] = self._found(exchange)
        return self._known[exchange]

    def _found(self, exchange: str) -> TopicPermission | None:
        keys: dict[AccessKind, list[str]] = {kind: [] for kind in KINDS}
        for scope in self.scopes:
            if scope.key is not None and _fits(scope.name, exchange):
                keys[scope.kind].append(scope.key)
        write, read = _any_of(keys["write"]), _any_of(keys["read"])
        return None if write == read == EVERYTHING else TopicPermission(write=write, read=read)


def read_scopes(texts: Iterable[str], prefix: str, aliases: Mapping[str, Sequence[str]]) -> Scopes:
    """What these scopes give. They begin with the prefix, or are aliases, whose scopes may be without it. Others give
    nothing."""
    rights: dict[Scope, None] = {}
    tags = set()
    for text in texts:
        own = [text] if text.startswith(prefix) else []
        for one in (*own, *aliases.get(text, ())):
            bare = one.removeprefix(prefix)
            if bare.startswith(TAG):
                tags.add(bare.removeprefix(TAG))
            elif (scope := _parsed(bare)) is not None:
                rights[scope] = None
    return Scopes(tuple(rights), frozenset(tags))


def _parsed(text: str) -> Scope | None:
    kind, _, resource = text.partition(":")
    parts = resource.split("/")
    known = next((one for one in KINDS if one == kind), None)
    if known is None or len(parts) not in (2, 3) or any(_regular(part) is None for part in parts):
        return None
    return Scope(known, parts[0], parts[1], parts[2] if len(parts) == 3 else None)


def _regular(wildcard: str) -> str | None:
    """The regular expression of a wildcard pattern; None if what it encodes is no UTF-8."""
    try:
        texts = [unquote_to_bytes(part).decode() for part in wildcard.split("*")]
    except UnicodeDecodeError:
        return None
    return ".*".join(re.escape(text) for text in texts)


def _fits(wildcard: str, name: str) -> bool:
    """Whether the pattern matches a whole name. It has few wildcards: a token is short, and so is a name."""
    try:
        first, *others = [unquote_to_bytes(part).decode() for part in wildcard.split("*")]
    except UnicodeDecodeError:
        return False
    if not others:
        return name == first
    *middle, last = others
    if not (name.startswith(first) and name.endswith(last) and len(name) >= len(first) + len(last)):
        return False
    at, end = len(first), len(name) - len(last)
    for part in middle:
        found = name.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return True


def _any_of(wildcards: Iterable[str]) -> str:
    """The pattern of names that one of the wildcards matches as a whole."""
    expressions = dict.fromkeys(found for one in wildcards if (found := _regular(one)) is not None)
    if ".*" in expressions:
        return EVERYTHING
    return f"(?s)^(?:{'|'.join(expressions)})$" if expressions else NO_MATCH
