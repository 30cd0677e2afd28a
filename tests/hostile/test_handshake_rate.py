"""The short form of ``python -m tests.hostile.handshake_rate``: it measures what it says, at a small rate."""

import pytest

from tests.hostile.handshake_rate import ADDED_MS_MAX, Waits, compare, verdict


@pytest.mark.slow
def test_waits_are_measured_alone_and_beside_handshakes():
    alone, beside = compare(rate=40, seconds=0.5, rounds=1)
    assert alone.handshakes == 0
    assert 0 < beside.handshakes <= 20, "fewer on a busy machine"
    assert len(alone.each) > 10
    assert len(beside.each) > 10
    assert alone.p99 > 0


@pytest.mark.parametrize(("added", "handshakes", "code"), [(0.0, 500, 0), (ADDED_MS_MAX + 0.1, 500, 1), (0.0, 470, 1)])
def test_a_longer_wait_and_too_few_handshakes_are_told(added: float, handshakes: int, code: int):
    alone = Waits(each=[1.0] * 100, seconds=1.0)
    beside = Waits(each=[1.0 + added] * 100, seconds=1.0, handshakes=handshakes)
    assert verdict(alone, beside, rate=500)[0] == code
