"""The options of the connector: their names, their meanings, and how their texts become values.

Spark passes options as text and ignores their case. An option that does not exist is an error that names the nearest
one, since a user who sets an option expects an effect. The documentation shows the tables of this module.
"""

import difflib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Final, Literal

from amqp10.client_core.opening import MECHANISMS, MechanismName
from amqp10.client_core.url import TLS_FILES, TlsFiles
from pyspark_amqp10.errors import BadOption
from pyspark_amqp10.login import FORM, PASSWORD_VARIABLE, Login

Mode = Literal["queue", "stream"]
BadRow = Literal["fail", "reject", "release", "null"]
MapValues = Literal["typed", "text"]
Settle = Literal["commit", "fetch"]
Position = int | Literal["earliest", "latest"]
"""An offset, the first offset that is kept, or the end at the moment when a query begins."""


@dataclass(frozen=True, slots=True)
class Option:
    """One option. ``read`` turns its text into a value and raises ValueError, whose text says what the value must
    be."""

    name: str
    read: Callable[[str], object]
    default: str | None
    """As text; None when there is no default."""
    meaning: str
    field: str | None = None
    """The field that has the value, where it is not named as the option."""

    @property
    def in_class(self) -> str:
        """The name of the field that has the value: ``containerId`` is in ``container_id``."""
        return self.field or re.sub(r"(?=[A-Z])", "_", self.name).lower()


# --- how texts are read --------------------------------------------------------------------------------------------

_DURATION: Final = re.compile(r"(\d{1,9})\s*(ms|s|m|h)?")
_DURATION_S: Final = {"ms": 0.001, "s": 1.0, None: 1.0, "m": 60.0, "h": 3600.0}
_BYTES: Final = re.compile(r"(\d{1,15})\s*([kmg]?)b?")
_BYTES_UNIT: Final = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30}
LINK_CREDIT_MAX: Final = 2**31 - 1
"""The largest link credit of one grant: a uint on the wire, and half the range that serial numbers can compare
[2.6.7]."""

READERS_MAX: Final = 1024
"""The most tasks of one micro-batch of queues: each has a connection to the broker, and some messages to read."""


def text(value: str) -> str:
    """Any text except the empty one."""
    if not value:
        raise ValueError("it must not be empty")
    return value


def whole_number(value: str, least: int = 1, most: int = LINK_CREDIT_MAX) -> int:
    """A number in decimal digits between two bounds."""
    if not (value.isascii() and value.isdigit() and len(value) <= 19 and least <= int(value) <= most):
        raise ValueError(f"it must be a whole number from {least} to {most}")
    return int(value)


def duration_s(value: str) -> float:
    """Seconds, from ``500ms``, ``10s``, ``5m``, ``1h`` or a bare number of seconds."""
    match = _DURATION.fullmatch(value.strip().lower())
    if match is None or int(match[1]) == 0:
        raise ValueError("it must be a time such as 500ms, 10s or 5m, and more than 0")
    return int(match[1]) * _DURATION_S[match[2]]


def size_bytes(value: str) -> int:
    """Bytes, from ``1000000``, ``512k``, ``64m`` or ``1g``."""
    match = _BYTES.fullmatch(value.strip().lower())
    if match is None or int(match[1]) == 0:
        raise ValueError("it must be a size such as 1000000, 512k or 64m, and more than 0")
    return int(match[1]) * _BYTES_UNIT[match[2]]


def truth(value: str) -> bool:
    """True or false."""
    if value.lower() not in {"true", "false"}:
        raise ValueError("it must be true or false")
    return value.lower() == "true"


def choice(*values: str) -> Callable[[str], str]:
    """One of these words."""

    def read(value: str) -> str:
        if value.lower() not in values:
            raise ValueError(f"it must be {', '.join(values[:-1])} or {values[-1]}")
        return value.lower()

    return read


def timestamp_ms(value: str) -> int:
    """Milliseconds since the Unix epoch, from digits, or from ISO 8601 with a zone; without one it is UTC."""
    if value.isascii() and value.isdigit() and len(value) <= 15:
        return int(value)
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        raise ValueError("it must be milliseconds since 1970, or a time such as 2026-01-31T12:00:00Z") from None
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def addresses(value: str) -> tuple[str, ...]:
    """Addresses separated by commas; a comma inside one is written %2C."""
    parts = tuple(part.strip() for part in value.split(","))
    if not all(parts) or len(set(parts)) != len(parts):
        raise ValueError("it must be addresses with commas between them, none of them empty or there twice")
    return parts


