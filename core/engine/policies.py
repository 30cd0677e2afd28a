"""Policies: what an operator says that queues and exchanges are to be like, by patterns of their names.

At most one policy holds for a queue or exchange, the *winner*: of those that apply to its kind and whose pattern is
found in its name, the one with the highest priority; among equal priorities the one whose name comes first. The losers
have no effect, policies are not merged.

A key of the winner's definition *acts* when this kind of queue knows it and no argument of the queue goes before it.
Where both give a number the lower one holds; else the argument holds, except ``queue-mode``, where the policy does.
A key says the same as the queue's argument of that name behind ``x-`` and takes the same values, so most of what is to
know about it stands in :mod:`core.engine.arguments`.

``ha-`` keys wish for copies on several nodes. They are taken, checked and shown, but act on nothing: this broker is one
node and keeps one copy, which it says. An exclusive queue has no copies whatever they say.

Patterns are those of RE2 (:mod:`core.patterns`): no pattern takes long, whatever the name is. A policy of an earlier
version whose pattern RE2 has not is kept and shown, and holds for nothing until it is set anew or cleared.

Matching happens when a queue is declared or a policy changes, never for a message.
"""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Protocol

from core.engine.arguments import (
    CLASSIC,
    COUNT,
    LINK_CREDIT_MAX,
    MAX_AGE,
    OVERFLOW,
    POSITIVE,
    QUEUE_ARGUMENTS,
    QUEUE_TYPES,
    TEXT,
    Rule,
    integer,
    is_integer,
    one_of,
    queue_type,
)
from core.errors import Invalid, LimitReached, NotFound
from core.interface import AGE_SECONDS, ExchangeDeclaration, QueueDeclaration, Snapshot
from core.patterns import Pattern, PatternError
from core.store.definitions import PolicyDeclaration

POLICIES_MAX = 100
"""When its policy goes, a queue's name is searched for each policy that is left, at 1.5 µs: with 10,000 queues that is
1.5 s, turn by turn."""
TEXT_BYTES_MAX = 255
"""Length of a policy's name and of its pattern in UTF-8, as of the names that the pattern is for."""
DEFINITION_BYTES_MAX = 4096
"""Length of a definition as JSON: three times of what all keys with long names take."""
PRIORITY_MAX = 2**31 - 1
NODES_MAX = 100
"""Names in a list of nodes: they have no more use than their number."""

EXCHANGES = "exchanges"
APPLY_TO: Mapping[str, Collection[str]] = {
    "all": (*QUEUE_TYPES, EXCHANGES),
    "queues": QUEUE_TYPES,
    "classic_queues": ("classic",),
    "quorum_queues": ("quorum",),
    "streams": ("stream",),
    "exchanges": (EXCHANGES,),
}
"""What a policy may apply to, as kinds: the types of queues, and exchanges."""

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
    "sync": one_of("always", "default"),
    "alternate-exchange": TEXT,
    "ha-mode": one_of("all", "exactly", "nodes"),
    "ha-params": Rule(lambda value: POSITIVE.check(value) or _NODES.check(value), "a count or a list of nodes"),
    "ha-sync-mode": one_of("manual", "automatic"),
    "ha-promote-on-shutdown": one_of("always", "when-synced"),
    "ha-sync-batch-size": POSITIVE,
}
"""Every key of a definition with the values that it takes."""

_HA_PARAMS = {"exactly": POSITIVE, "nodes": _NODES}
LOWER_HOLDS = frozenset(
    {"max-length", "max-length-bytes", "message-ttl", "expires", "delivery-limit", "consumer-timeout", "max-age"}
)
"""Limits: of an argument and a policy the lower one holds."""


