"""A received message, of which only the parts that are read are decoded.

A request or a reply is identified by one or two of its properties, and most other parts are never read. Making a view
and reading its properties and its body takes a third of the time that :meth:`Message.decode` takes.
"""

from amqp10.client_core.message import decode_body, decode_items
from amqp10.wire.codec import format_codes as codes
from amqp10.wire.sections import DATA, Header, PropertyFields, decode_header, decode_property_fields, scan

_NO_PROPERTIES = PropertyFields()
_DATA_8_LEAD = bytes((codes.DESCRIBED, codes.SMALL_ULONG, DATA, codes.BINARY_8))


class MessageView:
    """An encoded message. Making it finds its sections; each access decodes one section.

    Making it raises DecodeError for sections that are wrong, cut or out of order. Each property raises DecodeError for
    errors inside its section. Delivery-annotations and footer are seldom read; use :meth:`Message.decode` for them.
    """

    __slots__ = ("_bounds", "encoded")

    def __init__(self, encoded: bytes) -> None:
        self.encoded = encoded
        self._bounds = scan(encoded)

    @property
    def properties(self) -> PropertyFields:
        """The properties; all None for a message without properties [3.2.4]."""
        bounds = self._bounds.properties
        return _NO_PROPERTIES if bounds is None else decode_property_fields(self.encoded, *bounds)

    @property
    def body(self) -> object:
        """The body as in :class:`Message`: bytes of data, a list of a sequence, else a value; None without a body."""
        bounds = self._bounds.body
        if bounds is not None and self.encoded.startswith(_DATA_8_LEAD, bounds[0]):
            size = self.encoded[bounds[0] + len(_DATA_8_LEAD)]
            if size == bounds[1] - bounds[0] - len(_DATA_8_LEAD) - 1:  # one section, by far the most frequent body
                return self.encoded[bounds[1] - size : bounds[1]]
        return decode_body(self.encoded, bounds, self._bounds.body_code)[0]

    @property
    def application_properties(self) -> dict[str, object]:
        """The application properties, empty for none [3.2.5]."""
        return decode_items(self.encoded, self._bounds.application_properties)

    @property
    def annotations(self) -> dict[str, object]:
        """The message annotations, empty for none [3.2.3]."""
        return decode_items(self.encoded, self._bounds.message_annotations)

    @property
    def header(self) -> Header | None:
        """The header, None for none [3.2.1]."""
        return None if self._bounds.header is None else decode_header(self.encoded, *self._bounds.header)
