"""``headgate sessions``."""

from amqp10.cli.listing import noun

sessions_app = noun(
    "sessions",
    columns=("identity", "links", "incoming_window", "remote_incoming_window", "unsettled_in", "unsettled_out"),
    help_text="Sessions with their windows, as the broker sees them.",
)
