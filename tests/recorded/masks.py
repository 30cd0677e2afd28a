"""The few places of the broker's frames whose values are random or belong to the machine.

A mask names one field of one performative or method, the form that its value must have, and the reason. A value that
has another form is not masked. All other bytes of a conversation must be equal.

A *generated* value is one that the broker makes up and that the client or the broker uses again later, such as the name
of a queue. It is masked only where its mask says. From there on the value of the recording stands for the value of the
replay, in the bytes of both sides, and both have the same length.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from amqp10.load import wire
from tests.recorded.fields import (
    Place,
    is_content_header,
    method_of,
    performative_code,
    place_in_section,
    place_of_argument,
    place_of_field,
    place_of_header,
)

CONTENT_HEADER = "content header"
CONNECTION_START, QUEUE_DECLARE_OK, BASIC_CONSUME_OK = (10, 10), (50, 11), (60, 21)
START_ARGUMENTS = ("octet", "octet", "table")
MESSAGE_ANNOTATIONS = 0x72

HEADGATE = re.compile(rb"Headgate ([\w.+-]+)")
PYTHON = re.compile(rb"Python ([\w.+-]+)")
DYNAMIC_NODE = re.compile(rb"/queues/amq\.dyn-.*-([0-9a-f]{24})")
IDENTITY = re.compile(rb"([0-9a-f]{32})")
TIME = re.compile(rb"(.{8})", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Mask:
    """A place of the broker's frames whose value may differ."""

    name: str
    reason: str
    frame: int | tuple[int, int] | str
    """The code of a performative, class and method of AMQP 0.9.1, or its content header."""
    find: Callable[[bytes], Place | None]
    """Where the value is in such a frame; None where the frame does not have it."""
    form: re.Pattern[bytes]
    """The whole value has this form, in the recording and in the replay. The group of the form is what may differ."""
    generated: bool = False


MASKS = (
    # AMQP 1.0
    Mask(
        "information", "the version of Headgate, which each release changes",
        wire.OPEN, lambda frame: place_of_field(frame, (9, "information")), HEADGATE,
    ),
    Mask(
        "platform", "the version of Python, which the machine decides",
        wire.OPEN, lambda frame: place_of_field(frame, (9, "platform")), PYTHON,
    ),
    Mask(
        "dynamic node", "the end of the name of a dynamic node is random",
        wire.ATTACH, lambda frame: place_of_field(frame, (5, 0)), DYNAMIC_NODE, generated=True,
    ),
    Mask(
        "queue identity", "each declaration of a queue gets 32 random digits",
        wire.ATTACH, lambda frame: place_of_field(frame, (13, "headgate:queue-identity")), IDENTITY, generated=True,
    ),
    Mask(
        "first-time", "when a message was first dead-lettered",
        wire.TRANSFER,
        lambda frame: place_in_section(frame, MESSAGE_ANNOTATIONS, ("x-opt-deaths", 0, "first-time")), TIME,
    ),
    Mask(
        "last-time", "when a message was last dead-lettered",
        wire.TRANSFER,
        lambda frame: place_in_section(frame, MESSAGE_ANNOTATIONS, ("x-opt-deaths", 0, "last-time")), TIME,
    ),
    # AMQP 0.9.1
    Mask(
        "information of 0.9.1", "the version of Headgate, which each release changes",
        CONNECTION_START, lambda frame: place_of_argument(frame, START_ARGUMENTS, (2, "information")), HEADGATE,
    ),
    Mask(
        "platform of 0.9.1", "the version of Python, which the machine decides",
        CONNECTION_START, lambda frame: place_of_argument(frame, START_ARGUMENTS, (2, "platform")), PYTHON,
    ),
    Mask(
        "queue", "the end of the name that the broker gives a queue is random",
        QUEUE_DECLARE_OK, lambda frame: place_of_argument(frame, ("short string",), (0,)),
        re.compile(rb"amq\.gen-([0-9a-f]{32})"), generated=True,
    ),
    Mask(
        "consumer tag", "the end of the tag that the broker gives a consumer is random",
        BASIC_CONSUME_OK, lambda frame: place_of_argument(frame, ("short string",), (0,)),
        re.compile(rb"amq\.ctag-([0-9a-f]{32})"), generated=True,
    ),
    Mask(
        "reply-to", "the end of the name of a queue for direct replies is random",
        CONTENT_HEADER, lambda frame: place_of_header(frame, ("reply_to",)),
        re.compile(rb"amq\.rabbitmq\.reply-to\.([0-9a-f]{32})"), generated=True,
    ),
    Mask(
        "x-death", "when a message was first dead-lettered",
        CONTENT_HEADER, lambda frame: place_of_header(frame, ("headers", "x-death", 0, "time")), TIME,
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Masked:
    """A mask and its place in one frame."""

    mask: Mask
    place: Place

    def value(self, frame: bytes) -> bytes:
        """What stands there."""
        return frame[self.place.start : self.place.end]


def masked_in(frame: bytes) -> list[Masked]:
    """The masks that apply to a frame, in the order of their places."""
    kind = CONTENT_HEADER if is_content_header(frame) else method_of(frame) or performative_code(frame)
    found = []
    for mask in MASKS:
        if mask.frame != kind:
            continue
        place = mask.find(frame)
        if place is not None and (match := mask.form.fullmatch(frame, place.start, place.end)) is not None:
            found.append(Masked(mask, Place(*match.span(1), place.sizes)))
    return sorted(found, key=lambda one: one.place.start)


def without_masked(frame: bytes, found: list[Masked]) -> bytes:
    """The frame with the name of the mask in each masked place, and with sizes that fit."""
    for one in reversed(found):  # from the end on, so that the earlier places stay where they are
        place, name = one.place, f"<{one.mask.name}>".encode()
        changed = bytearray(frame[: place.start] + name + frame[place.end :])
        for offset, width in place.sizes:
            size = int.from_bytes(changed[offset : offset + width], "big") + len(name) - (place.end - place.start)
            changed[offset : offset + width] = (size % 256**width).to_bytes(width, "big")
        frame = bytes(changed)
    return frame
