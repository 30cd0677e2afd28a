"""Whether what nodes saw of a group's owner could have come from one owner that changes in one step at a time.

The owner's epochs only increase. So an order of all steps exists exactly if each epoch can begin at some moment: within
its claim, after every step that saw an earlier epoch had begun, and before any step that saw this or a later one had
ended. The earliest possible moment of each epoch is the best choice, so one pass decides.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf


@dataclass(frozen=True, slots=True)
class Seen:
    """A step that found the group in an epoch, or brought it there."""

    begun: float
    ended: float
    """Infinity for a step that was never answered."""
    epoch: int
    node: int
    """Who owned the group in that epoch."""
    claims: bool = False
    """Whether this step has made the node the owner. A claim without an answer may or may not have."""


def contradiction(history: Iterable[Seen]) -> str:
    """Return why no order explains the history; "" if one does."""
    steps = list(history)
    owners: dict[int, int] = {}
    for step in steps:
        if step.ended < inf and owners.setdefault(step.epoch, step.node) != step.node:
            return f"epoch {step.epoch} has two owners: {owners[step.epoch]} and {step.node}"
    began = -inf
    for epoch in sorted(owners):
        if not epoch:
            continue  # the group was never claimed
        claims = [step for step in steps if step.claims and (step.epoch, step.node) == (epoch, owners[epoch])]
        if not claims:
            return f"epoch {epoch} was seen, and node {owners[epoch]} has not claimed it"
        answered = [step for step in claims if step.ended < inf]
        if len(answered) > 1:
            return f"epoch {epoch} was claimed twice"
        begun = min(step.begun for step in answered or claims)
        before = max((step.begun for step in steps if step.ended < inf and step.epoch < epoch), default=-inf)
        began = max(began, begun, before)
        until = min((step.ended for step in steps if step.epoch >= epoch), default=inf)
        if began > until:
            return f"epoch {epoch} begins at {began:.3f} or later, and was seen before {until:.3f}"
    return ""
