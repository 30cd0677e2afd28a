"""Policies: settings that an operator gives to queues and exchanges by patterns of their names.

At most one policy applies to a queue or exchange, the *winner*. It is chosen among the policies that are for its kind
and whose pattern is found in its name: the one with the highest priority wins; among equal priorities the one whose
name sorts first. The others have no effect; policies are not merged.

A key of the winner's definition *acts* if the queue's type supports it and no argument of the queue overrides it. If
both give a number, the lower number applies. For other keys the argument applies, except for ``queue-mode``, where the
policy applies. A key means the same as the queue argument with its name and the prefix ``x-``, and takes the same
values; :mod:`core.engine.options.arguments` documents most of them.

``ha-`` keys and ``target-group-size`` ask for copies on several nodes. They are accepted, checked and shown. A broker
alone keeps one copy, whatever they say. In a cluster, ``target-group-size`` says how many copies a quorum queue gets
when it is declared; the others change nothing. An explanation says for each key whether what it asks for is so. An
exclusive queue never has copies.

Patterns are RE2 expressions (:mod:`core.patterns`), so matching takes linear time for every pattern and name. A policy
recorded by an earlier version whose pattern RE2 does not support is kept and shown, but applies to nothing until it is
set again or cleared.

Matching happens when a queue is declared or a policy changes, never for a message.
"""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple, Protocol

from core.engine.options.arguments import (
    BOOLEAN,
    CLASSIC,
    COUNT,
    LINK_CREDIT_MAX,
    MAX_AGE,
    OVERFLOW,
    POSITIVE,
    QUEUE_ARGUMENTS,
    QUEUE_TYPES,
    QUORUM,
    TEXT,
    Rule,
    frozen,
    integer,
    is_integer,
    one_of,
    queue_type,
)
from core.errors import Invalid, LimitReached, NotFound
from core.interface import AGE_SECONDS, ExchangeDeclaration, QueueDeclaration, Snapshot
from core.patterns import Pattern, PatternError
from core.publish_limit import NO_RATES, PUBLISH_RATE, PUBLISH_RATE_BYTES, RATE_MAX, PublishRates
from core.store.definitions import PolicyDeclaration

POLICIES_MAX = 100
"""When the policy of a queue is cleared, the queue's name is matched against each remaining policy, at 1.5 µs. With
10,000 queues that takes 1.5 s, spread over many turns."""
TEXT_BYTES_MAX = 255
"""The longest name and pattern of a policy, in bytes of UTF-8; queue and exchange names have the same limit."""
DEFINITION_BYTES_MAX = 4096
"""The longest definition, as JSON: three times the length of a definition with all keys and long names."""
PRIORITY_MAX = 2**31 - 1
NODES_MAX = 100
"""The longest list of nodes. Only the number of names is used."""

TARGET_GROUP_SIZE = "target-group-size"
EXCHANGES = "exchanges"
APPLY_TO: Mapping[str, Collection[str]] = {
    "all": (*QUEUE_TYPES, EXCHANGES),
    "queues": QUEUE_TYPES,
    "classic_queues": ("classic",),
    "quorum_queues": ("quorum",),
    "streams": ("stream",),
    "exchanges": (EXCHANGES,),
}
"""The values of ``apply_to``, with the kinds that each covers: queue types, and exchanges."""

_NODES = Rule(
    lambda value: (
        isinstance(value, list | tuple)
        and 0 < len(value) <= NODES_MAX
        and all(isinstance(node, str) and node for node in value)
    ),
    f"a list of 1 to {NODES_MAX} names of nodes",
)

