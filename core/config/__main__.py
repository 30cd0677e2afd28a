"""Writes the generated configuration file: ``python -m core.config config/broker.toml``."""

import sys
from pathlib import Path

from core.config.render import render_default

if __name__ == "__main__":
    Path(sys.argv[1]).write_text(render_default(), encoding="utf-8")
