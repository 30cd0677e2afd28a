"""The command ``headgate``: its nouns and verbs, and how a run of it ends.

Each noun is a file of its own beside this one; all but ``serve``, ``config``, ``store``, ``hash-password``, ``top`` and
``pipeline`` speak with a running broker by way of :mod:`amqp10.client` and know nothing else of it.
"""

import gc
import os
import sys

from cyclopts import App, CycloptsError

from amqp10.cli.exits import EPILOGUE, CommandError, Exit, complain
from core.version import headgate_version

COMMANDS = {
    "serve": ("serve:serve_command", "Run the broker until it is interrupted or terminated."),
    "status": (
        "status:status_command",
        "Show version, process id, listeners, alarms that are on, and file descriptors.",
    ),
    "why": (
        "why:why_app",
        (
            "Tell what holds somebody up: the first edge that blocks on the way from publisher to consumer, its"
            " figures, since when, and what to do."
        ),
    ),
    "top": (
        "top:top_command",
        "Show the links of a broker, those first that wait, and why: again each second, until q is pressed.",
    ),
    "drain": ("drain:drain_command", "Let a broker finish what is under way, before it is stopped."),
    "undrain": ("drain:undrain_command", "Let a broker serve as usual again, after headgate drain."),
    "publish": ("publish:publish_command", "Send messages and wait until the broker has accepted all of them."),
    "consume": ("consume:consume_command", "Receive messages, print each body as a line, and accept it."),
    "queues": ("queues:queues_app", "Queues: list, show, declare, delete and purge them; look at messages, move them."),
    "exchanges": ("exchanges:exchanges_app", "Exchanges: list, show, declare and delete them."),
    "bindings": (
        "bindings:bindings_app",
        "Bindings, from exchanges to queues and other exchanges: list, show, create and delete them.",
    ),
    "connections": ("connections:connections_app", "Who is connected; close a connection."),
    "sessions": ("sessions:sessions_app", "Sessions with their windows, as the broker sees them; close a session."),
    "links": (
        "links:links_app",
        (
            "Links with their link credit, as the broker sees them: in is from a publisher, out is to a consumer."
            " Pause and resume a link, bound its link credit, close it."
        ),
    ),
    "channels": ("channels:channels_app", "AMQP 0.9.1 channels, with what holds them up."),
    "stages": ("stages:stages_app", "Queues and the message store as stages of stage credit, with what holds them up."),
    "stalls": (
        "stalls:stalls_app",
        "Links and AMQP 0.9.1 readers that stand still now, with the reason and what has to change.",
    ),
    "policies": ("policies:policies_app", "Policies: settings for queues and exchanges, by patterns of their names."),
    "definitions": (
        "definitions:definitions_app",
        "Exchanges, queues, bindings and policies as a file: export, diff, apply. Files of RabbitMQ are read as well.",
    ),
    "alarms": (
        "alarms:alarms_app",
        "Alarms: while one is on, publishers wait; notices are only shown. Raise and clear alarms by hand.",
    ),
    "memory": ("memory:memory_app", "Memory: how much is used, and the watermark above which publishers wait."),
    "disk": ("disk:disk_app", "Disk space: how much is free, and the limit below which publishers wait."),
    "check": ("check:check_app", "Ask whether the broker is live, is ready, has alarms, or has a sound data folder."),
    "config": ("config:config_app", "Check and show configurations."),
    "trace": ("trace:trace_app", "What a connection and the broker say to each other."),
    "debug": ("bundle:debug_app", "Gather what somebody needs who was not there."),
    "pipeline": (
        "pipeline:pipeline_app",
        "The data pipeline on Spark: flow events become tables, and tables become a report that names the bottleneck.",
    ),
    "store": (
        "store_app:store_app",
        "The data folder of a broker that is stopped: check, compact, give back what was set aside.",
    ),
    "hash-password": (
        "hash_password:hash_password_command",
        "Read a password and print its keys, for ``scram`` in a ``[[users]]`` table of the configuration.",
    ),
    "completion": (
        "completion:completion_command",
        "Print the script that makes a shell complete the commands and options of headgate.",
    ),
}
"""By the name: the module beside this one and what in it is the command; and what the overview says of it, which is how
the command's own help begins (a test compares). A module is imported when it is wanted: all of them take most of a
second, and one that asks a broker a quarter of that."""
OBJECTS_BEFORE_COLLECTION = 100_000
"""A command that asks a broker makes 75,000 objects, nearly all while it is loaded; they stay, and to look for garbage
among them is a tenth of its time. A broker makes 150,000: without one look in the middle it keeps 0.5 MiB more."""
ALIASES = {"links": ("links", "link")}
NAMES = frozenset(COMMANDS) | {alias for names in ALIASES.values() for alias in names}
"""The first words that are commands."""


def command_line(*, complete: bool = False) -> App:
    """The whole command line. ``complete``: with every command loaded, for the completion of a shell."""
    app = _program()
    for name, (place, _) in COMMANDS.items():
        app.command(f"amqp10.cli.{place}", name=ALIASES.get(name, name))
    if complete:
        for name in COMMANDS:
            app[name]  # cyclopts loads what is looked at
    return app


def outline() -> App:
    """The command line with the names of the commands and the beginnings of their help, and nothing behind them.

    It answers ``headgate --help`` and a mistyped command. The whole command line would import every command for its
    list of names, which takes half a second.
    """
    app = _program()
    for name, (_, beginning) in COMMANDS.items():
        app.command(App(name=ALIASES.get(name, name), help=beginning))
    return app


def _program() -> App:
    return App(
        name="headgate",
        help="Headgate, an AMQP 1.0 message broker that tells why a publisher waits.",
        help_epilogue=EPILOGUE,
        help_format="markdown",
        version=headgate_version,
        version_format="plaintext",
    )


def main() -> None:
    """Run the command that was typed, and exit with one of :class:`Exit`."""
    gc.set_threshold(OBJECTS_BEFORE_COLLECTION)
    sys.exit(run(sys.argv[1:]))


def run(words: list[str]) -> Exit:
    """Run one command. Prints what is wrong with it, if anything is."""
    try:
        name = next((word for word in words if not word.startswith("-")), None)
        app = command_line() if name in NAMES else outline()
        app(words, exit_on_error=False, result_action="return_value")
    except CycloptsError:
        return Exit.USAGE  # told already
    except CommandError as error:
        complain(error.text)
        return error.code
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except BrokenPipeError:  # the reader of our output has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return Exit.DONE
