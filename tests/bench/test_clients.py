"""Load processes with other projects' clients in Python: what they send and check, and how a plan is refused."""

import os
import re
from dataclasses import fields, replace
from functools import partial

import pytest

from amqp10.load.ledger import judge
from amqp10.load.plan import Application, Plan, PlannedTraffic
from bench import run
from bench.broker import Broker
from bench.clients import programs
from bench.clients.__main__ import main as list_clients
from bench.clients.messages import Content, MessageChecker, Messages
from bench.clients.pace import Pace
from bench.clients.programs import ClientError, ToldPlan
from bench.scenario import Scenario, ScenarioError, load_scenarios, read_scenario
from bench.trial import run_once
from tests.kit.broker_process import broker_process
from tests.kit.loopback_broker import LoopbackBroker, doubling, serving, swapping

UNBATCHED = PlannedTraffic(shape="unbatched", in_flight=50, messages=200, seconds=30)
PATIENCE_S = 5.0
CONTENTS = ("alike", "ids", "properties", "priorities")
MANY = 'client = "proton"\ncount = 3\ntraffic.shape = "unbatched"\n'
CLIENTS = (pytest.param("proton", "1.0", marks=pytest.mark.interop), ("pika", "0.9.1"))


@pytest.fixture(scope="module")
def broker():
    with broker_process() as address:
        yield Broker("Headgate", address.url(), address.pid)


def scenario(client, protocol, pattern="two-connections", **traffic):
    return Scenario(
        name="short",
        title="200 messages",
        pattern=pattern,
        protocol=protocol,
        client=client,
        traffic=replace(UNBATCHED, **traffic),
    )


@pytest.mark.slow
@pytest.mark.parametrize(("client", "protocol"), CLIENTS)
class TestAgainstABroker:
    @pytest.mark.parametrize("content", CONTENTS)
    def test_each_content_arrives_as_it_was_sent_through_keys_and_in_sizes(self, broker, client, protocol, content):
        wanted = scenario(client, protocol, "one-connection", content=content, keys=3, sizes=(12, 300, 5000))
        result = run_once(broker, wanted, f"{client}-{content}", patience_seconds=PATIENCE_S)
        assert (result.void, result.messages) == ("", 200)

    def test_publishers_at_a_rate_share_a_queue(self, broker, client, protocol):
        wanted = replace(scenario(client, protocol, "many", rate=1000.0, seconds=0.1, size=20), count=2)
        result = run_once(broker, wanted, f"{client}-many", patience_seconds=PATIENCE_S)
        assert (result.void, result.messages) == ("", 200)

    @pytest.mark.parametrize("pattern", ["two-connections", "fan-out"])
    def test_one_key_through_the_exchange(self, broker, client, protocol, pattern):
        wanted = replace(scenario(client, protocol, pattern), through_exchange=True)
        result = run_once(broker, wanted, f"{client}-{pattern}", patience_seconds=PATIENCE_S)
        assert (result.void, result.messages) == ("", 200)

    def test_settled_messages(self, broker, client, protocol):
        wanted = scenario(client, protocol, settled=True)
        result = run_once(broker, wanted, f"{client}-settled", patience_seconds=PATIENCE_S)
        assert (result.void, result.messages) == ("", 200)

    def test_a_queue_filled_before(self, broker, client, protocol):
        wanted = scenario(client, protocol, "receiver", durable=True)
        result = run_once(broker, wanted, f"{client}-filled", patience_seconds=PATIENCE_S)
        assert (result.void, result.messages) == ("", 200)

    def test_latency_at_an_offered_rate(self, broker, client, protocol):
        wanted = scenario(client, protocol, rate=1000.0, seconds=0.1, size=20)
        result = run_once(broker, wanted, f"{client}-rate", patience_seconds=PATIENCE_S)
        assert (result.void, result.messages) == ("", 100)
        assert result.p50_ms is not None
        assert result.p50_ms > 0


@pytest.mark.slow
@pytest.mark.interop
@pytest.mark.parametrize(("fault", "void"), [(doubling(100), "1 duplicated"), (swapping(100), "1 reordered")])
def test_proton_finds_the_faults_of_a_broker(fault, void):
    with serving(LoopbackBroker(fault=fault)) as url:
        wanted = scenario("proton", "1.0", size=20)
        result = run_once(Broker("Loopback", url, 1), wanted, "q", patience_seconds=PATIENCE_S)
    assert void in result.void


