"""``headgate completion``: what a shell needs in order to complete commands and options."""

from typing import Annotated, Literal

from cyclopts import Parameter

from amqp10.cli.main import command_line


def completion_command(
    shell: Annotated[Literal["bash", "zsh", "fish"], Parameter(help="For which shell.")],
    /,
) -> None:
    """Print the script that makes a shell complete the commands and options of headgate.

    For example:

        headgate completion bash > ~/.local/share/bash-completion/completions/headgate
        headgate completion zsh > ~/.zfunc/_headgate
        headgate completion fish > ~/.config/fish/completions/headgate.fish
    """
    print(command_line(complete=True).generate_completion(shell=shell), end="")
