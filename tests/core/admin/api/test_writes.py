"""Which clients may change something, and which bodies are taken."""

import base64
import json
from collections.abc import Iterator

import httpx
import pytest

from core.admin.api.requests import AT_ONCE_BYTES_MAX
from tests.kit.admin import TOKEN, Facts, client_of
from tests.kit.audited import Audited
from tests.kit.engine import make_broker

READ_TOKEN = b"a-token-that-may-read"
QUEUE = "/api/queues/%2F/a"
WRITE = {"x-headgate-request": "1"}
JSON = {"content-type": "application/json"}


def bearer(token: bytes) -> dict[str, str]:
    return {"authorization": f"Bearer {token.decode()}"}


def basic(password: bytes, user: bytes = b"any") -> dict[str, str]:
    return {"authorization": "Basic " + base64.b64encode(user + b":" + password).decode()}


async def put(
    facts: Facts,
    content: bytes = b"{}",
    *,
    path: str = QUEUE,
    method: str = "PUT",
    headers: dict[str, str],
    token: bytes | None = None,
    read_token: bytes | None = None,
    **settings: object,
) -> httpx.Response:
    async with client_of(facts.application(token=token, read_token=read_token, **settings)) as client:
        return await client.request(method, path, content=content, headers=JSON | headers)


def there_is_no_queue(facts: Facts) -> bool:
    return facts.broker.snapshot("queues") == []


# --- rights ----------------------------------------------------------------------------------------------------------


async def test_without_a_token_a_write_needs_a_header_that_no_form_can_send():
    facts = Facts()
    refused = await put(facts, headers={})
    assert (refused.status_code, refused.json()["error"]) == (403, "forbidden")
    assert "X-Headgate-Request: 1" in refused.json()["reason"]
    assert there_is_no_queue(facts)
    assert (await put(facts, headers=WRITE)).status_code == 201


@pytest.mark.parametrize("authorization", [bearer(TOKEN), basic(TOKEN), basic(TOKEN, user=b"")])
async def test_with_the_token_no_header_is_needed(authorization: dict[str, str]):
    assert (await put(Facts(), headers=authorization, token=TOKEN)).status_code == 201


@pytest.mark.parametrize(
    "authorization",
    [
        {},
        WRITE,
        bearer(b"wrong"),
        basic(b"wrong"),
        basic(b""),
        {"authorization": "Basic not base64!"},
        {"authorization": "Basic"},
        {"authorization": f"Digest {TOKEN.decode()}"},
        {"authorization": TOKEN.decode()},
    ],
)
async def test_a_wrong_token_is_refused_and_logged(authorization: dict[str, str]):
    facts = Facts()
    refused = await put(facts, headers=authorization, token=TOKEN)
    assert (refused.status_code, refused.json()["error"]) == (401, "unauthorized")
    assert TOKEN.decode() not in refused.text
    assert there_is_no_queue(facts)
    assert len(facts.logged("admin-token-wrong")) == 1
    assert facts.logged("admin-write") == []


async def test_the_read_token_reads_and_does_not_write():
    facts = Facts(broker=make_broker("b"))
    audited = Audited()
    facts.control.access.audit = audited.log
    refused = await put(facts, headers=bearer(READ_TOKEN) | WRITE, token=TOKEN, read_token=READ_TOKEN)
    assert (refused.status_code, refused.json()["error"]) == (403, "forbidden")
    (record,) = audited.taken()
    assert (record["event"], record["result"], record["user"]) == ("refusals", "refused", "monitoring")
    assert (record["action"], record["reason"]) == ("PUT /api/queues/%2F/a", "this token may read, and change nothing")
    app = facts.application(token=TOKEN, read_token=READ_TOKEN)
    async with client_of(app, **bearer(READ_TOKEN)) as client:
        assert (await client.get("/api/queues")).json()[0]["name"] == "b"
        assert (await client.get("/api/whoami")).json()["tags"] == ["monitoring"]
        assert (await client.get("/metrics")).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:1"},
        {"sec-fetch-site": "cross-site"},
    ],
)
async def test_a_page_of_another_site_cannot_write(headers: dict[str, str]):
    facts = Facts()
    refused = await put(facts, headers=headers | WRITE)
    assert (refused.status_code, refused.json()["error"]) == (403, "cross-site")
    assert there_is_no_queue(facts)


async def test_our_own_page_can_write():
    assert (await put(Facts(), headers={"origin": "http://127.0.0.1:15692"} | WRITE)).status_code == 201


async def test_every_write_is_logged():
    facts = Facts()
    await put(facts, headers=WRITE)
    await put(facts, b"nonsense", headers=WRITE)
    await put(facts, path="/api/nothing", headers=WRITE, method="DELETE")
    assert [(line["method"], line["path"], line["status"]) for line in facts.logged("admin-write")] == [
        ("PUT", QUEUE, 201),
        ("PUT", QUEUE, 400),
        ("DELETE", "/api/nothing", 404),
    ]


async def test_reading_is_not_logged():
    facts = Facts()
    async with client_of(facts.application()) as client:
        await client.get("/api/queues")
    assert facts.log.entries == []


# --- bodies ----------------------------------------------------------------------------------------------------------


async def test_a_body_that_is_too_large_is_refused():
    facts = Facts()
    largest = b'{"node": "' + b"x" * (1024 - 12) + b'"}'
    assert (await put(facts, largest, headers=WRITE, body_max=1024)).status_code == 201
    refused = await put(Facts(), largest + b" ", headers=WRITE, body_max=1024)
    assert (refused.status_code, refused.json()["error"]) == (413, "body-too-large")
    assert "admin.body_max" in refused.json()["reason"]