KEYS: Mapping[str, Rule] = {
    "queue-mode": one_of("default", "lazy"),
    "max-length": COUNT,
    "max-length-bytes": COUNT,
    "overflow": OVERFLOW,
    "message-ttl": integer(0, unit="milliseconds"),
    "expires": integer(1, unit="milliseconds"),
    "dead-letter-exchange": TEXT,
    "dead-letter-routing-key": TEXT,
    "dead-letter-strategy": one_of("at-most-once", "at-least-once"),
    "delivery-limit": integer(-1),
    "consumer-timeout": integer(1, unit="milliseconds"),
    "max-age": MAX_AGE,
    "stream-max-segment-size-bytes": POSITIVE,
    "max-link-credit": integer(1, LINK_CREDIT_MAX),
    "max-unsettled": integer(1, LINK_CREDIT_MAX),
    "max-unsettled-bytes": POSITIVE,
    PUBLISH_RATE: integer(1, RATE_MAX),
    PUBLISH_RATE_BYTES: integer(1, RATE_MAX),
    "sync": one_of("always", "default"),
    "deduplicate": BOOLEAN,
    "enqueued-time": BOOLEAN,
    "alternate-exchange": TEXT,
    "ha-mode": one_of("all", "exactly", "nodes"),
    "ha-params": Rule(lambda value: POSITIVE.check(value) or _NODES.check(value), "a count or a list of nodes"),
    "ha-sync-mode": one_of("manual", "automatic"),
    "ha-promote-on-shutdown": one_of("always", "when-synced"),
    "ha-sync-batch-size": POSITIVE,
    TARGET_GROUP_SIZE: POSITIVE,
}
"""The keys that a definition can have, with the rule for the value of each."""

ONLY_OF_POLICIES = frozenset(
    {"max-link-credit", "max-unsettled", "max-unsettled-bytes", PUBLISH_RATE, PUBLISH_RATE_BYTES}
)
"""The keys that act on queues of all types and that no argument of a queue can set."""
_HA_PARAMS = {"exactly": POSITIVE, "nodes": _NODES}
LOWER_HOLDS = frozenset(
    {"max-length", "max-length-bytes", "message-ttl", "expires", "delivery-limit", "consumer-timeout", "max-age"}
)
"""The keys that are limits: the lower value of argument and policy applies."""


# --- one policy --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy that was checked."""

    declaration: PolicyDeclaration
    pattern: Pattern | None
    """None if an earlier version recorded the policy and its pattern cannot be used."""
    problem: str = ""
    """Why it cannot be used."""

    @property
    def name(self) -> str:
        """The name of the policy."""
        return self.declaration.name

    @property
    def rank(self) -> tuple[int, str]:
        """A sort key: the winner has the lowest rank. The highest priority comes first, then the name decides."""
        return -self.declaration.priority, self.declaration.name

    def why_not(self, kind: str, name: str) -> str | None:
        """Return why the policy does not match a queue or exchange; None if it matches (another policy may still
        win)."""
        apply_to = self.declaration.apply_to
        if kind not in APPLY_TO[apply_to]:
            return f"it applies to {apply_to}, and this is {'an exchange' if kind == EXCHANGES else f'of type {kind}'}"
        if self.pattern is None:
            return self.problem
        if not self.pattern.found_in(name):
            return f"its pattern '{self.declaration.pattern}' is not found in the name"
        return None

    def holds_for(self, queue: QueueDeclaration) -> bool:
        """Return whether the policy matches this queue (another policy may still win)."""
        return self.why_not(queue_type(queue.arguments), queue.name) is None

    def shown(self) -> Snapshot:
        """Return the policy as plain values."""
        declaration = self.declaration
        return {
            "name": declaration.name,
            "pattern": declaration.pattern,
            "apply_to": declaration.apply_to,
            "priority": declaration.priority,
            "definition": dict(declaration.definition),
        }


