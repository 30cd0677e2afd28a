"""The figures of a simulated run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from bench.flow_simulation.model import Confirm, Simulation


@dataclass(frozen=True, slots=True)
class Figures:
    """What a run gave. Times are in seconds."""

    rate: float
    p50: float
    p99: float
    longest: float
    fairness: float
    rates: Sequence[float]
    """Of each publisher."""
    unconfirmed_max: int
    flows_per_message: float


def figures(simulation: Simulation, *, since: float, until: float) -> Figures:
    """The figures of a run, the rates and percentiles from ``since`` to ``until``."""
    counted = [confirm for confirm in simulation.confirms if confirm.at >= since]
    messages: Counter[int] = Counter()
    for confirm in counted:
        messages[confirm.publisher] += confirm.messages
    rates = [messages[publisher.number] / (until - since) for publisher in simulation.publishers]
    squares = sum(rate * rate for rate in rates)
    return Figures(
        rate=sum(rates),
        p50=percentile(counted, 0.5),
        p99=percentile(counted, 0.99),
        longest=max((confirm.age for confirm in simulation.confirms), default=0.0),
        fairness=sum(rates) ** 2 / (len(rates) * squares) if squares else 1.0,
        rates=rates,
        unconfirmed_max=simulation.unconfirmed_max,
        flows_per_message=simulation.flows / max(1, sum(confirm.messages for confirm in simulation.confirms)),
    )


def percentile(confirms: Sequence[Confirm], share: float) -> float:
    """The age at confirm that this share of the messages had at most."""
    left = share * sum(confirm.messages for confirm in confirms)
    for confirm in sorted(confirms, key=lambda confirm: confirm.age):
        left -= confirm.messages
        if left <= 0:
            return confirm.age
    return 0.0
