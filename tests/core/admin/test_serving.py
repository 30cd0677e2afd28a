"""The admin server on a socket: what it serves, and clients that are slow, too many, send too much or speak another
protocol."""

import json
import threading
import time
from contextlib import suppress

import httpx
import pytest
import structlog
import trio
import trio.testing
from prometheus_client.core import GaugeMetricFamily

from core.admin.service import AdminService
from core.admin.serving import BUSY_MAX, AdminServer
from core.config.admin import AdminSettings
from core.server.certificates import Certificates
from tests.kit.admin import TOKEN, Facts, Listening, listening, until_closed
from tests.kit.certificates import Trial

REQUEST = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture
def patient_clock() -> trio.testing.MockClock:
    """A clock that jumps only when nothing has come over a socket for a moment."""
    return trio.testing.MockClock(autojump_threshold=0.02)


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def body(answer: bytes) -> dict[str, object]:
    return json.loads(answer.partition(b"\r\n\r\n")[2])


async def test_a_scrape_over_a_socket():
    async with listening(Facts(), token=TOKEN) as admin, httpx.AsyncClient(base_url=admin.url) as client:
        assert (await client.get("/livez")).json() == {"status": "ok"}
        assert (await client.get("/metrics")).status_code == 401
        response = await client.get("/metrics", headers={"authorization": f"Bearer {TOKEN.decode()}"})
        assert "headgate_connections 3.0\n" in response.text
        assert response.headers["connection"] == "close"
        assert "server" not in response.headers
    assert admin.facts.logged("admin-listening")[0]["addresses"].startswith("127.0.0.1:")


async def test_a_large_answer_arrives_whole():
    def many():
        family = GaugeMetricFamily("headgate_many", "Many.", labels=["address"])
        for number in range(20_000):
            family.add_metric([f"queue-{number}"], number)
        yield family

    async with listening(Facts(collect=many)) as admin, httpx.AsyncClient(base_url=admin.url) as client:
        lines = (await client.get("/metrics")).text.splitlines()
    assert len(lines) == 20_002
    assert lines[-1] == 'headgate_many{address="queue-19999"} 19999.0'


async def test_the_address_that_was_dialled_is_a_name_of_ours():
    async with listening(Facts(), listen=["127.0.0.2:0"]) as admin:
        _, port = admin.server.listening_on[0]
        answer = await admin.raw(b"GET /livez HTTP/1.1\r\nHost: 127.0.0.2:%d\r\n\r\n" % port)
    assert status(answer) == 200


async def test_a_head_that_is_too_large_is_refused():
    async with listening(Facts(), request_head_max="1KiB") as admin:
        answer = await admin.raw(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 20_000)
    assert status(answer) == 431


@pytest.mark.parametrize(
    "nonsense",
    [
        b"\x00" * 100,
        b"AMQP\x00\x01\x00\x00\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost : x\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\n\r\n",
    ],
)
async def test_what_is_no_http_is_refused(nonsense: bytes):
    async with listening(Facts()) as admin:
        assert status(await admin.raw(nonsense)) == 400


@pytest.mark.parametrize(
    "head",
    [
        b"Content-Length: 1000000000\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n",
        b"Content-Length: 1000000000\r\nExpect: 100-continue\r\n\r\n",
    ],
)
async def test_a_request_with_a_body_is_refused_without_waiting_for_the_body(head: bytes):
    async with listening(Facts(), request_time_out="60s") as admin:
        answer = await admin.raw(b"POST /metrics HTTP/1.1\r\nHost: localhost\r\n" + head)
    assert b"HTTP/1.1 413" in answer
    assert b"body-too-large" in answer


async def test_a_body_in_a_thousand_chunks_is_refused(patient_clock):
    async with listening(Facts()) as admin:
        answer = await admin.raw(
            b"POST /livez HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 1000
        )
        assert status(await admin.raw(REQUEST)) == 200
    assert status(answer) == 413


