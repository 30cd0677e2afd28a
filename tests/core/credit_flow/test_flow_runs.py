"""A run of n has the effect of n single steps. The test compares it with a model that takes single steps and is written
separately."""

from collections import defaultdict

import hypothesis.strategies as st
import pytest
from hypothesis import given

from core.credit_flow.flow import CreditFlow, Post, StageCreditSpec, hand_over

SPECS = [(5, 3), (7, 7), (1, 1), (4, 2)]
"""Pairs of the parties 0 to 3. The sender has the lower number."""

Step = tuple[str, int, int, int]


class SingleSteps:
    """A model of all parties together that moves one message or one grant at a time."""

    def __init__(self) -> None:
        self.may_send: dict[tuple[int, int], int] = {}
        self.must_ack: dict[tuple[int, int], int] = {}
        self.blockers: dict[int, list[int]] = defaultdict(list)
        self.kept_back: dict[int, list[tuple[int, int]]] = defaultdict(list)
        self.on_the_way: list[tuple[int, int, int]] = []
        self.began: dict[int, float] = {}
        self.unblocks: dict[int, int] = defaultdict(int)

    def send(self, sender: int, receiver: int, now: float) -> None:
        left = self.may_send.get((sender, receiver), SPECS[receiver][0])
        self.may_send[sender, receiver] = left - 1
        if left == 1:
            if not self.blockers[sender]:
                self.began[sender] = now
            self.blockers[sender].insert(0, receiver)

    def ack(self, receiver: int, sender: int) -> None:
        more_after = SPECS[receiver][1]
        left = self.must_ack.get((receiver, sender), more_after)
        if left > 1:
            self.must_ack[receiver, sender] = left - 1
            return
        self.must_ack[receiver, sender] = more_after
        if self.blockers[receiver]:
            self.kept_back[receiver].insert(0, (sender, more_after))
        else:
            self.on_the_way.append((sender, receiver, more_after))

    def deliver(self) -> None:
        while self.on_the_way:
            sender, receiver, n = self.on_the_way.pop(0)
            before = self.may_send.get((sender, receiver), 0)
            self.may_send[sender, receiver] = before + n
            if before <= 0 < before + n:
                self.release(sender, receiver)

    def release(self, sender: int, receiver: int) -> None:
        if receiver not in self.blockers[sender]:
            return
        self.blockers[sender].remove(receiver)
        if not self.blockers[sender]:
            self.unblocks[sender] += 1
            self.on_the_way += [(upstream, sender, n) for upstream, n in self.kept_back.pop(sender, [])]

    def peer_down(self, party: int, peer: int) -> None:
        self.release(party, peer)
        self.may_send.pop((party, peer), None)
        self.must_ack.pop((party, peer), None)


edges = st.tuples(st.integers(0, 3), st.integers(0, 3)).filter(lambda edge: edge[0] < edge[1])
steps = st.one_of(
    st.builds(lambda edge, n: ("send", *edge, n), edges, st.integers(0, 12)),
    st.builds(lambda edge, n: ("ack", *edge, n), edges, st.integers(0, 12)),
    st.builds(lambda edge: ("down", *edge, 0), edges),
    st.builds(lambda edge: ("down", edge[1], edge[0], 0), edges),
    st.just(("deliver", 0, 0, 0)),
)


def play(script: list[Step], *, at_once: bool) -> None:
    on_the_way: list[tuple[CreditFlow, CreditFlow, int]] = []
    post: Post = hand_over if at_once else lambda *grant: on_the_way.append(grant)
    parties = [CreditFlow(str(number), StageCreditSpec(*spec), post=post) for number, spec in enumerate(SPECS)]
    model = SingleSteps()

    def deliver() -> None:
        model.deliver()
        while on_the_way:
            sender, granter, n = on_the_way.pop(0)
            sender.handle_bump(granter, n)

    for now, (what, one, other, n) in enumerate(script):
        if what == "send":
            parties[one].send(parties[other], n, now)
            for _ in range(n):
                model.send(one, other, now)
        elif what == "ack":
            parties[other].ack(parties[one], n)
            for _ in range(n):
                model.ack(other, one)
        elif what == "down":
            parties[one].peer_down(parties[other])
            model.peer_down(one, other)
        if what == "deliver" or at_once:
            deliver()
        for number, party in enumerate(parties):
            assert_same(number, party, parties, model)


def assert_same(number: int, party: CreditFlow, parties: list[CreditFlow], model: SingleSteps) -> None:
    assert [int(blocker.name) for blocker in party.blocked_by] == model.blockers[number]
    assert party.blocked_at == model.began.get(number)
    assert party.unblocks == model.unblocks[number]
    for peer, other in enumerate(parties):
        deferred = sum(n for sender, n in model.kept_back[number] if sender == peer)
        room = model.may_send.get((number, peer), SPECS[peer][0])
        assert party.account(other) == (room, model.must_ack.get((number, peer), SPECS[number][1]), deferred)


@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "delayed"])
@given(script=st.lists(steps, max_size=40))
def test_a_run_is_as_many_single_steps(script: list[Step], at_once: bool):
    play(script, at_once=at_once)