# --- one policy --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy that was checked."""

    declaration: PolicyDeclaration
    pattern: Pattern | None
    """None for one that was kept from an earlier version and cannot be used."""
    problem: str = ""
    """Why it cannot be used."""

    @property
    def name(self) -> str:
        """What it is called."""
        return self.declaration.name

    @property
    def rank(self) -> tuple[int, str]:
        """The winner's is the lowest: highest priority first, then by name."""
        return -self.declaration.priority, self.declaration.name

    def why_not(self, kind: str, name: str) -> str | None:
        """Why it does not hold for a queue or exchange; None when it does, unless another wins."""
        apply_to = self.declaration.apply_to
        if kind not in APPLY_TO[apply_to]:
            return f"it applies to {apply_to}, and this is {'an exchange' if kind == EXCHANGES else f'of type {kind}'}"
        if self.pattern is None:
            return self.problem
        if not self.pattern.found_in(name):
            return f"its pattern '{self.declaration.pattern}' is not found in the name"
        return None

    def holds_for(self, queue: QueueDeclaration) -> bool:
        """Whether it could be this queue's winner."""
        return self.why_not(queue_type(queue.arguments), queue.name) is None

    def shown(self) -> Snapshot:
        """As plain values."""
        declaration = self.declaration
        return {
            "name": declaration.name,
            "pattern": declaration.pattern,
            "apply_to": declaration.apply_to,
            "priority": declaration.priority,
            "definition": dict(declaration.definition),
        }


def checked(declaration: PolicyDeclaration) -> Policy:
    """The policy that is declared. Raises Invalid, which names what is wrong and what would be right."""
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
    """A policy that was recorded before a restart. Raises Invalid for all but a pattern that cannot be used."""
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
    """The keys about copies belong together."""
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
    """What a key of the winner does for one queue."""

    ACTS = "acts"
    OVERRIDDEN = "overridden"
    """An argument of the queue goes before it."""
    NONE = "no effect"


@dataclass(frozen=True, slots=True)
class KeyEffect:
    """One key of the winner, what it does and why."""

    key: str
    value: object
    effect: Effect
    why: str

    def shown(self) -> Snapshot:
        """As plain values."""
        return {"key": self.key, "value": self.value, "effect": self.effect.value, "why": self.why}


def key_effect(key: str, value: object, queue: QueueDeclaration) -> KeyEffect:
    """What a key of a queue's winner does for it."""
    kind = queue_type(queue.arguments)
    if key.startswith("ha-"):
        return KeyEffect(key, value, Effect.NONE, _why_no_copies(queue))
    if key == "max-link-credit":
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


def _amount(value: object) -> int:
    """A limit as a number, an age in seconds."""
    if isinstance(value, str):
        return int(value[:-1]) * AGE_SECONDS[value[-1]]
    assert isinstance(value, int)
    return value


def _why_no_copies(queue: QueueDeclaration) -> str:
    if queue.exclusive:
        return "an exclusive queue has no copies"
    kind = queue_type(queue.arguments)
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
            return 1  # on all nodes, and this is all


@dataclass(frozen=True, slots=True)
class Explanation:
    """Which policy holds for a queue, why not the others, and what each of its keys does."""

    queue: QueueDeclaration
    winner: Policy | None
    losers: Sequence[tuple[str, str]]
    """Name, and why it lost."""
    keys: Sequence[KeyEffect]

    def shown(self) -> Snapshot:
        """As plain values."""
        return {
            "queue": self.queue.name,
            "policy": None if self.winner is None else self.winner.name,
            "keys": [key.shown() for key in self.keys],
            "losers": [{"name": name, "why": why} for name, why in self.losers],
            **_copies_shown(self.queue, self.winner),
        }


def acting(queue: QueueDeclaration, winner: Policy | None) -> Mapping[str, object]:
    """The keys of its winner that act for a queue, for :func:`core.engine.options.effective`."""
    definition = {} if winner is None else winner.declaration.definition
    return {key: value for key, value in definition.items() if key_effect(key, value, queue).effect is Effect.ACTS}


def shown(queue: QueueDeclaration, winner: Policy | None) -> Snapshot:
    """What a queue's snapshot says of policies: its policy, and its copies where that speaks of copies."""
    return {"policy": None if winner is None else winner.name, **_copies_shown(queue, winner)}


