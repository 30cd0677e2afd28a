"""Settings of the stage credit: how many messages may wait between one stage of the broker and the next.

The defaults are RabbitMQ's. The numbers bound memory and set how soon slowness is felt upstream, so they have a most;
``more_after`` above ``initial`` would be a grant that nobody ever gets.
"""

from pydantic import Field, ValidationInfo, field_validator

from core.config.section import Section
from core.config.units import Messages

INITIAL_MAX = 1_000_000
"""Of 1 KiB each they would be a gigabyte, on every edge."""


class StageCreditSettings(Section):
    """What a stage gives each of those before it. AMQP 0.9.1 publishers and the message store are held by it."""

    initial: Messages = Field(default=400, ge=1, le=INITIAL_MAX)
    """What an AMQP 0.9.1 reader may send to a channel, and a channel to a queue, before anything is acknowledged."""

    more_after: Messages = Field(default=200, ge=1, le=INITIAL_MAX)
    """So many more are granted whenever so many have been acknowledged."""

    store_initial: Messages = Field(default=4000, ge=1, le=INITIAL_MAX)
    """What a queue may send to the message store before anything is written. Only bodies that go there count."""

    store_more_after: Messages = Field(default=800, ge=1, le=INITIAL_MAX)
    """So many more are granted whenever so many have been written."""

    @field_validator("more_after")
    @classmethod
    def _within_initial(cls, more_after: int, info: ValidationInfo) -> int:
        return _not_above(more_after, info, "initial")

    @field_validator("store_more_after")
    @classmethod
    def _within_store_initial(cls, more_after: int, info: ValidationInfo) -> int:
        return _not_above(more_after, info, "store_initial")


def _not_above(value: int, info: ValidationInfo, name: str) -> int:
    """A sender is blocked after ``initial`` messages, and would wait for ever for more of them to be acknowledged."""
    limit = info.data.get(name)
    if limit is not None and value > limit:
        raise ValueError(f"must not be more than {name}, which is {limit}")
    return value