class TestTheChecker:
    TRAFFIC = replace(UNBATCHED, content="priorities", sizes=(20, 40))

    def checked(self, sequences, damage=lambda body, content: (body, content)):
        messages, checker = Messages(self.TRAFFIC), MessageChecker(self.TRAFFIC)
        for sequence in sequences:
            body, content = messages.body(3, sequence, 0), messages.content(3, sequence)
            checker.take(*(damage(body, content) if sequence == 1 else (body, content)), now_ns=1)
        return checker

    @pytest.mark.parametrize(
        ("arrived", "verdict"),
        [((0, 1, 2, 3), (0, 0, 0)), ((0, 2, 3), (1, 0, 0)), ((0, 1, 1, 2, 3), (0, 1, 0)), ((0, 2, 1, 3), (0, 0, 1))],
    )
    def test_it_finds_what_is_lost_duplicated_and_reordered(self, arrived, verdict):
        found = judge({3: 4}, [self.checked(arrived).ledger.ranges()])
        assert (found.lost, found.duplicated, found.reordered) == verdict

    @pytest.mark.parametrize(
        "damage",
        [
            lambda body, content: (body[:-1] + bytes([body[-1] ^ 1]), content),
            lambda body, content: (body[:-1], content),
            lambda body, content: (b"", content),
            lambda body, content: (body, replace(content, message_id="3-8")),
            lambda body, content: (body, replace(content, content_type=None)),
            lambda body, content: (body, replace(content, properties={**content.properties, "kind": "other"})),
            lambda body, content: (body, replace(content, properties={})),
            lambda body, content: (body, replace(content, priority=None)),
        ],
    )
    def test_a_damaged_message_is_corrupted_and_lost(self, damage):
        checker = self.checked((0, 1, 2), damage)
        assert checker.corrupted == 1
        assert checker.ledger.ranges() == {3: [(0, 1), (2, 1)]}

    def test_what_was_not_sent_may_have_any_value(self):
        checker = MessageChecker(UNBATCHED)
        content = Content(message_id="1", content_type="text/plain", properties={"a": 1}, priority=9)
        checker.take(Messages(UNBATCHED).body(3, 0, 0), content, now_ns=1)
        assert (checker.corrupted, checker.ledger.total) == (0, 1)


class TestThePace:
    def test_unsettled_messages_are_bounded(self):
        pace = Pace(1, replace(UNBATCHED, in_flight=3))
        assert pace.due(0) == range(0)
        pace.start(0)
        assert pace.due(1) == range(3)
        assert not pace.due(1)
        pace.outcome(2, accepted=True, now_ns=2)
        assert pace.due(2) == range(3, 5)
        assert (pace.unconfirmed, pace.finished) == (3, False)

    def test_a_refused_message_has_an_outcome(self):
        pace = Pace(1, replace(UNBATCHED, messages=1))
        pace.start(0)
        assert list(pace.due(1)) == [0]
        pace.outcome(1, accepted=False, now_ns=2)
        assert not pace.due(3)
        assert (pace.finished, pace.refused, pace.unconfirmed) == (True, 1, 0)

    def test_an_offered_rate_is_counted_from_the_start(self):
        pace = Pace(1, replace(UNBATCHED, rate=1000.0, size=20, seconds=0.005))
        pace.start(10)
        assert list(pace.due(10)) == [0]
        assert pace.wait_seconds(10, 1.0) == pytest.approx(0.001)
        assert list(pace.due(10 + 10_000_000)) == [1, 2, 3, 4]
        assert pace.intended_ns(4) == 10 + 4_000_000
        assert not pace.due(10 + 11_000_000)
        assert pace.unconfirmed == 5

    def test_a_second_publisher_at_a_rate_starts_later(self):
        pace = Pace(2, replace(UNBATCHED, rate=1000.0, size=20))
        pace.start(0)
        assert not pace.due(500_000)
        assert pace.intended_ns(0) == pytest.approx(618_000, rel=0.001)
        assert list(pace.due(620_000)) == [0]


