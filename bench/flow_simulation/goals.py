"""What adaptive link credit has to reach in the simulation, beside fixed."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from bench.flow_simulation.figures import Figures
from bench.flow_simulation.model import Simulation
from bench.flow_simulation.policies import AdaptivePolicy
from bench.goals import Judgement, Quartiles

Run = tuple[Simulation, Figures]

TARGETS = 3
"""The wait that the policy aims at, so many times, and a sync, is what a confirm may take."""
TIMES_SHORTER = 20.0
JAIN = 0.95
FAR_SHARE = 0.6
WEIGHT_ERROR = 0.05
ROUNDS = 3
"""Round trips and syncs after which the unconfirmed messages rise no more when the queue has become slower."""


def confirm(adaptive: Run, fixed: Run) -> Judgement:
    """Confirms are quick: 99 % of them within a sync and three times what the policy aims at."""
    simulation, figures = adaptive
    policy = simulation.policy
    assert isinstance(policy, AdaptivePolicy)
    limit = max(simulation.scenario.queue.syncs) + TARGETS * policy.fair_rate.confirms.target
    return _judged("p99 of confirms", round(limit * 1000, 1), "ms", figures.p99 * 1000)


def shorter(adaptive: Run, fixed: Run) -> Judgement:
    """Confirms are many times quicker than with fixed link credit."""
    found = fixed[1].p99 / max(adaptive[1].p99, 1e-9)
    return _judged("p99 of fixed", TIMES_SHORTER, "times that of adaptive", found, at_least=True)


def fair(adaptive: Run, fixed: Run) -> Judgement:
    """All publishers have about the same rate."""
    return _judged("Jain's index", JAIN, "", adaptive[1].fairness, at_least=True)


def far(adaptive: Run, fixed: Run) -> Judgement:
    """The last publisher, which is far, has its share beside the others."""
    *near, rate = adaptive[1].rates
    return _judged("the far one", FAR_SHARE, "times a near one", rate / (sum(near) / len(near)), at_least=True)


def weights(adaptive: Run, fixed: Run) -> Judgement:
    """Each publisher has the share of its weight."""
    simulation, found = adaptive
    shares = [rate / one.spec.weight for rate, one in zip(found.rates, simulation.publishers, strict=True)]
    mean = sum(found.rates) / sum(one.spec.weight for one in simulation.publishers)
    worst = max((max(share, mean) / max(min(share, mean), 1e-9) for share in shares), default=1.0) - 1
    return _judged("the share of a weight", 100 * WEIGHT_ERROR, "% from the mean", 100 * worst)


def step(adaptive: Run, fixed: Run) -> Judgement:
    """When the queue becomes slower, the unconfirmed messages soon rise no more. What has been granted before cannot be
    taken back, so it takes its time until they are worked off."""
    simulation = adaptive[0]
    scenario = simulation.scenario
    queue = scenario.queue
    limit = ROUNDS * (max(spec.round_trip for spec in scenario.publishers) + max(queue.syncs))
    return _judged("highest, after the queue slowed down,", round(limit * 1000, 1), "ms later", 1000 * rise(simulation))


def rise(simulation: Simulation) -> float:
    """The longest time from a moment at which the queue became slower to the most unconfirmed messages before it became
    another one again, in seconds."""
    queue, ends = simulation.scenario.queue, simulation.history[-1][0]
    longest, number = 0.0, 1
    while (number + 1) * queue.step <= ends:
        begin = number * queue.step
        if queue.rate(begin + queue.step / 2) < queue.rate(begin - queue.step / 2):
            during = [one for one in simulation.history if begin <= one[0] < begin + queue.step]
            at, _ = max(during, key=lambda one: one[1], default=(begin, 0))
            longest = max(longest, at - begin)
        number += 1
    return longest


def _judged(what: str, limit: float, than: str, found: float, *, at_least: bool = False) -> Judgement:
    return Judgement(what=what, limit=limit, than=than, found=Quartiles.of([found]), at_least=at_least)


GOALS: Mapping[str, Callable[[Run, Run], Judgement]] = {
    "confirm": confirm,
    "shorter": shorter,
    "fair": fair,
    "far": far,
    "weights": weights,
    "step": step,
}
"""By the names that scenarios use."""
