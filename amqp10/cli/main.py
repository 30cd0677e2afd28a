"""The command ``headgate``: the table of its commands, and how a run of it ends.

Each command is a module of its own beside this one. ``serve``, ``config``, ``store``, ``hash-password``, ``top``,
``completion`` and ``pipeline`` work without a connection over AMQP. The other commands ask a running broker, with the
functions of :mod:`amqp10.cli.remote`.
"""

import gc
import os
import sys
from typing import TYPE_CHECKING, Literal

from amqp10.cli.exits import EPILOGUE, CommandError, Exit, complain
from core.version import headgate_version

if TYPE_CHECKING:
    from cyclopts import App

COMMANDS = {
    "serve": ("serve:serve_command", "Run the broker until it is interrupted or terminated."),
    "status": (
        "status:status_command",
        "Show version, process id, listeners, alarms that are on, and file descriptors.",
    ),
    "why": (
        "why:why_app",
        (
            "Tell what holds a connection, a link or a queue up: the first edge that blocks on the way from publisher"
            " to consumer, its figures, since when, and what to do."
        ),
    ),
    "top": (
        "top:top_command",
        "Show the links of a broker every second until q is pressed. Links that wait come first, with the reason.",
    ),
    "drain": ("drain:drain_command", "Let a broker finish its work before it is stopped."),
    "undrain": ("drain:undrain_command", "End what headgate drain has begun: the broker serves as usual again."),
    "publish": ("publish:publish_command", "Send messages and wait until the broker has accepted all of them."),
    "consume": ("consume:consume_command", "Receive messages, print each body as a line, and accept it."),
    "queues": (
        "queues:queues_app",
        "Queues: list, show, declare, delete and purge queues; look at messages, move messages.",
    ),
    "exchanges": ("exchanges:exchanges_app", "Exchanges: list, show, declare and delete exchanges."),
    "bindings": (
        "bindings:bindings_app",
        "Bindings from exchanges to queues and other exchanges: list, show, create and delete bindings.",
    ),
    "connections": (
        "connections:connections_app",
        "Connections: list and show the connections of clients; close a connection.",
    ),
    "sessions": (
        "sessions:sessions_app",
        "Sessions of AMQP 1.0 with their windows, as the broker sees them; close a session.",
    ),
    "links": (
        "links:links_app",
        (
            "Links with their link credit, as the broker sees them: the direction is in for the link of a publisher,"
            " and out for the link of a consumer. Pause and resume a link, limit its link credit, close a link."
        ),
    ),
    "channels": ("channels:channels_app", "Channels of AMQP 0.9.1, with the reason why a channel waits."),
    "stages": (
        "stages:stages_app",
        "Queues and the message store as stages of stage credit, with the stage that each one waits for.",
    ),
    "stalls": (
        "stalls:stalls_app",
        "Links and AMQP 0.9.1 readers that wait now, with the reason and what has to change.",
    ),
    "policies": (
        "policies:policies_app",
        "Policies: settings for all queues and exchanges whose names match a pattern.",
    ),
    "definitions": (
        "definitions:definitions_app",
        "Exchanges, queues, bindings and policies as a file: export, diff, apply. Files of RabbitMQ can be read too.",
    ),
    "alarms": (
        "alarms:alarms_app",
        "Alarms and notices. Publishers wait while an alarm is on. Raise and clear alarms by hand.",
    ),
    "memory": ("memory:memory_app", "Memory: how much the broker uses, and the watermark above which publishers wait."),
    "disk": ("disk:disk_app", "Disk space: how much is free, and the limit below which publishers wait."),
    "check": (
        "check:check_app",
        "Check whether a broker is live, is ready and has no alarm, or whether a data folder is sound.",
    ),
    "config": ("config:config_app", "Check and show configurations."),
    "trace": ("trace:trace_app", "Show the frames that a client and the broker send to each other."),
    "debug": ("bundle:debug_app", "Write the state of a broker to a file, to analyse a problem later."),
    "pipeline": (
        "pipeline:pipeline_app",
        "The data pipeline on Spark: it makes tables of flow events, and a report that names the bottleneck.",
    ),
    "store": (
        "store_app:store_app",
        "The data folder of a stopped broker: check it, compact it, recover data that was set aside.",
    ),
    "hash-password": (
        "hash_password:hash_password_command",
        "Read a password and print its keys, which a table of users in the configuration takes.",
    ),
    "completion": (
        "completion:completion_command",
        "Print the script that makes a shell complete the commands and options of headgate.",
    ),
}
"""The commands by name: the module and the object in it, and the command's line in the overview.

The line is the beginning of the command's own help, which a test compares. A module is imported when its command runs:
all modules together take half a second of CPU to import.
"""
OBJECTS_BEFORE_COLLECTION = 100_000
"""Python searches for garbage after so many new objects. A command that asks a broker makes 75,000 objects, nearly all
while modules are imported. These objects stay, so a search is useless, and takes a tenth of the command's time.
A broker makes 150,000 objects while it starts; without one search in the middle it would keep 0.5 MiB more."""
ALIASES = {"links": ("links", "link")}
NAMES = frozenset(COMMANDS) | {alias for names in ALIASES.values() for alias in names}
"""The names and aliases of all commands."""


def command_line(*, complete: bool = False) -> "App":
    """The whole command line. With ``complete`` the module of every command is imported, for completion and tests."""
    app = _program("markdown")
    for name, (place, _) in COMMANDS.items():
        app.command(f"amqp10.cli.{place}", name=ALIASES.get(name, name))
    if complete:
        for name in COMMANDS:
            app[name]  # cyclopts imports a command when it is looked up
    return app


def outline() -> "App":
    """A command line with the names of all commands and the beginnings of their help. Its commands do nothing.

    It answers ``headgate --help`` and a mistyped command. For the list of names in an answer, cyclopts would import
    every command of the whole command line.
    """
    from cyclopts import App

    app = _program("plaintext")  # Markdown takes 35 ms of CPU to import, and there is none in these lines
    for name, (_, beginning) in COMMANDS.items():
        app.command(App(name=ALIASES.get(name, name), help=beginning))
    return app


def _program(help_format: Literal["markdown", "plaintext"]) -> "App":
    from cyclopts import App  # here and not above: main first tells Python to search for garbage less often

    return App(
        name="headgate",
        help="Headgate, an AMQP 1.0 message broker that tells why a publisher waits.",
        help_epilogue=EPILOGUE,
        help_format=help_format,
        version=headgate_version,
        version_format="plaintext",
    )


def main() -> None:
    """Run the command of ``sys.argv``, and end the process with a code of :class:`Exit`."""
    gc.set_threshold(OBJECTS_BEFORE_COLLECTION)
    code = run(sys.argv[1:])
    gc.freeze()  # or Python would search all objects for garbage at its end, which takes 20 ms of CPU
    sys.exit(code)


def run(words: list[str]) -> Exit:
    """Run one command and return its exit code. An error of the command is printed on standard error."""
    from cyclopts import CycloptsError

    try:
        name = next((word for word in words if not word.startswith("-")), None)
        app = command_line() if name in NAMES else outline()
        app(words, exit_on_error=False, result_action="return_value")
    except CycloptsError:
        return Exit.USAGE  # cyclopts has printed the error
    except CommandError as error:
        complain(error.text)
        return error.code
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except BrokenPipeError:  # the reader of our output has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return Exit.DONE
