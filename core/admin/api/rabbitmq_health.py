"""RabbitMQ's health checks: the status is 200 if the check passes, otherwise 503 with the reason."""

from core.admin.api.rabbitmq import operation
from core.admin.api.refusals import bad_request
from core.control_plane import BrokerControl
from core.operations.operation import Arguments, Reply

AMQP = "amqp"
SPELLINGS = frozenset(
    f"{AMQP}{version}" for version in ("", "091", "0.9.1", "0-9-1", "0_9_1", "10", "1.0", "1-0", "1_0")
)
"""The names that RabbitMQ accepts for the protocols that are served."""
PORT_MAX = 65535
DAYS = {"days": 1, "weeks": 7, "months": 30, "years": 365}
"""The units of RabbitMQ's check of certificates, in days."""
OK = Reply(200, {"status": "ok"})


def _alarms(control: BrokerControl, arguments: Arguments) -> Reply:
    on = [row for row in control.snapshot("alarms") if row["on"] and row["level"] == "alarm"]
    if not on:
        return OK
    return _failed("There are alarms in effect", alarms=[{"node": control.node, "resource": row["name"]} for row in on])


def _ready(control: BrokerControl, arguments: Arguments) -> Reply:
    return OK if control.ready else _failed("New connections are not accepted now")


def _port(control: BrokerControl, arguments: Arguments) -> Reply:
    text = arguments.text("port")
    if not (text.isascii() and text.isdigit() and len(text) <= 5 and int(text) <= PORT_MAX):
        raise bad_request(f"the port must be a number up to {PORT_MAX}")
    ports = [row["port"] for row in control.snapshot("listeners")]
    if int(text) in ports:
        return Reply(200, {"status": "ok", "port": int(text)})
    return _failed("No active listener", missing=int(text), ports=ports)


def _protocol(control: BrokerControl, arguments: Arguments) -> Reply:
    protocol = arguments.text("protocol").lower()
    protocols = [AMQP for _ in control.snapshot("listeners")]
    if protocol in SPELLINGS and protocols:
        return Reply(200, {"status": "ok", "protocol": AMQP})
    return _failed("No active listener", missing=protocol, protocols=protocols)


def _certificates(control: BrokerControl, arguments: Arguments) -> Reply:
    within, unit = arguments.text("within"), arguments.text("unit")
    if unit not in DAYS or not (within.isascii() and within.isdigit() and 0 < len(within) <= 5):
        raise bad_request(f"must be a number of up to five digits and one of {', '.join(DAYS)}")
    days = int(within) * DAYS[unit]
    rows = control.snapshot("certificates")
    near = [row for row in rows if isinstance(left := row["days_left"], float) and left < days]
    if not near:
        return OK
    shown = [{"path": row["path"], "subject": row["subject"], "days_left": row["days_left"]} for row in near]
    return _failed("Certificates expire", certificates=shown)


def _failed(reason: str, **facts: object) -> Reply:
    return Reply(503, {"status": "failed", "reason": reason, **facts})


OPERATIONS = tuple(
    operation("GET", f"/health/checks/{check}", summary, handler)
    for check, summary, handler in (
        ("alarms", "No alarm is on.", _alarms),
        ("local-alarms", "No alarm is on.", _alarms),
        ("virtual-hosts", "The virtual host runs.", lambda control, arguments: OK),
        ("node-is-quorum-critical", "No majority depends on this node.", lambda control, arguments: OK),
        ("ready-to-serve-clients", "New connections are welcome.", _ready),
        ("certificate-expiration/{within}/{unit}", "No certificate expires within this time.", _certificates),
        ("port-listener/{port}", "Connections are accepted on this port.", _port),
        ("protocol-listener/{protocol}", "This protocol is served.", _protocol),
    )
)
