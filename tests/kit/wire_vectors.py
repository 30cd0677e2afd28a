"""Reads the byte vectors of ``tests/wire``. A line is hexadecimal bytes, an equals sign, and the value that they
encode."""

from pathlib import Path
from typing import NamedTuple

WIRE = Path(__file__).parent.parent / "wire"


class Vector(NamedTuple):
    """One line of a vector file."""

    section: str
    encoded: bytes
    meaning: str
    alternative: bool
    """True for an encoding that we accept and do not produce: its line begins with an asterisk."""

    def __str__(self) -> str:
        return f"[{self.section}] {self.encoded.hex(' ')[:40]}"


def vectors(file_name: str) -> list[Vector]:
    """The vectors of a file; comments and empty lines are left out."""
    found = []
    section = ""
    for line in (WIRE / file_name).read_text("utf-8").splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif line and not line.startswith("#"):
            encoded, meaning = line.split(" = ", 1)
            alternative = encoded.startswith("* ")
            found.append(Vector(section, bytes.fromhex(encoded.removeprefix("* ")), meaning, alternative))
    assert found, f"{file_name} holds no vectors"
    return found
