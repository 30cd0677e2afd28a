"""Settings of the stage credit: how many messages may wait between one stage of the broker and the next.

The defaults are RabbitMQ's. The numbers bound memory and set how soon a slow stage slows those before it, so they have
an upper limit. With ``more_after`` above ``initial``, no more stage credit would ever be granted.
"""

from pydantic import Field, ValidationInfo, field_validator

from core.config.section import Section
from core.config.units import Messages

INITIAL_MAX = 1_000_000
"""So many messages of 1 KiB each would take a gigabyte, between any two stages."""


class StageCreditSettings(Section):
    """The stage credit that each stage grants to the stages before it. It limits AMQP 0.9.1 publishers and writes to
    the message store."""

    initial: Messages = Field(default=400, ge=1, le=INITIAL_MAX)
    """How many messages an AMQP 0.9.1 reader may send to a channel, and a channel to a queue, before the first
    acknowledgement."""

    more_after: Messages = Field(default=200, ge=1, le=INITIAL_MAX)
    """How many acknowledged messages it takes until as many more are granted."""

    store_initial: Messages = Field(default=4000, ge=1, le=INITIAL_MAX)
    """How many messages a queue may send to the message store before any is written. Only bodies that go there
    count."""

    store_more_after: Messages = Field(default=800, ge=1, le=INITIAL_MAX)
    """How many written messages it takes until as many more are granted."""

    @field_validator("more_after")
    @classmethod
    def _within_initial(cls, more_after: int, info: ValidationInfo) -> int:
        return _not_above(more_after, info, "initial")

    @field_validator("store_more_after")
    @classmethod
    def _within_store_initial(cls, more_after: int, info: ValidationInfo) -> int:
        return _not_above(more_after, info, "store_initial")


def _not_above(value: int, info: ValidationInfo, name: str) -> int:
    """A sender is blocked after ``initial`` messages, and would wait for ever for the acknowledgement of more."""
    limit = info.data.get(name)
    if limit is not None and value > limit:
        raise ValueError(f"must not be more than {name}, which is {limit}")
    return value
