"""RabbitMQ's health checks: the status is 200 if the check passes, otherwise 503 with the reason."""

from collections.abc import Mapping, Sequence

from starlette.types import ASGIApp

from core.admin.api.operations import Call, Operation, get
from core.admin.api.refusals import bad_request
from core.admin.api.rendering import answered
from core.admin.api.sources import ApiSources
from core.interface import Snapshot

BASE = "/api/health/checks"
AMQP = "amqp"
SPELLINGS = frozenset(
    f"{AMQP}{version}" for version in ("", "091", "0.9.1", "0-9-1", "0_9_1", "10", "1.0", "1-0", "1_0")
)
"""The names that RabbitMQ accepts for the protocols that are served."""
PORT_MAX = 65535


class HealthChecks:
    """The operations under ``/api/health/checks``."""

    def __init__(self, sources: ApiSources) -> None:
        self._sources = sources

    def operations(self) -> Sequence[Operation]:
        """Return all operations."""
        return [
            get(f"{BASE}/alarms", "No alarm is on.", self._alarms),
            get(f"{BASE}/local-alarms", "No alarm is on.", self._alarms),
            get(f"{BASE}/virtual-hosts", "The virtual host runs.", lambda call: answered({"status": "ok"})),
            get(f"{BASE}/ready-to-serve-clients", "New connections are welcome.", self._ready),
            get(f"{BASE}/port-listener/{{port}}", "Connections are accepted on this port.", self._port),
            get(f"{BASE}/protocol-listener/{{protocol}}", "This protocol is served.", self._protocol),
        ]

    def _alarms(self, call: Call) -> ASGIApp:
        on = [row for row in self._sources.control.snapshot("alarms") if row["on"] and row["level"] == "alarm"]
        if not on:
            return answered({"status": "ok"})
        alarms = [{"node": self._sources.constants.node, "resource": row["name"]} for row in on]
        return _failed("There are alarms in effect", {"alarms": alarms})

    def _ready(self, call: Call) -> ASGIApp:
        if self._sources.ready():
            return answered({"status": "ok"})
        return _failed("New connections are not accepted now", {})

    def _port(self, call: Call) -> ASGIApp:
        text = call.path["port"]
        if not (text.isascii() and text.isdigit() and len(text) <= 5 and int(text) <= PORT_MAX):
            raise bad_request(f"the port must be a number up to {PORT_MAX}")
        ports = [row["port"] for row in self._sources.server.snapshot("listeners")]
        if int(text) in ports:
            return answered({"status": "ok", "port": int(text)})
        return _failed("No active listener", {"missing": int(text), "ports": ports})

    def _protocol(self, call: Call) -> ASGIApp:
        protocol = call.path["protocol"].lower()
        protocols = [AMQP for _ in self._sources.server.snapshot("listeners")]
        if protocol in SPELLINGS and protocols:
            return answered({"status": "ok", "protocol": AMQP})
        return _failed("No active listener", {"missing": protocol, "protocols": protocols})


def _failed(reason: str, facts: Mapping[str, object]) -> ASGIApp:
    answer: Snapshot = {"status": "failed", "reason": reason, **facts}
    return answered(answer, 503)
