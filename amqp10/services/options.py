"""The options of a service, and the bounds of everything that it keeps. Durations are in seconds."""

from dataclasses import dataclass, field
from typing import Literal

from amqp10.client.settings import ClientSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceOptions:
    """How a service behaves. Every option has a default. The error for a bound that is reached names its option."""

    client: ClientSettings = field(default_factory=ClientSettings)
    """Options of the connection: time-outs, and the delay before connecting again."""
    durable: bool = True
    """Messages survive a restart of the broker. False is faster, and such a restart then loses messages in flight."""
    time_out_s: float = 30.0
    """The time-out of calls and casts that have none of their own, and of answers."""
    in_flight_max: int = 10_000
    """Calls, casts and their like that are not over. One more raises Busy."""
    destinations_max: int = 100
    """Links that stay open for sending, one for each destination; an idle one is closed for a new one. The broker
    allows 256 links on a session by default."""
    unroutable: Literal["raise", "resend"] = "raise"
    """What to do when no queue takes a message: raise Unroutable, or send it again until its time-out."""
    resend_delay_s: float = 1.0
    """Seconds between two attempts of ``resend``."""
    type_requests_max: int = 200
    """Requests from the queue TYPE that are in hand. The link credit for that queue is what is left of this number, so
    a busy host gets no more requests, and the other hosts of the type get them."""
    host_requests_max: int = 200
    """Requests from the queue TYPE.HOST that are executed at once. No other host can take them, so more wait here."""
    host_requests_waiting_max: int = 1000
    """Requests from TYPE.HOST that wait here. One more is answered with Busy, or rejected if it has no reply-to.
    Answers come through the same queue, so its link credit cannot limit the requests."""
    sole_host: bool = False
    """No other process serves this type, nor this host under the same name. A message that comes a second time and is
    not in the window of duplicates was then not executed, and can be; see :mod:`amqp10.services.markers`."""
    duplicates_max: int = 100_000
    """Message ids that are kept to recognize duplicates; 26 MB at most."""
    duplicates_kept_s: float = 600.0
    """For how long an id is kept after the command was executed."""
    type_queue_length_max: int | None = None
    """Messages that the queue TYPE holds; one more is refused, and its caller gets Busy. None: no limit. Every host of
    a type must have the same value."""
    threads_max: int = 40
    """Handlers that are plain functions and run in threads at once; more wait for a thread."""
    dead_letter_queue: str | None = None
    """The queue that gets rejected casts: those whose handler raised, and those that are uncertain. It is declared with
    the others. None: they are dropped, if no policy says otherwise. Every host of a type must have the same value."""
    host_queue_expires_s: float = 86_400.0
    """A queue TYPE.HOST without a consumer for so long is deleted with its messages."""

    def __post_init__(self) -> None:
        for name in (
            "time_out_s", "in_flight_max", "destinations_max", "resend_delay_s", "type_requests_max",
            "host_requests_max", "threads_max", "duplicates_max", "duplicates_kept_s", "host_queue_expires_s",
        ):  # fmt: skip
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be above 0")
        if self.host_requests_waiting_max < 0:
            raise ValueError(f"host_requests_waiting_max is {self.host_requests_waiting_max}; it must be 0 or more")
