"""A built wheel, and what can be read of it."""

import ast
from email.parser import HeaderParser
from pathlib import Path
from zipfile import ZipFile

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

NAMES = {"amqp10", "headgate", "pyspark-amqp10"}
"""The distributions of this tree."""


class Wheel:
    """A built wheel."""

    def __init__(self, path: Path) -> None:
        with ZipFile(path) as archive:
            self.files = {name: archive.read(name) for name in archive.namelist()}
        stem, self.version = path.name.split("-")[:2]
        self.name = canonicalize_name(stem)
        self.metadata = HeaderParser().parsestr(self.files[f"{stem}-{self.version}.dist-info/METADATA"].decode())

    def in_any_order(self) -> dict[str, list[bytes]]:
        """The lines of each file; the list of files is in the order in which they were found."""
        return {
            name: sorted(content.splitlines()) if name.endswith("/RECORD") else [content]
            for name, content in self.files.items()
        }

    @property
    def requirements(self) -> list[Requirement]:
        return [Requirement(text) for text in self.metadata.get_all("Requires-Dist", [])]

    def always(self) -> set[str]:
        """The requirements of the wheel without an extra."""
        return {canonicalize_name(one.name) for one in self.requirements if one.marker is None}

    def of_others(self, extra: str = "") -> list[str]:
        """The requirements on other projects, with this extra."""
        return [
            str(one)
            for one in self.requirements
            if canonicalize_name(one.name) not in NAMES
            and (one.marker is None or one.marker.evaluate({"extra": extra}))
        ]

    def imported(self) -> set[str]:
        """The top-level packages that its modules import."""
        found = set()
        for name, content in self.files.items():
            for node in ast.walk(ast.parse(content)) if name.endswith(".py") else ():
                if isinstance(node, ast.Import):
                    found |= {alias.name.partition(".")[0] for alias in node.names}
                elif isinstance(node, ast.ImportFrom) and node.module is not None:
                    found.add(node.module.partition(".")[0])
        return found
