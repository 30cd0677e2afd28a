"""The short form of ``python -m tests.hostile.stalls``: the worst attacks, at a part of their size."""

import pytest

from tests.hostile.stalls import ATTACKS
from tests.kit.stall_field import STALL_CPU_MS_MAX, suffer

WORST = (
    "headers exchange",
    "4,352 dynamic nodes, sessions end",
    "pattern (a+)+$",
    "rights withdrawn from 10,000 links",
)


@pytest.mark.slow
@pytest.mark.parametrize("name", WORST)
def test_a_bystander_does_not_wait(name: str):
    outcome = suffer(ATTACKS[name], scale=0.1)
    assert outcome.had_effect, outcome.said
    assert not outcome.ended, outcome.said
    assert not outcome.report.frozen
    assert outcome.report.pings > 0
    assert outcome.report.longest_cpu_ms <= STALL_CPU_MS_MAX
