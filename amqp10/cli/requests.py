"""Commands that make one request to the management node and print its answer, as their entries in the table say.

``request`` is the method and the path of a request. ``{name}`` in the path stands for the value of a parameter. The
other values are in the query, or all of them in the body if one of them is a map. The sentences and texts of ``done``,
``made`` and ``shown`` have values in braces: those of the parameters, the fields of the answer, ``path``, and ``made``,
which is whether the answer has the status 201. A text that is only ``{name}`` stands for the value itself.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import quote, urlsplit, urlunsplit

from amqp10.cli.exits import CommandError, Exit, complain
from amqp10.cli.printing import Row, print_one, print_rows, tell
from amqp10.cli.remote import ask_once, pages, path_of, row_of, with_broker
from amqp10.cli.table import NUMBER_MAX, CommandEntry, CommandParameter, value_name

CREATED = 201


def carry_out(command: CommandEntry, values: Mapping[str, object]) -> None:
    """Make the request and print the answer. Raises CommandError."""
    url, as_json = str(values["url"]), bool(values["json"])
    sent = dict(values_sent(command["parameters"], values))
    if "rows" in command:
        rows = with_broker(url, lambda broker: pages(broker, command["rows"], _host(sent)))
        print_rows([_with_sums(command, row) for row in rows], command["columns"], as_json=as_json)
    elif "row" in command:
        row = row_of(ask_once(url, "rows.show", kind=command["row"], **sent))
        print_one(_with_sums(command, row), as_json=as_json)
    else:
        _request(command, sent, url, as_json=as_json)


def _request(command: CommandEntry, sent: Mapping[str, object], url: str, *, as_json: bool) -> None:
    if "vhost" in sent and " " in command["request"]:  # a path of the connection's own virtual host
        sent = dict(sent)
        url = with_virtual_host(url, str(sent.pop("vhost")))
    answer = ask_once(url, command["request"], **sent)
    if isinstance(answer.body, list) and "columns" in command:
        print_rows(answer.body, command["columns"], as_json=as_json)
        return
    row = {} if answer.body is None else row_of(answer)
    if "done" not in command:
        _show(command, row, as_json=as_json)
        return
    made = answer.status == CREATED
    fields = {**sent, **row, "path": path_of(command["request"], sent), "made": made}
    shown = {name: _filled(text, fields) for name, text in command.get("shown", {}).items()}
    text = command.get("made", command["done"]) if made else command["done"]
    tell(str(_filled(text, fields)), shown or row, as_json=as_json)
    if fields.get("warning") is not None:
        complain(str(fields["warning"]))


def _show(command: CommandEntry, row: Row, *, as_json: bool) -> None:
    """Print the answer of an operation that shows something: its rows if the command names them, else its fields."""
    items = row.get(command.get("items", ""))
    if isinstance(items, list) and not as_json:
        print_rows(items, command["columns"], as_json=False)
    else:
        print_one(row, as_json=as_json)


def _filled(text: str | bool, fields: Mapping[str, object]) -> object:
    if not isinstance(text, str):
        return text
    name = text.removeprefix("{").removesuffix("}")
    return fields[name] if text == f"{{{name}}}" else text.format_map(fields)


def _with_sums(command: CommandEntry, row: Row) -> Row:
    sums = {
        name: sum(count for count in map(row.get, fields) if isinstance(count, int))
        for name, fields in command.get("sums", {}).items()
    }
    return {**row, **sums}


# --- values ----------------------------------------------------------------------------------------------------------


def values_sent(parameters: Sequence[CommandParameter], values: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """The values for the request, by their names. Raises CommandError for one that cannot be understood."""
    ends = {parameter["joins"]: values[value_name(parameter)] for parameter in parameters if "joins" in parameter}
    for parameter in parameters:
        name = value_name(parameter)
        value = values.get(name)  # none for --watch, which is not sent
        if name in ("url", "json") or "joins" in parameter or value is None:
            continue
        match parameter.get("kind"):
            case "arguments" if isinstance(value, tuple):
                value = arguments_of(value)
            case "map":
                value = _map(name, str(value))
        if ends.get(name) is not None:
            value = f"{value} {ends[name]}"
        yield name, not value if parameter.get("inverted") else value


def _host(sent: Mapping[str, object]) -> str | None:
    host = sent.get("vhost")
    return None if host is None else str(host)


def with_virtual_host(url: str, name: str) -> str:
    """The URL of a connection to this virtual host."""
    return urlunsplit(urlsplit(url)._replace(path=f"/{quote(name, safe='')}"))


def arguments_of(texts: Sequence[str]) -> dict[str, object]:
    """The arguments by key. A value that is written as an integer, true or false becomes one. Raises CommandError."""
    return dict(map(_argument, texts))


def _argument(text: str) -> tuple[str, object]:
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise CommandError(Exit.USAGE, f"--argument {text}: must be KEY=VALUE")
    if value in ("true", "false"):
        return key, value == "true"
    if not value.removeprefix("-").isdecimal():
        return key, value
    try:
        return key, _integer(value)
    except ValueError as error:
        raise CommandError(Exit.USAGE, f"--argument {text}: {error}") from None


def _map(name: str, text: str) -> dict[str, object]:
    try:
        found = json.loads(text, parse_int=_integer, parse_constant=_no_number)
    except ValueError as error:
        raise CommandError(Exit.USAGE, f"the {name} {text!r} is not JSON: {error}") from None
    except RecursionError:
        raise CommandError(Exit.USAGE, f"the {name} is nested too deeply") from None
    if not isinstance(found, dict):
        raise CommandError(Exit.USAGE, f"the {name} {text!r} must be a JSON object, like '{{\"max-length\": 1000}}'")
    return found


def _integer(text: str) -> int:
    value = int(text)
    if abs(value) > NUMBER_MAX:
        raise ValueError(f"{text} is too large; the largest number is {NUMBER_MAX}")
    return value


def _no_number(text: str) -> float:
    """Refuse NaN and Infinity, which Python reads and JSON does not have."""
    raise ValueError(f"{text} is no number")
