"""Power cuts at any moment: in the middle of a write or a sync, while the broker starts, and while it stops."""

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from random import Random

from tests.crash.ledger import Verdict
from tests.faults.simulation import World
from tests.kit.storage import sync, write

POINTS_PER_WORLD = 20
"""After this many power cuts a new world begins, because a stream that keeps everything takes longer to read
each time."""
LIVES = (5, 30, 100, 100, 300)
"""The most steps between two power cuts; one of these numbers is chosen."""


class PowerCut(Exception):
    """The power is cut now."""


def cut_often(points: int, seed: int) -> tuple[dict[str, Verdict], Counter[str]]:
    """Cut the power this many times, with an audit after each. Raises AssertionError, which names the seed of the
    world."""
    totals: dict[str, Verdict] = {}
    did: Counter[str] = Counter()
    seeds = Random(seed)
    while did["points"] < points:
        world_seed = seeds.randrange(2**32)
        world = World(world_seed)
        for point in range(min(POINTS_PER_WORLD, points - did["points"])):
            try:
                verdicts = cut_once(world)
            except Exception as error:
                error.add_note(f"world {world_seed}, point {point}")
                raise
            for name, verdict in verdicts.items():
                totals.setdefault(name, Verdict()).add(verdict)
            did["points"] += 1
        did += world.did
    return totals, did


def cut_once(world: World) -> dict[str, Verdict]:
    """One life, its power cut, the next start, and the audit."""
    rng = world.rng
    world.run(rng.randint(1, rng.choice(LIVES)))
    if rng.random() < 0.1:  # a killed process first: its written records are there, and not synced
        world.start()
        world.audit(power_cut=False)
        world.did["kills"] += 1
        world.run(rng.randint(0, 10))
    how = rng.choices(("idle", "writing", "syncing", "stopping", "stopped"), (4, 3, 3, 1, 1))[0]
    world.did[f"cuts while {how}"] += 1
    match how:
        case "writing":
            _cut_within(world, lambda: [(world.take_write(lane), write(lane, world.disk)) for lane in world.lanes])
        case "syncing":
            _cut_within(world, lambda: [(lane.want_sync(), sync(lane, world.disk, world.now)) for lane in world.lanes])
        case "stopping":
            _cut_within(world, world.conclude, calls_max=40)
        case "stopped":
            world.conclude()
    world.disk.delay = lambda operation, path: None
    world.lose_power()
    while rng.random() < 0.15:
        world.did["cuts while starting"] += 1
        _cut_within(world, world.start, calls_max=40)
        world.lose_power()
    world.start()
    return world.audit(power_cut=True, orderly=how in ("stopping", "stopped"))


def _cut_within(world: World, act: Callable[[], object], *, calls_max: int = 8) -> None:
    """Call something, and cut the power before one of its first calls to the disk, or after all of them."""
    left = world.rng.randint(1, calls_max)

    def count(operation: str, path: str) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise PowerCut

    world.disk.delay = count
    with suppress(PowerCut):
        act()