def checked(declaration: PolicyDeclaration) -> Policy:
    """Check a declaration and return its policy. Raises Invalid, which names the mistake and the allowed values."""
    about = f"policy '{declaration.name[:40]}'"
    if not declaration.name:
        raise Invalid("a policy needs a name that is not empty")
    for what, text in (("name", declaration.name), ("pattern", declaration.pattern)):
        if len(text.encode()) > TEXT_BYTES_MAX:
            raise Invalid(f"{about}: its {what} is longer than {TEXT_BYTES_MAX} bytes")
    if "\r" in declaration.name or "\n" in declaration.name:
        raise Invalid(f"{about}: its name contains a line break")
    if not is_integer(declaration.priority) or abs(declaration.priority) > PRIORITY_MAX:
        bounds = f"from -{PRIORITY_MAX} to {PRIORITY_MAX}"
        raise Invalid(f"{about}: priority is {declaration.priority!r}, it must be an integer {bounds}")
    if declaration.apply_to not in APPLY_TO:
        raise Invalid(f"{about}: apply_to is '{declaration.apply_to}', it must be one of {', '.join(APPLY_TO)}")
    _check_definition(about, declaration.definition)
    return Policy(declaration, _compiled(about, declaration.pattern))


def _compiled(about: str, pattern: str) -> Pattern:
    try:
        return Pattern(pattern)
    except PatternError as error:
        raise Invalid(f"{about}: pattern '{pattern}' is no regular expression: {error}") from None


def _kept(declaration: PolicyDeclaration) -> Policy:
    """Check a policy that was recorded before a restart. A pattern that cannot be used is tolerated; Invalid is raised
    for any other mistake."""
    try:
        return checked(declaration)
    except Invalid as error:
        checked(replace(declaration, pattern=""))
        return Policy(declaration, None, str(error))


def _check_definition(about: str, definition: Mapping[str, object]) -> None:
    if not definition:
        raise Invalid(f'{about}: its definition is empty; it needs at least one key, like {{"max-length": 1000}}')
    for key, value in definition.items():
        rule = KEYS.get(key)
        if rule is None:
            raise Invalid(f"{about}: there is no key '{key[:40]}'; there are {', '.join(sorted(KEYS))}")
        if not rule.check(value):
            raise Invalid(f"{about}: {key} is {repr(value)[:80]}, it must be {rule.allowed}")
    if len(json.dumps(definition)) > DEFINITION_BYTES_MAX:
        raise Invalid(f"{about}: its definition is longer than {DEFINITION_BYTES_MAX} bytes")
    _check_ha(about, definition)


def _check_ha(about: str, definition: Mapping[str, object]) -> None:
    """Check that the ``ha-`` keys fit together. Raises Invalid."""
    mode = definition.get("ha-mode")
    if mode is None:
        for key in definition:
            if key.startswith("ha-"):
                raise Invalid(f"{about}: {key} needs an ha-mode beside it: 'all', 'exactly' or 'nodes'")
        return
    params = definition.get("ha-params")
    rule = _HA_PARAMS.get(str(mode))
    if rule is None and params is not None:
        raise Invalid(f"{about}: ha-mode 'all' takes no ha-params; leave {params!r} out")
    if rule is not None and not rule.check(params):
        shown = "missing" if params is None else repr(params)[:80]
        raise Invalid(f"{about}: ha-params is {shown}, for ha-mode '{mode}' it must be {rule.allowed}")


# --- what becomes of its keys ------------------------------------------------------------------------------------


class Effect(Enum):
    """The effect of a key of the winner's definition on one queue."""

    ACTS = "acts"
    OVERRIDDEN = "overridden"
    """An argument of the queue overrides it."""
    NONE = "no effect"


@dataclass(frozen=True, slots=True)
class KeyEffect:
    """One key of the winner's definition, with its effect and the reason."""

    key: str
    value: object
    effect: Effect
    why: str

    def shown(self) -> Snapshot:
        """Return the effect as plain values."""
        return {"key": self.key, "value": self.value, "effect": self.effect.value, "why": self.why}


class Copies(NamedTuple):
    """How many copies a queue has where quorum queues have copies."""

    nodes: int = 1
    """How many nodes the cluster has."""
    kept: int = 1
    """How many of them keep the queue."""

    def __str__(self) -> str:
        if self.kept == self.nodes:
            return f"each of the {self.nodes} nodes of the cluster keeps a copy"
        return f"{self.kept} of the {self.nodes} nodes of the cluster keep a copy"