async def status_of(
    facts: Facts, messages: Iterator[dict[str, object]], *headers: tuple[bytes, bytes], body_max: int = 5000
) -> int:
    """The status of a PUT whose body comes in these pieces, sent without a client library that would correct it."""
    answer: list[int] = []
    scope = {
        "type": "http",
        "method": "PUT",
        "path": "/api/queues///a",
        "raw_path": QUEUE.encode(),
        "query_string": b"",
        "headers": [(b"host", b"127.0.0.1"), (b"x-headgate-request", b"1"), *headers],
    }

    async def receive() -> dict[str, object]:
        return next(messages)

    async def send(message: dict[str, object]) -> None:
        if message["type"] == "http.response.start":
            answer.append(int(str(message["status"])))

    await facts.application(body_max=body_max)(scope, receive, send)
    (status,) = answer
    return status


async def test_a_body_in_chunks_is_counted_while_it_is_read():
    chunks = ({"type": "http.request", "body": b"x" * 1000, "more_body": True} for _ in range(7))
    assert await status_of(Facts(), chunks, (b"transfer-encoding", b"chunked")) == 413
    assert len(list(chunks)) == 1


@pytest.mark.parametrize("length", ["-1", "1e9", "٣", "9" * 30, "70000"])
async def test_an_absurd_content_length_is_refused(length: str):
    facts = Facts()
    assert await status_of(facts, iter(()), (b"content-length", length.encode())) == 413
    assert there_is_no_queue(facts)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"{", "no JSON"),
        (b"\xff", "no JSON"),
        (b"[]", "the body"),
        (b"null", "the body"),
        (b'{"durabel": true}', "there is no parameter 'durabel' here; there are: durable, auto_delete"),
        (b'{"durable": "yes"}', "durable must be true or false, not 'yes'"),
        (b'{"durable": 1}', "durable must be true or false, not 1"),
        (b'{"arguments": []}', "arguments"),
        (b'{"arguments": {"x-max-length": NaN}}', "NaN is no number"),
        (b'{"arguments": {"x-max-length": 1e999}}', "too large"),
        (b'{"arguments": {"x-max-length": 9223372036854775808}}', "64 bits"),
        (b'{"arguments": {"x-max-length": ' + b"9" * 5000 + b"}}", "no JSON"),
        (b'{"arguments": {"x": "\\ud800"}}', "no JSON"),
        (b'{"arguments": {"\\udfff": 1}}', "no JSON"),
        (b'{"arguments": ' + b'{"x":' * 20 + b"1" + b"}" * 20 + b"}", "deeper than 16"),
        (b'{"arguments": ' + b"[" * 5000 + b"]" * 5000 + b"}", "no JSON"),
    ],
)
async def test_a_body_that_makes_no_sense_is_told_what_is_wrong(body: bytes, reason: str):
    facts = Facts()
    refused = await put(facts, body, headers=WRITE)
    assert (refused.status_code, refused.json()["error"]) == (400, "bad-request")
    assert reason in refused.json()["reason"]
    assert len(refused.json()["reason"]) <= 500
    assert there_is_no_queue(facts)


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", "", "application/jsonp"])
async def test_a_body_must_say_that_it_is_json(content_type: str):
    refused = await put(Facts(), headers=WRITE | {"content-type": content_type})
    assert (refused.status_code, refused.json()["error"]) == (415, "not-json")
    assert (await put(Facts(), headers=WRITE | {"content-type": "Application/JSON; charset=utf-8"})).status_code == 201


async def test_no_body_is_an_empty_one():
    assert (await put(Facts(), b"", headers=WRITE)).status_code == 201


async def test_a_body_where_none_is_taken_is_refused():
    facts = Facts(broker=make_broker("a"))
    refused = await put(facts, b'{"a": 1}', headers=WRITE, method="DELETE")
    assert (refused.status_code, refused.json()["error"]) == (413, "body-too-large")
    assert not there_is_no_queue(facts)
    assert (await put(facts, b"", headers=WRITE, method="GET")).status_code == 200
    assert (await put(facts, b"{}", headers=WRITE, method="GET")).status_code == 413


async def test_a_client_that_leaves_before_the_end_of_its_body_changes_nothing():
    facts = Facts()
    messages = [{"type": "http.request", "body": b"{", "more_body": True}, {"type": "http.disconnect"}]
    assert await status_of(facts, iter(messages)) == 400
    assert there_is_no_queue(facts)


async def test_only_definitions_may_be_larger_than_what_is_read_at_once():
    facts = Facts()
    chunks = ({"type": "http.request", "body": b"x" * 1024, "more_body": True} for _ in range(100))
    assert await status_of(facts, chunks, (b"transfer-encoding", b"chunked"), body_max=10**6) == 413
    assert len(list(chunks)) == 100 - AT_ONCE_BYTES_MAX // 1024 - 1
    queues = [{"name": f"q{number}"} for number in range(10_000)]
    document = json.dumps({"queues": queues[:50], "parameters": queues}).encode()
    assert len(document) > AT_ONCE_BYTES_MAX
    made = await put(facts, document, headers=WRITE, method="POST", path="/api/definitions", body_max=10**6)
    assert made.status_code == 204
    assert len(facts.broker.snapshot("queues")) == 50
