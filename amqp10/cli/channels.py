"""``headgate channels``."""

from amqp10.cli.listing import noun

channels_app = noun(
    "channels",
    columns=(
        "identity",
        "stage_credit_state",
        "stage_credit_held_up_by",
        "waiting_publishes",
        "unconfirmed",
        "consumers",
        "unacked",
        "prefetch_count",
    ),
    help_text="AMQP 0.9.1 channels, with what holds them up.",
)
