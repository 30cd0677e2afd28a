"""What a user may do to a name: RabbitMQ's permissions and topic permissions."""

import pytest

from core.access.rights import ANSWERS_KEPT, Permission, Rights, TopicPermission, all_rights, no_rights
from core.errors import Forbidden
from core.interface import Mailbox, RightsChanged

ALICE = Permission(configure="^alice-", write="^(alice-|amq[.]default$)", read="^alice-|^shared$")


@pytest.mark.parametrize(
    ("pattern", "name", "allowed"),
    [
        ("", "q", False),
        ("", "", False),  # the default exchange is amq.default
        (".*", "q", True),
        ("q", "a-queue", True),  # a match anywhere
        ("^q$", "qq", False),
        ("^amq[.]default$", "", True),
        ("^$", "", False),
        ("ä", "bär", True),
    ],
)
def test_a_name_is_allowed_that_contains_a_match(pattern, name, allowed):
    rights = Rights("u", Permission(write=pattern))
    assert rights.may("write", name) is allowed
    assert rights.may("write", name) is allowed, "the kept answer is the same"
    assert rights.may("read", "q") is False


def test_a_refusal_has_the_text_of_rabbitmq():
    rights = Rights("alice", ALICE)
    rights.check("configure", "queue", "alice-1")
    with pytest.raises(Forbidden) as refused:
        rights.check("configure", "queue", "bob-1")
    assert str(refused.value) == "configure access to queue 'bob-1' in vhost '/' refused for user 'alice'"
    with pytest.raises(Forbidden, match=r"write access to exchange 'amq\.default' in vhost '/' refused for user 'u'"):
        Rights("u", Permission(write="^x$")).check("write", "exchange", "")


def test_without_a_permission_the_virtual_host_is_closed():
    assert no_rights("bob").refusal() == "access to vhost '/' refused for user 'bob'"
    assert no_rights("bob").may("read", "q") is False
    assert Rights("bob", Permission()).refusal() is None
    assert all_rights("bob").may("configure", "anything") is True


def test_topic_permissions_restrict_keys_of_their_exchange_only():
    topics = {"news": TopicPermission(write="^{username}[.]", read="^{vhost}$")}
    rights = Rights("a.b", Permission(write=".*"), topics=topics)
    assert rights.may_use_topic("write", "news", "a.b.c") is True
    assert rights.may_use_topic("write", "news", "aXb.c") is False, "a name in a pattern stands for itself"
    assert rights.may_use_topic("read", "news", "/") is True
    assert rights.may_use_topic("write", "other", "x") is True
    with pytest.raises(Forbidden) as refused:
        rights.check_topic("write", "news", "b.c")
    assert str(refused.value) == (
        "write access to topic 'b.c' in exchange topic 'news' in vhost '/' refused for user 'a.b'"
    )


def test_a_change_holds_with_the_next_question_and_is_told():
    rights, mailbox = Rights("alice", ALICE), Mailbox(lambda: None)
    rights.mailboxes[mailbox] = None
    assert rights.may("read", "shared") is True
    rights.change(Permission(read="^alice-"), {}, frozenset())
    assert rights.may("read", "shared") is False
    rights.change(Permission(read="^alice-"), {}, frozenset())
    assert [type(action) for action in mailbox.take()] == [RightsChanged], "no change is not told"


def test_kept_answers_are_bounded():
    rights = Rights("alice", ALICE)
    for number in range(ANSWERS_KEPT + 10):
        rights.may("write", f"alice-{number}")
        rights.check_write(f"alice-{number}")
    assert len(rights._allowed) <= ANSWERS_KEPT
    assert len(rights.free_exchanges) <= ANSWERS_KEPT


def test_the_keys_of_an_exchange_with_a_topic_permission_are_checked():
    rights = Rights("alice", ALICE, topics={"alice-news": TopicPermission(write="x")})
    assert rights.check_write("alice-news") is True
    assert rights.check_write("alice-other") is False
    assert rights.free_exchanges == {"alice-other"}
    rights.change(Permission(write="^alice-"), {}, frozenset())
    assert rights.free_exchanges == set()
    assert rights.check_write("alice-news") is False
    with pytest.raises(Forbidden):
        rights.check_write("")
