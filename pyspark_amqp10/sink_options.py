"""The options and the columns of a sink: their names and meanings, and the errors for unknown ones."""

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from pyspark_amqp10.errors import BadColumn
from pyspark_amqp10.login import Login
from pyspark_amqp10.options import (
    CONNECTION_OPTIONS,
    SOURCE_OPTIONS,
    Option,
    duration_s,
    read_login,
    read_options,
    truth,
    whole_number,
)

SINK_OPTIONS: Final = (
    Option("durable", truth, "true", "messages are durable where the column `durable` does not say"),
    Option(
        "confirmTimeout",
        duration_s,
        "60s",
        "how long the broker may take for the next outcome, or for link credit, before the task fails",
        "confirm_time_out_s",
    ),
    Option(
        "maxUnconfirmed",
        whole_number,
        "10000",
        "messages of one link that are sent and have no outcome, at the most",
        "unconfirmed_max",
    ),
    Option(
        "maxLinks",
        whole_number,
        "64",
        "links of one task; when its rows name more addresses, the link that was used least recently is closed",
        "links_max",
    ),
    Option(
        "batchIdAnnotation",
        truth,
        "true",
        "each message says which row of which batch it is, so that consumers can drop repeats",
    ),
)
"""The options of sinks, besides :data:`~pyspark_amqp10.options.CONNECTION_OPTIONS`."""

SPARK_OPTIONS: Final = frozenset({"checkpointlocation"})
"""Options that every sink may have; Spark reads them itself and passes them with the others."""

TEXT: Final = ("string",)
_MAPS: Final = (
    "map<string,string>",
    "map<string,struct<type:string,text:string>>",
    "map<string,struct<type:string,text:string,encoded:binary>>",
)
_TIMES: Final = ("timestamp",)
_NUMBERS: Final = ("tinyint", "smallint", "int", "bigint")
COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "body": ("binary", "string"),
    "bodyType": TEXT,
    "bodyEncoded": ("binary",),
    "address": TEXT,
    "messageId": TEXT,
    "messageIdType": TEXT,
    "correlationId": TEXT,
    "correlationIdType": TEXT,
    "userId": ("binary", "string"),
    "to": TEXT,
    "replyTo": TEXT,
    "subject": TEXT,
    "contentType": TEXT,
    "contentEncoding": TEXT,
    "expiryTime": _TIMES,
    "creationTime": _TIMES,
    "groupId": TEXT,
    "groupSequence": _NUMBERS,
    "replyToGroupId": TEXT,
    "durable": ("boolean",),
    "priority": ("tinyint", "smallint", "int"),
    "ttl": _NUMBERS,
    "properties": _MAPS,
    "annotations": _MAPS,
    "footer": _MAPS,
}
"""The columns of a sink, each with its possible types, as Spark writes them. Only the body is required."""
OF_THE_BROKER: Final = ("offset", "enqueued", "firstAcquirer", "deliveryCount")
"""Columns of a source that only a broker sets. A sink leaves them out, so that rows that were read can be written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """The options of a sink, checked. Durations are in seconds."""

    login: Login
    address: str | None = None
    """The target of rows that name none in the column ``address``."""
    container_id: str | None = None
    link_name: str | None = None
    durable: bool = True
    confirm_time_out_s: float = 60.0
    unconfirmed_max: int = 10_000
    links_max: int = 64
    batch_id_annotation: bool = True

    @classmethod
    def read(cls, given: Mapping[str, str]) -> "SinkOptions":
        """Read Spark's texts. Raises BadOption for the first error, with the remedy."""
        given = {name: value for name, value in given.items() if name.lower() not in SPARK_OPTIONS}
        values = read_options(given, (*CONNECTION_OPTIONS, *SINK_OPTIONS), others=SOURCE_OPTIONS)
        return cls(login=read_login(values), **values)  # type: ignore[arg-type]


def check_columns(types: Mapping[str, str], *, address: str | None) -> None:
    """Check columns and their types, as Spark writes these. Raises BadColumn for the first that a sink cannot write."""
    known = {column.lower(): column for column in COLUMNS}
    for name, written in types.items():
        if name in OF_THE_BROKER:
            continue
        if name not in COLUMNS:
            near = get_close_matches(name.lower(), known, n=1)
            hint = f"did you mean {known[near[0]]}?" if near else f"there are {', '.join(COLUMNS)}."
            raise BadColumn(f"an AMQP message has no column {name!r}; {hint} Values of your own go into properties")
        if written not in COLUMNS[name]:
            raise BadColumn(f"column {name} is {written}; it must be {' or '.join(COLUMNS[name])}")
    if "body" not in types:
        raise BadColumn(f"there is no column body; the columns are {', '.join(types) or 'none'}")
    if address is None and "address" not in types:
        raise BadColumn("nothing says where rows go: set option address, or add a column address")
