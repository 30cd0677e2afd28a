"""The operations of RabbitMQ's management API that make, delete and limit virtual hosts."""

from core.admin.api.rabbitmq import MADE, MAKES, list_operation, operation
from core.control_plane import BrokerControl
from core.engine.virtual_hosts import LIMITS
from core.interface import Snapshot
from core.operations import virtual_hosts
from core.operations.operation import DONE, NOTHING, Arguments, Parameter, Reply, Right
from core.slices import Walk

IGNORED = tuple(
    Parameter(name, "Ignored.", ignored=True)
    for name in ("description", "tags", "default_queue_type", "protected_from_deletion")
)
TRACING = Parameter("tracing", "Ignored: frames are traced by connection.", "flag", ignored=True)
KIND = Parameter("limit", "The limit.", in_path=True, choices=LIMITS)
VALUE = Parameter("value", "The limit; a negative one for none.", "number", low=-1, high=10**9, required=True)


def _put(control: BrokerControl, arguments: Arguments) -> Walk[Reply]:
    return MADE if (yield from virtual_hosts.make(control, arguments)) else DONE


def _limits(control: BrokerControl, arguments: Arguments) -> list[Snapshot]:
    named = [arguments.host(control).virtual_host] if "vhost" in arguments.values else control.hosts.names
    shown = {name: control.hosts.limits(name).shown() for name in named}
    return [{"vhost": name, "value": limits} for name, limits in shown.items() if limits]


def _set_limit(control: BrokerControl, arguments: Arguments) -> Reply:
    name, value = arguments.host(control).virtual_host, arguments.values.get("value")
    limit = value if isinstance(value, int) and value >= 0 else None
    field = arguments.text("limit").replace("-", "_")
    control.hosts.set_limits(name, control.hosts.limits(name)._replace(**{field: limit}))
    return DONE


LIMIT = "/vhost-limits/{vhost}/{limit}"
OPERATIONS = (
    operation(
        "PUT",
        "/vhosts/{name}",
        "Make a virtual host.",
        _put,
        parameters=(*IGNORED, TRACING),
        answer=MAKES,
        right=Right.ADMINISTER,
    ),
    operation(
        "DELETE",
        "/vhosts/{name}",
        "Delete a virtual host.",
        virtual_hosts.delete_host.handler,
        answer=NOTHING,
        right=Right.ADMINISTER,
    ),
    *(
        list_operation(path, "Limits of virtual hosts.", _limits, Right.ADMINISTER)
        for path in ("/vhost-limits", "/vhost-limits/{vhost}")
    ),
    operation(
        "PUT", LIMIT, "Set a limit.", _set_limit, parameters=(VALUE, KIND), answer=NOTHING, right=Right.ADMINISTER
    ),
    operation(
        "DELETE", LIMIT, "Remove a limit.", _set_limit, parameters=(KIND,), answer=NOTHING, right=Right.ADMINISTER
    ),
)
