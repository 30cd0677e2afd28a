"""Users, permissions and what becomes of open links, with whole brokers, our command, proton and pika."""

import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from amqp10.cli.remote import ask_once
from tests.kit.broker_process import BrokerAddress, broker_process
from tests.kit.command_line import HEADGATE, run_here, run_process

pytestmark = [pytest.mark.interop, pytest.mark.timeout(120)]

ADMIN, SHOP = "root:a secret", "shop:wonderland"


class Place:
    """A broker with an administrator, and a user who may publish and consume on queues that begin with shop."""

    def __init__(self, broker: BrokerAddress) -> None:
        self.broker = broker
        words = ("users", "set", "root", "--new-password", "--tags", "administrator")
        ran = run_process(*HEADGATE, *words, url=broker.url(), given="a secret\n")
        assert ran.code == 0, ran.err
        self.url = broker.url(ADMIN.replace(" ", "%20"))
        self.set_user("shop", "wonderland")
        self.permit("^shop", "^(shop|amq[.]default$)", "^shop")

    def set_user(self, user: str, password: str) -> None:
        """Make a user, or give it another password, as the administrator."""
        ask_once(self.url, "users.set", user=user, password=password)

    def run(self, *words: str) -> str:
        """Run a command as the administrator; returns what it printed."""
        ran = run_here(*words, url=self.url)
        assert ran.code == 0, ran.err
        return ran.out

    def permit(self, configure: str, write: str, read: str) -> None:
        """Set the permission of shop."""
        self.run("permissions", "set", "shop", configure, write, read)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data folder."""
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def place(data: Path) -> Iterator[Place]:
    """The broker and its users."""
    with broker_process("--data", str(data), "--admin", "off") as broker:
        yield Place(broker)


def pika_connection(place: Place, user: str = SHOP) -> Any:
    pika = pytest.importorskip("pika")
    name, password = user.split(":")
    credentials = pika.PlainCredentials(name, password)
    return pika.BlockingConnection(
        pika.ConnectionParameters(place.broker.host, place.broker.port, credentials=credentials)
    )


def test_pika_may_do_what_it_is_permitted_and_is_told_what_not(place: Place):
    pika = pytest.importorskip("pika")
    connection = pika_connection(place)
    channel = connection.channel()
    channel.queue_declare("shop-pika", durable=True)
    channel.basic_publish("", "shop-pika", b"1")
    assert channel.basic_get("shop-pika", auto_ack=True)[2] == b"1"
    refused = [
        (lambda: connection.channel().queue_declare("other"), "configure access to queue 'other' in vhost '/'"),
        (lambda: connection.channel().basic_get("other"), "read access to queue 'other' in vhost '/'"),
        (lambda: channel.exchange_declare("other"), "configure access to exchange 'other' in vhost '/'"),
    ]
    for act, text in refused:
        with pytest.raises(pika.exceptions.ChannelClosedByBroker) as error:
            act()
        assert error.value.reply_code == 403
        assert error.value.reply_text == f"ACCESS_REFUSED - {text} refused for user 'shop'"
    connection.close()


def test_pika_without_a_permission_is_refused(place: Place):
    pika = pytest.importorskip("pika")
    place.set_user("bare", "bare")
    told = "(530) \"NOT_ALLOWED - access to vhost '/' refused for user 'bare'\""
    with pytest.raises(pika.exceptions.ProbableAccessDeniedError, match=re.escape(told)):
        pika_connection(place, "bare:bare")


def test_proton_is_detached_within_a_second(place: Place, connect: Callable[..., Any]):
    place.permit("^shop", "^(shop|amq[.]default$)", "^shop")
    ran = run_here("queues", "declare", "shop-proton", url=place.broker.url(SHOP))
    assert ran.code == 0, ran.err
    peer = connect(place.broker.url(SHOP)).opened()
    sender = peer.sender("/queues/shop-proton")
    peer.until(lambda: sender.credit > 0)
    began = time.monotonic()
    place.permit("^shop", "", "^shop")
    peer.until(lambda: sender.remote_condition is not None)
    assert sender.remote_condition.name == "amqp:unauthorized-access"
    assert sender.remote_condition.description == (
        "write access to exchange 'amq.default' in vhost '/' refused for user 'shop'"
    )
    command_seconds = 1.0
    assert time.monotonic() - began < 1.0 + command_seconds


def test_a_changed_password_holds_without_a_restart(place: Place):
    place.set_user("shop", "other")
    assert run_here("status", url=place.broker.url(SHOP)).code != 0
    ran = run_here("status", url=place.broker.url("shop:other"))
    assert "status needs the right monitor, which user 'shop' does not have" in ran.err
    place.set_user("shop", "wonderland")


def test_guest_is_gone_and_users_move_to_another_broker(place: Place, tmp_path: Path):
    assert run_here("status", url=place.broker.url()).code != 0
    exported = tmp_path / "definitions.json"
    place.run("definitions", "export", str(exported))
    document = json.loads(exported.read_text())
    assert {user["name"] for user in document["users"]} >= {"root", "shop"}
    with broker_process("--data", str(tmp_path / "other"), "--admin", "off") as other:
        ran = run_here("definitions", "apply", str(exported), url=other.url())
        assert ran.code == 0, ran.err
        ran = run_here("users", "list", "--json", url=other.url(ADMIN.replace(" ", "%20")))
        assert ran.code == 0, ran.err
        listed = {row["name"]: row["tags"] for row in json.loads(ran.out)}
        assert listed["root"] == ["administrator"]


def test_users_outlive_a_restart(tmp_path: Path):
    data = str(tmp_path / "data")
    with broker_process("--data", data, "--admin", "off") as broker:
        Place(broker)
    with broker_process("--data", data, "--admin", "off") as broker:
        assert run_here("status", url=broker.url()).code != 0, "guest stays gone"
        ran = run_here("permissions", "list", "--json", url=broker.url(ADMIN.replace(" ", "%20")))
        (row,) = json.loads(ran.out)
        assert (row["user"], row["configure"]) == ("shop", "^shop")
