"""The n-th sync fails: its lane confirms no more messages, and the next start finds every message that was accepted."""

from collections import Counter
from collections.abc import Iterable

from core.store.errors import StoreFailure
from core.store.lane import Lane
from tests.crash.ledger import Verdict
from tests.faults.simulation import STANDING_STEPS, World

STEPS_AFTER = 40
"""The number of steps in which the clients go on as if the sync had not failed."""
STEPS_MAX = 100_000


def fail_each(numbers: Iterable[int], seed: int) -> tuple[dict[str, Verdict], Counter[str]]:
    """Make a world for each n, in which the n-th sync fails. Raises AssertionError, which names the world."""
    totals: dict[str, Verdict] = {}
    did: Counter[str] = Counter()
    for nth in numbers:
        world = World(seed + nth)
        try:
            verdicts = fail_once(world, nth)
        except Exception as error:
            error.add_note(f"world {seed + nth}, sync {nth}")
            raise
        for name, verdict in verdicts.items():
            totals.setdefault(name, Verdict()).add(verdict)
        did += world.did
        did["points"] += 1
    return totals, did


def fail_once(world: World, nth: int) -> dict[str, Verdict]:
    """Work until the sync has failed, go on for a while, start again and audit. Half of the worlds lose their power,
    too. Then nothing of the failed sync is on the disk."""
    world.disk.fail("sync", nth=nth)
    lane = _lane_that_failed(world)
    of_lane = [subject for subject in world.subjects if world.lanes[subject.lane].failed is not None]
    before = [set(subject.ledger.confirmed) for subject in of_lane]
    position = lane.written, lane.synced
    world.run(STEPS_AFTER, STANDING_STEPS)
    assert (lane.written, lane.synced) == position
    world.did[f"failures of {lane.name}"] += 1
    for subject, confirmed in zip(of_lane, before, strict=True):
        # Confirms of messages that went to several queues may have waited for another lane only.
        new = subject.ledger.confirmed - confirmed - world.fanned
        assert not new, f"{subject.name}: {sorted(new)[:20]} were confirmed after the failure"
    power_cut = world.rng.random() < 0.5
    if power_cut:
        world.lose_power()
    world.start()
    return world.audit(power_cut=power_cut)


def _lane_that_failed(world: World) -> Lane:
    for _ in range(STEPS_MAX):
        try:
            world.step()
        except StoreFailure:
            (lane,) = [lane for lane in world.lanes if lane.failed is not None]
            return lane
    raise AssertionError("no sync has failed")
