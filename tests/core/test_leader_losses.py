"""When links and consumers that have lost a leader are tried: once at once, then at a fixed distance."""

from core.leader_losses import AGAIN_S, LeaderLosses


def test_the_first_attempt_is_due_at_once_and_the_next_one_later():
    losses: LeaderLosses[str] = LeaderLosses()
    assert losses.deadline is None
    losses.wait("a", 100.0)
    assert losses.deadline == 100.0
    assert list(losses.due(100.0)) == ["a"]
    assert losses.deadline is None
    losses.wait("a", 100.0)
    assert losses.deadline == 100.0 + AGAIN_S
    assert list(losses.due(100.01)) == []
    assert list(losses.due(100.0 + AGAIN_S)) == ["a"]


def test_one_that_was_tried_long_ago_is_tried_at_once():
    losses: LeaderLosses[str] = LeaderLosses()
    losses.wait("a", 100.0)
    assert list(losses.due(100.0)) == ["a"]
    losses.wait("a", 101.0)
    assert losses.deadline == 101.0


def test_those_that_were_not_given_out_stay():
    losses: LeaderLosses[str] = LeaderLosses()
    for user in "abc":
        losses.wait(user, 100.0)
    steps = losses.due(100.0)
    assert next(steps) == "a"
    losses.forget("b")
    assert list(losses.waiting) == ["c"]
    assert list(losses.due(100.0)) == ["c"]
