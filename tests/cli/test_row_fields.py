"""The page about the HTTP API names every field of every kind of row, and no field that does not exist."""

import re
from collections.abc import Iterator

import pika
import pytest
import trio

from amqp10.client import ClientConnection, Message, connect
from core.rows import KINDS
from tests.kit.broker_process import ROOT

PAGE = ROOT / "docs" / "operating" / "http-api.md"
RARE = {
    "target_ram_count",  # while memory is short
    "warning",  # in answers about memory only
    "limit_s",  # of a lag, once one was measured
    "worst_s",
}
"""Fields that this broker has no reason to show."""
DEADLINE_S = 20.0

Fields = dict[str, set[str]]


def documented() -> set[str]:
    """The words in the first columns of the page's tables about fields."""
    section = PAGE.read_text(encoding="utf-8").partition("## Fields of rows")[2]
    names = re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE)
    return {field for cell in names for field in cell.split()}


@pytest.fixture
def found(broker_url: str) -> Iterator[Fields]:
    """The fields of the rows of each kind, of a broker that has at least one row of each kind."""
    channel_connection = pika.BlockingConnection(pika.URLParameters(broker_url))
    try:
        channel = channel_connection.channel()
        channel.queue_declare("fields-091", durable=True)
        channel.basic_consume("fields-091", lambda *_: None)
        yield trio.run(fields_of_everything, broker_url)
    finally:
        channel_connection.close()


async def fields_of_everything(url: str) -> Fields:
    async with connect(url) as operator, connect(url) as publisher, trio.open_nursery() as nursery:
        for name in ("classic", "quorum", "stream"):
            body = {"durable": True, "arguments": {"x-queue-type": name}}
            await operator.request("PUT", f"/queues/fields-{name}", body)
        source = {"source": "amq.topic", "binding_key": "fields", "arguments": {}}
        await operator.request("POST", "/bindings", {**source, "destination_queue": "fields-classic"})
        policy = {"pattern": "^fields-x", "priority": 0, "apply_to": "all", "definition": {"max-length": 5}}
        await operator.request("PUT", "/headgate/policies/fields", policy)
        await operator.open_receiver("/queues/fields-quorum")
        sender = await publisher.open_sender("/queues/fields-classic")
        await operator.request("PUT", "/headgate/alarms/memory")
        try:
            nursery.start_soon(sender.send, Message(b"waits for the alarm"))
            with trio.fail_after(DEADLINE_S):
                while not await rows_of(operator, "stalls"):  # noqa: ASYNC110 - of another process
                    await trio.sleep(0.05)
            fields = {kind: await fields_of(operator, kind) for kind in KINDS}
        finally:
            await operator.request("DELETE", "/headgate/alarms/memory")
            await operator.request("DELETE", "/headgate/policies/fields")
            for name in ("classic", "quorum", "stream", "091"):
                await operator.request("DELETE", f"/queues/fields-{name}")
        nursery.cancel_scope.cancel()
    return fields


async def fields_of(operator: ClientConnection, kind: str) -> set[str]:
    return {str(field) for row in await rows_of(operator, kind) for field in row}


async def rows_of(operator: ClientConnection, kind: str) -> list[dict[object, object]]:
    """The rows of a kind, which here are few enough for one page."""
    page = (await operator.request("GET", f"/headgate/{kind}")).body
    assert isinstance(page, dict)
    assert page["next"] is None
    assert isinstance(page["items"], list)
    return page["items"]


@pytest.mark.slow
def test_every_field_is_in_the_page_and_nothing_else_is(found: Fields):
    assert [kind for kind in KINDS if not found[kind]] == []
    names = documented()
    missing = {kind: sorted(fields - names) for kind, fields in found.items()}
    assert {kind: fields for kind, fields in missing.items() if fields} == {}
    assert names - set().union(*found.values()) <= RARE
