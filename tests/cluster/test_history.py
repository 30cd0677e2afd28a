"""The verdict on what publishers and consumers of a cluster saw."""

import pytest

from tests.cluster.history import History


@pytest.fixture
def history():
    made = History()
    for number in range(4):
        made.sent(f"q:p:1:{number}")
    return made


def test_what_was_confirmed_and_never_came_is_lost(history):
    history.confirmed(["q:p:1:0", "q:p:1:1"])
    history.delivered("q:p:1:0", redelivered=False)
    verdict = history.verdict()
    assert verdict.lost == ["q:p:1:1"]
    assert (verdict.confirmed, verdict.unanswered, verdict.broken) == (2, 2, True)
    assert history.missing(["q"]) == 1
    assert history.missing(["other"]) == 0


def test_what_was_refused_or_never_sent_must_not_come(history):
    history.refused(["q:p:1:0"], "released")
    history.delivered("q:p:1:0", redelivered=True)
    history.delivered("q:p:1:9", redelivered=False)
    verdict = history.verdict()
    assert verdict.unexpected == ["q:p:1:0", "q:p:1:9"]
    assert verdict.answers == ["released"]


def test_what_is_uncertain_may_come_or_not(history):
    history.uncertain(["q:p:1:0", "q:p:1:1"])
    history.delivered("q:p:1:0", redelivered=True)
    verdict = history.verdict()
    assert (verdict.broken, verdict.uncertain, verdict.unanswered) == (False, 2, 2)


def test_one_delivery_of_a_message_may_be_without_the_flag(history):
    history.delivered("q:p:1:0", redelivered=False)
    history.delivered("q:p:1:0", redelivered=True)
    history.delivered("q:p:1:1", redelivered=False)
    history.delivered("q:p:1:1", redelivered=False)
    verdict = history.verdict()
    assert verdict.unflagged == ["q:p:1:1"]
    assert verdict.again == 2


def test_first_deliveries_are_in_the_order_of_their_publisher(history):
    for number in (1, 0, 1, 2):
        history.delivered(f"q:p:1:{number}", redelivered=True)
    history.delivered("q:p:2:0", redelivered=False)
    assert history.verdict().reordered == ["q:p:1:0"]


def test_an_empty_history_keeps_all_promises():
    assert not History().verdict().broken
