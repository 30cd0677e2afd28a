"""One broker under attack: a whole broker with its admin server, a bystander, and the tools of an attacker."""

import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import TimeoutExpired
from tempfile import TemporaryDirectory

from amqp10.cli.free_ports import free_ports
from core.amqp091.methods import (
    BasicAck,
    BasicPublish,
    ConfirmSelect,
    ExchangeDeclare,
    QueueBind,
    QueueDeclare,
)
from core.amqp091.properties import BasicProperties
from core.amqp091.table import FieldTable
from tests.kit.amqp091_peer import publish
from tests.kit.broker_process import broker_process
from tests.kit.plain_clients import PATIENCE_S, Client091, Client10, Refused
from tests.kit.plain_management import ManagementClient
from tests.kit.stall_bystander import Bystander, Report, resident_bytes

STALL_CPU_MS_MAX = 50.0
"""The bound that is promised: CPU time of the event loop between a bystander's request and its answer."""
RESIDENT_BYTES_MAX = 900 * 2**20
"""The bound on memory of the whole process. The largest attack brings 150 MB of messages, the deepest queue has a
million of them."""
HTTP_HEADERS = {"Content-Type": "application/json", "X-Headgate-Request": "1"}
CONFIGURATION = """
[log]
level = "error"

[admin]
enabled = true
listen = ["127.0.0.1:{admin_port}"]
body_max = "16MiB"
request_time_out = "120s"

[engine]
queues_max = 20000
"""


class NoEffect(Exception):
    """An attack did not do what it should, so its stall says nothing."""


def check(effect: bool, what: str) -> None:
    """Raise NoEffect unless the attack had its effect; ``what`` says what the effect should have been."""
    if not effect:
        raise NoEffect(what)


@dataclass(slots=True)
class Field:
    """One broker under attack."""

    host: str
    port: int
    admin_port: int
    pid: int
    scale: float = 1.0
    """A factor on all numbers of an attack; 1.0 is the whole attack."""
    clients: list[Client091 | Client10] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    """Figures of the attack itself, for its report."""

    def n(self, number: int) -> int:
        """This number in a whole attack, fewer in a short one."""
        return max(1, round(number * self.scale))

    def client091(self, *, reads: bool = True, receive_buffer: int | None = None) -> Client091:
        """A connection with channel 1."""
        client = Client091(self.host, self.port, reads=reads, receive_buffer=receive_buffer)
        self.clients.append(client)
        return client

    def client10(self, *, sessions: int = 1) -> Client10:
        """A connection with session 0."""
        client = Client10(self.host, self.port, sessions=sessions)
        self.clients.append(client)
        return client

    def management(self) -> ManagementClient:
        """A connection with the pair of links to the management node."""
        manager = ManagementClient(self.host, self.port)
        self.clients.append(manager.client)
        return manager

    def http(self, method: str, path: str, body: object = None) -> bytes:
        """Send a request to the admin server; returns the answer. Raises NoEffect when it is no success."""
        data = None if body is None else json.dumps(body).encode()
        url = f"http://127.0.0.1:{self.admin_port}{path}"
        request = urllib.request.Request(url, data=data, method=method, headers=HTTP_HEADERS)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
                content: bytes = answer.read()
                return content
        except urllib.error.HTTPError as error:
            raise NoEffect(f"{method} {path} was answered with {error.code}: {error.read()[:200]!r}") from None

    def close(self) -> None:
        """Close the connections that the attack has left open."""
        for client in self.clients:
            client.close()


