"""``headgate bindings``."""

from amqp10.cli.listing import noun

bindings_app = noun(
    "bindings",
    columns=("source", "binding_key", "destination", "destination_is_queue", "arguments"),
    help_text="Bindings, from exchanges to queues and other exchanges.",
)
