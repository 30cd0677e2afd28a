"""From hops and the ledger of stalls to one verdict: the first blocking hop, since when, and what to do.

The ledger takes precedence over the figures. It knows since when a link waits, it misses nothing between two looks, and
the log, the metrics and the peer are told the same. The figures show on which hop it is, and what other reasons hold.
Where the ledger has no stall, the figures of this moment count: the wait is shorter than 50 ms, or was not looked at
yet.
"""

from collections.abc import Iterable, Sequence

from core.interface import FlowReason, Snapshot
from core.observe.advice import ADVICE, HopKind
from core.observe.why_chain import Finding, Hop, count, first_reason, number, reason_of, text

OWN_HOP_KINDS = (HopKind.SESSION_LINK, HopKind.QUEUE_LINK)
"""Hops whose remark is shown when nothing blocks: it tells how much link credit there is."""

SHOWN_MAX = 20
"""How many links are listed one by one in the answer for their connection or queue."""


def verdict(who: str, hops: Sequence[Hop], stall: Snapshot) -> Snapshot:
    """Return the fields that every answer has, except ``subject``. ``stall`` is the ledger's row, or empty."""
    hops = confirmed(hops, stall)
    named = _named(hops, stall)
    if named is None:
        remark = next((hop.says for hop in hops if hop.kind in OWN_HOP_KINDS and hop.says), "")
        return nothing(f"Nothing holds up {who}" + (f": {remark}." if remark else "."), hops)
    place = next(hop for hop in hops if hop.finding is named)
    waits = named.reason is not FlowReason.NO_MESSAGE
    advice = ADVICE[named.reason]
    return {
        "waits": waits,
        "reason": named.reason.value,
        "culprit": named.culprit,
        "since": number(stall, "since"),
        "seconds": number(stall, "seconds"),
        "edge": place.kind.value,
        "numbers": place.numbers,
        "also": _others(hops, named),
        "chain": [hop.shown() for hop in hops],
        "sentence": _sentence(who, named, stall),
        "advice": advice.do,
    }


def worst(answers: Iterable[Snapshot]) -> Snapshot | None:
    """The answer whose reason takes precedence, and of several with that reason the one that has waited for longest;
    None when none waits."""
    order = [reason.value for reason in FlowReason]
    waiting = (answer for answer in answers if answer["waits"] is True)
    return min(waiting, key=lambda one: (order.index(str(one["reason"])), -count(one, "seconds")), default=None)


def in_short(answers: Iterable[Snapshot]) -> Snapshot:
    """How many wait, and a line for each of those that have waited for longest."""
    waiting = sorted((answer for answer in answers if answer["waits"] is True), key=lambda one: -count(one, "seconds"))
    keys = ("reason", "culprit", "since", "seconds", "edge", "sentence")
    who = [{"identity": _identity(answer), **{key: answer[key] for key in keys}} for answer in waiting[:SHOWN_MAX]]
    return {"waiting": len(waiting), "who": who}


def _identity(answer: Snapshot) -> object:
    subject = answer.get("subject")
    return subject.get("identity") if isinstance(subject, dict) else None


def confirmed(hops: Sequence[Hop], stall: Snapshot) -> list[Hop]:
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
    finding = Finding(reason=reason, culprit=text(stall, "culprit") or "not known", says=says)
    if all(hop.kind is not kind for hop in hops):
        return [*hops, Hop(kind=kind, numbers={}, finding=finding)]
    return [hop.blamed(finding) if hop.kind is kind else hop for hop in hops]


def _named(hops: Sequence[Hop], stall: Snapshot) -> Finding | None:
    found = [hop.finding for hop in hops if hop.finding is not None]
    reason = reason_of(stall.get("reason"))
    return next((finding for finding in found if finding.reason is reason), None) or first_reason(found)


def _others(hops: Sequence[Hop], named: Finding) -> list[str]:
    """The other reasons that hold."""
    reasons = {hop.finding.reason: None for hop in hops if hop.finding is not None and hop.blocks}
    return [reason.value for reason in reasons if reason is not named.reason]


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


def _sentence(who: str, named: Finding, stall: Snapshot) -> str:
    if named.reason is FlowReason.NO_MESSAGE:
        return f"Nothing holds up {who}: {named.says}."
    seconds = number(stall, "seconds")
    waits = "waits" if seconds is None else f"has waited for {seconds:.1f} s"
    return f"{who[:1].upper()}{who[1:]} {waits}: {named.says}."
