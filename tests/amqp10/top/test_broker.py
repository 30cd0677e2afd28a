"""``headgate top`` over the HTTP API of a running broker."""

import asyncio
from pathlib import Path

import pytest
from textual.widgets import DataTable, Static

from amqp10.top.admin import Admin
from amqp10.top.app import TopApp
from tests.kit.busy_broker import TOKEN, busy_broker


@pytest.mark.slow
def test_links_that_wait_come_first_with_their_reason(tmp_path: Path):
    async def look(admin: Admin) -> None:
        async with TopApp(admin).run_test(size=(160, 40)) as pilot:
            await pilot.pause()
            table, why = pilot.app.query_one(DataTable), pilot.app.query_one("#why", Static)
            lines = [[str(cell) for cell in table.get_row_at(index)] for index in range(4)]
            assert {line[0] for line in lines[:2]} == {"shop", "mailer"}
            stalled = next(line for line in lines if line[0] == "shop")
            assert [stalled[column] for column in (1, 2, 4, 5)] == ["c1/1/0", "in", "queue-full", "queue orders"]
            await pilot.press("enter")
            assert "What to do: " in str(why.render())
            await pilot.press("n")
            assert table.row_count == 4
            await pilot.press("enter")
            assert table.row_count >= 1

    with busy_broker(tmp_path, token=TOKEN) as broker:
        asyncio.run(look(Admin(broker.admin_url, TOKEN)))
