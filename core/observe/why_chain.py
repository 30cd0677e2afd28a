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
class WaitEdge:
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


Chain = Sequence[WaitEdge]


@dataclass(frozen=True, slots=True)
class Hop:
    """An edge that the walk has looked at."""

    kind: HopKind
    numbers: Snapshot
    known: bool
    stands: bool
    says: str
    """The clause of the cause that holds, else the remark of the edge."""
    reason: FlowReason | None = None
    culprit: str = ""

    @property
    def blocks(self) -> bool:
        """Whether it blocks. Idleness (``no-message``) does not."""
        return self.stands or self.reason not in (None, FlowReason.NO_MESSAGE)

    def shown(self) -> Snapshot:
        """The hop as plain values."""
        verdict = Verdict.BLOCKING if self.blocks else Verdict.OK if self.known else Verdict.UNKNOWN
        return {
            "edge": self.kind.value,
            "verdict": verdict.value,
            "reason": None if self.reason is None else self.reason.value,
            "says": self.says,
            "numbers": self.numbers,
        }


def walk(chain: Chain, look: Look) -> list[Hop]:
    """Look at every edge of a chain."""
    return [_hop(edge, look) for edge in chain if edge.exists(look)]


def _hop(edge: WaitEdge, look: Look) -> Hop:
    cause = next((cause for cause in edge.causes if cause.holds(look)), None)
    says = _said(edge.says if cause is None else cause.says, look)
    hop = Hop(edge.kind, edge.numbers(look), edge.known(look), edge.stands(look), says)
    return hop if cause is None else replace(hop, reason=cause.reason, culprit=_said(cause.culprit, look))


def _said(said: Said, look: Look) -> str:
    return said if isinstance(said, str) else said(look)


def verdict(who: str, hops: Sequence[Hop], stall: Snapshot) -> Snapshot:
    """Return the fields that every answer has, except ``subject``. ``stall`` is the ledger's row, or empty."""
    told = reason_of(stall.get("reason"))
    hops = list(hops) if told is None else _confirmed(hops, told, text(stall, "culprit") or "not known")
    order = [told, *FlowReason]
    found = sorted((hop for hop in hops if hop.reason is not None), key=lambda hop: order.index(hop.reason))
    if not found or found[0].reason is None:
        remark = next((hop.says for hop in hops if hop.kind in OWN_HOP_KINDS and hop.says), "")
        return nothing(f"Nothing holds up {who}" + (f": {remark}." if remark else "."), hops)
    place, reason, seconds = found[0], found[0].reason, number(stall, "seconds")
    waits = reason is not FlowReason.NO_MESSAGE
    sentence = f"Nothing holds up {who}: {place.says}."
    if waits:
        how_long = "waits" if seconds is None else f"has waited for {seconds:.1f} s"
        sentence = f"{who[:1].upper()}{who[1:]} {how_long}: {place.says}."
    others = dict.fromkeys(hop.reason.value for hop in hops if hop.reason not in (None, reason) and hop.blocks)
    return nothing(sentence, hops) | {
        "waits": waits,
        "reason": reason.value,
        "culprit": place.culprit,
        "since": number(stall, "since"),
        "seconds": seconds,
        "edge": place.kind.value,
        "numbers": place.numbers,
        "also": list(others),
        "advice": ADVICE[reason].do,
    }


def _confirmed(hops: Sequence[Hop], told: FlowReason, culprit: str) -> list[Hop]:
    """Return the hops with the ledger's reason added where the figures do not show it, or name another culprit."""
    means = ADVICE[told].means.rstrip(".")
    unseen = Hop(ADVICE[told].hop, {}, known=True, stands=False, says=means[:1].lower() + means[1:])
    shown = next((hop for hop in hops if hop.reason is told), unseen)
    blamed = [
        replace(hop, says=shown.says, reason=told, culprit=culprit) if hop.kind is shown.kind else hop for hop in hops
    ]
    added = all(hop.kind is not shown.kind for hop in hops)
    return [*blamed, replace(unseen, reason=told, culprit=culprit)] if added else blamed


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
