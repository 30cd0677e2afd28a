"""The targets of the engine that addresses name."""

from amqp10.addresses import target_names
from core.interface import ExchangeTarget, QueueTarget, Target


def parse_target(address: object) -> Target:
    """Where a target's address, or the ``to`` of a message, leads. Raises AddressError."""
    exchange, name = target_names(address)
    return QueueTarget(name) if exchange is None else ExchangeTarget(exchange, name)
