"""The cases of other brokers on what a user may do: each act with the rights that it needs, and without one of them.

The names in the tables are those of the conformance list.
"""

from collections.abc import Callable, Collection

import pytest

from amqp10.wire.messaging import Source, Target
from amqp10.wire.performatives import Detach
from core.access.rights import FULL, Permission, Rights, TopicPermission, all_rights
from core.interface import ExchangeDeclaration
from tests.conformance.table import load_suites
from tests.kit.acts import DYNAMIC, Need, place, trials
from tests.kit.link_acts import Act, connected, publishes, receives_from, requests, sends_to
from tests.kit.link_pair import LinkPair
from tests.kit.management import binding_to_queue, bindings_path

HERE = "tests/conformance/test_rights.py"
DEAD_LETTERS = {"arguments": {"x-dead-letter-exchange": "x"}}
ALTERNATE = {"arguments": {"alternate-exchange": "x"}}
TO_EXCHANGE = {"source": "x", "destination_exchange": "topic", "binding_key": "new", "arguments": {}}
BIND = requests("POST", "/bindings", binding_to_queue("x", "q", "new"))
UNBIND = requests("DELETE", "/bindings/src=x;dstq=q;key=k;args=")
LIST = requests("GET", bindings_path("x", "q", "k"))
DYNAMIC_SOURCE = receives_from(None, source=Source(dynamic=True))
DYNAMIC_TARGET = sends_to(None, target=Target(dynamic=True))
WRITE_Q, READ_X = ("write", "q"), ("read", "x")

# --- rights on queues and exchanges ----------------------------------------------------------------------------------

Acts = dict[str, tuple[Act, Collection[Need]]]

AUTH_ACTS: Acts = {
    "attach_source_queue": (receives_from("/queues/q"), [("read", "q")]),
    "attach_source_queue_dynamic_exclusive": (DYNAMIC_SOURCE, [("configure", DYNAMIC), ("read", DYNAMIC)]),
    "attach_source_queue_dynamic_volatile": (DYNAMIC_SOURCE, [("read", DYNAMIC), ("configure", DYNAMIC)]),
    "attach_target_exchange": (sends_to("/exchanges/x/k"), [("write", "x")]),
    "attach_target_queue": (sends_to("/queues/q"), [("write", "amq.default")]),
    "attach_target_queue_dynamic_exchange_write": (
        DYNAMIC_TARGET,
        [("write", "amq.default"), ("configure", DYNAMIC)],
    ),
    "attach_target_queue_dynamic_queue_configure": (
        DYNAMIC_TARGET,
        [("configure", DYNAMIC), ("write", "amq.default")],
    ),
    "target_per_message_exchange": (publishes("/exchanges/x/k"), [("write", "x")]),
    "declare_exchange": (requests("PUT", "/exchanges/new", {"arguments": {}}), [("configure", "new")]),
    "declare_exchange_alternate_exchange_allowed": (
        requests("PUT", "/exchanges/new", ALTERNATE),
        [("configure", "new"), ("read", "new"), ("write", "x")],
    ),
    "declare_exchange_alternate_exchange_read": (
        requests("PUT", "/exchanges/new", ALTERNATE),
        [("read", "new"), ("configure", "new"), ("write", "x")],
    ),
    "declare_exchange_alternate_exchange_write": (
        requests("PUT", "/exchanges/new", ALTERNATE),
        [("write", "x"), ("configure", "new"), ("read", "new")],
    ),
    "delete_exchange": (requests("DELETE", "/exchanges/x"), [("configure", "x")]),
    "declare_queue": (requests("PUT", "/queues/new", {"arguments": {}}), [("configure", "new")]),
    "declare_queue_dlx_queue": (
        requests("PUT", "/queues/new", DEAD_LETTERS),
        [("read", "new"), ("configure", "new"), ("write", "x")],
    ),
    "declare_queue_dlx_exchange": (
        requests("PUT", "/queues/new", DEAD_LETTERS),
        [("write", "x"), ("configure", "new"), ("read", "new")],
    ),
    "delete_queue": (requests("DELETE", "/queues/q"), [("configure", "q")]),
    "purge_queue": (requests("DELETE", "/queues/q/messages"), [("read", "q")]),
    "bind_queue_source": (BIND, [READ_X, WRITE_Q]),
    "bind_queue_destination": (BIND, [WRITE_Q, READ_X]),
    "bind_exchange_source": (requests("POST", "/bindings", TO_EXCHANGE), [READ_X, ("write", "topic")]),
    "bind_exchange_destination": (requests("POST", "/bindings", TO_EXCHANGE), [("write", "topic"), READ_X]),
    "unbind_queue_source": (UNBIND, [READ_X, WRITE_Q]),
    "unbind_queue_target": (UNBIND, [WRITE_Q, READ_X]),
    "list_bindings_allowed": (LIST, [READ_X, WRITE_Q]),
    "list_bindings_exchange_destination": (
        requests("GET", bindings_path("x", "topic", "k", "e")),
        [("write", "topic"), READ_X],
    ),
    "list_bindings_source_read": (LIST, [READ_X, WRITE_Q]),
    "list_bindings_destination_write": (LIST, [WRITE_Q, READ_X]),
}
MANAGEMENT_ACTS: Acts = {
    "absent_argument_skips_checks": AUTH_ACTS["declare_exchange"],
    "both_permissions_granted": AUTH_ACTS["declare_exchange_alternate_exchange_allowed"],
    "target_write_denied": AUTH_ACTS["declare_exchange_alternate_exchange_write"],
    "get_bindings_both_permissions_granted": AUTH_ACTS["list_bindings_allowed"],
    "get_bindings_exchange_destination": AUTH_ACTS["list_bindings_exchange_destination"],
    "get_bindings_destination_write_denied": AUTH_ACTS["list_bindings_destination_write"],
    "get_bindings_source_read_denied": AUTH_ACTS["list_bindings_source_read"],
}
PRIVILEGE_ACTS: Acts = {
    "guestCannotReceiveFromQueueEvenIfSystemRuleWouldAllow": AUTH_ACTS["attach_source_queue"],
    "guestCannotSendToQueueEvenIfSystemRuleWouldAllow": AUTH_ACTS["attach_target_queue"],
    "adminCanReceiveFromQueue": AUTH_ACTS["attach_source_queue"],
}
DOTNET_ACTS: Acts = {"access_failure_send": AUTH_ACTS["attach_target_queue"]}
ACTS = {
    "amqp_auth_SUITE": AUTH_ACTS,
    "unit_amqp_management_SUITE": MANAGEMENT_ACTS,
    "security.SystemPrivilegeEscalationGuardTest": PRIVILEGE_ACTS,
    "amqp_dotnet_SUITE": DOTNET_ACTS,
}


