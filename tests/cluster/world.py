"""A simulated cluster: nodes with one group of quorum queues and a stream, an engine, clients, and faults.

Everything happens in one thread and in virtual time, from one random generator, so a seed repeats it exactly. What
clients saw is in a ledger for each queue (:mod:`tests.crash.ledger`). These promises are checked:

- a confirmed message that was not settled is there at the end, with every node; one that was answered as released, or
  never published, never is;
- of all deliveries of a message at most one is not flagged as redelivered;
- a message is not delivered later than a second after its settlement was committed;
- the messages of each publisher are in order;
- what nodes saw of the group's owner has an order (:mod:`tests.cluster.claims`);
- those of streams (:mod:`tests.cluster.stream_subject`).
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random

from core.cluster.member_list import MemberState
from core.engine.quorum.shared_log import FRESH_S, Role
from tests.cluster.claims import Seen, contradiction
from tests.cluster.engine import MembersSeen, Mistake, SimulatedEngine, View, joining
from tests.cluster.network import Network
from tests.cluster.node import STREAMS, Node
from tests.cluster.stream_subject import Broken, StreamSubject
from tests.crash.ledger import BARRIERS, Found, Ledger
from tests.kit.faulty_disk import MemoryDisk

QUEUES = (1, 2)
SPARES = 2
"""Machines that are no members at first."""
SPEED_ERROR = 0.02
"""By how much a monotonic clock may be too fast or too slow."""
GRACE_S = FRESH_S * (1 + 2 * SPEED_ERROR) + 0.05
"""After the commit of a settlement, a leader that does not know of its end may deliver the message for this long. Its
clock may be too slow, and 50 ms are the longest turn."""
CALM_ROUNDS = 400


@dataclass(slots=True)
class Subject:
    """What is known of one queue."""

    ledger: Ledger = field(default_factory=Ledger)
    gone_at: dict[int, float] = field(default_factory=dict)
    unflagged: Counter[int] = field(default_factory=Counter)
    released: set[int] = field(default_factory=set)


class World:
    """One cluster."""

    def __init__(
        self, seed: int, mistake: Mistake | None = None, trace: Callable[[str], None] = lambda line: None
    ) -> None:
        self.rng = Random(seed)
        self.network = Network(self.rng)
        self.size = self.rng.choice((3, 3, 5, 5))
        of_three = self.size > 3 and self.rng.random() < 0.6
        self.engine = SimulatedEngine(range(1, self.size + 1), mistake, of_three=of_three)
        self.engine.damage = self._damaged
        self._weather_from = 0.0
        """When the network may change again."""
        self._damage = 0.0
        """The probability that a batch is read from a member of the engine whose file is damaged."""
        self.subjects = {queue: Subject() for queue in QUEUES}
        self.streams = {stream: StreamSubject(f"stream {stream}") for stream in STREAMS}
        self.seen: list[Seen] = []
        self.did: Counter[str] = Counter()
        self._trace = trace
        self._numbers = [0, BARRIERS]
        """The next number of each publisher."""
        machines = 1 + self.size + SPARES  # the first one is never used: 0 is the number of no node
        self._generations = [0] * machines
        self._disks = [MemoryDisk() for _ in range(machines)]
        self._paused: dict[int, float] = {}
        self.nodes: list[Node | None] = [None] * machines
        self._spoilt: int | None = None
        """The node whose copy is damaged; no other one is damaged at the same time."""
        self._wiped: int | None = None
        """The node that has lost its disk and has not everything again."""
        self._synced_at_stop: dict[int, int] = {}
        """For each node that is down, up to which batch its disk has the group."""
        self.engine.check_cut = self._check_cut
        for number in self.members:
            self._start(number)

    def say(self, text: str) -> None:
        """Add a line to the trace."""
        self._trace(f"{self.network.now:8.3f} {text}")

    # --- what clients see (Clients)

    def confirmed(self, queue: int, numbers: Sequence[int]) -> None:
        ledger = self.subjects[queue].ledger
        ledger.uncertain.difference_update(numbers)
        ledger.confirmed.update(numbers)
        self.did["confirmed"] += len(numbers)

    def took(self, stream: int, first: int, numbers: Sequence[int]) -> None:
        self.streams[stream].took(first, numbers)
        self.did["confirmed in a stream"] += len(numbers)

    def read(self, stream: int, first: int, numbers: Sequence[int], stamp_ms: int) -> None:
        self.streams[stream].read(first, numbers, stamp_ms)
        self.did["read"] += len(numbers)

    def released(self, queue: int, numbers: Sequence[int]) -> None:
        if queue in self.streams:
            self.streams[queue].released(numbers)
            self.did["released"] += len(numbers)
            return
        subject = self.subjects[queue]
        subject.ledger.uncertain.difference_update(numbers)
        subject.released.update(numbers)
        self.did["released"] += len(numbers)
        if subject.ledger.seen.intersection(numbers):
            raise Broken(f"queue {queue}: {list(numbers)} were delivered, and are answered as never taken on")

    def delivered(self, queue: int, numbers: Sequence[int], *, redelivered: bool) -> None:
        subject = self.subjects[queue]
        self.did["delivered"] += len(numbers)
        self.say(f"queue {queue}: delivered {list(numbers)}{' again' if redelivered else ''}")
        late = [n for n in numbers if self.network.now > subject.gone_at.get(n, self.network.now) + GRACE_S]
        if late:
            raise Broken(f"queue {queue}: {late} were settled long ago, and come back")
        if subject.released.intersection(numbers):
            raise Broken(f"queue {queue}: {list(numbers)} were answered as never taken on, and are delivered")
        if not redelivered:
            subject.unflagged.update(numbers)
            twice = [n for n in numbers if subject.unflagged[n] > 1]
            if twice:
                raise Broken(f"queue {queue}: {twice} are delivered twice without the flag")
        subject.ledger.seen.update(numbers)

    def settled(self, queue: int, numbers: Sequence[int]) -> None:
        self.subjects[queue].ledger.going.update(numbers)

    def gone(self, queue: int, numbers: Sequence[int]) -> None:
        subject = self.subjects[queue]
        subject.ledger.gone.update(numbers)
        subject.gone_at.update(dict.fromkeys(numbers, self.network.now))
        self.did["settled"] += len(numbers)

    @property
    def members(self) -> list[int]:
        """The machines that are members."""
        return list(map(int, self.engine.listed.names))

    def _counts(self, node: Node) -> bool:
        return str(node.number) in self.engine.listed.counted and node.number in self.engine.of_group

    @property
    def _of_group(self) -> list[Node]:
        """The nodes that are members of the group and awake."""
        return [node for node in self._awake() if node.number in self.engine.of_group]

    @property
    def _down(self) -> list[int]:
        return [number for number in self.members if self.nodes[number] is None]

    def _check_cut(self, upto: int, seen: View) -> None:
        """What is cut away is on the disks of a majority, not counting what was lost since they said so."""
        members = [node for node in seen.of_group if str(node) in seen.listed.counted]
        lost = {self._wiped, self._spoilt, *seen.unheard}
        having = [node for node in members if node in lost or self._synced(node) >= upto]
        if len(having) <= len(members) // 2 and seen.losses == self.engine.losses:
            raise Broken(f"batches up to {upto} are cut away, and only {having} of {members} have them")

    def _synced(self, number: int) -> int:
        node = self.nodes[number]
        return self._synced_at_stop.get(number, 0) if node is None else node.log.synced_number

    # --- clients act

    def _serving(self) -> Node | None:
        serving = [node for node in self._awake() if node.serves]
        return self.rng.choice(serving) if serving else None

    def publish(self) -> None:
        """Publish some messages of one publisher."""
        node = self._serving()
        if node is not None:
            queue, publisher = self.rng.choice(QUEUES), self.rng.randrange(2)
            first = self._numbers[publisher]
            numbers = range(first, first + self.rng.choice((1, 1, 2, 5)))
            self._numbers[publisher] = numbers.stop
            self.subjects[queue].ledger.uncertain.update(numbers)
            self.say(f"node {node.number}: queue {queue}: publish {list(numbers)}")
            node.publish(queue, numbers, self.rng.choice((0, 10, 150)))

    def publish_to_stream(self) -> None:
        """Publish some messages of one publisher to a stream."""
        node = self._serving()
        if node is not None:
            stream, publisher = self.rng.choice(STREAMS), self.rng.randrange(2)
            first = self._numbers[publisher]
            numbers = range(first, first + self.rng.choice((1, 1, 3, 8)))
            self._numbers[publisher] = numbers.stop
            self.say(f"node {node.number}: stream {stream}: publish {list(numbers)}")
            node.publish_to_stream(stream, numbers, self.rng.choice((0, 10, 150)))

    def read_stream(self) -> None:
        """Let a reader read, and the leader remove old messages."""
        node = self._serving()
        if node is not None:
            node.read_stream(self.rng.choice(STREAMS), self.rng)
            node.retain(self.rng.choice(STREAMS))

    def deliver(self) -> None:
        """Let a consumer take some messages."""
        node = self._serving()
        if node is not None:
            node.deliver(self.rng.choice(QUEUES), self.rng.randint(1, 6))

    def settle(self) -> None:
        """Let a consumer settle."""
        node = self._serving()
        if node is not None:
            node.settle(self.rng)

    def give_back(self) -> None:
        """Let a consumer return messages."""
        node = self._serving()
        if node is not None:
            node.give_back(self.rng)

    # --- nodes act

    def _awake(self) -> list[Node]:
        return [node for node in self.nodes if node is not None and node.number not in self._paused]

    def turn(self) -> None:
        """Give every node a turn, and some of them the disk."""
        now = self.network.now
        self._paused = {number: until for number, until in self._paused.items() if until > now}
        for node in self._awake():
            if node.number not in self.members and self.rng.random() < 0.1:
                self._leave(node.number)
                continue
            node.turn()
            if self.rng.random() < 0.8:
                node.write()
            if self.rng.random() < 0.4:
                node.sync()
            if self.rng.random() < 0.25:
                node.look(partial(self._drop, node))
            if node.takes_part:
                self._copy(node)
            if node.number == self._wiped and (self._has_all(node) or not node.takes_part):
                self._wiped = None

    def _copy(self, node: Node) -> None:
        """Let a node copy, and be copied from."""
        if node.copy.wanted:
            members = self.engine.of_group
            others = [one.number for one in self.nodes if one and one is not node and one.number in members]
            if others:
                source = self.rng.choice(others)
                self.say(f"node {node.number}: copies node {source}")
                node.copy.begin(source)
                self.did["copies"] += 1
        if self.rng.random() < 0.2:
            node.driver.look_for_wanted()

    def _drop(self, node: Node) -> None:
        """Let a node that is no member of the group remove what it keeps, as :class:`core.cluster.member.Member`."""
        upto, here = node.queues.kept_upto, [one.number for one in self._awake()]
        if upto and not node.takes_part and node.seen.all_have(upto, here):
            self.say(f"node {node.number}: drops the group after batch {upto}")
            node.drop()
            self.did["drops"] += 1

    def _has_all(self, node: Node) -> bool:
        return node.log.has_read and not node.log.must_copy and not node.queues.copying

    def claim(self) -> None:
        """A node takes the group, whether its owner has ended or not: leases lapse early, late or never."""
        awake = [node for node in self._awake() if self._counts(node)]
        led = any(node.log.role is Role.LEADER and node.number not in self.network.cut_off for node in awake)
        if awake and (not led or self.rng.random() < 0.1):
            node = self.rng.choice(awake)
            self.say(f"node {node.number}: claims epoch {node.log.owner.epoch + 1}")
            node.driver.claim()

    def report(self) -> None:
        """Members report, and the engine is cut."""
        for node in self._awake():
            node.report()
            if node.log.role is Role.LEADER and self.rng.random() < 0.5:
                node.trim()

    def change_members(self) -> None:
        """A node asks for the members, and changes them if it may. One that joins counts when it has a copy; one that
        has left goes on until it hears of it."""
        asking = [node for node in self._awake() if node.number in self.members]
        if asking:
            node = self.rng.choice(asking)
            self.network.ask(node.number, lambda: self.engine.members, partial(self._change, node), lambda: None)

    def _change(self, asker: Node, seen: MembersSeen) -> None:
        joins = self.rng.random() < 0.5
        spare = [number for number in range(1, len(self.nodes)) if str(number) not in seen.listed.names]
        others = [name for name in seen.listed.counted if int(name) not in self.engine.of_group]
        ready = [one for one in self._awake() if one.number not in self.engine.of_group or self._has_all(one)]
        caught_up = [
            one.number for one in ready
            if (there := seen.listed.find(str(one.number))) is not None and there.state is MemberState.JOINING
        ]  # fmt: skip
        if caught_up:
            what, number = "counts", caught_up[0]
            listed = seen.listed.with_state(str(number), MemberState.MEMBER)
        elif joins and spare and self.nodes[spare[0]] is None:
            what, number = "joins", spare[0]
            listed = joining(seen, str(number))
        elif self.engine.of_three and others and self.rng.random() < 0.5:
            what, number = "moves", self.rng.choice(self.engine.of_group)
            listed = self.engine.moving(
                seen, str(number), self.rng.choice(others), asker.seen, [one.number for one in self._awake()]
            )
        elif len(seen.listed.counted) > 1:
            what, number = "leaves", self.rng.choice(list(map(int, seen.listed.names)))
            listed = self.engine.leaving(seen, str(number), asker.seen, [one.number for one in self._awake()])
        else:
            return
        if listed is None:
            self.did["changes refused"] += 1
            return
        change = partial(self.engine.change_members, seen, asker.seen.losses, listed)
        self.network.ask(asker.number, change, partial(self._changed, what, number), lambda: None)

    def _changed(self, what: str, number: int, made: bool) -> None:
        if made:
            self.say(f"node {number}: {what}")
            self.did[what] += 1
            if what == "leaves" and self.nodes[number] is None:
                self._forget(number)

    def _leave(self, number: int) -> None:
        """A node hears that it has left."""
        self._stop(number, "has left")
        self._forget(number)

    def _forget(self, number: int) -> None:
        """Its disk stays, or not, for when it joins again."""
        if self.rng.random() < 0.5 or number in (self._wiped, self._spoilt):
            self._disks[number] = MemoryDisk()
            self._synced_at_stop[number] = 0
        self._wiped = None if self._wiped == number else self._wiped
        self._spoilt = None if self._spoilt == number else self._spoilt

    # --- faults

    def weather(self) -> None:
        """Change how the network behaves. When it cuts the leader off, it stays so for a while."""
        rng = self.rng
        if self.network.now < self._weather_from:
            return
        self.network.loss = rng.choice((0.0, 0.0, 0.05, 0.3))
        self.network.delay_s = rng.choice((0.002, 0.01, 0.05))
        leaders = {node.number for node in self._awake() if node.log.role is Role.LEADER}
        anyone = {number for number in self.members if rng.random() < 0.3}
        self.network.cut_off = rng.choice((set(), set(), leaders, leaders, anyone))
        if self.network.cut_off == leaders:
            self._weather_from = self.network.now + 3.0
        self.say(f"network: loss {self.network.loss}, delay {self.network.delay_s}, cut off {self.network.cut_off}")

    def pause(self) -> None:
        """A node stands still, with its sockets open."""
        if awake := self._awake():
            node = self.rng.choice(awake)
            self._paused[node.number] = self.network.now + self.rng.choice((0.3, 1.5, 3.0))
            self.say(f"node {node.number}: stands still")

    def jump(self) -> None:
        """A wall clock jumps."""
        if awake := self._awake():
            self.rng.choice(awake).wall_offset = self.rng.choice((-60.0, 0.0, 60.0))

    def power(self) -> None:
        """Cut the power of one node, or of all."""
        everywhere = self.rng.random() < 0.15
        for number in self.members if everywhere else (self.rng.choice(self.members),):
            self._stop(number, "the power fails")

    def _stop(self, number: int, why: str) -> None:
        node = self.nodes[number]
        if node is not None:
            self.say(f"node {number}: {why}")
            node.end()
            self.nodes[number] = None
            self._paused.pop(number, None)
            self._disks[number] = node.disk.power_cut(self.rng)
            done = not (node.log.must_copy or node.queues.copying)
            self._synced_at_stop[number] = node.log.synced_number if done else 0
            self.did["stops"] += 1

    def start(self) -> None:
        """Start a node that is down."""
        if self._down:
            self._start(self.rng.choice(self._down))

    def _start(self, number: int) -> None:
        self._generations[number] += 1
        self.engine.lives[number] = -self._generations[number]
        node = self.nodes[number] = self._node(number)
        if number == self._spoilt:
            self._spoilt = None  # what was damaged is cut off, or comes from another node
            if node.queues.copying:
                self.did["damage found"] += 1
                self._wiped = number
        self.say(f"node {number}: starts after batch {node.log.ends_at}; {'; '.join(node.queues.problems)}")

    def _node(self, number: int) -> Node:
        speed = 1 + self.rng.uniform(-SPEED_ERROR, SPEED_ERROR)
        return Node(
            number, self._disks[number], self._generations[number], engine=self.engine, network=self.network,
            clients=self, seen=self.seen, speed=speed,
        )  # fmt: skip

    def wipe(self) -> None:
        """A node that is down loses its disk. No other one loses its own until that has everything again."""
        if self._may_lose_disk:
            self.engine.losses += 1
            number = self._wiped = self.rng.choice(self._down)
            self.say(f"node {number}: loses its disk")
            self._disks[number] = MemoryDisk()
            self.did["wipes"] += 1

    @property
    def _may_lose_disk(self) -> bool:
        """Whether a node is down whose disk may be lost: another one has everything."""
        several = len(self.engine.listed.counted) > 1
        return self._wiped is None and self._spoilt is None and bool(self._down) and several

    def away(self) -> None:
        """A node that is down is taken for one that is away for too long: batches are not kept for it."""
        if self._down:
            self.engine.away.add(self.rng.choice(self._down))

    def spoil(self) -> None:
        """Flip a bit in the copy of a node that is down. Where no mark proves that it was synced, a start takes it for
        a torn write, cuts it off, and reads it from the engine again."""
        if self._may_lose_disk:
            self.engine.losses += 1
            number = self.rng.choice(self._down)
            disk = self._disks[number]
            logs = [path for path in disk.paths if path.endswith(".log") and disk.size(path)]
            if logs:
                path = self.rng.choice(logs)
                disk.flip_bit(path, self.rng.randrange(8 * disk.size(path)))
                self._spoilt = number
                self.did["flips"] += 1
                self.say(f"node {number}: a bit of {path} flips")

    def _damaged(self, data: bytes) -> bytes:
        if self.rng.random() >= self._damage:
            return data
        self.did["damaged reads"] += 1
        bit = self.rng.randrange(8 * len(data))
        return bytes(byte ^ (1 << bit % 8 if at == bit // 8 else 0) for at, byte in enumerate(data))

    def engine_fails(self) -> None:
        """The engine's leader ends, a majority catches up, or files of a minority are damaged or mended."""
        if self.rng.random() < 0.3:
            self._damage = 0.0 if self._damage else 0.1
        elif self.rng.random() < 0.5:
            self.engine.lose_leader()
            self.say("engine: another member leads")
        else:
            self.engine.replicate()

    # --- the run

    def step(self) -> None:
        """Do one thing, and let a little time pass."""
        weights = MEMBERS_WEIGHTS if self.engine.mistake is Mistake.LEAVES_UNASKED else WEIGHTS
        self.rng.choices(ACTS, weights)[0](self)
        self.network.pass_time(self.rng.expovariate(40))

    def run(self, steps: int) -> None:
        """Do many things, then mend everything and check. Raises Broken, LogBroken, StoreDamaged."""
        for _ in range(steps):
            self.step()
        self.calm()
        self.audit()

    def calm(self) -> None:
        """Let everything be mended, and all nodes come to rest."""
        self.network.loss, self.network.delay_s, self.network.cut_off = 0.0, 0.002, set()
        self._paused.clear()
        self._damage = 0.0
        self.engine.replicate()
        self.say("calm")
        for number in self._down:
            self._start(number)
        self.network.pass_time(1.0)
        epoch = self.engine.owner.epoch
        for round_ in range(CALM_ROUNDS):
            self.turn()
            if round_ > 10 and self._at_rest(epoch):  # right after a turn, which has applied what was read before it
                return
            self.start()
            self.report()
            if not round_ % 20 and not self._led_since(epoch):  # by a leader that has delivered nothing
                counted = [one for one in self._awake() if self._counts(one)]
                if len(counted) == 1:
                    counted[0].log.step_down()  # no other one ends its term
                for node in counted[:2]:
                    node.driver.claim()
            self.network.pass_time(0.05)
        if all(node.log.ends_at < self.engine.cut for node in self._of_group):
            raise Broken("batches were cut away that no node has")
        raise Broken("the cluster does not come to rest")

    def _at_rest(self, epoch: int) -> bool:
        ends = {node.log.ends_at for node in self._of_group}
        others = [node.queues.kept_upto for node in self._awake() if node.number not in self.engine.of_group]
        all_here = len(self._awake()) == len(self.members)
        return self._led_since(epoch) and ends == {self.engine.end} and all_here and not any(others)

    def _led_since(self, epoch: int) -> bool:
        return any(node.serves and node.log.epoch > epoch for node in self._awake())

    def audit(self) -> None:
        """Compare what is there with the ledgers."""
        if why := contradiction(self.seen):
            raise Broken(why)
        leader = max((node for node in self._awake() if node.serves), key=lambda node: node.log.epoch)
        if leader.holds:
            raise Broken("the last leader has delivered before it was asked to")
        for node in self._awake():
            node.flush()
        self.did["members of the group"] += len(self._of_group)
        for queue, subject in self.subjects.items():
            contents = {tuple(node.content(queue)) for node in self._of_group}
            if len(contents) > 1:
                raise Broken(f"queue {queue}: the nodes have different messages")
            found = [Found(number, redelivered) for number, redelivered in leader.drain(queue)]
            verdict = subject.ledger.audit(found)
            if verdict.broken:
                raise Broken(f"queue {queue}: {verdict}; found {[one.number for one in found][:50]}")
        for stream, about in self.streams.items():
            copies = [node.content_of_stream(stream) for node in self._of_group]
            if any(copy != copies[0] for copy in copies):
                raise Broken(f"stream {stream}: the nodes have different messages")
            about.audit(copies[0], leader.streams[stream].first, leader.streams[stream].next)
            self.did["kept in a stream"] += len(copies[0])


ACTS: Sequence[Callable[[World], None]] = (
    World.turn, World.publish, World.deliver, World.settle, World.give_back, World.claim, World.report, World.weather,
    World.pause, World.jump, World.power, World.start, World.spoil, World.engine_fails, World.wipe, World.away,
    World.publish_to_stream, World.read_stream, World.change_members,
)  # fmt: skip
WEIGHTS = (40, 16, 12, 14, 1, 5, 6, 1.5, 0.7, 0.3, 0.6, 3, 0.5, 1, 0.4, 0.5, 10, 6, 1)
"""How often each of them happens."""
MEMBERS_WEIGHTS = tuple(
    8 * weight if act in (World.change_members, World.away, World.wipe) else weight
    for act, weight in zip(ACTS, WEIGHTS, strict=True)
)
"""The same where members come and go all the time: only then does a mistake in that show soon."""
