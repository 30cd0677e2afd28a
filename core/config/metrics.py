"""Settings of the metrics."""

from typing import Annotated

from pydantic import Field

from core.config.section import Section
from core.config.units import Unit


class MetricsSettings(Section):
    """How many series a scrape may have."""

    addresses_max: Annotated[int, Unit("addresses")] = Field(default=200, ge=0, le=1_000)
    """Addresses with series of their own; gauges of the others are added up under the name _other. Each address has up
    to twelve series, and two more for each reason for which a link was blocked there; Prometheus keeps all of them.
    """