ONE_COPY = Copies()


def key_effect(key: str, value: object, queue: QueueDeclaration, copies: Copies = ONE_COPY) -> KeyEffect:
    """Return the effect of a key of the winner's definition on a queue."""
    kind = queue_type(queue.arguments)
    if key == TARGET_GROUP_SIZE or key.startswith("ha-"):
        return _copies_effect(key, value, queue, copies)
    if key in ONLY_OF_POLICIES:
        return KeyEffect(key, value, Effect.ACTS, "only policies have it")
    if key == "alternate-exchange":
        return KeyEffect(key, value, Effect.NONE, "it is for exchanges")
    argument = f"x-{key}"
    rule = QUEUE_ARGUMENTS[kind].get(argument)
    if rule is None:
        return KeyEffect(key, value, Effect.NONE, f"a queue of type {kind} has no {key}")
    if not rule.check(value):
        return KeyEffect(key, value, Effect.NONE, f"for a queue of type {kind} it must be {rule.allowed}")
    if argument not in queue.arguments:
        return KeyEffect(key, value, Effect.ACTS, "no argument of the queue says otherwise")
    given = queue.arguments[argument]
    if key == "queue-mode":
        return KeyEffect(key, value, Effect.ACTS, f"{argument} is {given!r}, and for this key the policy holds")
    if key not in LOWER_HOLDS:
        return KeyEffect(key, value, Effect.OVERRIDDEN, f"{argument} is {given!r}, and the argument holds")
    effect = Effect.ACTS if _amount(value) <= _amount(given) else Effect.OVERRIDDEN
    return KeyEffect(key, value, effect, f"{argument} is {given!r}, and the lower limit holds")


def _copies_effect(key: str, value: object, queue: QueueDeclaration, copies: Copies) -> KeyEffect:
    """Return the effect of a key that asks for copies on several nodes. How many there are was decided when the queue
    was declared, so these keys change nothing now; they say something that is so, or is not."""
    kind = queue_type(queue.arguments)
    effect = Effect.NONE
    if copies.nodes == 1 or queue.exclusive or kind != QUORUM:
        why = _why_no_copies(queue, copies.nodes)
    elif key == TARGET_GROUP_SIZE:
        assert isinstance(value, int), "a policy is checked"
        effect, why = Effect.ACTS, str(copies)
        if copies.kept != min(value, copies.nodes):
            effect, why = Effect.NONE, f"{why}, as when the queue was declared: 3, 5 or all, and no fewer than wanted"
    elif key in ("ha-mode", "ha-params"):
        effect, why = Effect.ACTS, str(copies)
        if is_integer(value) and value != copies.kept:
            effect, why = Effect.NONE, f"{why}, and other numbers are not possible"
    elif key == "ha-promote-on-shutdown" and value == "when-synced":
        effect, why = Effect.ACTS, "only a node that has every accepted message leads"
    elif key == "ha-promote-on-shutdown":
        why = "a node that lacks accepted messages never leads, because they would be lost"
    else:
        why = "copies of a quorum queue are always in sync"
    return KeyEffect(key, value, effect, why)


def _amount(value: object) -> int:
    """Return a limit as a number; an age is converted to seconds."""
    if isinstance(value, str):
        return int(value[:-1]) * AGE_SECONDS[value[-1]]
    assert isinstance(value, int)
    return value


def _why_no_copies(queue: QueueDeclaration, copies: int = 1) -> str:
    if queue.exclusive:
        return "an exclusive queue has no copies"
    kind = queue_type(queue.arguments)
    if copies > 1 and kind == CLASSIC:
        return f"a classic queue is on one node; with x-queue-type quorum it has a copy on each of the {copies} nodes"
    if kind != CLASSIC:
        return f"a queue of type {kind} is not mirrored"
    return "this broker is one node without replication, and keeps one copy"


