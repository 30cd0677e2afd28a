"""Simulated clusters keep their promises, and each mistake that is put in on purpose is found."""

from collections.abc import Callable

import pytest

from tests.cluster.engine import Mistake
from tests.cluster.simulate import main, simulate
from tests.cluster.world import World

SEEDS = 200


@pytest.mark.slow
def test_the_promises_are_kept(tell: Callable[[object], None]):
    broken = {seed: outcome.why for seed in range(SEEDS) if (outcome := simulate(seed)).why}
    assert broken == {}
    tell(f"{SEEDS} simulated clusters")


@pytest.mark.slow
@pytest.mark.parametrize("mistake", Mistake)
def test_each_mistake_is_found(mistake):
    assert any(simulate(seed, mistake).why for seed in range(2 * SEEDS))


def test_the_audit_waits_until_each_node_has_applied_what_it_has_read():
    world = World(0)
    follower = max(world.members)
    world.nodes[1].driver.claim()
    for _ in range(20):
        world.turn()
        world.network.pass_time(0.05)
    world.network.cut_off = {follower}
    for _ in range(200):  # so many that the follower still reads when everything else is at rest
        world.publish()
        world.turn()
        world.network.pass_time(0.05)
    assert world.engine.end > world.nodes[follower].log.ends_at + 100
    world.calm()
    world.audit()


def test_a_seed_repeats_everything(capsys):
    lines = []
    for _ in range(2):
        assert main(["--seed", "7", "--trace"]) == 0
        lines.append(capsys.readouterr().out)
    assert lines[0] == lines[1]
    assert "all promises were kept" in lines[0]


def test_the_command_names_the_seeds_that_fail(capsys):
    assert main(["--seeds", "20", "--mistake", Mistake.EARLY_ANSWER.value]) == 1
    assert "--seed " in capsys.readouterr().out
