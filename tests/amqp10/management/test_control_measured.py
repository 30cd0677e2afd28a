"""Requests for memory and disk space: the orders to the sampler, the words of the answers, and refusals."""

from dataclasses import dataclass, field

import pytest

from amqp10.addresses import percent_encode
from amqp10.serve import management_node
from core.clock import Now
from core.config.settings import Settings
from core.control_plane import BrokerControl
from core.engine.broker import Broker
from core.errors import Invalid
from core.observe.stalls import Stalls
from tests.kit.management import Answer, decode_answer, encode_request, respond


@dataclass
class Scales:
    """A stand-in for the sampler."""

    asked: list[str] = field(default_factory=list)

    def memory(self) -> dict[str, object]:
        return {"name": "memory", "limit": 2**63, "warning": None}

    def disk(self) -> dict[str, object]:
        return {"name": "disk", "free": 7}

    def set_memory_watermark(self, text: str) -> None:
        self.asked.append(f"memory {text}")
        if text == "much":
            raise Invalid("'much' is no size")

    def set_disk_free_limit(self, text: str) -> None:
        self.asked.append(f"disk {text}")


class Desk:
    """A management node over a whole control plane."""

    def __init__(self, scales: Scales | None) -> None:
        broker = Broker(Settings())
        self.control = BrokerControl(broker, version="0", pid=1, stalls=Stalls(clock=lambda: Now(0.0, 0.0)))
        self.control.sampler = scales
        self.node = management_node(broker, self.control)

    def ask(self, method: str, to: str) -> Answer:
        return decode_answer(respond(self.node, self.control.broker, encode_request(method, to)))


def test_memory_and_disk_are_shown():
    desk = Desk(Scales())
    assert desk.ask("GET", "/headgate/memory").body == {"name": "memory", "limit": 2**63, "warning": None}
    assert desk.ask("GET", "/headgate/disk").body == {"name": "disk", "free": 7}


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/headgate/memory?watermark=", "0.4"),
        ("/headgate/memory?watermark=", "absolute 1GB"),
        ("/headgate/disk?free_limit=", "50MB"),
        ("/headgate/disk?free_limit=", "mem_relative 1.0"),
    ],
)
def test_rows_4_18_and_4_27_limits_are_set_and_the_answer_shows_them(path: str, text: str):
    scales = Scales()
    answer = Desk(scales).ask("PUT", path + percent_encode(text))
    kind = path.split("/")[2].split("?")[0]
    assert (answer.status, answer.body["name"]) == (200, kind)
    assert scales.asked == [f"{kind} {text}"]


def test_what_the_broker_does_not_understand_is_refused_in_its_words():
    answer = Desk(Scales()).ask("PUT", "/headgate/memory?watermark=much")
    assert (answer.status, answer.body) == (400, "'much' is no size")


@pytest.mark.parametrize(
    ("path", "key"),
    [("/headgate/memory", "watermark"), ("/headgate/disk", "free_limit")],
)
def test_a_limit_must_be_given(path: str, key: str):
    answer = Desk(Scales()).ask("PUT", path)
    assert answer.status == 400
    assert answer.body == f"{key} is missing"


@pytest.mark.parametrize("path", ["/headgate/memory", "/headgate/disk"])
def test_they_cannot_be_deleted(path: str):
    assert Desk(Scales()).ask("DELETE", path).status == 405


@pytest.mark.parametrize("path", ["/headgate/memory", "/headgate/disk", "/headgate/memory?watermark=0"])
def test_where_nothing_is_measured(path: str):
    answer = Desk(None).ask("PUT" if "?" in path else "GET", path)
    assert (answer.status, answer.body) == (409, "this broker does not measure memory and disk space")


def test_status_shows_alarms_and_no_notices():
    alarms = Desk(None).ask("GET", "/headgate/status").body["alarms"]
    assert [alarm["name"] for alarm in alarms] == ["disk", "memory"]
