"""A chain of edges, and the one walk over it.

:data:`Chain` is the table for one kind of subject: each edge says which figures it shows, and its causes: conditions
over rows, each with the reason that holds, the culprit and a sentence. The chains themselves are in
:mod:`core.observe.why_table`.

The ledger of stalls takes precedence over the figures. It knows since when a link waits, it misses nothing between two
looks, and the log, the metrics and the peer are told the same. The figures show on which edge it is, and what other
reasons hold. Where the ledger has no stall, the figures of this moment count: the wait is shorter than 50 ms, or was
not looked at yet. An edge whose figures are not known is ``unknown``, never ``ok``.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from core.credit_flow.diagnosis import Bottleneck
from core.interface import FlowReason, Snapshot
from core.observe.advice import ADVICE, HopKind, WaitsFor
from core.observe.why_rows import Rows, number, text

OWN_HOP_KINDS = (HopKind.SESSION_LINK, HopKind.QUEUE_LINK)
"""Edges whose remark is shown when nothing blocks: it tells how much link credit there is."""


class Verdict(StrEnum):
    """The verdict about one edge."""

    OK = "ok"
    BLOCKING = "blocking"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The rows around the subject of a question; empty for what it does not have."""

    rows: Rows
    link: Snapshot = field(default_factory=dict)
    session: Snapshot = field(default_factory=dict)
    connection: Snapshot = field(default_factory=dict)
    queue: Snapshot = field(default_factory=dict)
    alarms: tuple[str, ...] = ()
    """The alarms that stop the subject."""
    publishers_waiting: int = 0
    """Publishers of the queue that wait."""
    lacks: WaitsFor | None = None
    """What the queue waits for."""
    stages: Sequence[Sequence[Snapshot]] = ()
    """The rows of the stages of an AMQP 0.9.1 connection: its own, those of its channels, those of their queues."""
    bottleneck: Bottleneck | None = None
    """The stage that holds the connection up."""


Said = str | Callable[[Look], str]
"""A text, or how it is made."""


@dataclass(frozen=True, slots=True)
class Cause:
    """A reason, and when it holds."""

    reason: FlowReason
    holds: Callable[[Look], object]
    culprit: Said
    """What has to change, in the terms of the ledger of stalls."""
    says: Said
    """A clause for the operator, with the figures; no full stop."""


@dataclass(frozen=True, slots=True)
class Edge:
    """A place where messages pass, and what may stop them there."""

    kind: HopKind
    numbers: Callable[[Look], Snapshot]
    known: Callable[[Look], bool]
    """Whether its figures are there."""
    says: Said = ""
    """A remark for the case that nothing blocks."""
    causes: Sequence[Cause] = ()
    """The first one that holds counts."""
    stands: Callable[[Look], bool] = lambda _: False
    """Whether no messages pass although no reason of the closed list holds."""
    exists: Callable[[Look], object] = lambda _: True
    """Whether the chain of this subject has it."""


Chain = Sequence[Edge]


@dataclass(frozen=True, slots=True)
class Finding:
    """A reason that holds at an edge. See :class:`Cause`."""

    reason: FlowReason
    culprit: str
    says: str


@dataclass(frozen=True, slots=True)
class Hop:
    """An edge that the walk has looked at."""

    kind: HopKind
    numbers: Snapshot
    known: bool
    stands: bool
    says: str
    finding: Finding | None

    @property
    def blocks(self) -> bool:
        """Whether it blocks. Idleness (``no-message``) does not."""
        return self.stands or (self.finding is not None and self.finding.reason is not FlowReason.NO_MESSAGE)

    def shown(self) -> Snapshot:
        """The hop as plain values."""
        verdict = Verdict.BLOCKING if self.blocks else Verdict.OK if self.known else Verdict.UNKNOWN
        return {
            "edge": self.kind.value,
            "verdict": verdict.value,
            "reason": None if self.finding is None else self.finding.reason.value,
            "says": self.says if self.finding is None else self.finding.says,
            "numbers": self.numbers,
        }


