"""``headgate store`` with the compaction for messages of both protocols."""

from collections.abc import Iterable
from pathlib import Path

from amqp10.cli.store import store_commands


def compacted(folder: Path) -> Iterable[str]:
    """See :func:`amqp10.compaction.compacted`, which imports the engine: only the command that compacts needs it."""
    from amqp10 import compaction

    return compaction.compacted(folder)


store_app = store_commands(compacted)
