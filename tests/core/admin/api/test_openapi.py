"""The description of the API is complete, and no request, allowed by it or not, makes the broker fail."""

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from core.admin.api.application import OPENAPI_PATH
from core.admin.api.operations import Operation, Parameter
from tests.kit.admin import Facts, client_of
from tests.kit.engine import make_broker

PAGE = Path(__file__).parents[4] / "docs" / "operating" / "http-api.md"
OPERATIONS = Facts().api()[0].table.operations
WITHOUT_END = "/api/headgate/live"


async def description() -> dict[str, Any]:
    async with client_of(Facts().application()) as client:
        response = await client.get(OPENAPI_PATH)
    return response.json()


async def test_every_operation_is_described():
    paths = (await description())["paths"]
    assert len(OPERATIONS) > 70
    for operation in OPERATIONS:
        described = paths[operation.path][operation.method.lower()]
        assert described["summary"] == operation.summary
        assert str(operation.status) in described["responses"]
        names = [parameter["name"] for parameter in described["parameters"]]
        assert names == operation.names + [parameter.name for parameter in operation.query]


async def test_operations_are_told_apart():
    paths = (await description())["paths"]
    operations = [one["operationId"] for methods in paths.values() for one in methods.values()]
    assert len(set(operations)) == len(operations) == len(OPERATIONS)


async def test_every_body_that_is_named_is_described():
    text = json.dumps(document := await description())
    schemas = document["components"]["schemas"]
    named = set(re.findall(r"#/components/schemas/(\w+)", text))
    assert named == schemas.keys()
    assert schemas["QueueBody"]["additionalProperties"] is False
    assert schemas["PolicyBody"]["properties"]["apply-to"]["default"] == "all"


def test_every_path_is_on_the_page():
    page = PAGE.read_text(encoding="utf-8")
    written = {re.sub(r"\{[^}]*\}", "{}", path) for path in re.findall(r"(/api/[^\s`?]*)", page)}
    missing = [operation.path for operation in OPERATIONS if re.sub(r"\{[^}]*\}", "{}", operation.path) not in written]
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
    right = {
        "string": NAMES,
        "integer": st.integers(parameter.low, parameter.high).map(str),
        "boolean": st.sampled_from(["true", "false"]),
    }
    return right[parameter.kind] | st.text(st.characters(exclude_categories=["Cs"]), max_size=5)


@st.composite
def requests(draw: st.DrawFn) -> tuple[Operation, str, bytes]:
    """Requests: an operation, an address with a query, and a body."""
    operation = draw(st.sampled_from([one for one in OPERATIONS if one.path != WITHOUT_END]))
    path = re.sub(r"\{vhost\}", "%2F", operation.path)
    path = re.sub(r"\{[^}]*\}", lambda match: quote(draw(NAMES), safe=""), path)
    chosen = draw(st.lists(st.sampled_from(operation.query), max_size=3, unique=True)) if operation.query else []
    query = "&".join(f"{parameter.name}={quote(draw(values_of(parameter)), safe='')}" for parameter in chosen)
    body = draw(
        st.just(b"")
        | st.binary(max_size=20)
        | st.dictionaries(FIELDS, VALUES, max_size=4).map(lambda fields: json.dumps(fields).encode())
    )
    return operation, f"{path}?{query}" if query else path, body


def busy() -> Facts:
    """Facts with one row of each kind."""
    facts = Facts(broker=make_broker("a", "b"))
    facts.server.rows = {
        "links": [
            {"identity": "c1", "connection": "c1", "direction": "in", "address": "/queues/a", "delivery_count": 1}
        ],
        "sessions": [{"identity": "c1", "connection": "c1"}],
    }
    facts.control.set_policy(name="a", pattern="^a", priority=0, apply_to="all", definition={"max-length": 9})
    facts.pass_time()
    return facts


@given(requests())
@settings(max_examples=200, deadline=None)
def test_no_request_makes_the_broker_fail(request: tuple[Operation, str, bytes]):
    operation, path, body = request
    facts = busy()

    async def ask() -> None:
        headers = {"x-headgate-request": "1", "content-type": "application/json"}
        async with client_of(facts.application(), **headers) as client:
            content = body if operation.method not in ("GET", "HEAD") else b""
            response = await client.request(operation.method, path, content=content)
        assert response.status_code < 500 or "/health/checks/" in path, response.text
        if response.status_code >= 400:
            assert set(response.json()) >= {"reason"}
        assert facts.logged("admin-request-failed") == []

    trio.run(ask)


async def test_every_operation_refuses_a_parameter_that_it_does_not_know():
    async with client_of(busy().application(), **{"x-headgate-request": "1"}) as client:
        for operation in OPERATIONS:
            path = re.sub(r"\{[^}]*\}", "a", re.sub(r"\{vhost\}", "%2F", operation.path))
            response = await client.request(operation.method, path, params={"nonsense": "1"})
            assert response.status_code == 400, path
            assert "'nonsense'" in response.json()["reason"]
