"""Bindings as resources of the management node: how they are made, listed and removed.

====================================================  =====================================================
request                                               answer
====================================================  =====================================================
``POST /bindings``                                    204; also when it exists
``GET /bindings?src=:x&dstq=:queue&key=:key``         200 and a list of the bindings between the two;
                                                      ``dste`` for an exchange, no ``key`` for all keys
``DELETE /bindings/src=:x;dstq=:queue;key=:key;``     204; also when there is none
``args=:hash``
====================================================  =====================================================

A binding's arguments appear in its location as a hash only. Clients do not compute the hash: they list the bindings,
compare the arguments, and delete the location that the listing gave.
"""

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from functools import partial

from amqp10.errors import quote
from amqp10.management.message import BodyFields, RequestRefusal, Response, encodable, segment_text
from amqp10.wire.codec.encode import encode_value
from amqp10.wire.percent import percent_encode
from core.declaring import once_gone
from core.errors import NotFound
from core.interface import Binding, Engine
from core.slices import Walk

LISTED_MAX = 10_000
"""Bindings in one listing: 3 MiB with names of common length. More need a ``key``."""

HASH_BYTES = 12
"""Bytes of the hash. For two bindings that differ only in their arguments, a delete hits the wrong one by accident
with a chance of 2^-96."""

_FIELDS = ("source", "destination_queue", "destination_exchange", "binding_key", "arguments")
_TEXT = r"[0-9A-Za-z\-._~%]"
_SEGMENT = re.compile(
    rf"src=(?P<source>{_TEXT}+);dst(?P<kind>[eq])=(?P<destination>{_TEXT}+);key=(?P<key>{_TEXT}*)"
    r";args=(?P<hash>[0-9A-Za-z\-_]*)"
)


def bind(engine: Engine, body: object, owner: object) -> Walk[Response]:
    """Make a binding. Raises RequestRefusal, Locked, Forbidden, Invalid, LimitReached."""
    fields = BodyFields(body, what="binding", names=_FIELDS)
    if ("destination_queue" in fields) == ("destination_exchange" in fields):
        raise RequestRefusal(400, "a binding needs either destination_queue or destination_exchange")
    to_queue = "destination_queue" in fields
    binding = Binding(
        source=fields.text("source"),
        destination=fields.text("destination_queue" if to_queue else "destination_exchange"),
        destination_is_queue=to_queue,
        binding_key=fields.text("binding_key", default=""),
        arguments=fields.arguments(),
    )
    try:
        yield from once_gone(lambda: engine.bind(binding, owner))
    except NotFound as error:
        # A 404 would say that the collection of bindings is missing; here the source or the destination is missing.
        raise RequestRefusal(400, str(error)) from None
    return Response(204)


def listed(engine: Engine, pairs: Sequence[tuple[str, str]]) -> Walk[Response]:
    """The bindings between two nodes. Raises RequestRefusal."""
    query = dict(pairs)
    if len(query) < len(pairs) or "src" not in query or ("dstq" in query) == ("dste" in query):
        raise RequestRefusal(400, "the query must have src and either dstq or dste, and may have key")
    to_queue = "dstq" in query
    key = query.get("key")
    shown: list[object] = []
    for binding in engine.bindings(query["src"], query["dstq" if to_queue else "dste"], to_queue):
        if binding is not None and key in (None, binding.binding_key):
            shown.append(_show(binding))
            if len(shown) > LISTED_MAX:
                raise RequestRefusal(400, f"more than {LISTED_MAX} bindings, and no more can be listed; name a key")
        yield None
    return Response(200, shown)


def unbind(engine: Engine, segment: str, owner: object) -> Walk[Response]:
    """Remove the binding at a location. Raises RequestRefusal, Locked, Forbidden."""
    match = _SEGMENT.fullmatch(segment)
    if match is None:
        raise RequestRefusal(
            400,
            f"bad binding path segment {quote(segment)}; it must be 'src=:x;dstq=:queue;key=:key;args=:hash'",
        )
    source, destination = segment_text(match["source"]), segment_text(match["destination"])
    key = segment_text(match["key"])
    for binding in engine.bindings(source, destination, match["kind"] == "q"):
        if binding is not None and binding.binding_key == key and arguments_hash(binding.arguments) == match["hash"]:
            yield from once_gone(partial(engine.unbind, binding, owner))
            break
        yield None
    return Response(204)


def location(binding: Binding) -> str:
    """The path of a binding."""
    kind = "q" if binding.destination_is_queue else "e"
    return (
        f"/bindings/src={percent_encode(binding.source)};dst{kind}={percent_encode(binding.destination)}"
        f";key={percent_encode(binding.binding_key)};args={arguments_hash(binding.arguments)}"
    )


def arguments_hash(arguments: Mapping[str, object]) -> str:
    """What stands for the arguments in a location: "" for no arguments; else a hash, the same on every run."""
    if not arguments:
        return ""
    digest = hashlib.blake2b(_canonical(arguments), digest_size=HASH_BYTES).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def _canonical(value: object) -> bytes:
    """An encoding that does not depend on the order of the keys of maps."""
    if isinstance(value, Mapping):
        items = sorted((_canonical(key), _canonical(item)) for key, item in value.items())
        return b"{%d}" % len(items) + b"".join(key + item for key, item in items)
    if isinstance(value, list):
        return b"[%d]" % len(value) + b"".join(map(_canonical, value))
    return encode_value(encodable(value))


def _show(binding: Binding) -> dict[str, object]:
    return {
        "source": binding.source,
        "destination_queue" if binding.destination_is_queue else "destination_exchange": binding.destination,
        "binding_key": binding.binding_key,
        "arguments": binding.arguments,
        "location": location(binding),
    }
