"""The operations of RabbitMQ's management API that change queues, exchanges, bindings, policies and connections.

The engine decides what is allowed. The API calls it as a front end does for a client: with the rights of the user, and
without owning any queue. A body may also have what RabbitMQ's own tools send in addition: fields that repeat a part of
the path, and numbers and booleans as text.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain
from urllib.parse import quote

from core.admin.api.rabbitmq import BETWEEN, DESTINATIONS, EXCHANGE, MADE, MAKES, QUEUE, operation
from core.admin.api.rabbitmq_rows import properties_key
from core.admin.api.refusals import HttpRefusal, bad_request, not_found
from core.control_plane import BrokerControl
from core.declaring import once_gone
from core.engine.broker import OPERATOR
from core.engine.options import arguments as options
from core.errors import Inequivalent, PreconditionFailed
from core.interface import Binding, ExchangeDeclaration, ExchangeType, QueueDeclaration
from core.operations import definitions, links, policies
from core.operations.operation import DONE, NOTHING, Arguments, Operation, Parameter, Reply, Right, Shape
from core.slices import Walk

SHORT_STRING_BYTES = 255
"""The most bytes of a binding key: a short string of AMQP 0.9.1 [0-9-1 4.2.5.3]."""
DURABLE = Parameter(name="durable", sentence="It survives a restart.", kind="flag", default=True)
AUTO_DELETE = Parameter(name="auto_delete", sentence="It ends with its last use.", kind="flag")
ARGUMENTS = Parameter(name="arguments", sentence="Its arguments; the engine says which there are.", kind="map")
QUEUE_ARGUMENTS = replace(ARGUMENTS, suggests=tuple(dict.fromkeys(chain(*options.QUEUE_ARGUMENTS.values()))))
EXCHANGE_ARGUMENTS = replace(ARGUMENTS, suggests=("alternate-exchange",))
IF_UNUSED = Parameter(name="if-unused", sentence="Only when nothing uses it.", kind="flag")
IF_EMPTY = Parameter(name="if-empty", sentence="Only when it has no messages.", kind="flag")
POLICY: Mapping[str, str] = {"name": "policy", "apply-to": "apply_to"}
"""RabbitMQ's names of a policy's parameters, where they differ."""
THEIRS = {ours: theirs for theirs, ours in POLICY.items()}


def _declare_queue(control: BrokerControl, arguments: Arguments) -> Walk[Reply]:
    if arguments.flag("exclusive"):
        raise bad_request("exclusive must be false, because an exclusive queue belongs to a connection")
    own, queue_type = arguments.map("arguments"), arguments.optional_text("queue_type")
    if queue_type is not None:
        own = {"x-queue-type": queue_type, **own}
    declaration = QueueDeclaration(
        name=arguments.text("name"),
        durable=arguments.flag("durable"),
        auto_delete=arguments.flag("auto_delete"),
        arguments=own,
    )
    engine = arguments.engine(control)
    _, made = yield from once_gone(lambda: engine.declare_queue(declaration, OPERATOR))
    return MADE if made else DONE


def _delete_queue(control: BrokerControl, arguments: Arguments) -> Walk[Reply]:
    name, engine = arguments.text("name"), arguments.engine(control)
    engine.rights.check("configure", "queue", name)
    info = engine.queue_info(name, OPERATOR)
    if arguments.flag("if-empty") and info.ready + info.unacknowledged:
        raise PreconditionFailed(f"queue '{name}' is not empty")
    if arguments.flag("if-unused") and info.consumers:
        raise PreconditionFailed(f"queue '{name}' has consumers")
    if arguments.flag("if-empty") or arguments.flag("if-unused"):
        engine.delete_queue(name, OPERATOR)
        return DONE
    recording = yield from once_gone(lambda: engine.begin_deleting(name, OPERATOR))
    while not recording.done:
        control.turn()
        yield
    recording.result()
    return DONE


def _purge(control: BrokerControl, arguments: Arguments) -> Walk[Reply]:
    for _ in arguments.engine(control).purge_queue(arguments.text("name"), OPERATOR):
        control.turn()
        yield
    return DONE


def _declare_exchange(control: BrokerControl, arguments: Arguments) -> Walk[Reply]:
    declaration = ExchangeDeclaration(
        name=arguments.text("name"),
        type=ExchangeType(arguments.text("type")),
        durable=arguments.flag("durable"),
        auto_delete=arguments.flag("auto_delete"),
        internal=arguments.flag("internal"),
        arguments=arguments.map("arguments"),
    )
    engine = arguments.engine(control)
    made = yield from once_gone(lambda: engine.declare_exchange(declaration))
    return MADE if made else DONE


def _delete_exchange(control: BrokerControl, arguments: Arguments) -> Reply:
    name, engine = arguments.text("name"), arguments.engine(control)
    engine.rights.check("configure", "exchange", name)
    engine.exchange_info(name)
    if arguments.flag("if-unused") and engine.exchange_in_use(name):
        raise PreconditionFailed(f"exchange '{name}' has bindings")
    engine.delete_exchange(name)
    return DONE


def _ends(arguments: Arguments, key: str, own: dict[str, object]) -> Binding:
    return Binding(
        source=arguments.text("source"),
        destination=arguments.text("destination"),
        destination_is_queue=arguments.text("kind") == "q",
        binding_key=key,
        arguments=own,
    )


def _bind(control: BrokerControl, arguments: Arguments) -> Reply:
    key, kind = arguments.text("routing_key"), DESTINATIONS[arguments.text("kind")]
    if len(key.encode("utf-8")) > SHORT_STRING_BYTES:
        raise bad_request(f"routing_key must have at most {SHORT_STRING_BYTES} bytes")
    if arguments.optional_text("destination_type") not in (None, kind):
        raise bad_request(f"destination_type: the path says {kind!r}")
    arguments.engine(control).bind(_ends(arguments, key, arguments.map("arguments")), OPERATOR)
    return MADE


def _unbind(control: BrokerControl, arguments: Arguments) -> Walk[Reply]:
    wanted, is_queue = arguments.text("properties_key"), arguments.text("kind") == "q"
    ends = arguments.text("source"), arguments.text("destination"), is_queue
    arguments.engine(control).bindings(*ends)  # the right to see them comes before what there is
    for row in arguments.host(control).rows("bindings"):
        yield
        key, own = str(row["binding_key"]), row["arguments"]
        assert isinstance(own, dict)
        if (row["source"], row["destination"], row["destination_is_queue"]) != ends:
            continue
        if properties_key(key, own) in (wanted, quote(wanted, safe="")):
            binding = _ends(arguments, key, own)
            yield from once_gone(partial(arguments.engine(control).unbind, binding, OPERATOR))
            return DONE
    raise not_found(f"there is no binding {wanted!r} between these")


def _set_policy(control: BrokerControl, arguments: Arguments) -> Walk[Reply]:
    was_there = arguments.host(control).snapshot("policies", arguments.text("name"))
    yield from policies.set_.carry_out(control, _renamed(arguments, POLICY))
    return DONE if was_there else MADE


def _clear_policy(control: BrokerControl, arguments: Arguments) -> Walk[Reply]:
    return (yield from policies.clear.carry_out(control, _renamed(arguments, POLICY)))


def _renamed(arguments: Arguments, names: Mapping[str, str]) -> Arguments:
    return Arguments({names.get(name, name): value for name, value in arguments.values.items()}, arguments.rights)


def _import(control: BrokerControl, arguments: Arguments) -> Walk[Reply]:
    try:
        return (yield from definitions.import_.carry_out(control, arguments))
    except Inequivalent as error:
        raise HttpRefusal(409, "conflict", str(error)) from None  # as RabbitMQ's scripts know a conflict


def _close(control: BrokerControl, arguments: Arguments) -> Walk[Reply]:
    return (yield from links.close_connection.carry_out(control, _renamed(arguments, {"name": "connection"})))


def _close_those_of_user(control: BrokerControl, arguments: Arguments) -> Walk[Reply]:
    user, found = arguments.text("user"), []
    for row in control.rows("connections"):
        if row.get("user") == user:
            found.append(str(row["identity"]))
        yield
    for connection in found:
        control.serving.close_connection(connection, links.reason(arguments))
        yield
    return DONE


def _write(
    method: str,
    path: str,
    summary: str,
    handler: Callable[[BrokerControl, Arguments], Reply | Walk[Reply]],
    *parameters: Parameter,
    answer: Shape = NOTHING,
    right: Right = Right.MANAGE,
) -> Operation:
    return operation(method, path, summary, handler, parameters=parameters, answer=answer, right=right)


OPERATIONS = (
    _write(
        "PUT",
        QUEUE,
        "Declare a queue.",
        _declare_queue,
        DURABLE,
        AUTO_DELETE,
        Parameter(name="exclusive", sentence="Must be false.", kind="flag", ignored=True),
        QUEUE_ARGUMENTS,
        Parameter(name="node", sentence="Ignored, because there is one node.", ignored=True),
        Parameter(
            name="queue_type",
            sentence="classic, quorum or stream: the argument x-queue-type, if arguments do not have it.",
            suggests=options.QUEUE_TYPES,
        ),
        answer=MAKES,
    ),
    _write("DELETE", QUEUE, "Delete a queue.", _delete_queue, IF_EMPTY, IF_UNUSED),
    _write("DELETE", f"{QUEUE}/contents", "Remove what is ready.", _purge),
    _write(
        "PUT",
        EXCHANGE,
        "Declare an exchange.",
        _declare_exchange,
        Parameter(name="type", sentence="Its type.", required=True, choices=tuple(kind.value for kind in ExchangeType)),
        DURABLE,
        AUTO_DELETE,
        Parameter(name="internal", sentence="Clients cannot publish to it.", kind="flag"),
        EXCHANGE_ARGUMENTS,
        answer=MAKES,
    ),
    _write("DELETE", EXCHANGE, "Delete an exchange.", _delete_exchange, IF_UNUSED),
    _write(
        "POST",
        BETWEEN,
        "Bind.",
        _bind,
        Parameter(name="routing_key", sentence="The binding key.", default=""),
        ARGUMENTS,
        Parameter(
            name="destination_type",
            sentence="What the path says.",
            choices=tuple(DESTINATIONS.values()),
            ignored=True,
        ),
        answer=MAKES,
    ),
    _write("DELETE", f"{BETWEEN}/{{properties_key}}", "Unbind.", _unbind),
    _write(
        "PUT",
        "/policies/{vhost}/{name}",
        "Make or change a policy.",
        _set_policy,
        *(replace(one, name=THEIRS.get(one.name, one.name)) for one in policies.SET if not one.in_path),
        answer=MAKES,
        right=Right.CONFIGURE,
    ),
    _write("DELETE", "/policies/{vhost}/{name}", "Remove a policy.", _clear_policy, right=Right.CONFIGURE),
    *(
        _write(
            "POST",
            path,
            "Make what is missing.",
            _import,
            definitions.DOCUMENT,
            right=Right.ADMINISTER,
        )
        for path in ("/definitions", "/definitions/{vhost}")
    ),
    _write("DELETE", "/connections/{name}", "Close a connection.", _close, links.REASON, right=Right.OPERATE),
    _write(
        "DELETE",
        "/connections/username/{user}",
        "Close the connections of a user.",
        _close_those_of_user,
        links.REASON,
        right=Right.OPERATE,
    ),
)
