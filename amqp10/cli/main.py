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
    "serve": "serve:serve_command",
    "status": "status:status_command",
    "why": "why:why_app",
    "top": "top:top_command",
    "drain": "drain:drain_command",
    "undrain": "drain:undrain_command",
    "publish": "publish:publish_command",
    "consume": "consume:consume_command",
    "queues": "queues:queues_app",
    "exchanges": "exchanges:exchanges_app",
    "bindings": "bindings:bindings_app",
    "connections": "connections:connections_app",
    "sessions": "sessions:sessions_app",
    "links": "links:links_app",
    "channels": "channels:channels_app",
    "stages": "stages:stages_app",
    "stalls": "stalls:stalls_app",
    "policies": "policies:policies_app",
    "definitions": "definitions:definitions_app",
    "alarms": "alarms:alarms_app",
    "memory": "memory:memory_app",
    "disk": "disk:disk_app",
    "check": "check:check_app",
    "config": "config:config_app",
    "trace": "trace:trace_app",
    "debug": "bundle:debug_app",
    "pipeline": "pipeline:pipeline_app",
    "store": "store_app:store_app",
    "hash-password": "hash_password:hash_password_command",
    "completion": "completion:completion_command",
}
"""By name: the module beside this one and what in it is the command. It is imported when it is wanted: all of them take
most of a second, and one that asks a broker a quarter of that."""
OBJECTS_BEFORE_COLLECTION = 50_000
"""Loading a command makes about so many objects, which stay; to look for garbage among them is a tenth of its time."""
ALIASES = {"links": ("links", "link")}


def command_line(*, complete: bool = False) -> App:
    """The whole command line. ``complete``: with every command loaded, as for help on all of them."""
    app = App(
        name="headgate",
        help="Headgate, an AMQP 1.0 message broker that tells why a publisher waits.",
        help_epilogue=EPILOGUE,
        help_format="markdown",
        version=headgate_version,
    )
    for name, place in COMMANDS.items():
        app.command(f"amqp10.cli.{place}", name=ALIASES.get(name, name))
    if complete:
        for name in COMMANDS:
            app[name]  # cyclopts loads what is looked at
    return app


def main() -> None:
    """Run the command that was typed, and exit with one of :class:`Exit`."""
    gc.set_threshold(OBJECTS_BEFORE_COLLECTION)
    sys.exit(run(sys.argv[1:]))


def run(words: list[str]) -> Exit:
    """Run one command. Prints what is wrong with it, if anything is."""
    try:
        app = command_line(complete=not words or words[0] in ("--help", "-h"))
        app(words, exit_on_error=False, result_action="return_value")
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
