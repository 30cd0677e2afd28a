"""The few places of the broker's frames whose values are random or belong to the machine.

A mask names one field of one performative or method, the form that its value must have, and the reason. A value that
has another form is not masked. All other bytes of a conversation must be equal.

A *generated* value is one that the broker makes up and that the client or the broker uses again later, such as the name
of a queue. It is masked only where its mask says. From there on the value of the recording stands for the value of the
replay, in the bytes of both sides, and both have the same length.
"""

import re
from dataclasses import dataclass

from bench.load import wire
from tests.recorded.fields import Path, Place, method_of, performative_code, place_of_argument, place_of_field

DYNAMIC_NODE = re.compile(rb"/queues/amq\.dyn-.*-([0-9a-f]{24})")


@dataclass(frozen=True, slots=True)
class Mask:
    """A place of the broker's frames whose value may differ."""

    name: str
    reason: str
    frame: int | tuple[int, int]
    """The code of a performative, or class and method of AMQP 0.9.1."""
    path: Path
    form: re.Pattern[bytes]
    """The whole value has this form, in the recording and in the replay. The group of the form is what may differ."""
    generated: bool = False
    layout: tuple[str, ...] = ()
    """The types of the method's arguments; see ``place_of_argument``."""


MASKS = (
    Mask(
        "information",
        "the version of Headgate, which each release changes",
        wire.OPEN,
        (9, "information"),
        re.compile(rb"Headgate ([\w.+-]+)"),
    ),
    Mask(
        "platform",
        "the version of Python, which the machine decides",
        wire.OPEN,
        (9, "platform"),
        re.compile(rb"Python ([\w.+-]+)"),
    ),
    Mask(
        "dynamic source",
        "the end of the name of a dynamic node is random",
        wire.ATTACH,
        (5, 0),
        DYNAMIC_NODE,
        generated=True,
    ),
    Mask(
        "dynamic target",
        "the end of the name of a dynamic node is random",
        wire.ATTACH,
        (6, 0),
        DYNAMIC_NODE,
        generated=True,
    ),
    Mask(
        "queue identity",
        "each declaration of a queue gets 32 random digits",
        wire.ATTACH,
        (13, "headgate:queue-identity"),
        re.compile(rb"([0-9a-f]{32})"),
        generated=True,
    ),
)


@dataclass(frozen=True, slots=True)
class Masked:
    """A mask and its place in one frame."""

    mask: Mask
    place: Place


def masked_in(frame: bytes) -> list[Masked]:
    """The masks that apply to a frame, in the order of their places."""
    kind = performative_code(frame) if (method := method_of(frame)) is None else method
    found = []
    for mask in MASKS:
        if mask.frame != kind:
            continue
        place = place_of_argument(frame, mask.layout, mask.path) if mask.layout else place_of_field(frame, mask.path)
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
