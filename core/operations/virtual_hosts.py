"""Operations on virtual hosts: list, make, limit and delete them."""

from core.access.rights import FULL
from core.control_plane import BrokerControl
from core.declaring import once_gone
from core.engine.virtual_hosts import LIMIT_MAX, HostLimits
from core.interface import Snapshot
from core.operations.operation import DONE, AnswerField, Arguments, Parameter, Reply, Right, Shape, operation
from core.publish_limit import RATE_MAX
from core.slices import Walk

NAME = Parameter("name", "The virtual host's name.", in_path=True)
MAX_CONNECTIONS = Parameter(
    "max_connections", "The most connections; -1 for no limit. Without it, it stays.", "number", low=-1, high=LIMIT_MAX
)
MAX_QUEUES = Parameter(
    "max_queues", "The most queues; -1 for no limit. Without it, it stays.", "number", low=-1, high=LIMIT_MAX
)
MAX_LINKS = Parameter(
    "max_links",
    "The most links of AMQP 1.0 that publish or consume; -1 for no limit. Without it, it stays.",
    "number",
    low=-1,
    high=LIMIT_MAX,
)
PUBLISH_RATE = Parameter(
    "publish_rate",
    "The most messages a second that are published over AMQP 1.0; -1 for no limit. Without it, it stays.",
    "number",
    low=-1,
    high=RATE_MAX,
)
PUBLISH_RATE_BYTES = Parameter(
    "publish_rate_bytes",
    "The most bytes a second that are published over AMQP 1.0; -1 for no limit. Without it, it stays.",
    "number",
    low=-1,
    high=RATE_MAX,
)
ROWS = Shape(
    "rows",
    (
        AnswerField("name", "text", "The name."),
        AnswerField("queues", "number", "Its queues."),
        AnswerField("connections", "number", "The connections that use it."),
        AnswerField("links", "number", "The links of AMQP 1.0 that publish to it or consume from it."),
        AnswerField("max_connections", "number", "The most connections; null for no limit."),
        AnswerField("max_queues", "number", "The most queues; null for no limit."),
        AnswerField("max_links", "number", "The most links; null for no limit."),
        AnswerField("publish_rate", "number", "The most messages published in a second; null for no limit."),
        AnswerField("publish_rate_bytes", "number", "The most bytes published in a second; null for no limit."),
    ),
)


def host_row(control: BrokerControl, name: str) -> Snapshot:
    """Return the row of a virtual host. Raises NotFound."""
    host, limits = control.hosts.named(name), control.hosts.limits(name)
    return {
        "name": name,
        "queues": len(host.shown.queues),
        "connections": host.connections,
        "links": host.links.count,
        **limits._asdict(),
    }


def make(control: BrokerControl, arguments: Arguments) -> Walk[bool]:
    """Make a virtual host; a user of the broker who makes it may do everything there. Returns whether it is new. Raises
    EngineError."""
    name, user = arguments.text("name"), arguments.rights.user
    is_new = control.hosts.find(name) is None
    yield from once_gone(lambda: control.hosts.add(name))
    own = control.access is not None and control.users.is_own(user)
    if is_new and own and control.users.rights_of(user).on(arguments.rights.virtual_host) is arguments.rights:
        yield from once_gone(lambda: control.users.set_permission(user, FULL, name))
    return is_new


@operation("vhosts.list", "GET", "/vhosts", answer=ROWS, gives=[{"name": "/"}])
def list_hosts(control: BrokerControl, arguments: Arguments) -> Reply:
    """List the virtual hosts."""
    return Reply(200, [host_row(control, name) for name in control.hosts.names])


@operation("vhosts.add", "PUT", "/vhosts/{name}", NAME, right=Right.ADMINISTER, example={"name": "shop"})
def add_host(control: BrokerControl, arguments: Arguments) -> Walk[Reply]:
    """Make a virtual host; it is no error if there is one."""
    yield from make(control, arguments)
    return DONE


@operation(
    "vhosts.limit",
    "PUT",
    "/vhosts/{name}/limits",
    *(NAME, MAX_CONNECTIONS, MAX_QUEUES, MAX_LINKS, PUBLISH_RATE, PUBLISH_RATE_BYTES),
    right=Right.ADMINISTER,
    example={"name": "/", "max_queues": 1000},
)
def limit_host(control: BrokerControl, arguments: Arguments) -> Reply:
    """Limit the connections, queues and links of a virtual host, and how much is published to it over AMQP 1.0; what is
    there already stays."""
    name = arguments.text("name")
    limits = control.hosts.limits(name)
    given = {one: arguments.optional_number(one) for one in HostLimits._fields}
    changed = {one: None if value < 0 else value for one, value in given.items() if value is not None}
    control.hosts.set_limits(name, limits._replace(**changed))
    return DONE


@operation("vhosts.delete", "DELETE", "/vhosts/{name}", NAME, right=Right.ADMINISTER, example={"name": "staging"})
def delete_host(control: BrokerControl, arguments: Arguments) -> Reply:
    """Delete a virtual host with its queues and messages; its connections are closed."""
    control.hosts.delete(arguments.text("name"))
    return DONE


OPERATIONS = (list_hosts, add_host, limit_host, delete_host)
