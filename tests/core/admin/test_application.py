"""The admin application, asked without a socket: metrics, health, and every request that it refuses."""

import httpx
import pytest
from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.parser import text_string_to_metric_families

from tests.kit.admin import TOKEN, Facts, MadeUpServer, client_of

HEALTH_PATHS = ("/livez", "/readyz", "/startupz", "/healthz/publish")


async def ask(facts: Facts, path: str, *, method: str = "GET", **headers: str) -> httpx.Response:
    async with client_of(facts.application(), **headers) as client:
        return await client.request(method, path)


def samples(response: httpx.Response) -> dict[str, float]:
    """The samples that a scraper reads, without labels."""
    families = text_string_to_metric_families(response.text)
    return {sample.name: sample.value for family in families for sample in family.samples}


# --- metrics -----------------------------------------------------------------------------------------------


async def test_metrics_are_text_that_prometheus_reads():
    response = await ask(Facts(), "/metrics")
    assert response.status_code == 200
    assert response.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert response.headers["cache-control"] == "no-store"
    assert samples(response) == {"headgate_connections": 3, "headgate_published_total": 5}


async def test_a_label_that_a_peer_chose_stays_a_label():
    (_, family) = text_string_to_metric_families((await ask(Facts(), "/metrics")).text)
    assert family.samples[0].labels == {"address": 'a"\n\\<b>'}


async def test_links_are_collected_only_on_request():
    facts = Facts()
    response = await ask(facts, "/metrics/links?address=orders%2F%C3%BC&limit=5")
    assert samples(response) == {"headgate_link_credit": 7}
    assert facts.links_asked == [("orders/ü", 5)]


async def test_links_of_all_addresses_have_a_limit_too():
    facts = Facts()
    async with client_of(facts.application(links_max=20)) as client:
        await client.get("/metrics/links")
    assert facts.links_asked == [(None, 20)]


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("limit=0", "limit must be a number from 1 to 1000"),
        ("limit=1001", "limit must be a number from 1 to 1000"),
        ("limit=-1", "limit must be a number from 1 to 1000"),
        ("limit=" + "9" * 5000, "limit must be a number from 1 to 1000"),
        ("limit=%C2%B2", "limit must be a number from 1 to 1000"),
        ("limit=", "limit must be a number from 1 to 1000"),
        ("limit=1&limit=2", "limit is given more than once"),
        ("adress=a", "there is no parameter 'adress' here; there are: address, limit"),
        ("address=", "address must have 1 to 1024 characters"),
        ("address=" + "a" * 1025, "address must have 1 to 1024 characters"),
    ],
)
async def test_wrong_parameters_are_named(query: str, reason: str):
    facts = Facts()
    response = await ask(facts, f"/metrics/links?{query}")
    assert response.status_code == 400
    assert response.json() == {"error": "bad-request", "reason": reason}
    assert facts.links_asked == []


async def test_metrics_take_no_parameters():
    response = await ask(Facts(), "/metrics?name=x")
    assert response.json()["reason"] == "there is no parameter 'name' here; there are: none"


# --- health ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", HEALTH_PATHS)
async def test_a_broker_that_serves_is_well(path: str):
    response = await ask(Facts(), path)
    assert (response.status_code, response.json()) == (200, {"status": "ok"})


async def statuses(facts: Facts) -> list[int]:
    return [(await ask(facts, path)).status_code for path in HEALTH_PATHS]


async def test_a_broker_that_starts_is_alive_and_no_more():
    assert await statuses(Facts(started=False)) == [200, 503, 503, 503]


async def test_a_broker_that_drains_is_not_ready():
    facts = Facts(server=MadeUpServer(leaving=True))
    assert await statuses(facts) == [200, 503, 200, 503]
    assert (await ask(facts, "/readyz")).json() == {"status": "not ok", "reasons": [{"reason": "draining"}]}


async def test_an_alarm_stops_publishing_only_and_is_named():
    facts = Facts()
    facts.raise_alarm("memory")
    assert await statuses(facts) == [200, 200, 200, 503]
    reasons = [{"reason": "memory", "cause": "a test", "since": 5.0}]
    assert (await ask(facts, "/healthz/publish")).json() == {"status": "not ok", "reasons": reasons}


async def test_a_notice_stops_nothing():
    facts = Facts()
    facts.raise_alarm("event-loop-lag", level="notice")
    assert await statuses(facts) == [200, 200, 200, 200]


async def test_a_head_is_asked_for_without_a_body():
    response = await ask(Facts(), "/livez", method="HEAD")
    assert response.status_code == 200


# --- requests that are refused ---------------------------------------------------------------------------------


async def test_an_unknown_path_is_not_found():
    for path in ("/metrics/", "/api", "/api/nothing", "/livez/../etc", "/%00"):
        response = await ask(Facts(), path)
        assert (response.status_code, response.json()["error"]) == (404, "not-found")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "NONSENSE"])
