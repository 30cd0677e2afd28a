"""``headgate stalls``: lists and shows the links and readers that wait."""

from amqp10.cli.listing import noun

stalls_app = noun(
    "stalls",
    columns=("identity", "direction", "address", "reason", "culprit", "since", "seconds", "container_id"),
    help_text="Links and AMQP 0.9.1 readers that wait now, with the reason and what has to change.",
)
