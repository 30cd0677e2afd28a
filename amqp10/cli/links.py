"""``headgate links``."""

from amqp10.cli.listing import noun

links_app = noun(
    "links",
    columns=("identity", "direction", "address", "link_credit", "delivery_count", "unconfirmed", "waiting", "name"),
    help_text="Links with their link credit, as the broker sees them: in is from a publisher, out is to a consumer.",
)
