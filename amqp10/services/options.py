"""What can be chosen about a service, and the bounds of everything that it keeps. Durations are in seconds."""

from dataclasses import dataclass, field
from typing import Literal

from amqp10.client.settings import ClientSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceOptions:
    """How a service behaves. Everything has a default; a bound that is reached says its name."""

    client: ClientSettings = field(default_factory=ClientSettings)
    """Of the connection: time-outs, and how long to wait before connecting again."""
    durable: bool = True
    """Messages outlive the broker's process. False is faster, and a restart of the broker loses what is under way."""
    time_out_s: float = 30.0
    """Of calls and casts that name none, and of answers."""
    in_flight_max: int = 10_000
    """Calls, casts and their like that are not over. One more is refused with Busy."""
    destinations_max: int = 100
    """Links that stay open for sending, one for each destination; an idle one is closed for a new one. The broker
    allows 256 links on a session by default."""
    unroutable: Literal["raise", "resend"] = "raise"
    """What to do when no queue takes a message: raise Unroutable, or send again until the time is over."""
    resend_delay_s: float = 1.0
    """Between two attempts of ``resend``."""
    type_requests_max: int = 200
    """Requests from the queue TYPE that are in hand. The link credit for that queue is what is left of it, so whoever
    has enough to do gets no more, and the other hosts of the type get it."""
    host_requests_max: int = 200
    """Requests from the queue TYPE.HOST that are executed at once. There is no other host for them: more wait here."""
    host_requests_waiting_max: int = 1000
    """Requests from TYPE.HOST that wait here. One more is answered with Busy; without anybody to answer it is rejected.
    Answers come through the same queue, so its link credit cannot be the brake."""
    sole_host: bool = False
    """No other process serves this type, nor this host under the same name. Then what comes a second time and is not in
    the window of duplicates was not executed, and can be; see :mod:`amqp10.services.fences`."""
    duplicates_max: int = 100_000
    """Message ids that are kept to know duplicates by; 26 MB at most."""
    duplicates_kept_s: float = 600.0
    """For how long an id is kept after the command was executed."""
    type_queue_length_max: int | None = None
    """Messages that the queue TYPE takes; one more is refused, and its caller gets Busy. None: no limit. Every host of
    a type must say the same."""
    host_queue_expires_s: float = 86_400.0
    """A queue TYPE.HOST that nobody has consumed for so long is deleted, with what is in it."""

    def __post_init__(self) -> None:
        for name in (
            "time_out_s", "in_flight_max", "destinations_max", "resend_delay_s", "type_requests_max",
            "host_requests_max", "duplicates_max", "duplicates_kept_s", "host_queue_expires_s",
        ):  # fmt: skip
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be above 0")
        if self.host_requests_waiting_max < 0:
            raise ValueError(f"host_requests_waiting_max is {self.host_requests_waiting_max}; it must be 0 or more")
