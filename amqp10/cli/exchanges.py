"""``headgate exchanges``."""

from amqp10.cli.listing import noun

exchanges_app = noun(
    "exchanges",
    columns=("name", "type", "durable", "auto_delete", "internal", "arguments"),
    help_text="Exchanges.",
)