@pytest.mark.parametrize(
    ("act", "needs"),
    [pytest.param(*acts[name], id=f"{suite} {name}") for suite, acts in ACTS.items() for name in acts],
)
def test_an_act_is_allowed_with_its_rights_and_without_any_of_them_refused(act: Act, needs: Collection[Need]):
    for trial in trials(needs):
        refused = act(connected(place(), trial.rights))
        assert (refused is None) is trial.allowed, trial.told
        if refused is not None:
            assert trial.told in refused
            assert "refused for user 'guest'" in refused


# --- topics, internal exchanges, order -------------------------------------------------------------------------------

MINE = Rights("guest", FULL, topics={"topic": TopicPermission(write="^mine[.]", read="^mine[.]")})


def binds(key: str) -> Act:
    return requests("POST", "/bindings", binding_to_queue("topic", "q", key))


def unbinds(key: str) -> Act:
    def act(peer):
        peer.broker.rights = all_rights("guest")
        assert binds(key)(connected(peer.broker, all_rights("guest"))) is None
        return requests("DELETE", f"/bindings/src=topic;dstq=q;key={key};args=")(peer)

    return act


TOPIC_ACTS: dict[str, Callable[[str], Act]] = {
    "attach_target_topic_exchange": lambda key: sends_to(f"/exchanges/topic/{key}"),
    "target_per_message_topic": lambda key: publishes(f"/exchanges/topic/{key}"),
    "bind_to_topic_exchange": binds,
    "unbind_from_topic_exchange": unbinds,
}


@pytest.mark.parametrize("act_on", TOPIC_ACTS.values(), ids=TOPIC_ACTS.keys())
def test_a_key_of_a_topic_exchange_needs_a_right_of_its_own(act_on: Callable[[str], Act]):
    assert act_on("mine.a")(connected(place(), MINE)) is None
    refused = act_on("other")(connected(place(), MINE))
    assert refused is not None
    assert "access to topic 'other'" in refused


@pytest.mark.parametrize("act", [sends_to("/exchanges/hidden/k"), publishes("/exchanges/hidden/k")])
def test_no_client_publishes_to_an_internal_exchange(act: Act):
    """attach_target_exchange and target_per_message_internal_exchange (amqp_auth_SUITE)."""
    broker = place()
    broker.engine.declare_exchange(ExchangeDeclaration(name="hidden", internal=True, arguments={}))
    refused = act(connected(broker, all_rights("guest")))
    assert refused is not None
    assert "'hidden' is internal" in refused


