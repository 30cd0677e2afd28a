"""``GET /headgate/connections/:identity/why``: what holds a connection's publishing up, found in the snapshots.

The answer is a map of ``connection``, ``protocol``, ``state``, ``waits`` (whether it is held up now, or was within the
last second), ``stage`` and ``names`` (which stage is the bottleneck, and where; None and [] without one) and
``sentence``. It is about stage credit and alarms: what else can hold up an AMQP 1.0 link stands in the link's snapshot.
"""

from core.credit_flow.diagnosis import ConnectionState, diagnose
from core.credit_flow.flow import FlowState, StageReading
from core.interface import Observable, Snapshot


def why(observable: Observable, identity: str) -> Snapshot | None:
    """The answer; None where there is no such connection."""
    found = observable.snapshot("connections", identity)
    if not found:
        return None
    connection = found[0]
    answer: Snapshot = {
        "connection": identity,
        "protocol": connection.get("protocol"),
        "state": connection.get("state"),
        "waits": False,
        "stage": None,
        "names": [],
    }
    if "stage_credit_state" not in connection:
        return answer | {"sentence": "Stage credit brakes AMQP 0.9.1 only; of AMQP 1.0, see `headgate links list`."}
    return answer | (_alarm(connection) or _verdict(observable, connection, identity))


def _alarm(connection: Snapshot) -> Snapshot | None:
    """What there is to say under an alarm."""
    alarms = " and ".join(_texts(connection, "alarms"))
    match connection["state"]:
        case ConnectionState.BLOCKED:
            return {"waits": True, "sentence": f"The broker is low on {alarms}: nothing is read from this connection."}
        case ConnectionState.BLOCKING:
            return {"sentence": f"The broker is low on {alarms}: the next publish will stop this connection."}
    return None


def _verdict(observable: Observable, connection: Snapshot, identity: str) -> Snapshot:
    channels = [row for row in observable.snapshot("channels") if row["connection"] == identity]
    targets = {name for row in channels for name in _texts(row, "publishes_to")}
    queues = [row for row in observable.snapshot("queues") if row["name"] in targets]
    bottleneck = diagnose(
        _reading(connection, "identity"),
        [_reading(row, "identity") for row in channels],
        [_reading(row, "name") for row in queues],
    )
    if bottleneck is None:
        return {"sentence": "Nothing holds it up, and nothing has within the last second."}
    return {
        "waits": True,
        "stage": bottleneck.stage.value,
        "names": list(bottleneck.names),
        "sentence": bottleneck.sentence,
    }


def _reading(row: Snapshot, name: str) -> StageReading:
    in_flow = row["stage_credit_state"] == FlowState.FLOW
    return StageReading(str(row[name]), in_flow, _texts(row, "stage_credit_held_up_by"))


def _texts(row: Snapshot, key: str) -> tuple[str, ...]:
    value = row.get(key)
    return tuple(map(str, value)) if isinstance(value, list) else ()
