"""The table of commands fits the functions that carry commands out, the table of operations and the constants."""

import inspect
from importlib import import_module

import pytest

from amqp10.cli.commands import function_of
from amqp10.cli.completion import SHELLS
from amqp10.cli.table import commands, value_name
from core.config.access import ITERATIONS, ITERATIONS_MAX, ITERATIONS_MIN
from core.operations.all_operations import OPERATIONS
from core.operations.operation import DONE, Example, Operation, Parameter, Right
from docs import command_table

FUNCTIONS = {words: command["run"] for words, command in commands().items() if "run" in command}


@pytest.mark.parametrize("words", FUNCTIONS)
def test_a_function_takes_the_values_of_its_command(words: str):
    module, _, name = FUNCTIONS[words].partition(":")
    function = getattr(import_module(f"amqp10.cli.{module}"), name)
    command = commands()[words]
    values = {*map(value_name, command["parameters"]), *command.get("given", {})}
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
    (iterations,) = commands()["hash-password"]["parameters"]
    assert (iterations["default"], iterations["low"], iterations["high"]) == (
        ITERATIONS,
        ITERATIONS_MIN,
        ITERATIONS_MAX,
    )
    (shell,) = commands()["completion"]["parameters"]
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
    function = function_of(command)
    assert list(inspect.signature(function).parameters) == ["queue", "times_a_day", "hard", "json", "url"]
