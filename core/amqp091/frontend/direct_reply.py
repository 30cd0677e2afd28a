"""Direct reply-to: answers to a request without declaring a queue for them.

A client consumes from the pseudo-queue ``amq.rabbitmq.reply-to`` and publishes requests with this name as ``reply-to``.
Behind it stands an exclusive queue that goes with its consumer, under a name that cannot be guessed, and requests go
out with that name. The answerer publishes to the default exchange with it as the routing key, on either protocol.
"""

DIRECT_REPLY_TO = "amq.rabbitmq.reply-to"

PREFIX = DIRECT_REPLY_TO + "."


def reply_queue_name(unique: str) -> str:
    """The name of a queue for direct replies."""
    return PREFIX + unique


def is_reply_queue(name: str) -> bool:
    """True for the name of a queue for direct replies."""
    return name.startswith(PREFIX)
