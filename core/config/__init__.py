"""The configuration: one typed schema, read from one TOML file. Its public names.

It imports none of the rooms that it configures. Begin reading with ``settings.py``.
"""

from core.config.access import ScramKeys, UserSettings
from core.config.problems import ConfigError
from core.config.reader import load, load_with_origins
from core.config.render import origins as render_origins
from core.config.render import render, render_default
from core.config.settings import Settings

__all__ = [
    "ConfigError",
    "ScramKeys",
    "Settings",
    "UserSettings",
    "load",
    "load_with_origins",
    "render",
    "render_default",
    "render_origins",
]