def mechanisms(value: str) -> tuple[MechanismName, ...]:
    """SASL mechanisms separated by commas."""
    named = [one.strip().upper() for one in value.split(",")]
    known = tuple(one for name in named for one in MECHANISMS if one == name)
    if len(known) != len(named) or len(set(known)) != len(known):
        raise ValueError(f"it must be some of {', '.join(MECHANISMS)}, with commas between them")
    return known


def pattern(value: str) -> re.Pattern[str]:
    """A regular expression."""
    try:
        return re.compile(text(value))
    except re.error as error:
        raise ValueError(f"it must be a regular expression: {error}") from None


def positions(value: str) -> Position | dict[str, Position]:
    """``earliest``, ``latest``, or a JSON object from addresses to offsets or these words."""
    if value.lower() in {"earliest", "latest"}:
        return "earliest" if value.lower() == "earliest" else "latest"
    wanted = 'it must be earliest, latest, or JSON such as {"/queues/orders": 1000}, with offsets or these words'
    try:
        given = json.loads(value)
    except json.JSONDecodeError:
        raise ValueError(wanted) from None
    if not isinstance(given, dict) or not given:
        raise ValueError(wanted)
    return {address: _position(one, wanted) for address, one in given.items()}


def _position(value: object, wanted: str) -> Position:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63:
        return value
    if value == "earliest":
        return "earliest"
    if value == "latest":
        return "latest"
    raise ValueError(wanted)


# --- the tables ----------------------------------------------------------------------------------------------------

CONNECTION_OPTIONS: Final = (
    Option(
        "url",
        text,
        None,
        f"where the broker is: `{FORM}` or `{FORM}/VIRTUAL-HOST`, `amqps://` for TLS; never with a password",
    ),
    Option("user", text, None, "who connects; without it ANONYMOUS, unless the URL names a user"),
    Option(
        "passwordFile",
        text,
        None,
        f"a file with the user's password in its first line, on every machine that connects; without it the "
        f"environment variable `{PASSWORD_VARIABLE}`",
    ),
    Option(
        "tokenFile",
        text,
        None,
        "instead of `passwordFile`: a file with an OAuth 2 token, read again for each connection; needs `amqps://`",
    ),
    Option(
        "mechanisms",
        mechanisms,
        None,
        "the SASL mechanisms that may be used with a password, with commas between them; by default "
        f"`{', '.join(MECHANISMS)}`: the first that the broker offers, too",
    ),
    Option("ca", text, None, "`amqps://`: a PEM file with the authorities to trust, instead of the system's"),
    Option(
        "certificate",
        text,
        None,
        "`amqps://`: a PEM file with the client's certificate; without a user it is the login (EXTERNAL)",
    ),
    Option("key", text, None, "`amqps://`: a PEM file with the key of the certificate, if it is not in the same file"),
    Option("containerId", text, None, "the name of the connection, as the broker shows it; a random one by default"),
    Option("linkName", text, None, "the name of the link, as the broker shows it; a random one by default"),
    Option("address", text, None, "where messages come from or go to, `/queues/NAME`"),
)
"""The options of sources and sinks."""

