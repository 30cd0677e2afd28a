"""What the three distributions of this tree take from it, and require of one another: a build hook of hatchling.

``files`` are the files and folders of the tree that a project below ``distributions`` consists of. A checkout has them
at its top; a source distribution has them beside its ``pyproject.toml``, where hatchling finds them.

``requires`` are the other distributions. In a wheel such a requirement becomes one of these:

- ``amqp10 @ file:///…/distributions/amqp10``, so that ``pip install .`` in a checkout finds the library there too;
- ``amqp10==0.1.0``, the version that is being built, where ``distributions/build.py`` makes wheels for others, and in a
  wheel that is made from a source distribution;
- nothing for ``pip install --editable .``, which puts the whole tree on the path, the library included.
"""

import os
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

BY_VERSION = "HEADGATE_SIBLINGS_BY_VERSION"
"""The variable of the environment that is set while distributions are made for others."""


class PartOfTheTree(BuildHookInterface[Any]):
    """Adds files of the tree to a distribution, and requirements to the metadata of a wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Hatchling calls this before it makes a distribution. A wheel has the ``version`` standard or editable."""
        root = Path(self.root)
        if not (root / "PKG-INFO").is_file():
            for path in self.config.get("files", ()):
                build_data["force_include"][str(root.parent.parent / path)] = path
        own = Path(__file__).name
        if self.target_name == "sdist":
            if (root / own).is_symlink():  # in an archive a link would lead nowhere
                build_data["force_include"][str(Path(__file__).resolve())] = own
        elif version != "editable":
            build_data["dependencies"] += map(self._requirement, self.config.get("requires", ()))

    def _requirement(self, text: str) -> str:
        name, semicolon, marker = text.partition(";")
        root = Path(self.root)
        if BY_VERSION in os.environ or (root / "PKG-INFO").is_file():
            return f"{name}=={self.metadata.version}{semicolon}{marker}"
        distributions = Path(__file__).resolve().parent
        return f"{name} @ {(distributions / name).as_uri()} {semicolon}{marker}"
