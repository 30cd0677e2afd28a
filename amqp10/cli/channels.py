"""``headgate channels``: lists and shows the channels of AMQP 0.9.1."""

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
    help_text="Channels of AMQP 0.9.1, with the reason why a channel waits.",
)
