"""The rights of a user on a virtual host: the one place that answers whether a user may do something to a name.

The meaning is RabbitMQ's. A permission has three patterns, for names that the user may configure, write to and read
from; a name is allowed if it contains a match. An empty pattern allows the empty name only. The default exchange has
the name ``amq.default`` here. Without a permission, a user may not use the virtual host. A topic permission restricts
the routing keys with which a user writes to one topic exchange, and the binding keys with which the user reads from it;
an exchange without one is not restricted.

Patterns are matched in linear time (:mod:`core.patterns`), and answers are kept: they hold until the rights change,
which happens in place, so that every connection of the user sees it with its next question.
"""

import re
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import partial
from typing import Literal, Protocol

from core.access.exchange import WAIT, Reply
from core.access.limits import UserLimits
from core.clock import Now
from core.errors import Forbidden, Invalid
from core.interface import Mailbox, RightsChanged
from core.patterns import Pattern, PatternError
from core.virtual_hosts import VIRTUAL_HOST as VIRTUAL_HOST

EXPIRED = "credential expired"
"""What the client of an expired token is told, as by RabbitMQ."""
DEFAULT_EXCHANGE_NAME = "amq.default"
"""The name of the default exchange in permissions, as with RabbitMQ."""
EVERYTHING = ".*"
NOTHING_BUT_EMPTY = "^$"
ANSWERS_KEPT = 4096
"""The most answers that are kept for one user; then all are forgotten. One takes 200 bytes."""

AccessKind = Literal["configure", "write", "read"]
ResourceKind = Literal["queue", "exchange"]