def _copies_wanted(definition: Mapping[str, object]) -> int:
    match definition.get("ha-params"):
        case int() as count:
            return count
        case list() | tuple() as nodes:
            return len(nodes)
        case _:
            return 1  # "all" nodes, and this broker is the only one


@dataclass(frozen=True, slots=True)
class Explanation:
    """Which policy applies to a queue, why the others do not, and the effect of each key."""

    queue: QueueDeclaration
    winner: Policy | None
    losers: Sequence[tuple[str, str]]
    """For each other policy its name, and why it lost."""
    keys: Sequence[KeyEffect]
    copies: int = 1

    def shown(self) -> Snapshot:
        """Return the explanation as plain values."""
        return {
            "queue": self.queue.name,
            "policy": None if self.winner is None else self.winner.name,
            "keys": [key.shown() for key in self.keys],
            "losers": [{"name": name, "why": why} for name, why in self.losers],
            **_copies_shown(self.queue, self.winner, self.copies),
        }


def acting(queue: QueueDeclaration, winner: Policy | None) -> Mapping[str, object]:
    """Return the keys and values of the winner that act on a queue. ``in_force.effective`` makes options of them."""
    definition = {} if winner is None else winner.declaration.definition
    return {key: value for key, value in definition.items() if key_effect(key, value, queue).effect is Effect.ACTS}


def shown(queue: QueueDeclaration, winner: Policy | None) -> Snapshot:
    """Return the policy part of a queue's snapshot: the policy's name, and the copies if the policy asks for copies."""
    return {"policy": None if winner is None else winner.name, **_copies_shown(queue, winner)}


def _copies_shown(queue: QueueDeclaration, winner: Policy | None, copies: int = 1) -> Snapshot:
    """Return the wanted copies and a notice if the winner asks for copies of this queue; else None for both."""
    definition = {} if winner is None else winner.declaration.definition
    mirrored = "ha-mode" in definition and not queue.exclusive and queue_type(queue.arguments) == CLASSIC
    if winner is None or not mirrored:
        return {"copies": None, "notice": None}
    wanted = _copies_wanted(definition)
    return {
        "copies": f"1 of {wanted} {'copy' if wanted == 1 else 'copies'}",
        "notice": f"policy '{winner.name}' asks for ha-mode {definition['ha-mode']!r}; {_why_no_copies(queue, copies)}",
    }


# --- all policies ------------------------------------------------------------------------------------------------


class PolicyRecorder(Protocol):
    """Records policies on disk. Each method raises PreconditionFailed if it fails, and has no effect then."""

    def set_policy(self, policy: PolicyDeclaration) -> None: ...

    def remove_policy(self, name: str) -> None: ...