class TestWhatIsRefused:
    def plan(self, client, *, traffic=UNBATCHED, **fields):
        [protocol] = programs.PROTOCOLS[client]
        return Plan(
            url="amqp://h", traffic=traffic, applications=(Application(publisher=1, protocol=protocol, **fields),)
        )

    @pytest.mark.parametrize("client", [client for client in programs.PROTOCOLS if client != "own"])
    def test_a_plan_that_the_client_cannot_carry_out(self, client):
        plan = self.plan(client)
        assert ToldPlan(plan, client).plan == plan
        with pytest.raises(ClientError, match="shape unbatched, not bulk"):
            ToldPlan(self.plan(client, traffic=replace(UNBATCHED, shape="bulk")), client)
        with pytest.raises(ClientError, match="outcomes of batches"):
            ToldPlan(self.plan(client, batch=10), client)
        with pytest.raises(ClientError, match="one application"):
            ToldPlan(replace(plan, applications=plan.applications * 2), client)
        other = "0.9.1" if programs.PROTOCOLS[client] == ("1.0",) else "1.0"
        with pytest.raises(ClientError, match=f"not {other}"):
            ToldPlan(replace(plan, applications=(replace(plan.applications[0], protocol=other),)), client)

    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            ('pattern = "sender"\nclient = "qpid"', "no such client: 'qpid'; known are own, go-amqp"),
            ('pattern = "sender"\nclient = "pika"\n[traffic]\nshape = "unbatched"', "pika speaks AMQP 0.9.1, not 1.0"),
            ('pattern = "idle"\nclient = "proton"', "memory is measured with the client own"),
            ('pattern = "sender"\nclient = "go-amqp"', "shape unbatched, not bulk"),
            (f'{MANY}pattern = "fan-out"', "one application, and pattern 'fan-out' with count 3 has 3 in one process"),
            (f'{MANY}pattern = "one-connection"', "pattern 'one-connection' with count 3 has 3"),
            (f'{MANY}pattern = "competing"', "pattern 'competing' with count 3 has 3"),
        ],
    )
    def test_a_scenario_file_with_a_client_that_cannot_be(self, tmp_path, text, reason):
        path = tmp_path / "broken.toml"
        path.write_text(f'title = "x"\n{text}')
        with pytest.raises(ScenarioError, match=reason):
            list(read_scenario(path))

    def test_a_named_scenario_on_the_command_line(self, capsys):
        assert run.main(["bulk-12", "--client", "pika"]) == 2
        assert "bulk-12: the client pika speaks AMQP 0.9.1, not 1.0" in capsys.readouterr().err

    def test_of_all_scenarios_those_that_the_client_cannot_carry_out_are_left_out(self, capsys):
        assert run.main(["--client", "pika", "--list"]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert any(line.startswith("left out: bulk-12: ") for line in lines)
        kept = [line.split()[0] for line in lines if not line.startswith("left out: ")]
        assert "091-unbatched-12" in kept
        assert not {name for name in kept if not name.startswith("091-")}

    def test_a_client_that_is_not_there_says_how_to_get_it(self, tmp_path):
        assert "pip install no_such" in programs.missing("no_such")
        assert programs.missing("own") == ""
        program = tmp_path / "load"
        missing = partial(programs.program_missing, "rhea", program, programs.RHEA_SOURCES)
        assert missing("make it").startswith("the client rhea is not built; make it does it")
        program.touch()
        assert missing("make it") == ""
        os.utime(program, (0, 0))
        assert missing("make it") == "the program of the client rhea is older than its sources; make it"

    @pytest.mark.parametrize(
        ("language", "reason"), [("go", r"install Go 1\.25"), ("javascript", r"install Node\.js 20")]
    )
    def test_a_client_cannot_be_built_without_what_builds_it(self, language, reason):
        with pytest.raises(ClientError, match=f"no command no-such-tool; {reason}"):
            programs.build(language, "no-such-tool")

    @pytest.mark.parametrize("traffic", [{"settled": True}, {"rate": 10.0, "size": 20}, {"content": "ids"}])
    def test_rhea_sends_messages_that_are_alike(self, traffic):
        with pytest.raises(ClientError, match="rhea sends messages that are alike"):
            ToldPlan(self.plan("rhea", traffic=replace(UNBATCHED, **traffic)), "rhea")

    def test_rhea_sends_to_queues(self):
        with pytest.raises(ClientError, match="not through exchanges"):
            ToldPlan(self.plan("rhea", exchange="x"), "rhea")

    def test_the_list_of_clients_says_which_are_there(self, capsys):
        assert list_clients([]) == 0
        shown = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
        assert list(shown) == list(programs.PROTOCOLS)
        assert shown["own"].endswith("there")


def test_a_plan_for_go_has_the_bytes_and_destinations_that_python_derives():
    traffic = replace(UNBATCHED, keys=2, sizes=(20, 12))
    plan = Plan(url="amqp://h", traffic=traffic, applications=(Application(publisher=1, publish_to="q", exchange="x"),))
    first, second = programs.paddings(traffic)
    assert (len(first), second) == (8, b"")
    assert [one.address for one in programs.destinations(plan)] == ["/exchanges/x/key-00000", "/exchanges/x/key-00001"]
    assert [one.routing_key for one in programs.destinations(plan)] == ["key-00000", "key-00001"]
    assert {one.exchange for one in programs.destinations(plan)} == {"x"}
    assert '"client": "go-amqp"' in ToldPlan(plan, "go-amqp").to_json()
    to_queue = replace(plan, applications=(Application(publisher=1, publish_to="q"),))
    assert '"no_latency": "' in ToldPlan(to_queue, "rhea").to_json()
    assert Plan.from_json(ToldPlan(plan, "proton").to_json()) == plan


def test_results_name_the_client_and_older_files_stay_comparable():
    own = load_scenarios()["unbatched-12"][0]
    assert "client" not in own.parameters()
    assert not {"content", "keys", "sizes"} & set(own.parameters()["traffic"])
    assert replace(own, client="proton").parameters() == own.parameters() | {"client": "proton"}


def test_the_program_in_go_knows_every_field_of_a_plan():
    """It refuses a plan with a field that it does not know."""
    known = set(re.findall(r'json:"(\w+)"', (programs.GO_SOURCES / "plan.go").read_text(encoding="utf-8")))
    asked = {field.name for part in (Plan, PlannedTraffic, Application) for field in fields(part)}
    assert asked - known == set()
