"""``headgate store`` as the whole broker has it: with the compaction that knows both protocols."""

from amqp10.cli.store import store_commands
from amqp10.compaction import compacted

store_app = store_commands(compacted)
