"""``headgate stages``: lists and shows the stages of stage credit."""

from amqp10.cli.listing import noun

stages_app = noun(
    "stages",
    columns=("name", "kind", "state", "held_up_by", "blocks", "blocked_seconds"),
    help_text="Queues and the message store as stages of stage credit, with the stage that each one waits for.",
)
