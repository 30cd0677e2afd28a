"""Operations on the broker as a whole: status, maintenance mode, alarms, the limits of memory and disk space."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from core.interface import Snapshot
from core.operations.operation import (
    DONE,
    Answer,
    Arguments,
    Example,
    Field,
    Handler,
    Operation,
    Parameter,
    Right,
    Shape,
)

if TYPE_CHECKING:
    from core.control_plane import BrokerControl

ALARM = Parameter(name="alarm", sentence="The alarm's name: memory or disk.", in_path=True)
DRAIN = Shape(
    "map",
    (
        Field("draining", "flag", "Whether the broker is in maintenance mode."),
        Field("since", "number", "When that began, in seconds since 1970; null if it has not."),
        Field("connections", "number", "The number of connections."),
        Field("unsettled", "number", "The messages that consumers hold and have not settled."),
    ),
)
MEMORY = Shape(
    "map",
    (
        Field("watermark", "text", "The watermark, as in the configuration."),
        Field("limit", "number", "The bytes above which publishers wait."),
        Field("used", "number", "The bytes that the broker uses."),
        Field("on", "flag", "Whether the alarm is on."),
        Field("warning", "text", "A reason against this watermark; null if there is none."),
    ),
)
DISK = Shape(
    "map",
    (
        Field("free_limit", "text", "The limit, as in the configuration."),
        Field("limit", "number", "The free bytes below which publishers wait."),
        Field("free", "number", "The free bytes of the data folder."),
        Field("on", "flag", "Whether the alarm is on."),
    ),
)


def _shown(look: Callable[["BrokerControl"], Snapshot | str]) -> Handler:
    """Make a handler that answers with what it sees."""
    return lambda control, arguments: Answer(200, look(control))


def _set_watermark(control: "BrokerControl", arguments: Arguments) -> Answer:
    control.measuring.set_memory_watermark(arguments.text("watermark"))
    return Answer(200, control.measuring.memory())


def _set_free_limit(control: "BrokerControl", arguments: Arguments) -> Answer:
    control.measuring.set_disk_free_limit(arguments.text("free_limit"))
    return Answer(200, control.measuring.disk())


def _set_alarm(control: "BrokerControl", arguments: Arguments) -> Answer:
    control.broker.set_alarm(arguments.text("alarm"))
    return DONE


def _clear_alarm(control: "BrokerControl", arguments: Arguments) -> Answer:
    control.broker.clear_alarm(arguments.text("alarm"))
    return DONE


OPERATIONS = (
    Operation(
        name="status",
        method="GET",
        path="/status",
        summary="Show the broker at a glance.",
        handler=_shown(lambda control: control.status()),
        right=Right.MONITOR,
        answer=Shape(
            "map",
            (
                Field("product", "text", "Headgate."),
                Field("version", "text", "The version."),
                Field("pid", "number", "The number of the process."),
                Field("listeners", "list", "The addresses on which connections are accepted."),
                Field("descriptors", "map", "File descriptors: limits, and how many are used."),
                Field("refused", "map", "Refused connections by reason."),
                Field("alarms", "list", "Rows of the alarms."),
            ),
        ),
        example=Example(answer={"product": "Headgate"}),
    ),
    Operation(
        name="configuration",
        method="GET",
        path="/configuration",
        summary="Show the settings in force as a file, without secrets.",
        handler=_shown(lambda control: control.settings_text()),
        right=Right.MONITOR,
        answer=Shape("text"),
        example=Example(answer=""),
    ),
    Operation(
        name="drain.status",
        method="GET",
        path="/drain",
        summary="Show how far maintenance mode is.",
        handler=_shown(lambda control: control.draining()),
        right=Right.MONITOR,
        answer=DRAIN,
        example=Example(answer={"draining": False, "since": None}),
    ),
    Operation(
        name="drain",
        method="PUT",
        path="/drain",
        summary="Begin maintenance mode: publishers and consumers stand still, and new connections are refused.",
        handler=_shown(lambda control: control.drain(wanted=True)),
        right=Right.OPERATE,
        answer=DRAIN,
        example=Example(answer={"draining": True}),
    ),
    Operation(
        name="undrain",
        method="DELETE",
        path="/drain",
        summary="End maintenance mode: the broker serves as usual again.",
        handler=_shown(lambda control: control.drain(wanted=False)),
        right=Right.OPERATE,
        answer=DRAIN,
        example=Example(answer={"draining": False}),
    ),
    Operation(
        name="alarms.set",
        method="PUT",
        path="/alarms/{alarm}",
        summary="Raise an alarm by hand: publishers wait until it is cleared.",
        handler=_set_alarm,
        right=Right.OPERATE,
        parameters=(ALARM,),
        example=Example(parameters={"alarm": "memory"}),
    ),
    Operation(
        name="alarms.clear",
        method="DELETE",
        path="/alarms/{alarm}",
        summary="Clear an alarm that was raised by hand; it stays on while its measured value is beyond the limit.",
        handler=_clear_alarm,
        right=Right.OPERATE,
        parameters=(ALARM,),
        example=Example(parameters={"alarm": "memory"}),
    ),
    Operation(
        name="memory.status",
        method="GET",
        path="/memory",
        summary="Show the used memory, the watermark, the limit in bytes, and the alarm.",
        handler=_shown(lambda control: control.measuring.memory()),
        right=Right.MONITOR,
        answer=MEMORY,
        example=Example(answer={"name": "memory"}),
    ),
    Operation(
        name="memory.set-watermark",
        method="PUT",
        path="/memory",
        summary="Set the memory watermark until the broker is restarted; with 0 all publishers wait.",
        handler=_set_watermark,
        right=Right.OPERATE,
        parameters=(
            Parameter(
                name="watermark",
                sentence="A fraction of the machine's memory, from 0 to 1.0, or ``absolute`` and a size such as 1GB.",
                required=True,
            ),
        ),
        answer=MEMORY,
        example=Example(parameters={"watermark": "0.4"}, answer={"name": "memory"}),
    ),
    Operation(
        name="disk.status",
        method="GET",
        path="/disk",
        summary="Show the free disk space of the data folder, its limit, and the alarm.",
        handler=_shown(lambda control: control.measuring.disk()),
        right=Right.MONITOR,
        answer=DISK,
        example=Example(answer={"name": "disk"}),
    ),
    Operation(
        name="disk.set-free-limit",
        method="PUT",
        path="/disk",
        summary="Set the limit of free disk space until the broker is restarted.",
        handler=_set_free_limit,
        right=Right.OPERATE,
        parameters=(
            Parameter(
                name="free_limit",
                sentence="A size such as 50MB, or ``mem_relative`` and a factor of the machine's memory.",
                required=True,
            ),
        ),
        answer=DISK,
        example=Example(parameters={"free_limit": "50MB"}, answer={"name": "disk"}),
    ),
)
