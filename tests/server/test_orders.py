"""Orders on their way to a connection, and orders for connections that do not exist."""

import pytest

from core.errors import NotFound
from core.server.orders import CloseLink, PauseLink
from tests.kit.serving import serving


@pytest.mark.parametrize(
    ("identity", "text"),
    [("c9/0/1", "there is no 'c9/0/1'"), ("", "there is no ''"), ("c1/1", "connection 'c1' has no links and sessions")],
)
async def test_orders_for_connections_that_do_not_exist(identity: str, text: str):
    async with serving() as s:
        client, front_end = await s.open()
        for order in (PauseLink(identity), CloseLink(identity, "why")):
            with pytest.raises(NotFound, match=text):
                s.server.order(order)
        await client.send(b"here\n")
        await client.expect(b"here\n")
        assert "shut_down" not in front_end.calls


async def test_a_connection_that_has_said_nothing_has_nothing():
    async with serving() as s:
        await s.connect()
        await s.open()
        with pytest.raises(NotFound):
            s.server.order(PauseLink("c1/0/0"))