async def test_hypercorn_writes_nothing_of_its_own(capfd: pytest.CaptureFixture[str]):
    def fails():
        raise RuntimeError("a fault of ours")

    async with listening(Facts(collect=fails)) as admin:
        assert status(await admin.raw(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")) == 500
        assert status(await admin.raw(b"\r\n\r\nnonsense\r\n\r\n")) == 400
        assert status(await admin.raw(REQUEST)) == 200
    assert capfd.readouterr() == ("", "")
    assert [entry["event"] for entry in admin.facts.log.entries] == ["admin-listening", "admin-request-failed"]


async def test_a_second_request_on_a_connection_is_not_answered():
    async with listening(Facts()) as admin:
        answer = await admin.raw(REQUEST * 3)
    assert answer.count(b"HTTP/1.1 200") == 1


@pytest.mark.parametrize(
    "request_of_http_2",
    [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAA\r\n\r\n",
    ],
    ids=["at once", "by upgrade"],
)
async def test_http_2_is_refused(request_of_http_2: bytes):
    async with listening(Facts()) as admin:
        assert status(await admin.raw(request_of_http_2)) == 505


async def test_an_upgrade_to_a_websocket_is_refused():
    upgrade = (
        b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " + b"A" * 22
    )
    async with listening(Facts()) as admin:
        answer = await admin.raw(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n" + upgrade + b"==\r\n\r\n")
    assert status(answer) == 403


# --- slow clients ---------------------------------------------------------------------------------------------


async def test_a_client_that_says_nothing_is_cut_off(patient_clock):
    async with listening(Facts(), request_time_out="3s") as admin, await admin.connect() as stream:
        started = trio.current_time()
        assert await until_closed(stream) == b""
        assert trio.current_time() - started <= 4


async def test_a_request_that_trickles_in_is_cut_off(patient_clock):
    async with listening(Facts(), request_time_out="3s") as admin, await admin.connect() as stream:
        started = trio.current_time()
        with suppress(trio.BrokenResourceError):
            while trio.current_time() < started + 10:
                await stream.send_all(b"G")
                await trio.sleep(0.5)
        assert trio.current_time() - started <= 5


async def test_a_client_that_does_not_read_is_cut_off(patient_clock):
    def endless():
        family = GaugeMetricFamily("headgate_many", "x" * 10_000_000)
        family.add_metric([], 1)
        yield family

    async with listening(Facts(collect=endless), request_time_out="3s") as admin, await admin.connect() as stream:
        await stream.send_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await trio.sleep(5)
        assert len(await until_closed(stream)) < 10_000_000


async def test_a_client_that_does_not_read_does_not_hold_up_the_end():
    facts = Facts(collect=lambda: [GaugeMetricFamily("headgate_many", "x" * 10_000_000, value=1)])
    with trio.fail_after(30):  # half of the time that is left to the client
        async with listening(facts, request_time_out="60s") as admin:
            stream = await admin.connect()
            await stream.send_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert await stream.receive_some(10) == b"HTTP/1.1 2"
    await trio.aclose_forcefully(stream)


# --- many clients ---------------------------------------------------------------------------------------------


async def test_a_client_that_finds_all_connections_taken_is_told(patient_clock):
    async with listening(Facts(), connections_max=2, request_time_out="5s") as admin:
        taken = [await admin.connect() for _ in range(2)]
        await trio.sleep(0.1)
        answer = await admin.raw(REQUEST)
        assert status(answer) == 503
        assert body(answer)["error"] == "too-many-connections"
        for stream in taken:
            await stream.aclose()
        await trio.sleep(0.1)
        assert status(await admin.raw(REQUEST)) == 200


async def test_a_crowd_that_says_nothing_goes_away_and_others_are_served(patient_clock):
    async with listening(Facts(), connections_max=3, request_time_out="2s") as admin:
        crowd = [await admin.connect() for _ in range(3 + BUSY_MAX + 10)]
        await trio.sleep(6)
        assert status(await admin.raw(REQUEST)) == 200
        assert [await until_closed(stream) for stream in crowd] == [b""] * len(crowd)
        for stream in crowd:
            await stream.aclose()


async def test_clients_that_leave_in_the_middle_do_not_disturb_the_others():
    async with listening(Facts()) as admin:
        for cut in range(0, len(REQUEST) + 1, 5):
            async with await admin.connect() as stream:
                await stream.send_all(REQUEST[:cut])
        assert status(await admin.raw(REQUEST)) == 200
    assert [entry["event"] for entry in admin.facts.log.entries] == ["admin-listening"]


async def test_the_service_is_loaded_once_in_a_thread_and_again_only_where_that_failed():
    facts, settings, threads = Facts(), AdminSettings(listen=("127.0.0.1:0",)), []

    def load() -> AdminService:
        threads.append(threading.current_thread())
        if len(threads) == 1:
            raise RuntimeError("a bug")
        return AdminService(facts.application(), settings=settings)

    server = AdminServer(load, settings=settings, log=facts.logger())
    admin = Listening(server, facts)
    await server.open()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.run)
        assert await admin.raw(REQUEST) == b""
        async with trio.open_nursery() as clients:
            for _ in range(3):
                clients.start_soon(admin.raw, REQUEST)
        assert status(await admin.raw(REQUEST)) == 200
        nursery.cancel_scope.cancel()
    server.close()
    assert len(threads) == 2
    assert threading.main_thread() not in threads
    assert len(facts.logged("admin-connection-failed")) == 1


async def test_a_task_that_fails_is_logged_and_begun_anew(autojump_clock):
    facts, begun = Facts(), []

    async def task() -> None:
        begun.append(trio.current_time())
        await trio.sleep(1)
        raise RuntimeError("a bug")

    settings = AdminSettings(listen=("127.0.0.1:0",))
    server = AdminServer(
        lambda: AdminService(facts.application(), settings=settings),
        settings=settings,
        log=facts.logger(),
        background=[task],
    )
    with trio.move_on_after(5):
        await server.run()
    assert [when - begun[0] for when in begun] == [0.0, 2.0, 4.0]
    assert len(facts.logged("admin-task-failed")) == 2


async def test_over_tls_and_beside_clients_that_do_not_speak_it(tmp_path):
    trial = Trial.make(tmp_path)
    certificates = Certificates(trial.settings(), wall=time.time, log=structlog.get_logger())
    async with listening(Facts(), token=TOKEN, certificates=certificates) as admin:
        port = admin.server.listening_on[0][1]
        assert admin.server.urls == [f"https://127.0.0.1:{port}/"]
        for renewed in (False, True):
            if renewed:
                trial.write_server()
                certificates.look()
            async with httpx.AsyncClient(base_url=f"https://127.0.0.1:{port}", verify=trial.context()) as client:
                assert (await client.get("/livez")).json() == {"status": "ok"}
                response = await client.get("/metrics", headers={"authorization": f"Bearer {TOKEN.decode()}"})
                assert "headgate_connections 3.0\n" in response.text
                page = {"x-headgate-request": "1"}
                login = await client.post("/console/login", json={"token": TOKEN.decode()}, headers=page)
                assert login.headers["set-cookie"].startswith(f"__Host-headgate-{port}=")
                assert login.headers["set-cookie"].endswith("; Path=/; HttpOnly; SameSite=Strict; Secure")
                assert (await client.get("/metrics")).status_code == 200
        assert await admin.raw(REQUEST) == b""
        await trio.testing.wait_all_tasks_blocked()  # the socket is closed before the log is written
        assert "no TLS" in str(admin.facts.logged("admin-handshake-failed")[0]["reason"])
        async with await admin.connect() as silent:
            await silent.send_all(b"\x16\x03\x01")
        assert not admin.facts.logged("admin-connection-failed")
