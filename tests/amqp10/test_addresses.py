"""Addresses of version 2: what they name, which are refused, and the words of the refusal. Tests have the names of the
cases of the conformance list, C2."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from amqp10.addresses import (
    NAME_BYTES_MAX,
    AddressError,
    dynamic_queue_name,
    parse_source,
    queue_address,
)
from amqp10.targets import parse_target
from amqp10.wire.percent import percent_encode
from core.interface import ExchangeTarget, QueueTarget

NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60)
KEYS = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)

NO_TARGETS = [
    "",
    "\x00",
    "/",
    "//",
    "/queues",
    "/queues/",
    "/queues//",
    "/exchanges",
    "/exchanges/",
    "/exchanges//",
    "/exchanges//mykey",
    "/exchanges/amq.default",
    "/exchanges/amq.default/",
    "/exchanges/amq.default/mykey",
    "/exchanges/amq%2Edefault/mykey",
    "/queues/missing%encoding",
    "/queues/missing/encoding",
    "/queues/cut%2",
    "/queues/✋",
    "/queues/not-utf-8-%FF",
    "/queues/overlong-%C0%AF",
    "/queues/surrogate-%ED%A0%80",
    "/queues/a b",
    "/queues/a+b",
    "/queues/a:b",
    "/queues/a?b=c",
    "/queues/a#b",
    "/queues/line\nfeed",
    "/exchanges/missing%encoding",
    "/exchanges/missing/encoding/routingkey",
    "/exchanges/exchange/missing%encoding",
    "/exchanges/✋",
    "/exchanges/x/key/",
    "/ex/✋",
    "/Queues/q",
    "queues/q",
    "/management/x",
    "/queues/" + "q" * (NAME_BYTES_MAX + 1),
    "/exchanges/x/" + "%C3%A4" * 128,
    None,
    7,
    b"/queues/q",
]

FIRST_VERSION = {
    "myqueue": "/queues/myqueue",
    "my queue": "/queues/my%20queue",
    "/queue/myqueue": "/queues/myqueue",
    "/queue/my/queue": "/queues/my%2Fqueue",
    "/amq/queue/myqueue": "/queues/myqueue",
    "/topic/my.topic": "/exchanges/amq.topic/my.topic",
    "/exchange/x": "/exchanges/x",
    "/exchange/x/key": "/exchanges/x/key",
    "/exchange/x/key with/slash": "/exchanges/x/key%20with%2Fslash",
}


def test_target_queue():
    assert parse_target("/queues/q1") == QueueTarget("q1")


def test_target_exchange():
    assert parse_target("/exchanges/amq.fanout") == ExchangeTarget("amq.fanout", "")


def test_target_exchange_routing_key():
    assert parse_target("/exchanges/amq.direct/my-key") == ExchangeTarget("amq.direct", "my-key")


def test_target_exchange_routing_key_with_slash():
    assert parse_target("/exchanges/amq.direct/my%2Fkey") == ExchangeTarget("amq.direct", "my/key")


def test_target_exchange_routing_key_empty():
    assert parse_target("/exchanges/amq.direct/") == ExchangeTarget("amq.direct", "")


def test_queue_with_slash():
    assert parse_target("/queues/my%2Fqueue") == QueueTarget("my/queue")
    assert parse_source("/queues/my%2fqueue") == "my/queue"


def test_an_encoded_percent_sign_is_decoded_once():
    assert parse_source("/queues/100%2525") == "100%25"


@pytest.mark.parametrize("address", NO_TARGETS, ids=repr)
def test_target_bad_v2_address(address):
    with pytest.raises(AddressError):
        parse_target(address)


@pytest.mark.parametrize("address", [*NO_TARGETS, "/exchanges/x", "/exchanges/x/key"], ids=repr)
def test_source_bad_v2_address(address):
    with pytest.raises(AddressError):
        parse_source(address)


def test_source_undefined_address():
    with pytest.raises(AddressError, match="there is no address; it must be '/queues/:queue'"):
        parse_source(None)


@pytest.mark.parametrize(("first", "second"), FIRST_VERSION.items())
def test_an_address_of_the_first_version_is_refused_with_the_second(first, second):
    with pytest.raises(AddressError) as refused:
        parse_target(first)
    assert repr(first) in str(refused.value)
    assert repr(second) in str(refused.value)
    parse_target(second)


@pytest.mark.parametrize("parse", [parse_target, parse_source])
def test_a_slash_in_a_name_is_refused_with_its_encoding(parse):
    with pytest.raises(AddressError, match="'/queues/a%2Fb'"):
        parse("/queues/a/b")


@pytest.mark.parametrize("address", ["/exchanges/", "/exchanges/amq.default/q1"])
def test_the_default_exchange_is_refused_with_what_replaces_it(address):
    with pytest.raises(AddressError, match="'/queues/:queue' to reach a queue"):
        parse_target(address)


def test_a_character_that_should_be_encoded_is_named_with_its_encoding():
    with pytest.raises(AddressError, match=r"':' must be percent-encoded, as '%3A'"):
        parse_target("/queues/a:b")


def test_an_exchange_as_a_source_is_refused_with_what_to_do():
    with pytest.raises(AddressError, match="bind a queue to it"):
        parse_source("/exchanges/amq.topic")


@pytest.mark.parametrize("address", ["x" * 100_000, "/queues/" + "%20" * 100_000, "/" * 100_000])
def test_the_text_about_a_long_address_is_short(address):
    with pytest.raises(AddressError) as refused:
        parse_target(address)
    assert len(str(refused.value)) < 400


@given(NAMES)
@example("..")
@example("my queue ~!@#$%^&*()_+🙈`-=[]\\;',./")
def test_every_name_has_an_address(name):
    address = queue_address(name)
    assert address.isascii()
    assert parse_source(address) == name
    assert parse_target(address) == QueueTarget(name)


@given(NAMES.filter(lambda name: name != "amq.default"), KEYS)
def test_every_exchange_and_key_has_an_address(exchange, key):
    address = f"/exchanges/{percent_encode(exchange)}/{percent_encode(key)}"
    assert parse_target(address) == ExchangeTarget(exchange, key)


@given(st.sampled_from(["", "/", "/queues/", "/exchanges/", "/exchanges/x/", "/topic/"]), st.text())
def test_any_text_names_something_or_is_refused(start, text):
    try:
        target = parse_target(start + text)
    except AddressError:
        with pytest.raises(AddressError):
            parse_source(start + text)
    else:
        assert isinstance(target, QueueTarget | ExchangeTarget)


def test_dynamic_queue_name():
    name = dynamic_queue_name("orders-7", "/replies ✓", "8c1f")
    assert name == "amq.dyn-orders-7-_replies__-8c1f"


@given(st.text(max_size=400), st.text(max_size=400), st.text("0123456789abcdef", min_size=1, max_size=64))
def test_a_dynamic_name_fits_and_reads_like_its_address(container_id, link_name, unique):
    name = dynamic_queue_name(container_id, link_name, unique)
    assert len(name.encode()) <= NAME_BYTES_MAX
    assert queue_address(name) == f"/queues/{name}"
    assert name.startswith("amq.dyn-")
    assert name.endswith(f"-{unique}")
