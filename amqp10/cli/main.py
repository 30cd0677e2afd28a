"""The command ``headgate``: its nouns and verbs, and how a run of it ends.

Each noun is a file of its own beside this one; all but ``serve``, ``config``, ``store`` and ``hash-password`` speak
with a running broker by way of :mod:`amqp10.client` and know nothing else of it.
"""

import os
import sys

from cyclopts import App, CycloptsError

from amqp10.cli.alarms import alarms_app
from amqp10.cli.bindings import bindings_app
from amqp10.cli.channels import channels_app
from amqp10.cli.config import config_app
from amqp10.cli.connections import connections_app
from amqp10.cli.consume import consume_command
from amqp10.cli.disk import disk_app
from amqp10.cli.exchanges import exchanges_app
from amqp10.cli.exits import EPILOGUE, CommandError, Exit, complain
from amqp10.cli.hash_password import hash_password_command
from amqp10.cli.links import links_app
from amqp10.cli.memory import memory_app
from amqp10.cli.policies import policies_app
from amqp10.cli.publish import publish_command
from amqp10.cli.queues import queues_app
from amqp10.cli.serve import serve_command
from amqp10.cli.sessions import sessions_app
from amqp10.cli.stages import stages_app
from amqp10.cli.stalls import stalls_app
from amqp10.cli.status import status_command
from amqp10.cli.store import store_commands
from amqp10.cli.why import why_command
from amqp10.compaction import compacted
from core.process import headgate_version

NOUNS = (
    queues_app,
    exchanges_app,
    bindings_app,
    connections_app,
    sessions_app,
    links_app,
    channels_app,
    stages_app,
    stalls_app,
    policies_app,
    alarms_app,
    memory_app,
    disk_app,
    config_app,
)


def command_line() -> App:
    """The whole command line."""
    app = App(
        name="headgate",
        help="Headgate, an AMQP 1.0 message broker that tells why a publisher waits.",
        help_epilogue=EPILOGUE,
        help_format="markdown",
        version=headgate_version,
    )
    app.command(serve_command, name="serve")
    app.command(status_command, name="status")
    app.command(why_command, name="why")
    app.command(publish_command, name="publish")
    app.command(consume_command, name="consume")
    for noun in NOUNS:
        app.command(noun)
    app.command(store_commands(compacted))
    app.command(hash_password_command, name="hash-password")
    return app


def main() -> None:
    """Run the command that was typed, and exit with one of :class:`Exit`."""
    sys.exit(run(sys.argv[1:]))


def run(words: list[str]) -> Exit:
    """Run one command. Prints what is wrong with it, if anything is."""
    try:
        command_line()(words, exit_on_error=False, result_action="return_value")
    except CycloptsError:
        return Exit.USAGE  # told already
    except CommandError as error:
        complain(error.text)
        return error.code
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except BrokenPipeError:  # whoever read our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return Exit.DONE
