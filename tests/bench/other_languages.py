"""Load processes with clients in Go, against a broker and against brokers with faults; and Artemis as a peer.

They need Go and Maven with their registries, which not every machine has. So ``make test`` leaves them out.
``make test-ci`` and ``make interop`` name this file. It can be named by hand, too:

    python -m pytest tests/bench/other_languages.py
"""

import shutil
import subprocess
from dataclasses import replace

import pytest

from amqp10.load.plan import PlannedTraffic
from amqp10.load.wire import WireError
from bench.broker import Broker
from bench.clients import programs
from bench.peers import embedded_artemis
from bench.scenario import Scenario
from bench.trial import TrialError, run_once, running
from tests.kit.broker_process import broker_process
from tests.kit.loopback_broker import LoopbackBroker, doubling, dropping, garbling, serving, swapping

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

UNBATCHED = PlannedTraffic(shape="unbatched", in_flight=50, messages=300, seconds=30)
PATIENCE_S = 5.0
CLIENTS = (("go-amqp", "1.0"), ("amqp091-go", "0.9.1"))


@pytest.fixture(scope="module")
def program():
    if shutil.which("go") is None:
        pytest.skip("not installed: go")
    if programs.missing("go-amqp"):
        programs.build()


@pytest.fixture(scope="module")
def broker(program):
    with broker_process() as address:
        yield Broker("Headgate", address.url(), address.pid)


def scenario(client, protocol, pattern="two-connections", **traffic):
    return Scenario(
        name="short",
        title="300 messages",
        pattern=pattern,
        protocol=protocol,
        client=client,
        traffic=replace(UNBATCHED, **traffic),
    )


def test_the_program_itself(program):
    done = subprocess.run(
        ["go", "test", "-count=1", "./..."], cwd=programs.GO_SOURCES, stdout=subprocess.PIPE, text=True
    )
    print(done.stdout)
    assert done.returncode == 0


@pytest.mark.parametrize(("client", "protocol"), CLIENTS)
@pytest.mark.parametrize(
    ("pattern", "traffic"),
    [
        *(("one-connection", {"content": content}) for content in ("alike", "ids", "properties", "priorities")),
        ("two-connections", {"content": "priorities", "keys": 3, "sizes": (12, 300, 200_000)}),
        ("two-connections", {"settled": True}),
        ("two-connections", {"in_flight": 0, "durable": True}),
        ("fan-out", {}),
        ("receiver", {"durable": True, "keys": 2}),
        ("sender", {"in_flight": 1}),
        ("many", {}),
    ],
)
def test_each_kind_of_plan(broker, client, protocol, pattern, traffic):
    wanted = replace(scenario(client, protocol, pattern, **traffic), count=2 if pattern == "many" else 1)
    result = run_once(broker, wanted, f"{client}-{pattern}", patience_seconds=PATIENCE_S)
    assert (result.void, result.messages) == ("", 300 * wanted.count)
    assert result.client_cpu_us > 0


@pytest.mark.parametrize(("client", "protocol"), CLIENTS)
def test_latency_at_an_offered_rate(broker, client, protocol):
    wanted = scenario(client, protocol, rate=1000.0, seconds=0.2, size=20)
    result = run_once(broker, wanted, f"{client}-rate", patience_seconds=PATIENCE_S)
    assert (result.void, result.messages) == ("", 200)
    assert result.p50_ms is not None
    assert 0 < result.p50_ms <= result.p99_ms <= result.p99_9_ms


@pytest.mark.parametrize(
    ("fault", "void"),
    [
        (dropping(100), "1 lost"),
        (doubling(100), "1 duplicated"),
        (swapping(100), "1 reordered"),
        (garbling(100), "1 corrupted"),
    ],
)
def test_go_amqp_finds_the_faults_of_a_broker(program, fault, void):
    with serving(LoopbackBroker(fault=fault)) as url:
        wanted = scenario("go-amqp", "1.0", size=20)
        result = run_once(Broker("Loopback", url, 1), wanted, "q", patience_seconds=2.0)
    assert void in result.void


@pytest.mark.parametrize(("client", "protocol"), CLIENTS)
def test_a_queue_that_is_not_there_is_a_reason_not_a_hang(broker, client, protocol):
    wanted = scenario(client, protocol, "receiver")

    def receive():
        with running(broker, wanted.traffic, wanted.processes("nowhere"), client=client) as [process]:
            process.go(0)
            process.expect("published")
            process.finish(1)
            process.expect("report")

    with pytest.raises(TrialError, match="nowhere"):
        receive()


@pytest.mark.timeout(900)  # the first time, Maven fetches some hundred files
def test_artemis_is_a_peer(tmp_path):
    if missing := [name for name in ("java", "mvn") if shutil.which(name) is None]:
        pytest.skip(f"not installed: {missing[0]}")
    if not embedded_artemis.built():
        embedded_artemis.build()
    wanted = scenario("own", "1.0", "sender", durable=True)
    with embedded_artemis.artemis(0, tmp_path) as peer:
        assert peer.name.startswith("apache-activemq-artemis 2.")
        results = [run_once(peer, replace(wanted, pattern=one), "q") for one in ("sender", "receiver", "many")]
        with peer.management() as management:
            management.declare_queue("counted")
            assert management.message_count("counted") == 0
            management.delete_queue("counted")
            with pytest.raises(WireError, match="no quorum queues; choose a scenario"):
                management.declare_queue("q", queue_type="quorum")
            with pytest.raises(WireError, match="Artemis refused"):
                management.delete_queue("nowhere")
        assert peer.resident_bytes() > 2**20
    assert [(one.void, one.messages) for one in results] == [("", 300)] * 3
    assert (tmp_path / "journal").is_dir()
