"""Settings of the log."""

from typing import Annotated, Literal

from pydantic import Field

from core.config.section import Section
from core.config.units import Unit


class LogSettings(Section):
    """Lines on standard error."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """The least severe level that is logged."""

    form: Literal["auto", "text", "json"] = "auto"
    """One JSON object a line, or key=value text; auto is text on a terminal and JSON elsewhere."""

    per_second_max: Annotated[int, Unit("lines a second and event")] = Field(default=20, ge=1, le=100_000)
    """How often one event is logged; the line that follows says how many were left out."""

    waiting_max: Annotated[int, Unit("lines")] = Field(default=10_000, ge=1, le=1_000_000)
    """Lines kept while standard error takes none; more are dropped and counted."""