def _copies_shown(queue: QueueDeclaration, winner: Policy | None) -> Snapshot:
    """The copies that the queue should have, if the winner says anything about them and it can have some."""
    definition = {} if winner is None else winner.declaration.definition
    mirrored = "ha-mode" in definition and not queue.exclusive and queue_type(queue.arguments) == CLASSIC
    if winner is None or not mirrored:
        return {"copies": None, "notice": None}
    wanted = _copies_wanted(definition)
    return {
        "copies": f"1 of {wanted} {'copy' if wanted == 1 else 'copies'}",
        "notice": f"policy '{winner.name}' asks for ha-mode {definition['ha-mode']!r}; {_why_no_copies(queue)}",
    }


# --- all policies ------------------------------------------------------------------------------------------------


class PolicyRecorder(Protocol):
    """Keeps policies. Each method raises PreconditionFailed when it cannot, and has done nothing then."""

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
        """``changed`` is called after each change with the policy's name: other options may hold for any queue or
        exchange."""
        self._policies_max = policies_max
        self._recorder = recorder
        self._changed = changed
        self._ranked: list[Policy] = []
        """The first that holds for a queue is its winner."""

    def restore(self, declarations: Sequence[PolicyDeclaration]) -> None:
        """Take over what was recorded before a restart. Raises Invalid for what another version may have allowed."""
        self._ranked = sorted(map(_kept, declarations), key=lambda policy: policy.rank)

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self._ranked)

    @property
    def ranked(self) -> Sequence[Policy]:
        """All of them, those that win first."""
        return self._ranked

    @property
    def unusable(self) -> Sequence[tuple[str, str]]:
        """Names of policies that hold for nothing because of their pattern, and why."""
        return [(policy.name, policy.problem) for policy in self._ranked if policy.pattern is None]

    def set(self, declaration: PolicyDeclaration) -> None:
        """Make a policy, or change the one of this name. Raises Invalid, LimitReached, PreconditionFailed."""
        policy = checked(declaration)
        before = self._find(declaration.name)
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
        """All of them, those that win first."""
        return [policy.shown() for policy in self._ranked]

    def winner(self, queue: QueueDeclaration, *, after: Policy | None = None) -> Policy | None:
        """The policy that holds for a queue; of those that win after another one, which may be gone, if it is given."""
        ranked = self._ranked if after is None else [policy for policy in self._ranked if policy.rank > after.rank]
        return next((policy for policy in ranked if policy.holds_for(queue)), None)

    def alternate_exchange(self, exchange: ExchangeDeclaration) -> str | None:
        """The alternate exchange in force for an exchange: its own, or its winner's."""
        own = exchange.arguments.get("alternate-exchange")
        if isinstance(own, str):
            return own
        for policy in self._ranked:
            if policy.why_not(EXCHANGES, exchange.name) is None:
                named = policy.declaration.definition.get("alternate-exchange")
                return named if isinstance(named, str) else None
        return None

    def explain(self, queue: QueueDeclaration) -> Explanation:
        """The winner for a queue and what its keys do, and why the others lost."""
        winner = self.winner(queue)
        kind = queue_type(queue.arguments)
        losers = [
            (policy.name, policy.why_not(kind, queue.name) or _why_lost(policy, winner))
            for policy in self._ranked
            if policy is not winner
        ]
        definition = {} if winner is None else winner.declaration.definition
        return Explanation(queue, winner, losers, [key_effect(key, value, queue) for key, value in definition.items()])

    def _find(self, name: str) -> Policy | None:
        return next((policy for policy in self._ranked if policy.name == name), None)


def _why_lost(policy: Policy, winner: Policy | None) -> str:
    assert winner is not None, "a policy that holds loses to another only"
    priority, above = policy.declaration.priority, winner.declaration.priority
    if priority < above:
        return f"its priority {priority} is below {above} of '{winner.name}'"
    return f"its priority {priority} is also that of '{winner.name}', whose name comes first"
