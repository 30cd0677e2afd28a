"""A server in maintenance mode: which connections it lets in, and what it shows of itself."""

import pytest

from core.clock import Now
from core.server.drain import DRAINED, Drain
from tests.kit.serving import serving

ELSEWHERE = ["192.0.2.1", "2001:db8::1", "::ffff:192.0.2.1", "10.127.0.1"]
HERE = ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"]


@pytest.mark.parametrize("host", ELSEWHERE + HERE)
def test_every_client_is_let_in_before_and_after(host: str):
    drain = Drain()
    assert drain.refusal_reason(host) is None
    drain.begin(Now(1.0, 2.0))
    assert (drain.on, drain.refusal_reason(host)) == (True, DRAINED if host in ELSEWHERE else None)
    drain.end()
    assert (drain.on, drain.refusal_reason(host)) == (False, None)


def test_beginning_again_keeps_the_time_of_the_first():
    drain = Drain()
    assert drain.begin(Now(1.0, 2.0))
    assert not drain.begin(Now(3.0, 4.0))
    assert drain.since == Now(1.0, 2.0)
    assert drain.end()
    assert not drain.end()


async def test_a_server_goes_on_serving_and_says_that_it_leaves():
    async with serving() as s:
        client, _ = await s.open()
        s.server.drain(wanted=True)
        s.server.drain(wanted=True)
        assert (s.server.leaving, s.server.stopping) == (True, False)
        assert s.server.drained_since is not None
        await client.send(b"here\n")
        await client.expect(b"here\n")
        await s.open()  # a client on the machine itself
        s.server.drain(wanted=False)
        assert (s.server.leaving, s.server.drained_since) == (False, None)
        assert [line["connections"] for line in s.logged("drain-started") + s.logged("drain-ended")] == [1, 2]
