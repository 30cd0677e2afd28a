"""The audit finds every kind of broken promise, and counts it as that kind."""

from tests.crash.ledger import Found, Ledger, Verdict


def found(*numbers: int, redelivered: bool = True) -> list[Found]:
    return [Found(number, redelivered) for number in numbers]


def test_a_confirmed_message_that_is_missing_is_lost() -> None:
    verdict = Ledger(confirmed={1, 2, 3}).audit(found(1, 3))
    assert (verdict.lost, verdict.broken) == (1, 1)


def test_an_uncertain_message_may_be_missing_or_there() -> None:
    ledger = Ledger(confirmed={1}, uncertain={2, 3})
    verdict = ledger.audit(found(1, 3))
    assert (verdict.broken, verdict.recovered) == (0, 1)


def test_a_message_that_was_not_sent_is_unexpected() -> None:
    assert Ledger(confirmed={1}).audit(found(1, 9)).unexpected == 1


def test_what_is_gone_must_not_come_back_and_what_is_going_may() -> None:
    ledger = Ledger(confirmed={1, 2, 3}, gone={1}, going={2})
    assert ledger.audit(found(3)).broken == 0
    assert ledger.audit(found(2, 3)).broken == 0
    assert ledger.audit(found(1, 3)).came_back == 1


def test_a_second_delivery_must_be_flagged() -> None:
    ledger = Ledger(confirmed={1, 2}, seen={1})
    assert ledger.audit(found(1, 2)).duplicated == 1
    assert ledger.audit(found(1, 2, redelivered=False)).unflagged == 1


def test_a_message_twice_in_one_go_is_counted() -> None:
    assert Ledger(confirmed={1, 2}).audit(found(1, 1, 2)).unflagged == 1


def test_order_is_checked() -> None:
    assert Ledger(confirmed={1, 2}).audit(found(2, 1)).reordered == 1


def test_a_stream_keeps_what_was_settled() -> None:
    ledger = Ledger(confirmed={1, 2}, seen={1}, gone={1})
    assert ledger.audit(found(1, 2, redelivered=False), settles=False).broken == 0
    assert ledger.audit(found(2), settles=False).lost == 1


def test_after_an_audit_what_was_found_is_the_truth() -> None:
    ledger = Ledger(confirmed={1, 2}, uncertain={3}, going={1})
    ledger.begin_again(found(2, 3))
    assert (ledger.confirmed, ledger.uncertain, ledger.gone, ledger.seen) == ({2, 3}, set(), {1}, {2, 3})


def test_verdicts_add_up() -> None:
    total = Verdict(lost=1, confirmed=10)
    total.add(Verdict(lost=2, reordered=1, confirmed=5))
    assert (total.lost, total.broken, total.confirmed) == (3, 4, 15)
