"""``headgate completion``: prints the script with which a shell completes commands and options.

The scripts are files beside this one. Making a script takes half a second of CPU, because cyclopts imports every
command for it. ``docs/generate.py`` writes the files when commands change, and a test compares.
"""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

SHELLS = ("bash", "zsh", "fish")
SCRIPTS = Path(__file__).with_name("completions")


def completion_command(
    shell: Annotated[Literal["bash", "zsh", "fish"], Parameter(help="The shell that will run the script.")],
    /,
) -> None:
    """Print the script that makes a shell complete the commands and options of headgate.

    For example:

        headgate completion bash > ~/.local/share/bash-completion/completions/headgate
        headgate completion zsh > ~/.zfunc/_headgate
        headgate completion fish > ~/.config/fish/completions/headgate.fish
    """
    print(script_of(shell).read_text(encoding="utf-8"), end="")


def script_of(shell: str) -> Path:
    """The file with the script for one of :data:`SHELLS`."""
    return SCRIPTS / f"headgate.{shell}"
