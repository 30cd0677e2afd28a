"""Stage credit among several parties, with grants that arrive late and parties that end at any step.

The parties are numbered in the direction of the messages: a sender has a lower number than its receiver. The model
knows the messages and grants that are on their way, and checks after each step that the sum of every edge is
``initial``.
"""

from collections import Counter

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from core.credit_flow.flow import CreditFlow, StageCreditSpec

SPECS = [StageCreditSpec(*numbers) for numbers in [(9, 9), (8, 4), (5, 3), (6, 5), (3, 1), (12, 5)]]
PARTIES = len(SPECS)

edges = st.tuples(st.integers(0, PARTIES - 1), st.integers(0, PARTIES - 1)).filter(lambda edge: edge[0] < edge[1])
places = st.integers(0, PARTIES - 1)
few = st.integers(1, 25)


class CreditFlowMachine(RuleBasedStateMachine):
    """Parties in their places. When one ends, another takes its place at once."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.on_the_way: list[tuple[CreditFlow, CreditFlow, int]] = []
        """Grants on their way, as (sender, granter, messages)."""
        self.in_flight: Counter[tuple[CreditFlow, CreditFlow]] = Counter()
        """Messages that were sent and not acknowledged."""
        self.progress: Counter[tuple[CreditFlow, CreditFlow]] = Counter()
        """How many messages were acknowledged in all."""
        self.told: Counter[CreditFlow] = Counter()
        """How often a party reported that nothing blocks it any more."""
        self.dead: list[CreditFlow] = []
        self.parties = [self.new_party(place) for place in range(PARTIES)]

    def new_party(self, place: int) -> CreditFlow:
        def unblocked() -> None:
            self.told[party] += 1

        party = CreditFlow(f"{place}", SPECS[place], unblocked=unblocked, post=self.post)
        return party

    def post(self, sender: CreditFlow, granter: CreditFlow, n: int) -> None:
        self.on_the_way.append((sender, granter, n))

    @rule(edge=edges, n=few)
    def send(self, edge: tuple[int, int], n: int) -> None:
        """Send a message, also when the sender is blocked."""
        sender, receiver = self.parties[edge[0]], self.parties[edge[1]]
        self.now += 0.25
        sender.send(receiver, n, self.now)
        self.in_flight[sender, receiver] += n

    @rule(edge=edges)
    def send_what_is_allowed(self, edge: tuple[int, int]) -> None:
        sender, receiver = self.parties[edge[0]], self.parties[edge[1]]
        n = sender.room(receiver)
        already = sender.blocked_by
        sender.send(receiver, n, self.now)
        self.in_flight[sender, receiver] += n
        assert sender.blocked_by == ((receiver, *already) if n else already)

    @rule(edge=edges, n=few)
    def acknowledge(self, edge: tuple[int, int], n: int) -> None:
        sender, receiver = self.parties[edge[0]], self.parties[edge[1]]
        n = min(n, self.in_flight[sender, receiver])
        receiver.ack(sender, n)
        self.in_flight[sender, receiver] -= n
        self.progress[sender, receiver] += n

    @rule(which=st.integers(0, 1000))
    def a_grant_arrives(self, which: int) -> None:
        if self.on_the_way:
            sender, granter, n = self.on_the_way.pop(which % len(self.on_the_way))
            sender.handle_bump(granter, n)

    @rule(place=places)
    def one_dies(self, place: int) -> None:
        dead = self.parties[place]
        dead.end(self.now)
        self.dead.append(dead)
        self.parties[place] = self.new_party(place)
        for edge in [edge for edge in self.in_flight if dead in edge]:
            del self.in_flight[edge]

    @rule(place=places, other=st.integers(0, 1000), n=few)
    def calls_come_for_a_dead_one(self, place: int, other: int, n: int) -> None:
        """Three calls for a party that has ended: a write that is reported late, a message for a deleted queue, a
        second report of its end."""
        if self.dead:
            alive, dead = self.parties[place], self.dead[other % len(self.dead)]
            alive.ack(dead, n)
            dead.ack(alive, n)
            alive.send(dead, n, self.now)
            dead.send(alive, n, self.now)
            alive.peer_down(dead)

    @rule()
    def everything_arrives(self) -> None:
        """There is no deadlock: when everything on its way has arrived, no party waits."""
        for place, receiver in enumerate(self.parties):
            for sender in self.parties[:place]:
                self.acknowledge((self.parties.index(sender), place), self.in_flight[sender, receiver])
        while self.on_the_way:
            self.a_grant_arrives(0)
        for place, sender in enumerate(self.parties):
            assert not sender.blocked
            for receiver in self.parties[place + 1 :]:
                assert sender.room(receiver) >= 1

    @invariant()
    def every_edge_adds_up(self) -> None:
        for place, receiver in enumerate(self.parties):
            for sender in self.parties[:place]:
                room = sender.account(receiver).room
                _, until_grant, deferred = receiver.account(sender)
                arriving = sum(n for to, of, n in self.on_the_way if (to, of) == (sender, receiver))
                since_grant = receiver.spec.more_after - until_grant
                in_flight = self.in_flight[sender, receiver]
                assert room + in_flight + since_grant + deferred + arriving == receiver.spec.initial
                assert since_grant == self.progress[sender, receiver] % receiver.spec.more_after
                assert in_flight <= receiver.spec.initial + max(0, -room)
                assert (receiver in sender.blocked_by) is (room <= 0)

    @invariant()
    def nothing_is_kept_back_without_a_reason(self) -> None:
        for party in self.parties:
            assert party.blocked or not any(party.account(peer).deferred for peer in (*self.parties, *self.dead))
            assert party.blocks - party.unblocks == party.blocked
            assert party.unblocks == self.told[party]

    @invariant()
    def the_dead_are_forgotten(self) -> None:
        for party in self.parties:
            assert set(party.peers) <= set(self.parties)
            assert set(party.blocked_by) <= set(self.parties)
        for dead in self.dead:
            assert dead.peers == dead.blocked_by == ()

    def teardown(self) -> None:
        self.everything_arrives()


TestCreditFlowMachine = CreditFlowMachine.TestCase
TestCreditFlowMachine.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
