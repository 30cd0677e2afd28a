"""The table of operations over both ways to ask: the management node of AMQP 1.0, and HTTP."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from amqp10.addresses import percent_encode
from amqp10.management.node import ManagementNode
from core.access.records import UserRecord
from core.access.rights import Permission
from core.admin.api.application import Api
from core.config.alarms import AlarmSettings
from core.engine.forwarding.nodes import Homes
from core.interface import Snapshot
from core.operations.all_operations import OPERATIONS
from core.operations.operation import DONE, Example, Operation, Parameter, Reply, Right
from core.operations.table import OperationTable
from core.slices import Walk
from tests.kit.admin import Facts, client_of
from tests.kit.engine import Peer, bodies, make_broker
from tests.kit.management import decode_answer, encode_request, respond

WRITE = {"x-headgate-request": "1"}
PATH_OF = re.compile(r"{(\w+)}")


@dataclass
class Measures:
    """A stand-in for the sampler, which takes every limit."""

    limit: str = AlarmSettings().memory_watermark

    def memory(self) -> Snapshot:
        """The row of the memory alarm."""
        return {"name": "memory", "limit": self.limit}

    def disk(self) -> Snapshot:
        """The row of the disk alarm."""
        return {"name": "disk", "limit": self.limit}

    def set_memory_watermark(self, text: str) -> None:
        """Note the watermark."""
        self.limit = text

    def set_disk_free_limit(self, text: str) -> None:
        """Note the limit."""
        self.limit = text


class Cluster:
    """A stand-in for this node in its cluster, which takes every change of the members."""

    def status(self) -> Snapshot:
        """The cluster, which this node has not reached."""
        return {"name": None, "joined": False}

    def rebalance(self) -> Mapping[int, str]:
        """No group has to move."""
        return {}

    def set_aside(self, *, wanted: bool, force: bool) -> None:
        """Nothing is led here."""

    def join(self, node: str, etcd: str, etcd_peer: str) -> None:
        """Take the node."""

    def leave(self, node: str, *, is_gone: bool, force: bool) -> None:
        """Let the node go."""

    def replace_etcd(self, node: str, *, force: bool) -> None:
        """Have it begin anew."""


def shop() -> Facts:
    """The broker of the examples: two queues, one of them with three messages and a policy, a connection with a session
    and a link, and time lines of a second."""
    facts = Facts(broker=make_broker("archive", "orders"))
    facts.set_policy(name="short", pattern="^orders", priority=0, apply_to="all", definition={"max-length": 100})
    Peer(facts.broker).publish("orders", bodies(3))
    facts.server.rows = {
        "connections": [{"identity": "c1"}],
        "sessions": [{"identity": "c1/0", "connection": "c1"}],
        "links": [
            {"identity": "c1/0/0", "connection": "c1", "direction": "in", "address": "/queues/orders", "link_credit": 5}
            | {"delivery_count": 3}
        ],
    }
    facts.control.sampler, facts.control.cluster = Measures(), Cluster()
    reader = UserRecord(name="reader", tags=("management",), permissions={"/": Permission(read="^orders$")})
    facts.control.users.set(reader)
    facts.control.hosts.add("staging")
    facts.turn()
    facts.pass_time()
    return facts


@dataclass
class Asked:
    """One answer, whichever way it came."""

    status: int
    value: Any


def split(operation: Operation, path: str, parameters: Mapping[str, object]) -> tuple[str, dict[str, object]]:
    """The path with its parameters in it, and the other parameters."""
    encoded = PATH_OF.sub(lambda match: percent_encode(str(parameters[match[1]])), path)
    return encoded, {name: value for name, value in parameters.items() if f"{{{name}}}" not in path}


def over_amqp(
    facts: Facts, method: str, path: str, free: Mapping[str, object], table: Sequence[Operation] = OPERATIONS
) -> Asked:
    node = ManagementNode(facts.control, partial(found_at_once, OperationTable({"/headgate": table})), Homes())
    in_body = method in ("PUT", "POST")
    to = f"/headgate{path}" if in_body or not free else f"/headgate{path}?{urlencode(free)}"
    answer = decode_answer(respond(node, facts.broker, encode_request(method, to, dict(free) if in_body else None)))
    facts.turn()
    return Asked(answer.status, answer.body)


def found_at_once(table: OperationTable) -> Walk[OperationTable]:
    yield from ()
    return table


async def over_http(
    facts: Facts, method: str, path: str, free: Mapping[str, object], table: Sequence[Operation] = OPERATIONS
) -> Asked:
    api = Api(facts.control, [], operations=table, body_max=10_000, log=facts.logger())
    in_body = method in ("PUT", "POST")
    to = f"/api/headgate{path}" if in_body or not free else f"/api/headgate{path}?{urlencode(free)}"
    async with client_of(facts.application(api=api), **WRITE) as client:
        response = await client.request(method, to, json=dict(free) if in_body else None)
    value = response.json() if response.content else None
    return Asked(response.status_code, value["reason"] if response.status_code >= 400 else value)


async def both(facts: Facts, method: str, path: str, free: Mapping[str, object]) -> tuple[Asked, Asked]:
    return over_amqp(facts, method, path, free), await over_http(facts, method, path, free)


def names(operation: Operation) -> str:
    return operation.name


def has(value: Any, expected: Any) -> bool:
    """Whether the answer has what an example says."""
    if isinstance(expected, Mapping):
        return all(has(value[key], one) for key, one in expected.items())
    if isinstance(expected, list):
        return all(has(value[place], one) for place, one in enumerate(expected))
    return bool(value == expected)


def document(operation: Operation, free: dict[str, object]) -> dict[str, object]:
    """The body: a document is the body itself."""
    return free if operation.document is None else free[operation.document.name]


@pytest.mark.parametrize("operation", OPERATIONS, ids=names)
async def test_every_example_is_carried_out_over_both(operation: Operation):
    for spelling in operation.spellings:
        path, free = split(operation, spelling.path, operation.example.parameters)
        for ask in (over_amqp, over_http):
            answer = ask(shop(), spelling.method, path, document(operation, free))
            answer = answer if isinstance(answer, Asked) else await answer
            assert answer.status == (spelling.status or operation.answer.status), answer.value
            expected = {spelling.within: operation.example.answer} if spelling.within else operation.example.answer
            assert has(answer.value, expected), answer.value


def test_names_are_nouns_and_verbs_and_what_changes_something_is_no_get():
    assert len({operation.name for operation in OPERATIONS}) == len(OPERATIONS)
    for operation in OPERATIONS:
        assert re.fullmatch(r"[a-z-]+(\.[a-z-]+)?", operation.name)
        assert operation.method == "GET" or operation.right is not Right.MONITOR, operation.name
        assert operation.method != "GET" or operation.right in (Right.MONITOR, Right.ADMINISTER), operation.name
        assert all(f"{{{one.name}}}" in operation.path for one in operation.parameters if one.in_path), operation.name
        assert operation.summary.endswith(".")


def wrong_values(parameter: Parameter) -> list[object]:
    match parameter.kind:
        case "number":
            return [parameter.low - 1, parameter.high + 1, "many", "", "1.5", "٣", "9" * 30]
        case "flag":
            return ["yes", "1"]
        case "map":
            return [5, "x", [1]]
    return [] if parameter.cut else ["x" * (parameter.characters_max + 1)]


PARAMETERS = [
    (operation, parameter)
    for operation in OPERATIONS
    for parameter in operation.parameters
    if not parameter.in_path and not parameter.is_document
]


@pytest.mark.parametrize(
    ("operation", "parameter"), PARAMETERS, ids=[f"{operation.name} {one.name}" for operation, one in PARAMETERS]
)
async def test_a_wrong_value_is_refused_with_the_same_text_over_both(operation: Operation, parameter: Parameter):
    path, free = split(operation, operation.path, operation.example.parameters)
    for wrong in wrong_values(parameter):
        amqp, http = await both(shop(), operation.method, path, free | {parameter.name: wrong})
        assert (amqp.status, amqp.value) == (http.status, http.value)
        assert amqp.status == 400
        assert amqp.value.startswith(f"{parameter.name} must ")


@pytest.mark.parametrize("operation", OPERATIONS, ids=names)
async def test_what_is_missing_unknown_or_twice_is_refused_with_the_same_text_over_both(operation: Operation):
    path, free = split(operation, operation.path, operation.example.parameters)
    cases = [] if operation.document else [(free | {"nonsense": "1"}, "there is no parameter 'nonsense' here")]
    cases += [
        ({name: free[name] for name in free if name != parameter.name}, f"{parameter.name} is missing")
        for parameter in operation.parameters
        if parameter.required and not parameter.is_document
    ]
    for given, text in cases:
        amqp, http = await both(shop(), operation.method, path, given)
        assert (amqp.status, amqp.value) == (http.status, http.value)
        assert amqp.value.startswith(text)
    for name in [one.name for one in operation.parameters if not one.in_path and not one.is_document][:1]:
        value = quote(str(operation.example.parameters.get(name, "1")), safe="")
        amqp, http = await both(shop(), operation.method, f"{path}?{name}={value}&{name}={value}", {})
        assert "is given more than once" in amqp.value or " must be " in amqp.value
        assert (amqp.status, amqp.value) == (http.status, http.value)


async def test_a_name_that_is_too_long_is_refused_over_both():
    amqp, http = await both(shop(), "GET", f"/queues/{'x' * 2000}/messages", {})
    assert amqp == http == Asked(400, "queue must have at most 1024 characters, not 2000")


async def test_one_entry_is_an_operation_over_both():
    greet = Operation(
        name="queues.greet",
        method="PUT",
        path="/queues/{queue}/greeting",
        summary="Greet a queue.",
        handler=lambda control, arguments: Reply(200, {"text": arguments.text("word") * arguments.number("times")}),
        right=Right.OPERATE,
        parameters=(
            Parameter(name="queue", sentence="The queue's name.", in_path=True),
            Parameter(name="word", sentence="The greeting.", required=True),
            Parameter(name="times", sentence="How often.", kind="number", low=1, high=3, default=1),
        ),
        example=Example(parameters={"queue": "orders", "word": "hello"}, answer={"text": "hello"}),
    )
    facts, free = shop(), {"word": "hello", "times": 2}
    answers = (
        over_amqp(facts, "PUT", "/queues/orders/greeting", free, (*OPERATIONS, greet)),
        await over_http(facts, "PUT", "/queues/orders/greeting", free, (*OPERATIONS, greet)),
    )
    assert answers == (Asked(200, {"text": "hellohello"}), Asked(200, {"text": "hellohello"}))


async def test_a_handler_may_have_nothing_to_tell():
    nothing = Operation(
        name="nothing",
        method="PUT",
        path="/nothing",
        summary="Do nothing.",
        handler=lambda control, arguments: DONE,
        right=Right.OPERATE,
    )
    assert over_amqp(shop(), "PUT", "/nothing", {}, (nothing,)) == Asked(204, None)
    assert await over_http(shop(), "PUT", "/nothing", {}, (nothing,)) == Asked(204, None)
