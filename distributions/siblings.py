"""What the three distributions of this tree require of one another: a build hook of hatchling.

A requirement that stands under ``requires`` of the hook becomes one of these:

- ``amqp10 @ file:///…/distributions/amqp10``, so that ``pip install .`` in a checkout finds the library there too;
- ``amqp10==0.1.0``, the version that is being built, where ``distributions/build.py`` makes wheels for others;
- nothing for ``pip install --editable .``, which puts the whole tree on the path, the library included.
"""

import os
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

HERE = Path(__file__).resolve().parent
BY_VERSION = "HEADGATE_SIBLINGS_BY_VERSION"
"""The variable of the environment that is set while wheels are made for others."""


class SiblingRequirements(BuildHookInterface[Any]):
    """Adds the requirements to the metadata of a wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Hatchling calls this before it makes a wheel. ``version`` is the kind of wheel: standard or editable."""
        if version == "editable":
            return
        for requirement in self.config["requires"]:
            name, semicolon, marker = requirement.partition(";")
            found = f"=={self.metadata.version}" if BY_VERSION in os.environ else f" @ {(HERE / name).as_uri()} "
            build_data["dependencies"].append(f"{name}{found}{semicolon}{marker}")
