"""Makes ``amqp10/cli/commands.json``, which commands read, of ``amqp10/cli/commands.toml`` and the table of operations.

An operation is the command with its words: ``links.pause`` is ``headgate links pause``. What the command's entry does
not say (help, parameters, an example, the request) comes from the operation, and an operation without an entry is a
command all the same. ``[used_by]`` has the operations that are no command of their own, each with a command that uses
it.
"""

import json
import shlex
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from amqp10.cli.table import TABLE
from core.observe.advice import ADVICE
from core.operations.all_operations import OPERATIONS
from core.operations.operation import Operation, Parameter

Entry = dict[str, object]
PREFIX = "/headgate"
"""What stands before the path of each operation on the management node."""
STANDARD = ["json", "url"]
WATCHED = ["watch", *STANDARD]
"""The last parameters of each command that asks a broker."""
OF_A_HOST = ("queues", "exchanges", "bindings", "consumers")
"""Kinds of rows that belong to one virtual host."""
OF_ALL_HOSTS = ("connections", "sessions", "links", "channels", "stalls")
"""Kinds of rows that are listed for all virtual hosts, or for one."""
KINDS_OF_TEXT = ("text", "list")


def text() -> str:
    """Return the whole file, with a line for each operation and each command."""
    requests = {operation.name: f"{operation.method} {PREFIX}{operation.path}" for operation in OPERATIONS}
    return f'{{\n"operations": {_lines(requests)},\n"commands": {_lines(entries(OPERATIONS))}\n}}\n'


def _lines(part: Mapping[str, object]) -> str:
    lines = [f"{json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}" for name, value in part.items()]
    return "{\n" + ",\n".join(lines) + "\n}"


def entries(operations: Sequence[Operation]) -> dict[str, Entry]:
    """Return all commands by their words."""
    written = dict(_written())
    shared, others = written.pop("shared"), written.pop("used_by")
    found = dict(_with_rows(written))
    for operation in operations:
        if operation.name not in others:
            words = words_of(operation)
            found[words] = _of_operation(operation, found.get(words, {}))
    return {words: _whole(entry, shared) for words, entry in found.items()}


def words_of(operation: Operation) -> str:
    """Return the words of an operation's command."""
    return operation.name.replace(".", " ")


def command_of(operation: Operation) -> str:
    """Return the command that asks for the example of an operation, or a similar command that uses the operation."""
    if operation.name in used_by():
        return used_by()[operation.name]
    entry = _of_all()[words_of(operation)]
    parameters, examples = entry["parameters"], entry["examples"]
    assert isinstance(parameters, list)
    assert isinstance(examples, list)
    has_all = {_value_name(parameter) for parameter in parameters} >= operation.example.parameters.keys()
    return _example(operation, parameters) if has_all else str(examples[0])


def used_by() -> Mapping[str, str]:
    """Return the operations that are no command of their own, each with a command that uses it."""
    return {name: str(command) for name, command in _written()["used_by"].items()}


@cache
def _of_all() -> Mapping[str, Entry]:
    return entries(OPERATIONS)


@cache
def _written() -> Mapping[str, Entry]:
    return tomllib.loads(Path(TABLE).with_suffix(".toml").read_text(encoding="utf-8"))


def _with_rows(written: Mapping[str, Entry]) -> Iterator[tuple[str, Entry]]:
    """Yield the commands, with ``list`` and ``show`` behind each noun that has columns."""
    for noun, entry in written.items():
        if noun.endswith((" list", " show")) and "columns" in written.get(noun.partition(" ")[0], {}):
            continue  # comes behind its noun
        yield noun, entry
        if "columns" not in entry or "items" in entry:
            continue
        one = f"{noun[:-3]}y" if noun.endswith("ies") else noun.removesuffix("s")
        own = ["vhost", *WATCHED] if noun in OF_A_HOST else WATCHED
        common = {"sums": entry.get("sums", {})}
        of_hosts = ["only_vhost", *WATCHED] if noun in OF_ALL_HOSTS else own
        listed = {"rows": noun, "columns": entry["columns"], "help": f"List all {noun}.", "parameters": of_hosts}
        yield (
            f"{noun} list",
            common | listed | {"examples": [f"headgate {noun} list"]} | written.get(f"{noun} list", {}),
        )
        shown = {"row": noun, "help": f"Show all fields of one {one}.", "parameters": [{"name": "identity"}, *own]}
        example = f"headgate {noun} show {one.upper()}"
        yield f"{noun} show", common | shown | {"examples": [example]} | written.get(f"{noun} show", {})


def _whole(entry: Entry, shared: Mapping[str, Entry]) -> Entry:
    """Return an entry with its shared parameters, with one text as help, and with the reasons of stalls in it."""
    whole = dict(entry)
    details = whole.pop("details", None)
    if details is not None:
        whole["help"] = f"{whole['help']}\n\n{details}"
    whole["help"] = "\n\n".join(" ".join(part.split()) for part in str(whole["help"]).split("\n\n"))
    parameters = entry.get("parameters")
    if isinstance(parameters, list):
        whole["parameters"] = [shared[one] if isinstance(one, str) else one for one in parameters]
    if "help_end" in whole:
        whole["help_end"] = str(whole["help_end"]).replace("{reasons}", _reasons())
    return whole


def _reasons() -> str:
    """Return all reasons with what to do about them, as a list."""
    lines = [f"- {reason.value}: {advice.means} What to do: {advice.do}" for reason, advice in ADVICE.items()]
    return "\n".join(lines).replace("`", "")


# --- of operations ---------------------------------------------------------------------------------------------------


def _of_operation(operation: Operation, entry: Entry) -> Entry:
    """Return the entry of an operation's command, with what the operation says of it."""
    known = {parameter.name: _parameter(parameter) for parameter in operation.parameters}
    given = entry.get("parameters", [*known.values(), *STANDARD])
    assert isinstance(given, list)
    if operation.method == "GET" and "run" not in entry:
        given = [*given[:-2], "watch", *given[-2:]] if given[-2:] == STANDARD else [*given, "watch"]
    parameters = [one if isinstance(one, str) else known.get(_value_name(one), {}) | one for one in given]
    said: Entry = {"help": operation.summary.replace("``", ""), "examples": [_example(operation, parameters)]}
    if "run" not in entry:
        said["request"] = operation.name
        if operation.answer.form == "rows":
            said["columns"] = [field.name for field in operation.answer.fields]
    return said | entry | {"parameters": parameters}


def _parameter(parameter: Parameter) -> Entry:
    named = parameter.name if parameter.in_path or parameter.required else f"--{parameter.name.replace('_', '-')}"
    found: Entry = {"name": named, "help": parameter.sentence.replace("``", "")}
    if parameter.kind not in KINDS_OF_TEXT:
        found["kind"] = parameter.kind
    if parameter.choices:
        found["choices"] = list(parameter.choices)
    if parameter.default is not None:
        found["default"] = parameter.default
    return found


def _value_name(parameter: Entry) -> str:
    return str(parameter.get("value", parameter["name"])).removeprefix("--").replace("-", "_")


def _example(operation: Operation, parameters: Sequence[Entry | str]) -> str:
    """Return the command line for the example of an operation."""
    words = ["headgate", *words_of(operation).split()]
    for parameter in parameters:
        if isinstance(parameter, str) or _value_name(parameter) not in operation.example.parameters:
            continue
        value = operation.example.parameters[_value_name(parameter)]
        name = str(parameter["name"])
        words += [name] if name.startswith("--") else []
        words += [] if value is True else [shlex.quote(json.dumps(value) if isinstance(value, dict) else str(value))]
    return " ".join(words)