SOURCE_OPTIONS: Final = (
    Option("addresses", addresses, None, "instead of `address`: several, with commas between them"),
    Option(
        "subscribePattern",
        pattern,
        None,
        "streams of Headgate, instead of `address`: all whose whole name fits this regular expression, also those that "
        "are declared while the query runs",
        "pattern",
    ),
    Option(
        "mode",
        choice("queue", "stream"),
        "queue",
        "`queue`: messages are taken from it; `stream`: they stay, and have offsets",
    ),
    Option(
        "startingOffsets",
        positions,
        None,
        "streams, where a query without a checkpoint begins: `earliest`, `latest`, or JSON with an offset, or one of "
        "these words, for each address; `latest` by default, `earliest` for a batch",
    ),
    Option(
        "startingTimestamp",
        timestamp_ms,
        None,
        "streams, instead of `startingOffsets`: milliseconds since 1970 or ISO 8601; a few messages before it may come",
        "starting_timestamp_ms",
    ),
    Option(
        "endingOffsets",
        positions,
        None,
        "streams, batch only: where it ends, exclusive; as `startingOffsets`, `latest` by default",
    ),
    Option(
        "endingTimestamp", timestamp_ms, None, "streams, batch only: instead of `endingOffsets`", "ending_timestamp_ms"
    ),
    Option("maxRowsPerTrigger", whole_number, "100000", "rows of a micro-batch, over all addresses", "rows_max"),
    Option(
        "maxBytesPerTrigger",
        size_bytes,
        "64m",
        "bytes of messages of a micro-batch; for streams estimated by what has been read before",
        "bytes_max",
    ),
    Option("minPartitions", whole_number, None, "streams: into at least so many tasks, by splitting ranges of offsets"),
    Option(
        "readers",
        partial(whole_number, most=READERS_MAX),
        "1",
        "queues: so many tasks read each micro-batch, every one over its own connection; more than 1 needs Headgate, "
        "and queues with `x-sequence`",
    ),
    Option("creditPerLink", whole_number, "10000", "link credit that is given at once, in messages", "link_credit"),
    Option(
        "drainTimeout",
        duration_s,
        "10s",
        "how long the broker may take to send what it has, or to say there is none",
        "drain_time_out_s",
    ),
    Option(
        "failOnDataLoss",
        truth,
        "true",
        "end the query when rows that it still needs are gone; `false` goes on with what is left",
    ),
    Option(
        "onBadRow",
        choice("fail", "reject", "release", "null"),
        "fail",
        "a message that cannot become a row: `fail` ends the query, `reject` and `release` leave it out and give it "
        "this outcome (a stream: only leave it out), `null` makes a row of its bytes and nothing else",
    ),
    Option("includeHeaders", truth, "true", "`false` leaves the columns `properties`, `annotations` and `footer` out"),
    Option(
        "mapValues",
        choice("typed", "text"),
        "typed",
        "values in `properties`, `annotations` and `footer`: `typed` with the type, the text and the encoding of each, "
        "or only the `text`",
    ),
    Option(
        "settle",
        choice("commit", "fetch"),
        "commit",
        "queues: messages are settled when Spark has committed their batch; `fetch`: when they are fetched, so that a "
        "crash may lose them",
    ),
)
"""The options of sources."""


# --- reading them --------------------------------------------------------------------------------------------------


def read_options(
    given: Mapping[str, str], table: Sequence[Option], *, others: Sequence[Option] = ()
) -> dict[str, object]:
    """The values of all options of a table, by their fields; the default where an option is not given, or None.

    ``others`` are options that exist, but not here. Raises BadOption.
    """
    known = {option.name.lower(): option for option in table}
    for name in given:
        if name.lower() not in known:
            raise BadOption(_unknown(name, table, others))
    lowered = {name.lower(): value for name, value in given.items()}
    values: dict[str, object] = {}
    for option in table:
        value = lowered.get(option.name.lower(), option.default)
        try:
            values[option.in_class] = None if value is None else option.read(value)
        except ValueError as error:
            raise BadOption(f"option {option.name} is {value!r}; {error}") from None
    return values


