"""``headgate completion``: prints the script with which a shell completes commands and options.

The scripts are files beside this one. Making a script takes half a second of CPU, because cyclopts imports every
command for it. ``docs/generate.py`` writes the files when commands change, and a test compares.
"""

from pathlib import Path

SHELLS = ("bash", "zsh", "fish")
SCRIPTS = Path(__file__).with_name("completions")


def print_script(shell: str) -> None:
    """Print the script for one of :data:`SHELLS`."""
    print(script_of(shell).read_text(encoding="utf-8"), end="")


def script_of(shell: str) -> Path:
    """The file with the script for one of :data:`SHELLS`."""
    return SCRIPTS / f"headgate.{shell}"
