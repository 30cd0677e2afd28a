"""How large the sections of a published message may be that the broker looks into."""

from amqp10.errors import ErrorCondition, LinkFault
from amqp10.wire.sections import SectionBounds

LOOKED_INTO_BYTES_MAX = 65_536
"""Size of the largest section that is decoded: at 0.2 µs a byte that takes 13 ms, in which no other connection is
served; a maximum message of annotations would take 3 s. Sections that are not decoded may have any size."""


def check_sizes(bounds: SectionBounds) -> int:
    """Return the bytes of the sections that are decoded. Raises LinkFault for a message with sections so large that
    decoding them would delay all other connections."""
    decoded = 0
    for looked_into in (bounds.header, bounds.message_annotations, bounds.properties):
        if looked_into is None:
            continue
        size = looked_into[1] - looked_into[0]
        if size > LOOKED_INTO_BYTES_MAX:
            raise LinkFault(
                ErrorCondition.RESOURCE_LIMIT_EXCEEDED,
                f"a section of {size} bytes; header, message-annotations and properties may"
                f" have {LOOKED_INTO_BYTES_MAX} each",
            )
        decoded += size
    return decoded