async def test_a_method_that_changes_something_is_not_allowed(method: str):
    response = await ask(Facts(), "/metrics", method=method)
    assert response.status_code == 405
    assert response.headers["allow"] in ("GET, HEAD", "HEAD, GET")
    assert response.json() == {"error": "method-not-allowed", "reason": f"{method} is not possible here"}


@pytest.mark.parametrize(
    "authorization",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        "Bearer 0123456789abcde",
        "Bearer 0123456789abcdef0",
        "Basic 0123456789abcdef",
        "Bearer \xff",
    ],
)
async def test_without_the_token_nothing_but_health_is_told(authorization: str | None):
    facts = Facts()
    headers = {} if authorization is None else {"authorization": authorization.encode("latin-1")}
    async with client_of(facts.application(token=TOKEN)) as client:
        for path in ("/metrics", "/metrics/links", "/nowhere"):
            response = await client.get(path, headers=headers)
            assert (response.status_code, response.json()["error"]) == (401, "unauthorized")
            assert response.headers["www-authenticate"] == "Bearer"
        for path in HEALTH_PATHS:
            assert (await client.get(path, headers=headers)).status_code == 200
    assert len(facts.logged("admin-token-wrong")) == 3
    assert facts.links_asked == []
    assert TOKEN.decode() not in repr(facts.log.entries)


@pytest.mark.parametrize("scheme", ["Bearer", "bearer"])
async def test_the_token_lets_in(scheme: str):
    async with client_of(Facts().application(token=TOKEN), authorization=f"{scheme} {TOKEN.decode()}") as client:
        assert (await client.get("/metrics")).status_code == 200


@pytest.mark.parametrize("content", [b"x", b"x" * 1_000_000])
async def test_a_body_is_refused(content: bytes):
    async with client_of(Facts().application()) as client:
        response = await client.request("GET", "/metrics", content=content)
    assert (response.status_code, response.json()["error"]) == (413, "body-too-large")


async def test_a_body_of_unknown_length_is_refused():
    async def chunks():
        yield b"x"

    async with client_of(Facts().application()) as client:
        response = await client.request("POST", "/livez", content=chunks())
    assert response.status_code == 413


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:15692", "127.0.0.1.evil.example", "", "[::1", "1.2.3.4", "a b"]
)
async def test_a_name_that_is_not_ours_is_refused(host: str):
    response = await ask(Facts(), "/livez", host=host)
    assert (response.status_code, response.json()["error"]) == (421, "wrong-host")


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:9", "127.0.0.1", "[::1]:15692", "Broker.Example:1", "10.0.0.5"]
)
async def test_our_names_are_known(host: str):
    app = Facts().application(hosts=["broker.example"], listen=["10.0.0.5:0"], token_file="t")
    async with client_of(app, host=host) as client:
        assert (await client.get("/livez")).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "http://127.0.0.1:8080"},
        {"origin": "null"},
        {"origin": ""},
        {"sec-fetch-site": "cross-site"},
    ],
)
async def test_pages_of_other_sites_are_refused(headers: dict[str, str]):
    response = await ask(Facts(), "/metrics", **headers)
    assert (response.status_code, response.json()["error"]) == (403, "cross-site")
    assert not any(name.startswith("access-control") for name in response.headers)


async def test_a_page_of_our_own_is_not_cross_site():
    response = await ask(Facts(), "/metrics", origin="http://127.0.0.1:15692")
    assert response.status_code == 200
    assert not any(name.startswith("access-control") for name in response.headers)


# --- faults of ours ----------------------------------------------------------------------------------------


async def test_a_fault_is_logged_with_its_stack_and_told_without_details():
    def fails():
        yield GaugeMetricFamily("headgate_connections", "Open connections.", value=3)
        raise RuntimeError("secret detail")

    facts = Facts(collect=fails)
    async with client_of(facts.application()) as client:
        response = await client.get("/metrics")
        assert (response.status_code, response.json()["error"]) == (500, "internal-error")
        assert "secret" not in response.text
        facts.collect = lambda: ()
        assert (await client.get("/metrics")).status_code == 200
    (line,) = facts.logged("admin-request-failed")
    assert line["path"] == "/metrics"
    assert repr(line["exc_info"]) == "RuntimeError('secret detail')"


async def test_a_websocket_is_refused():
    sent = []

    async def send(message):
        sent.append(message)

    await Facts().application()({"type": "websocket", "path": "/metrics"}, lambda: None, send)
    assert sent == [{"type": "websocket.close"}]


async def test_a_broker_without_metrics_answers_with_none():
    facts = Facts(collect=lambda: [Metric("headgate_nothing", "Nothing.", "gauge")])
    assert samples(await ask(facts, "/metrics")) == {}