def walk(chain: Chain, look: Look) -> list[Hop]:
    """Look at every edge of a chain."""
    return [_hop(edge, look) for edge in chain if edge.exists(look)]


def _hop(edge: Edge, look: Look) -> Hop:
    cause = next((cause for cause in edge.causes if cause.holds(look)), None)
    finding = None
    if cause is not None:
        finding = Finding(cause.reason, _said(cause.culprit, look), _said(cause.says, look))
    return Hop(edge.kind, edge.numbers(look), edge.known(look), edge.stands(look), _said(edge.says, look), finding)


def _said(said: Said, look: Look) -> str:
    return said if isinstance(said, str) else said(look)


def verdict(who: str, hops: Sequence[Hop], stall: Snapshot) -> Snapshot:
    """Return the fields that every answer has, except ``subject``. ``stall`` is the ledger's row, or empty."""
    hops = _confirmed(hops, stall)
    found = [hop for hop in hops if hop.finding is not None]
    place = min(found, key=lambda hop: _precedence(hop.finding, stall), default=None)
    if place is None or place.finding is None:
        remark = next((hop.says for hop in hops if hop.kind in OWN_HOP_KINDS and hop.says), "")
        return nothing(f"Nothing holds up {who}" + (f": {remark}." if remark else "."), hops)
    named, seconds = place.finding, number(stall, "seconds")
    waits = named.reason is not FlowReason.NO_MESSAGE
    also = dict.fromkeys(hop.finding.reason.value for hop in found if hop.finding is not None and hop.blocks)
    also.pop(named.reason.value, None)
    sentence = f"Nothing holds up {who}: {named.says}."
    if waits:
        how_long = "waits" if seconds is None else f"has waited for {seconds:.1f} s"
        sentence = f"{who[:1].upper()}{who[1:]} {how_long}: {named.says}."
    return nothing(sentence, hops) | {
        "waits": waits,
        "reason": named.reason.value,
        "culprit": named.culprit,
        "since": number(stall, "since"),
        "seconds": seconds,
        "edge": place.kind.value,
        "numbers": place.numbers,
        "also": list(also),
        "advice": ADVICE[named.reason].do,
    }


def _precedence(finding: Finding | None, stall: Snapshot) -> int:
    """The ledger's reason is before all others, which follow in their order."""
    assert finding is not None
    return -1 if finding.reason.value == stall.get("reason") else list(FlowReason).index(finding.reason)


def _confirmed(hops: Sequence[Hop], stall: Snapshot) -> list[Hop]:
    """Return the hops with the ledger's reason added where the figures do not show it, or name another culprit."""
    reason = reason_of(stall.get("reason"))
    if reason is None:
        return list(hops)
    means = ADVICE[reason].means.rstrip(".")
    kind, says = ADVICE[reason].hop, means[:1].lower() + means[1:]
    for hop in hops:
        if hop.finding is not None and hop.finding.reason is reason:
            kind, says = hop.kind, hop.finding.says
            break
    finding = Finding(reason, text(stall, "culprit") or "not known", says)
    if all(hop.kind is not kind for hop in hops):
        return [*hops, Hop(kind, {}, known=True, stands=False, says="", finding=finding)]
    return [replace(hop, finding=finding) if hop.kind is kind else hop for hop in hops]


def reason_of(word: object) -> FlowReason | None:
    """The reason with this name; None when there is no such reason."""
    return next((reason for reason in FlowReason if reason.value == word), None)


def nothing(sentence: str, hops: Sequence[Hop] = ()) -> Snapshot:
    """Return an answer that nothing blocks."""
    return {
        "waits": False,
        "reason": None,
        "culprit": None,
        "since": None,
        "seconds": None,
        "edge": None,
        "numbers": {},
        "also": [],
        "chain": [hop.shown() for hop in hops],
        "sentence": sentence,
        "advice": None,
    }