ADMINISTRATOR, MONITORING, POLICYMAKER, MANAGEMENT = "administrator", "monitoring", "policymaker", "management"
OPERATOR_TAGS = frozenset((ADMINISTRATOR, MONITORING, POLICYMAKER, MANAGEMENT))
IMPERSONATOR = "impersonator"
TAGS = (ADMINISTRATOR, MONITORING, POLICYMAKER, MANAGEMENT, IMPERSONATOR)
"""RabbitMQ's tags of users that mean something here. A user may have other tags too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Permission:
    """The patterns of the names that a user may configure, write to and read from, on one virtual host."""

    configure: str = ""
    write: str = ""
    read: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPermission:
    """The patterns of the routing keys and binding keys of one topic exchange. ``{username}`` and ``{vhost}`` in them
    stand for the names of user and virtual host."""

    write: str = ""
    read: str = ""


class Topics(Protocol):
    """Topic permissions by exchange, as a mapping has them."""

    def get(self, exchange: str, /) -> TopicPermission | None:
        """The permission for the keys of this exchange; None if any key may be used."""


@dataclass(slots=True)
class TokenAnswer:
    """The answer to a token that is being checked."""

    reply: Reply = WAIT
    """The reply; ``WAIT`` until it is known."""
    why: str = ""
    """Why the token was refused, in a sentence for the client of a renewal and for the log."""


def check_pattern(name: str, text: str) -> None:
    """Raises Invalid for a pattern that cannot be used."""
    try:
        Pattern(text)
    except PatternError as error:
        raise Invalid(f"{name} is not a pattern that can be used: {error}") from None


FULL = Permission(configure=EVERYTHING, write=EVERYTHING, read=EVERYTHING)
"""The permission of users in the configuration file."""


class Rights:
    """The rights of one user on one virtual host, shared by the user's connections; those of a token belong to one
    connection."""

    __slots__ = (
        "__weakref__",
        "_allowed",
        "_elsewhere",
        "_patterns",
        "_permission",
        "_renew",
        "_topics",
        "expired",
        "expires_at",
        "free_exchanges",
        "gone",
        "limits",
        "mailboxes",
        "tags",
        "user",
        "virtual_host",
    )

    def __init__(
        self,
        user: str,
        permission: Permission | None,
        *,
        topics: Topics | None = None,
        tags: AbstractSet[str] = frozenset(),
        virtual_host: str = VIRTUAL_HOST,
        elsewhere: "Callable[[str], Rights] | None" = None,
        limits: UserLimits | None = None,
        expires_at: float | None = None,
        renew: "Callable[[Rights, bytes], TokenAnswer] | None" = None,
    ) -> None:
        """``permission`` is None for a user that may not use the virtual host; ``topics`` are by exchange.
        ``elsewhere`` returns the same user's rights on another virtual host; without it there are none. The last two
        are for rights of one connection that end with a token: ``renew`` checks a new one and changes these rights."""
        self.user = user
        self.virtual_host = virtual_host
        self.tags = tags
        self._elsewhere = elsewhere
        self.gone = ""
        """Why the virtual host is gone; "" while it is there."""
        self.limits = limits or UserLimits(user)
        """How many connections and channels the user may have, and has, on all virtual hosts together."""
        self.mailboxes: dict[Mailbox, None] = {}
        """The mailboxes of the connections to tell of a change."""
        self.free_exchanges: set[str] = set()
        """Exchanges that the user was found to be allowed to publish to with any key: what is asked for each run."""
        self._allowed: dict[tuple[str, ...], bool] = {}
        self._patterns: dict[str, Pattern] = {}
        self._permission = permission
        self._topics: Topics = {} if topics is None else topics
        self.expires_at = expires_at
        """When the token expires from which the rights are, in wall-clock seconds; None for those of a user."""
        self._renew = renew
        self.expired = False
        """Whether the token has expired, so that nothing is allowed any more."""

    def change(self, permission: Permission | None, topics: Topics, tags: AbstractSet[str]) -> None:
        """Replace the rights, and tell all connections that have them. Those on a virtual host that is gone stay as
        they are."""
        if self.gone or (permission, topics, tags) == (self._permission, self._topics, self.tags):
            return
        self._permission, self._topics, self.tags = permission, topics, tags
        self._allowed.clear()
        self._patterns.clear()
        self.free_exchanges.clear()
        for mailbox in self.mailboxes:
            mailbox.put(RightsChanged())

    def end(self, why: str) -> None:
        """The virtual host is being deleted: nothing is allowed any more, and connections are closed."""
        self.change(None, {}, self.tags)
        self.gone = why

    def on(self, virtual_host: str) -> "Rights":
        """Return the rights of the same user on a virtual host."""
        if virtual_host == self.virtual_host:
            return self
        if self._elsewhere is None or self.expired:
            return Rights(self.user, None, tags=self.tags, virtual_host=virtual_host, limits=self.limits)
        return self._elsewhere(virtual_host)

    def deadline(self, now: Now) -> float | None:
        """The monotonic time at which :meth:`tick` must be called; None for rights without an end, and after it."""
        return None if self.expires_at is None or self.expired else now.monotonic + self.expires_at - now.wall

    def tick(self, now: Now) -> None:
        """If the token has expired, take all rights away, which ends the connection."""
        if self.expires_at is not None and not self.expired and now.wall >= self.expires_at:
            self.expired = True
            self.change(None, {}, frozenset())

    def renewed(self, token: bytes) -> TokenAnswer | None:
        """Begin to replace the token by a new one: if it is accepted, these rights change and end later. Returns the
        answer, which comes later; None for rights that did not come from a token."""
        return None if self._renew is None else self._renew(self, token)

    @property
    def welcome(self) -> bool:
        """Whether the user may use the virtual host."""
        return self._permission is not None

    @property
    def operates(self) -> bool:
        """Whether the user may ask something of the broker, by its tags. Such a user may open a connection of AMQP 1.0
        without a permission, because requests to the broker come over one."""
        return not self.tags.isdisjoint(OPERATOR_TAGS)

    @property
    def impersonates(self) -> bool:
        """Whether the user-id of the user's messages may be that of another user."""
        return IMPERSONATOR in self.tags

    def may(self, what: AccessKind, name: str) -> bool:
        """Whether the user may do this to a queue or an exchange of this name."""
        allowed = self._allowed.get((what, name))
        if allowed is None:
            pattern = "" if self._permission is None else getattr(self._permission, what)
            allowed = self.welcome and self._found(pattern, name or DEFAULT_EXCHANGE_NAME)
            self._keep((what, name), allowed)
        return allowed

    def restricts_topics(self, exchange: str) -> bool:
        """Whether there is a topic permission for this exchange."""
        return self._topics.get(exchange) is not None

    def may_use_topic(self, what: Literal["write", "read"], exchange: str, key: str) -> bool:
        """Whether the user may write to a topic exchange with this routing key, or read with this binding key."""
        topic = self._topics.get(exchange)
        if topic is None:
            return True
        allowed = self._allowed.get((what, exchange, key))
        if allowed is None:
            allowed = self._found(self._expanded(getattr(topic, what)), key)
            self._keep((what, exchange, key), allowed)
        return allowed

    def check(self, what: AccessKind, kind: ResourceKind, name: str) -> None:
        """Raises Forbidden, with RabbitMQ's text, if the user may not do this."""
        if not self.may(what, name):
            shown = name or DEFAULT_EXCHANGE_NAME
            raise Forbidden(
                f"{what} access to {kind} '{shown}' in vhost '{self.virtual_host}' refused for user '{self.user}'"
            )

    def check_topic(self, what: Literal["write", "read"], exchange: str, key: str) -> None:
        """Raises Forbidden, with RabbitMQ's text, if the user may not use this key of a topic exchange."""
        if not self.may_use_topic(what, exchange, key):
            raise Forbidden(
                f"{what} access to topic '{key}' in exchange topic '{exchange}' in vhost '{self.virtual_host}' refused "
                f"for user '{self.user}'"
            )

    def refusal(self) -> str | None:
        """Why the user may not use the virtual host; None if the user may."""
        if self.gone:
            return self.gone
        if self.expired:
            return EXPIRED
        return None if self.welcome else f"access to vhost '{self.virtual_host}' refused for user '{self.user}'"

    def check_write(self, exchange: str) -> bool:
        """Whether the keys of messages to an exchange have to be checked too. Raises Forbidden if the user may not
        publish to it."""
        self.check("write", "exchange", exchange)
        if self.restricts_topics(exchange):
            return True
        if len(self.free_exchanges) >= ANSWERS_KEPT:
            self.free_exchanges.clear()
        self.free_exchanges.add(exchange)
        return False

    def _found(self, text: str, name: str) -> bool:
        pattern = self._patterns.get(text)
        if pattern is None:
            pattern = self._patterns[text] = Pattern(text or NOTHING_BUT_EMPTY)
        return pattern.found_in(name)

    def _expanded(self, text: str) -> str:
        for variable, value in (("{username}", self.user), ("{vhost}", self.virtual_host)):
            text = text.replace(variable, re.escape(value))
        return text

    def _keep(self, question: tuple[str, ...], allowed: bool) -> None:
        if len(self._allowed) >= ANSWERS_KEPT:
            self._allowed.clear()
        self._allowed[question] = allowed


def all_rights(user: str, tags: Sequence[str] = (ADMINISTRATOR,)) -> Rights:
    """Return rights to everything in every virtual host, with these tags."""
    return _all_rights_on(user, frozenset(tags), UserLimits(user), VIRTUAL_HOST)


def _all_rights_on(user: str, tags: AbstractSet[str], limits: UserLimits, virtual_host: str) -> Rights:
    elsewhere = partial(_all_rights_on, user, tags, limits)  # a function within a function would be a cycle
    return Rights(user, FULL, tags=tags, virtual_host=virtual_host, elsewhere=elsewhere, limits=limits)


def no_rights(user: str) -> Rights:
    """Return rights to nothing."""
    return Rights(user, None)
