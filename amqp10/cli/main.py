"""The command ``headgate``: its nouns and verbs, and how a run of it ends.

Each noun is a file of its own beside this one; all but ``serve``, ``config`` and ``hash-password`` speak with a
running broker by way of :mod:`amqp10.client` and know nothing else of it.
"""

import sys

from cyclopts import App, CycloptsError

from amqp10.cli.config import config_app
from amqp10.cli.exits import EPILOGUE, CommandError, Exit, complain
from amqp10.cli.serve import serve_command
from amqp10.serve import headgate_version


def command_line() -> App:
    """The whole command line."""
    app = App(
        name="headgate",
        help="Headgate, an AMQP 1.0 message broker that tells why a publisher waits.",
        help_epilogue=EPILOGUE,
        version=headgate_version,
    )
    app.command(serve_command, name="serve")
    app.command(config_app)
    return app


def main() -> None:
    """Run the command that was typed, and exit with one of :class:`Exit`."""
    sys.exit(run(sys.argv[1:]))


def run(words: list[str]) -> Exit:
    """Run one command. Prints what is wrong with it, if anything is."""
    try:
        command_line()(words, exit_on_error=False, print_error=True, result_action="return_value")
    except CycloptsError:
        return Exit.USAGE
    except CommandError as error:
        complain(error.text)
        return error.code
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    return Exit.DONE