class Policies:
    """The policies of one virtual host."""

    def __init__(
        self,
        *,
        policies_max: int = POLICIES_MAX,
        recorder: PolicyRecorder | None = None,
        changed: Callable[[str], None] = lambda name: None,
    ) -> None:
        """``changed`` is called with the policy's name after each change: the options of any queue or exchange may be
        different then."""
        self._policies_max = policies_max
        self._recorder = recorder
        self._changed = changed
        self.copies = 1
        """How many nodes there are in the cluster."""
        self._ranked: list[Policy] = []
        """Sorted by rank: the first policy that matches a queue is its winner."""

    def restore(self, declarations: Sequence[PolicyDeclaration]) -> None:
        """Load policies that were recorded before a restart. Raises Invalid for a policy that only another version
        allowed."""
        self._ranked = sorted(map(_kept, declarations), key=lambda policy: policy.rank)

    @property
    def count(self) -> int:
        """How many policies there are."""
        return len(self._ranked)

    @property
    def ranked(self) -> Sequence[Policy]:
        """All policies by rank, the winning ones first."""
        return self._ranked

    @property
    def unusable(self) -> Sequence[tuple[str, str]]:
        """The name and the problem of each policy that applies to nothing because its pattern cannot be used."""
        return [(policy.name, policy.problem) for policy in self._ranked if policy.pattern is None]

    def set(self, declaration: PolicyDeclaration) -> None:
        """Create a policy, or replace the one of this name. Raises Invalid, LimitReached, PreconditionFailed."""
        policy = checked(declaration)
        before = self._find(declaration.name)
        if before is not None and before.pattern is not None and _is_same(before.declaration, declaration):
            return
        if before is None and len(self._ranked) >= self._policies_max:
            raise LimitReached(
                f"the limit of {self._policies_max} policies (policies_max) is reached; clear policies or raise it"
            )
        if self._recorder is not None:
            self._recorder.set_policy(declaration)
        others = [other for other in self._ranked if other is not before]
        self._ranked = sorted([*others, policy], key=lambda policy: policy.rank)
        self._changed(policy.name)

    def clear(self, name: str) -> None:
        """Remove a policy. Raises NotFound, PreconditionFailed."""
        policy = self._find(name)
        if policy is None:
            raise NotFound(f"there is no policy '{name}'")
        if self._recorder is not None:
            self._recorder.remove_policy(name)
        self._ranked.remove(policy)
        self._changed(name)

    def snapshot(self) -> list[Snapshot]:
        """Return all policies as plain values, the winning ones first."""
        return [policy.shown() for policy in self._ranked]

    def winner(self, queue: QueueDeclaration, *, after: Policy | None = None) -> Policy | None:
        """Return the policy that applies to a queue, or None. With ``after``, only policies that rank after that one
        count; that policy itself may have been cleared."""
        ranked = self._ranked if after is None else [policy for policy in self._ranked if policy.rank > after.rank]
        return next((policy for policy in ranked if policy.holds_for(queue)), None)

    def alternate_exchange(self, exchange: ExchangeDeclaration) -> str | None:
        """Return the alternate exchange in force for an exchange: from its own argument, else from its policy."""
        own = exchange.arguments.get("alternate-exchange")
        if isinstance(own, str):
            return own
        winner = self._of_exchange(exchange.name)
        named = None if winner is None else winner.declaration.definition.get("alternate-exchange")
        return named if isinstance(named, str) else None

    def exchange_rates(self, name: str) -> PublishRates:
        """Return how much may be published to an exchange in a second."""
        winner = self._of_exchange(name)
        return NO_RATES if winner is None else PublishRates.of(winner.declaration.definition)

    def explain(self, queue: QueueDeclaration, *, group_size: int = 0) -> Explanation:
        """Explain the winner for a queue, the effects of its keys, and why the other policies lost. ``group_size``: how
        many nodes of a cluster should keep the queue; 0 for all."""
        winner = self.winner(queue)
        kind = queue_type(queue.arguments)
        losers = [
            (policy.name, policy.why_not(kind, queue.name) or _why_lost(policy, winner))
            for policy in self._ranked
            if policy is not winner
        ]
        definition = {} if winner is None else winner.declaration.definition
        copies = Copies(self.copies, min(group_size or self.copies, self.copies))
        keys = [key_effect(key, value, queue, copies) for key, value in definition.items()]
        return Explanation(queue, winner, losers, keys, self.copies)

    def _of_exchange(self, name: str) -> Policy | None:
        return next((policy for policy in self._ranked if policy.why_not(EXCHANGES, name) is None), None)

    def _find(self, name: str) -> Policy | None:
        return next((policy for policy in self._ranked if policy.name == name), None)


def _is_same(one: PolicyDeclaration, other: PolicyDeclaration) -> bool:
    return one == other and frozen(one.definition) == frozen(other.definition)


def _why_lost(policy: Policy, winner: Policy | None) -> str:
    assert winner is not None, "a policy that holds loses to another only"
    priority, above = policy.declaration.priority, winner.declaration.priority
    if priority < above:
        return f"its priority {priority} is below {above} of '{winner.name}'"
    return f"its priority {priority} is also that of '{winner.name}', whose name comes first"
