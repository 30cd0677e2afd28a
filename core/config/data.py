"""Settings of the data folder."""

from pathlib import Path

from core.config.section import Section
from core.config.units import FilePath


class DataSettings(Section):
    """Where the broker keeps the data that must outlive it."""

    folder: FilePath = Path(".headgate")
    """The data folder; it is created when it does not exist."""
