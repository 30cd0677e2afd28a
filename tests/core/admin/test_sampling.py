"""The task that takes a sample of the broker's figures each second."""

import trio

from core.admin.sampling import Sampling
from tests.kit.admin import Facts


async def sample(facts: Facts, seconds: float) -> None:
    """Let the task run for this many seconds."""
    with trio.move_on_after(seconds):
        await Sampling(overview=facts.overview, timelines=facts.timelines).run()


async def test_a_sample_is_taken_each_second(autojump_clock):
    facts = Facts()
    facts.server.rows["links"] = [{"identity": "c1/0/0", "connection": "c1", "link_credit": 5, "delivery_count": 0}]
    await sample(facts, 9.5)
    lines = facts.timelines.times_and_series("links", "c1/0/0")
    assert lines is not None
    assert lines["series"]["link_credit"] == [5.0] * 10
