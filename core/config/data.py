"""Settings of the data folder."""

from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator

from core.config.section import Section


def _parse_path(value: object) -> object:
    return Path(value) if isinstance(value, str) else value


class DataSettings(Section):
    """Where the broker keeps the data that must outlive it."""

    folder: Annotated[Path, BeforeValidator(_parse_path)] = Path(".headgate")
    """The data folder; it is created when it does not exist."""