def _unknown(name: str, table: Sequence[Option], others: Sequence[Option]) -> str:
    for option in others:
        if option.name.lower() == name.lower():
            side = "source" if option in SOURCE_OPTIONS else "sink"
            return f"option {option.name} cannot be used here: it is of a {side} only"
    names = {option.name.lower(): option.name for option in table}
    near = difflib.get_close_matches(name.lower(), names, n=1)
    hint = f"did you mean {names[near[0]]}?" if near else f"there are {', '.join(names.values())}"
    return f"there is no option {name!r} here; {hint}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """The options of a source, checked. Durations in seconds, sizes in bytes, times in milliseconds since 1970."""

    login: Login
    addresses: tuple[str, ...]
    container_id: str | None = None
    link_name: str | None = None
    mode: Mode = "queue"
    starting_offsets: Position | dict[str, Position] | None = None
    starting_timestamp_ms: int | None = None
    ending_offsets: Position | dict[str, Position] | None = None
    ending_timestamp_ms: int | None = None
    rows_max: int = 100_000
    bytes_max: int = 64 * 2**20
    min_partitions: int | None = None
    readers: int = 1
    link_credit: int = 10_000
    drain_time_out_s: float = 10.0
    fail_on_data_loss: bool = True
    on_bad_row: BadRow = "fail"
    include_headers: bool = True
    map_values: MapValues = "typed"
    settle: Settle = "commit"
    pattern: re.Pattern[str] | None = None
    """Which streams are read; then there are no ``addresses``."""

    @classmethod
    def read(cls, given: Mapping[str, str], *, others: Sequence[Option] = ()) -> "SourceOptions":
        """Read Spark's texts. Raises BadOption for the first error, with the remedy."""
        values = read_options(given, (*CONNECTION_OPTIONS, *SOURCE_OPTIONS), others=others)
        options = cls(login=read_login(values), addresses=_addresses(values), **values)  # type: ignore[arg-type]
        options._check()
        return options

    def _check(self) -> None:
        """Check options that depend on each other."""
        for offsets, time, names in (
            (self.starting_offsets, self.starting_timestamp_ms, ("startingOffsets", "startingTimestamp")),
            (self.ending_offsets, self.ending_timestamp_ms, ("endingOffsets", "endingTimestamp")),
        ):
            if offsets is not None and time is not None:
                raise BadOption(f"options {names[0]} and {names[1]} exclude each other: keep one of them")
            if isinstance(offsets, dict) and self.pattern is not None:
                raise BadOption(
                    f"option {names[0]} with offsets of addresses needs option addresses; with subscribePattern it is "
                    "earliest or latest"
                )
            if isinstance(offsets, dict) and set(offsets) != set(self.addresses):
                raise BadOption(
                    f"option {names[0]} has offsets for {', '.join(sorted(offsets))}, but the query reads "
                    f"{', '.join(sorted(self.addresses))}: name each address once"
                )
            if self.mode == "queue" and (offsets is not None or time is not None):
                given = names[0] if offsets is not None else names[1]
                raise BadOption(f"option {given} is for streams: set option mode to stream, or take it away")
        if self.mode == "queue" and self.pattern is not None:
            raise BadOption("option subscribePattern is for streams: set option mode to stream, or name the queues")
        if self.mode == "queue" and self.min_partitions is not None:
            raise BadOption("option minPartitions is for streams: option readers divides the messages of a queue")
        if self.mode == "stream" and self.settle == "fetch":
            raise BadOption("option settle is for queues: nothing is taken from a stream")
        if self.readers > 1:
            self._check_readers()

    def _check_readers(self) -> None:
        """Check what several readers of a queue cannot do."""
        if self.mode == "stream":
            raise BadOption("option readers is for queues: option minPartitions divides the offsets of a stream")
        if self.settle == "fetch":
            raise BadOption(
                "option settle cannot be fetch with several readers: they read what is held until the commit; take "
                "readers or settle away"
            )
        if self.on_bad_row in ("reject", "release"):
            raise BadOption(
                f"option onBadRow cannot be {self.on_bad_row} with several readers: tasks settle nothing; set it to "
                "fail or null, or readers to 1"
            )

    def link_name_of(self, address: str) -> str | None:
        """The name of the link to an address; None for a random one. A name is for one pair of ends, so with several
        addresses each link gets its own."""
        if self.link_name is None or len(self.addresses) == 1:
            return self.link_name
        return f"{self.link_name} {address}"


def read_login(values: dict[str, object]) -> Login:
    """Take the broker and the user out of values of :data:`CONNECTION_OPTIONS`. Raises BadOption."""
    url = values.pop("url")
    files = {name: values.pop(name) for name in TLS_FILES}
    given = {name: values.pop(name) for name in ("user", "password_file", "token_file", "mechanisms")}
    if not isinstance(url, str):
        raise BadOption(f"option url is missing; it says where the broker is: {FORM}")
    tls = TlsFiles(**files) if any(files.values()) else None  # type: ignore[arg-type]
    return Login.parse(url, tls=tls, **given)  # type: ignore[arg-type]


def _addresses(values: dict[str, object]) -> tuple[str, ...]:
    one, several = values.pop("address"), values.pop("addresses")
    if values["pattern"] is not None:
        if one is not None or several is not None:
            raise BadOption("options address, addresses and subscribePattern exclude each other: keep one of them")
        return ()
    if isinstance(one, str) and several is None:
        return (one,)
    if one is None and isinstance(several, tuple):
        return several
    raise BadOption(
        "one of the options address, addresses and subscribePattern must say what is read, such as /queues/orders"
    )
