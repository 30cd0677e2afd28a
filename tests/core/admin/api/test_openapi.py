"""The description of the API is complete, and no request, allowed by it or not, makes the broker fail."""

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from core.operations.operation import Parameter
from core.operations.table import PathEntry
from tests.kit.admin import Facts, client_of
from tests.kit.engine import make_broker

PAGES = [Path(__file__).parents[4] / "docs" / "operating" / page for page in ("http-api.md", "operations.md")]
ENTRIES = Facts().api()[0].table.entries
WITHOUT_END = "/api/headgate/live"


async def description() -> dict[str, Any]:
    async with client_of(Facts().application()) as client:
        response = await client.get("/api/openapi.json")
    return response.json()


async def test_every_operation_is_described():
    paths = (await description())["paths"]
    assert len(ENTRIES) > 70
    for entry in ENTRIES:
        described = paths[entry.path][entry.spelling.method.lower()]
        assert described["summary"] == entry.operation.summary
        assert str(entry.spelling.status or entry.operation.answer.status) in described["responses"]
        named = {parameter["name"] for parameter in described["parameters"]}
        body = described.get("requestBody", {"content": {"application/json": {"schema": {}}}})
        named |= body["content"]["application/json"]["schema"].get("properties", {}).keys()
        assert named == {one.name for one in entry.operation.parameters if not one.is_document}


async def test_operations_are_told_apart():
    paths = (await description())["paths"]
    operations = [one["operationId"] for methods in paths.values() for one in methods.values()]
    assert len(set(operations)) == len(operations) == len(ENTRIES)


async def test_every_schema_that_is_named_is_described():
    text = json.dumps(document := await description())
    assert set(re.findall(r"#/components/schemas/(\w+)", text)) == document["components"]["schemas"].keys()
    put = document["paths"]["/api/policies/{vhost}/{name}"]["put"]
    body = put["requestBody"]["content"]["application/json"]["schema"]
    assert body["additionalProperties"] is False
    assert body["properties"]["apply-to"]["default"] == "all"


def test_every_operation_is_on_a_page():
    """What the management node has too is on the page of operations, by its name; what only HTTP has, by its path."""
    page, operations = (page.read_text(encoding="utf-8") for page in PAGES)
    written = {re.sub(r"\{[^}]*\}", "{}", path) for path in re.findall(r"(/api/[^\s`?]*)", page)}
    missing = [
        entry.path
        for entry in ENTRIES
        if f"\n## {entry.operation.name}\n" not in operations and re.sub(r"\{[^}]*\}", "{}", entry.path) not in written
    ]
    assert missing == []


NAMES = st.sampled_from(
    ["a", "b", "/", "amq.topic", "", "guest", "queues", "links", "c1", "q", "e", "~", "memory"]
) | st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=5,
)
FIELDS = st.sampled_from(
    [
        *("durable", "auto_delete", "arguments", "type", "internal", "routing_key", "pattern", "definition"),
        *("priority", "apply-to", "to", "exchange", "key", "count", "nonsense"),
        *("queues", "exchanges", "bindings", "policies", "vhosts"),
    ]
)


def values_of(parameter: Parameter) -> st.SearchStrategy[str]:
    right = {"number": st.integers(parameter.low, parameter.high).map(str), "flag": st.sampled_from(["true", "false"])}
    return right.get(parameter.kind, NAMES) | st.text(st.characters(exclude_categories=["Cs"]), max_size=5)


@st.composite
def requests(draw: st.DrawFn) -> tuple[PathEntry, str, bytes]:
    """Requests: an operation, an address with a query, and a body."""
    entry = draw(st.sampled_from([one for one in ENTRIES if one.path != WITHOUT_END]))
    path = re.sub(r"\{vhost\}", "%2F", entry.path)
    path = re.sub(r"\{[^}]*\}", lambda match: quote(draw(NAMES), safe=""), path)
    free = [parameter for parameter in entry.operation.parameters if not parameter.in_path]
    chosen = draw(st.lists(st.sampled_from(free), max_size=3, unique=True)) if free else []
    query = "&".join(f"{parameter.name}={quote(draw(values_of(parameter)), safe='')}" for parameter in chosen)
    body = draw(
        st.just(b"")
        | st.binary(max_size=20)
        | st.dictionaries(FIELDS, VALUES, max_size=4).map(lambda fields: json.dumps(fields).encode())
    )
    return entry, f"{path}?{query}" if query else path, body


def busy() -> Facts:
    """Facts with one row of each kind."""
    facts = Facts(broker=make_broker("a", "b"))
    facts.server.rows = {
        "links": [
            {"identity": "c1", "connection": "c1", "direction": "in", "address": "/queues/a", "delivery_count": 1}
        ],
        "sessions": [{"identity": "c1", "connection": "c1"}],
    }
    facts.set_policy(name="a", pattern="^a", priority=0, apply_to="all", definition={"max-length": 9})
    facts.pass_time()
    return facts


@given(requests())
@settings(max_examples=200, deadline=None)
def test_no_request_makes_the_broker_fail(request: tuple[PathEntry, str, bytes]):
    entry, path, body = request
    facts = busy()

    async def ask() -> None:
        headers = {"x-headgate-request": "1", "content-type": "application/json"}
        async with client_of(facts.application(), **headers) as client:
            content = body if entry.spelling.method != "GET" else b""
            response = await client.request(entry.spelling.method, path, content=content)
        assert response.status_code < 500 or "/health/checks/" in path, response.text
        if response.status_code >= 400:
            assert set(response.json()) >= {"reason"}
        assert facts.logged("admin-request-failed") == []

    trio.run(ask)


async def test_every_operation_refuses_a_parameter_that_it_does_not_know():
    async with client_of(busy().application(), **{"x-headgate-request": "1"}) as client:
        for entry in ENTRIES:
            choices = {one.name: quote(one.choices[0], safe="") for one in entry.operation.parameters if one.choices}
            path = re.sub(r"\{(\w+)\}", lambda match, choices=choices: choices.get(match[1], "a"), entry.path)
            response = await client.request(entry.spelling.method, path, params={"nonsense": "1"})
            assert response.status_code == 400, path
            assert "'nonsense'" in response.json()["reason"]