def fill(client: Client091, queue: str, count: int, *, body: bytes = b"x", properties: BasicProperties | None = None,
         exchange: str = "") -> None:  # fmt: skip
    """Publish messages with confirms, and wait for the last."""
    client.call(ConfirmSelect())
    one = publish(1, body, method=BasicPublish(exchange=exchange, routing_key=queue), properties=properties)
    at_once = max(1, min(2000, 2**20 // len(one)))
    sent = 0
    while sent < count:
        n = min(at_once, count - sent)
        client.send(one * n)
        sent += n
    settle_up(client, queue=queue)


def settle_up(client: Client091, *, queue: str) -> None:
    """Wait until the engine has taken on what was sent on channel 1 before."""
    client.call(QueueDeclare(queue=queue, passive=True))


def declare(client: Client091, queue: str, **arguments: object) -> None:
    """Declare a queue that is not durable; ``max_length`` is x-max-length."""
    table = {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
    client.call(QueueDeclare(queue=queue, durable=False, arguments=table))  # type: ignore[arg-type]


def exchange(client: Client091, name: str, kind: str, **arguments: object) -> None:
    """Declare an exchange that is not durable."""
    table = {name.replace("_", "-"): value for name, value in arguments.items()}
    client.call(ExchangeDeclare(exchange=name, type=kind, arguments=table))  # type: ignore[arg-type]


def bind(queue: str, source: str, key: str = "", arguments: FieldTable | None = None) -> QueueBind:
    """Bind a queue, and do not wait for the answer."""
    return QueueBind(queue=queue, exchange=source, routing_key=key, no_wait=True, arguments=arguments or {})


def ack_all(client: Client091) -> None:
    """Acknowledge everything on channel 1."""
    client.tell(BasicAck(delivery_tag=0, multiple=True))


@dataclass(frozen=True, slots=True)
class Attack:
    """An attack: operations that a client or operator may do to the broker."""

    name: str
    run: Callable[[Field], None]


@dataclass(slots=True)
class Outcome:
    """The result of an attack."""

    name: str
    report: Report
    resident_mib: float = 0.0
    said: str = ""
    """The attack's own figures, what ended it before it had its effect, or what ended the broker or the bystander."""
    had_effect: bool = True
    ended: bool = False
    """True when the broker or the bystander ended."""

    @property
    def passed(self) -> bool:
        """True when all bounds were kept."""
        return not (
            self.ended
            or not self.had_effect
            or self.report.pings == 0
            or self.report.frozen
            or self.report.longest_cpu_ms > STALL_CPU_MS_MAX
            or self.resident_mib > RESIDENT_BYTES_MAX / 2**20
        )


@contextmanager
def battlefield(scale: float, program: Sequence[str] = ("amqp10",)) -> Iterator[Field]:
    """Start a broker of its own for the block, by this module."""
    with TemporaryDirectory(prefix="headgate-stalls-") as folder:
        [admin_port] = free_ports(1)
        path = Path(folder) / "broker.toml"
        path.write_text(CONFIGURATION.format(admin_port=admin_port))
        with broker_process("--config", str(path), "--data", f"{folder}/data", program=program) as broker:
            where = Field(broker.host, broker.port, admin_port, broker.pid, scale)
            try:
                yield where
            finally:
                where.close()


def suffer(attack: Attack, *, scale: float = 1.0) -> Outcome:
    """Carry out one attack while the bystander pings."""
    outcome = Outcome(attack.name, Report())
    try:
        with battlefield(scale) as where:
            bystander = Bystander(where.host, where.port, where.pid)
            try:
                attack.run(where)
            except (OSError, TimeoutError, Refused, NoEffect) as error:
                outcome.said, outcome.had_effect = f"{type(error).__name__}: {error}", False
            else:
                outcome.said = "; ".join(where.said)
            with suppress(OSError):  # the broker has ended, as the bystander says
                outcome.resident_mib = resident_bytes(where.pid) / 2**20
            where.close()
            try:
                outcome.report = bystander.report()
            except RuntimeError as error:
                outcome.said, outcome.ended = f"{outcome.said} {error}".strip(), True
            outcome.resident_mib = max(outcome.resident_mib, outcome.report.resident_bytes_max / 2**20)
    except (AssertionError, OSError, TimeoutExpired) as error:  # the broker did not stop in order
        outcome.said, outcome.ended = f"{outcome.said} {error}".strip(), True
    return outcome
