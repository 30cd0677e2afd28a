"""The table of commands fits the functions that carry commands out, the table of operations and the constants."""

import inspect
import shlex
from importlib import import_module
from urllib.parse import parse_qsl, unquote

import pytest

from amqp10.cli.commands import WATCH, values_of
from amqp10.cli.completion import SHELLS
from amqp10.cli.remote import ask
from amqp10.cli.requests import values_sent
from amqp10.cli.table import commands, divided, value_name
from core.access.rights import all_rights
from core.config.access import ITERATIONS, ITERATIONS_MAX, ITERATIONS_MIN, SCRAM_MECHANISMS
from core.operations.all_operations import OPERATIONS
from core.operations.operation import DONE, Example, Operation, Parameter, Right, read
from core.operations.table import OperationTable
from docs import command_table
from docs.command_table import command_of, words_of

FUNCTIONS = {words: command["run"] for words, command in commands().items() if "run" in command}


@pytest.mark.parametrize("words", FUNCTIONS)
def test_a_function_takes_the_values_of_its_command(words: str):
    module, _, name = FUNCTIONS[words].partition(":")
    function = getattr(import_module(f"amqp10.cli.{module}"), name)
    command = commands()[words]
    values = {*map(value_name, command["parameters"]), *command.get("given", {})} - {WATCH}
    taken = inspect.signature(function).parameters
    assert values == set(taken)
    assert all(one.default is one.empty for one in taken.values()), "defaults are in the table"


def test_every_command_is_a_noun_or_does_one_thing():
    for words, command in commands().items():
        ways = [way for way in ("run", "rows", "row", "request") if way in command]
        assert len(ways) == ("parameters" in command), words


def test_every_operation_has_a_command_or_is_used_by_one():
    named = {command_table.words_of(operation) for operation in OPERATIONS}
    used = command_table.used_by()
    assert named - commands().keys() - {name.replace(".", " ") for name in used} == set()
    assert used.keys() - {operation.name for operation in OPERATIONS} == set()


def test_constants_are_those_of_the_code():
    iterations, hash_name = commands()["hash-password"]["parameters"]
    assert set(hash_name["choices"]) == set(SCRAM_MECHANISMS)
    assert (iterations["default"], iterations["low"], iterations["high"]) == (
        ITERATIONS,
        ITERATIONS_MIN,
        ITERATIONS_MAX,
    )
    shell, _ = commands()["completion"]["parameters"]
    assert tuple(shell["choices"]) == SHELLS


def test_a_new_operation_is_a_command_without_an_entry():
    operation = Operation(
        name="queues.shake",
        method="PUT",
        path="/queues/{queue}/shake",
        summary="Shake a queue.",
        handler=lambda control, arguments: DONE,
        right=Right.OPERATE,
        parameters=(
            Parameter(name="queue", sentence="The queue's ``name``.", in_path=True),
            Parameter(name="times_a_day", sentence="How often.", kind="number", default=3),
            Parameter(name="hard", sentence="With force.", kind="flag"),
        ),
        example=Example(parameters={"queue": "all orders", "times_a_day": 2, "hard": True}),
    )
    command = command_table.entries([*OPERATIONS, operation])["queues shake"]
    assert (command["request"], command["help"]) == ("queues.shake", "Shake a queue.")
    assert command["examples"] == ["headgate queues shake 'all orders' --times-a-day 2 --hard"]
    assert isinstance(command["parameters"], list)
    names = [parameter["name"] for parameter in command["parameters"]]
    assert names == ["queue", "--times-a-day", "--hard", "--json", "--url"]


class Requests:
    """Stands for the requests of a connection, and notes the last one."""

    def __init__(self) -> None:
        self.made: tuple[str, str, object] = ("", "", None)

    def request(self, method: str, path: str, body: object = None) -> None:
        """Note the request."""
        self.made = (method, path, body)


ONE_REQUEST = [operation for operation in OPERATIONS if "request" in commands().get(words_of(operation), {})]


@pytest.mark.parametrize("operation", ONE_REQUEST, ids=words_of)
def test_the_command_of_an_example_requests_the_example(operation: Operation):
    """The words of the command go through the command line, and its request through the broker's table."""
    command = commands()[words_of(operation)]
    name, words = divided(shlex.split(command_of(operation))[1:])
    assert name == words_of(operation)
    values = values_of(name, words)
    asked = Requests()
    ask(asked, command["request"], **dict(values_sent(command["parameters"], values)))
    method, path, body = asked.made
    address, _, query = path.partition("?")
    call = OperationTable({"/headgate": OPERATIONS}).find(method, [unquote(part) for part in address.split("/")[1:]])
    given = body.items() if isinstance(body, dict) else parse_qsl(query, keep_blank_values=True)
    read_by_broker = read(operation.parameters, call.path, given, all_rights("me")).values
    assert call.operation is operation
    assert dict(operation.example.parameters).items() <= read_by_broker.items()
