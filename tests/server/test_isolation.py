"""A failure on one connection has no effect on the others."""

import pytest

from tests.kit.serving import serving, settled


@pytest.mark.parametrize("where", ["receive_data", "take_actions", "pieces_to_send"])
async def test_row_0_24_one_connection_fails_and_the_others_are_undisturbed(where):
    """A fault in the tasks of one connection ends this connection. The others go on, and new ones are served."""
    async with serving() as s:
        others = [await s.open() for _ in range(2)]
        client, front_end = await s.open()
        front_end.crash_in = where
        await client.send(b"anything\n")
        await settled()
        assert front_end.calls[-1] == "connection_lost"
        assert [row["identity"] for row in s.server.snapshot("connections")] == ["c1", "c2"]
        for other, _ in [*others, await s.open()]:
            await other.send(b"here\n")
            await other.expect(b"here\n")
