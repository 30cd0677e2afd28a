"""Settings of the log."""

from typing import Annotated, Literal

from pydantic import Field

from core.config.section import Section
from core.config.units import Seconds, Unit


class LogSettings(Section):
    """Lines on standard error."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """The least severe level that is logged."""

    form: Literal["auto", "text", "json"] = "auto"
    """The form of the lines: one JSON object a line, or key=value text; auto is text on a terminal and JSON
    elsewhere."""

    per_second_max: Annotated[int, Unit("lines a second and event")] = Field(default=20, ge=1, le=100_000)
    """How often one event is logged; the line that follows says how many were left out."""

    stall_after: Seconds = Field(default=1.0, ge=0.05, le=3600.0)
    """A link or reader that stands still, for a reason that does not depend on its consumer alone, is logged when it
    has stood still for this long. Lists, metrics and flow events have all stalls that last 50 ms."""

    consumer_stall_after: Seconds = Field(default=60.0, ge=0.05, le=86_400.0)
    """The same where only the consumer decides: its link credit, its window, its socket. A slow consumer is normal."""

    stall_pause: Seconds = Field(default=60.0, ge=0.0, le=86_400.0)
    """At most one stall of the same link or reader is logged in this time."""

    stalls_per_minute_max: Annotated[int, Unit("stalls a minute")] = Field(default=60, ge=1, le=100_000)
    """How many stalls of all links and readers are logged; a line each minute says how many were left out."""

    recent_max: Annotated[int, Unit("lines")] = Field(default=500, ge=0, le=100_000)
    """Lines kept in memory for the console and ``headgate log list``, about half a KiB each."""

    waiting_max: Annotated[int, Unit("lines")] = Field(default=10_000, ge=1, le=1_000_000)
    """Lines kept while standard error accepts none; more are dropped and counted."""