@pytest.mark.parametrize(
    ("act", "told"),
    [
        (requests("PUT", "/exchanges/new", ALTERNATE), "read access to exchange 'new'"),
        (requests("PUT", "/queues/new", DEAD_LETTERS), "read access to queue 'new'"),
        (LIST, "write access to queue 'q'"),
    ],
)
def test_rights_are_asked_for_in_their_order(act: Act, told: str):
    """source_read_denied_skips_target_write, prop_read_then_write and get_bindings_destination_write_checked_first
    (unit_amqp_management_SUITE): the user has only the right that is asked for before these."""
    refused = act(connected(place(), Rights("guest", Permission(configure="^new$"))))
    assert refused is not None
    assert refused.startswith(told)


def test_an_argument_of_another_kind_of_thing_is_not_asked_for():
    """wrapper_uses_matching_argument_key (unit_amqp_management_SUITE): a queue with alternate-exchange asks for no
    right on that exchange, nor does an exchange with x-dead-letter-exchange."""
    user = Rights("guest", Permission(configure="^new$"))
    for path, body in (("/queues/new", ALTERNATE), ("/exchanges/new", DEAD_LETTERS)):
        pair = LinkPair(connected(place(), user)).attach()
        pair.grant(1)
        assert pair.ask("PUT", path, body).status != 403


@pytest.mark.parametrize("path", ["/exchanges/new", "/queues/new"])
def test_an_argument_that_names_an_exchange_must_be_a_name(path: str):
    """invalid_argument_type_rejected (unit_amqp_management_SUITE): with 409, as any argument of a wrong type."""
    key = "alternate-exchange" if "exchanges" in path else "x-dead-letter-exchange"
    pair = LinkPair(connected(place(), all_rights("guest"))).attach()
    pair.grant(1)
    answer = pair.ask("PUT", path, {"arguments": {key: 42}})
    assert (answer.status, str(answer.body).endswith("it must be a string")) == (409, True), answer.body


def test_bindings_are_listed_by_destination():
    """get_bindings_missing_destination_rejected (unit_amqp_management_SUITE)"""
    pair = LinkPair(connected(place(), all_rights("guest"))).attach()
    pair.grant(1)
    assert pair.ask("GET", "/bindings?src=x&key=k").status == 400


# --- addresses of RabbitMQ's first version ----------------------------------------------------------------------------

FIRST_VERSION = {
    "v1_attach_target_queue": ("attach_sender", "/queue/new"),
    "v1_attach_source_exchange": ("attach_receiver", "/exchange/x/k"),
    "v1_send_to_topic": ("attach_sender", "/topic/mine.a"),
    "v1_send_to_topic_using_subject": ("attach_sender", "/exchange/topic"),
    "v1_attach_source_topic": ("attach_receiver", "/topic/mine.a"),
    "v1_attach_target_internal_exchange": ("attach_sender", "/exchange/hidden/k"),
    "v1_vhost_queue_limit": ("attach_receiver", "/queue/new"),
}


@pytest.mark.parametrize(("attach", "address"), FIRST_VERSION.values(), ids=FIRST_VERSION.keys())
@pytest.mark.parametrize("rights", [all_rights("guest"), Rights("guest", Permission(configure="^other$"))])
def test_no_right_opens_an_address_of_the_first_version_and_nothing_is_made(attach: str, address: str, rights: Rights):
    """In RabbitMQ such an address declares a queue, for which the rights are asked. Here it is refused, with the
    address of the second version in the text, whatever the user's rights."""
    broker = place()
    broker.engine.declare_exchange(ExchangeDeclaration(name="hidden", internal=True, arguments={}))
    before = [row["name"] for row in broker.engine.rows("queues", None)]
    peer = connected(broker, rights)
    getattr(peer, attach)(address)
    (detach,) = peer.take(Detach)
    assert detach.error is not None
    assert f"address '{address}' must be" in str(detach.error.description)
    assert "here perhaps '/" in str(detach.error.description)
    assert [row["name"] for row in broker.engine.rows("queues", None)] == before


# --- the list ------------------------------------------------------------------------------------------------------


def test_the_tables_have_the_names_of_the_list():
    listed = {(case.suite, case.name): case.shown_elsewhere for suite in load_suites() for case in suite.cases}
    rights = f"{HERE}::{test_an_act_is_allowed_with_its_rights_and_without_any_of_them_refused.__name__}"
    topics = f"{HERE}::{test_a_key_of_a_topic_exchange_needs_a_right_of_its_own.__name__}"
    tables = {(suite, name): rights for suite, acts in ACTS.items() for name in acts}
    tables |= {("amqp_auth_SUITE", name): topics for name in TOPIC_ACTS}
    first = f"{HERE}::{test_no_right_opens_an_address_of_the_first_version_and_nothing_is_made.__name__}"
    tables |= {("amqp_auth_SUITE", name): first for name in FIRST_VERSION}
    assert {case: shown for case, shown in listed.items() if shown in (rights, topics, first)} == tables
