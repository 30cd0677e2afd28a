"""The task that has this node take part in its cluster, and what connects the cluster with the broker around it."""

import os
import re
import secrets
import shutil
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import structlog
import trio

from core.access.users import Users
from core.alarms.registry import ENGINE
from core.clock import Now
from core.config import Settings
from core.config.address import parse_address
from core.config.cluster import NAME, ClusterSettings
from core.config.server import ServerSettings
from core.engine.forwarding.nodes import HomeNode
from core.engine.quorum.groups import QuorumGroups
from core.engine.routing.agreement import AgreedChange, Agreement, Answered, ChangeVerdict
from core.engine.virtual_hosts import VirtualHosts
from core.errors import Invalid, PreconditionFailed
from core.interface import Binding, Snapshot
from core.server.cluster_copies import IDENTITY_FILE, MEMBERS_FILE
from core.server.cluster_recovery import SHOWN_DIGITS, check_recovered, end_recovery, move_etcd, read_recovery
from core.server.dialling import Dialling
from core.server.etcd_process import FOLDER as ETCD_FOLDER
from core.server.etcd_process import EtcdProcess, own_addresses
from core.server.pump import TURN_SECONDS_MAX
from core.version import headgate_version

if TYPE_CHECKING:  # both need grpc, and a broker without a cluster must start without it
    from core.cluster.beats import Beat
    from core.cluster.engine_members import EngineMember
    from core.cluster.etcd import Etcd, EtcdTlsFiles
    from core.cluster.member import Member
    from core.cluster.member_changes import ChangeOfMembers
    from core.cluster.member_list import ListedMember, MemberList
    from core.cluster.recovery import NewCluster

SHARED_FILE = "cluster-definitions"
"""The file in the data folder that says that the definitions there are those of the cluster. Without it, what only this
node has is offered to the others, and not deleted."""
IDENTITY_BYTES, LIFE_BYTES = 16, 8
WARNED_OF_MAX = 1_000
"""The most exchanges of which the log says that they have bindings of this node alone: a program that makes exchanges
without end must not fill the log, or memory."""
CHECK_S = 2.0
"""How long each member of etcd may take to say its version at a start."""
ERRORS = frozenset({"group-stopped", "cluster-refused", "batch-too-large"})
WARNINGS = frozenset({"queue-of-one-node", "classic-queue-made-anew", "queues-of-lost-nodes-removed"})
STEP_S, HURRY_S = 0.1, 0.02
"""The longest waits between two steps: a beat is due every 0.5 s, and a look every 0.25 s; and while something cannot
wait for the next look."""


def _tls_files(settings: ClusterSettings) -> "EtcdTlsFiles | None":
    from core.cluster.etcd import EtcdTlsFiles

    if settings.etcd_ca is None:
        return None
    return EtcdTlsFiles(settings.etcd_ca, settings.etcd_certificate, settings.etcd_key)


def open_etcd(
    settings: ClusterSettings, endpoints: Sequence[str], deliver: Callable[[Callable[[], None]], None]
) -> "Etcd":
    """Make the client of etcd at these addresses. Raises Invalid where the packages for it are not installed, or its
    files unusable."""
    try:
        from core.cluster.etcd import Etcd
    except ImportError as error:
        raise Invalid(f"[cluster] needs more packages ({error}): pip install 'grpcio>=1.62' 'protobuf>=5.26'") from None
    try:
        return Etcd(endpoints, deliver, _tls_files(settings))
    except OSError as error:
        raise Invalid(f"cluster.etcd_ca, etcd_certificate or etcd_key: {error}") from None


def _node_address(settings: ClusterSettings, listen: Sequence[str]) -> str:
    """Where other nodes connect: the host that clients are told, and the port for nodes; "" if there is none."""
    if not settings.listen:
        return ""
    host, _ = parse_address(settings.advertise or listen[0])
    port = parse_address(settings.listen[0])[1]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def tls_addresses(settings: ClusterSettings, tls_listen: Sequence[str]) -> Sequence[str]:
    """Where clients connect with TLS; nothing if this node does not listen with TLS."""
    if not tls_listen or settings.advertise_tls:
        return (settings.advertise_tls,) if tls_listen else ()
    if not settings.advertise:
        return tls_listen
    host, port = parse_address(settings.advertise)[0], parse_address(tls_listen[0])[1]
    return (f"[{host}]:{port}" if ":" in host else f"{host}:{port}",)


def identity_in_etcd(settings: ClusterSettings, endpoints: Sequence[str], *, timeout_s: float) -> str:
    """The identity of the cluster that etcd has; "" if it has none, or does not answer. Blocks. Raises Invalid where
    the packages for etcd are not installed, or its files unusable."""
    etcd = open_etcd(settings, endpoints, lambda act: None)
    from core.cluster.etcd import EtcdAway
    from core.cluster.etcd_messages import range_of
    from core.cluster.keys import ClusterKeys

    try:
        answer = etcd.ask_now("KV/Range", range_of(ClusterKeys(settings.name).identity), timeout_s=timeout_s)
        return str(answer.kvs[0].value.decode(errors="replace")) if answer.kvs else ""
    except EtcdAway:
        return ""
    finally:
        etcd.close()


def endpoints_of(listed: "MemberList") -> list[str]:
    """The addresses of etcd in a list; none if brokers start no etcd."""
    return [one.etcd for one in listed.members if one.etcd]


class ClusterTask:
    """The node of this broker in its cluster."""

    def __init__(
        self,
        of_broker: Settings,
        groups: QuorumGroups,
        hosts: VirtualHosts,
        agreement: Agreement,
        node_at: Callable[[str, str], HomeNode | None],
        dialling: Dialling,
        *,
        clock: Callable[[], Now],
        log: structlog.typing.FilteringBoundLogger,
    ) -> None:
        """``node_at`` returns another node by its name and address. Blocks for a few seconds. Raises Invalid for an
        etcd that must not be used, and without the packages for it."""
        settings, folder = of_broker.cluster, of_broker.data.folder
        self._answers: deque[Callable[[], None]] = deque()
        self._wake = trio.Event()
        self._token: trio.lowlevel.TrioToken | None = None
        self._settings, self._folder, self._groups = settings, folder, groups
        self._hosts, self._log, self._clock = hosts, log, clock
        self._kept_identity = self._read_identity()
        self._to_keep: MemberList | None = None
        """A list of the members that is not in the data folder yet."""
        self._recovery = read_recovery(folder)
        """The new cluster that this node begins with its copies, until it has."""
        listed = self._read_members()
        self.etcd = open_etcd(settings, self._first_endpoints(listed), self._deliver)
        self.own: EtcdProcess | None = None
        """The etcd that this broker starts; None if it starts none."""
        try:
            self._check()
            self._check_copies()
        except BaseException:
            self.etcd.close()
            raise
        from core.cluster.engine_leader import EngineLeader
        from core.cluster.following import Following
        from core.cluster.homes import QueueHomes

        self._following = Following(hosts, agreement, lambda: clock().monotonic, self._say)
        self._engine_leader = EngineLeader(self.etcd, lambda: clock().monotonic)
        self._following.offers_queues |= self._recovery is not None
        self._agreement = agreement
        self._first_time = self._recovery is not None or not (folder / SHARED_FILE).exists()
        self.member = self._new_member(listed, self._first_beat(of_broker.server))
        self._agree(listed)
        machinery = hosts.default.machinery
        self._homes = QueueHomes(machinery.homes, hosts, groups, self.member, node_at, dialling.hurry)
        dialling.refused = self._refused
        groups.wake = self._wake_up
        machinery.leading_ends, self._order = self._leading_ends, machinery.order
        machinery.other_nodes, machinery.homes.clients_of = self.member.beats.of_clients, self.member.beats.addresses_of
        self._order.read_upto = self.member.definitions.read_upto

    def _new_member(self, listed: "MemberList", beat: "Beat") -> "Member":
        """What takes part in the cluster, with this list of its members and this first beat."""
        from core.cluster.member import Hooks, Member

        settings, clock = self._settings, self._clock
        return Member(
            self.etcd,
            self._groups,
            cluster=settings.name,
            node=settings.node,
            members=listed,
            beat=beat,
            identity=self._identity(),
            clock=lambda: clock().monotonic,
            hooks=Hooks(
                self._hosts.default.machinery.never_committed,
                self._following,
                self._first_time,
                self._leads_until,
                self._say,
                self._engine_full,
                self._members_changed,
            ),
            request_bytes_max=settings.engine_request_limit,
            away_time_max=settings.away_time_max,
            away_bytes_max=settings.away_bytes_max,
            quota=settings.engine_quota,
            scheme="http" if settings.etcd_ca is None else "https",
            recovers=self._recovery is not None,
        )

    def _agree(self, listed: "MemberList") -> None:
        """Have what this broker declares agreed with the other nodes."""
        from core.cluster.forgotten import ForgottenHomes

        self._forgotten = ForgottenHomes(self._hosts, self.member.definitions, self._say)
        self._agreement.submit = self._submit
        self._agreement.group_sizes = self._group_sizes(listed)
        self._agreement.binds_here, self._agreement.tell = self._binds_here, self._say
        self._told_of: set[tuple[str, str]] = set()
        """Exchanges of all nodes that have bindings of this node alone, as the log has told."""
        self._agreement.leads_here = lambda identity: self._groups.of(identity)[0].queues.leads

    def _check(self) -> None:
        from core.cluster.etcd import EtcdAway, EtcdRefused, check_version

        try:
            if self._settings.etcd_peers:  # the others are started by brokers that have checked them
                self.own = EtcdProcess(
                    self._settings,
                    self._folder,
                    shutil.which("etcd"),
                    check=check_version,
                    others=self._ask_members,
                    log=self._log,
                    notice=partial(self._hosts.default.alarms.notice, "etcd"),
                    alone="" if self._recovery is None else self._recovery.identity[:SHOWN_DIGITS],
                )
                return
            versions = self.etcd.check(timeout_s=CHECK_S)
        except EtcdRefused as error:
            raise Invalid(str(error)) from None
        except EtcdAway as error:
            self._log.warning("etcd-away", reason=str(error))
        else:
            self._log.info("etcd-found", versions=versions, endpoints=list(self._settings.etcd))

    def _check_copies(self) -> None:
        """Raises Invalid if this node cannot begin the new cluster that its data folder asks for."""
        if self._recovery is not None:
            check_recovered(self._folder, self._recovery, self._groups)
            if self._settings.etcd_peers:
                move_etcd(self._folder, ETCD_FOLDER, self._recovery)

    def _first_beat(self, server: ServerSettings) -> "Beat":
        from core.cluster.beats import Beat

        settings = self._settings
        addresses = (settings.advertise,) if settings.advertise and server.listen else server.listen
        beat = Beat(0, secrets.token_hex(LIFE_BYTES), addresses, headgate_version())
        beat.node_address = _node_address(settings, [*server.listen, *server.tls_listen])
        beat.tls_addresses = tls_addresses(settings, server.tls_listen)
        return beat

    # --- hooks

    def begin(self, users: Users) -> None:
        """From now on, changes of definitions are agreed on with the other nodes."""
        self._following.users = users
        self._agreement.alone = False

    def _submit(self, change: AgreedChange, answered: Answered) -> None:
        self.member.definitions.submit(change, answered)
        self._wake_up()

    def _pay_owed(self) -> None:
        """Have the other nodes remove what has ended here."""
        owed, self._agreement.owed = self._agreement.owed, []
        for change in owed:
            self.member.definitions.submit(change, partial(self._paid, change))

    def _paid(self, change: AgreedChange, verdict: ChangeVerdict, why: str) -> None:
        if verdict is not ChangeVerdict.MADE:
            self._agreement.owed.append(change)

    def _refused(self, node: str, host: str, port: int) -> None:
        if self._homes.refused(node, host, port, self._clock().monotonic):
            self._log.info("node-refuses", node=node, host=host, port=port)
            self._wake_up()

    def _binds_here(self, virtual_host: str, binding: Binding) -> None:
        """Clients may publish to the exchange at any node, and the queue gets what is published at this one only: say
        so once for each exchange."""
        host, place = self._hosts.find(virtual_host), (virtual_host, binding.source)
        if host is None or place in self._told_of or len(self._told_of) >= WARNED_OF_MAX:
            return
        exchange = host.shown.topology.exchanges.get(binding.source)
        if exchange is not None and exchange.declaration.durable:
            self._told_of.add(place)
            self._log.warning(
                "binding-of-one-node", vhost=virtual_host, exchange=binding.source, destination=binding.destination
            )

    def _leads_until(self, until: float) -> None:
        self._hosts.default.machinery.leads_until = until

    def _leading_ends(self, now: Now) -> None:
        self.member.leading_ends(now.monotonic)
        self._wake_up()

    def _engine_full(self, why: str) -> None:
        alarms = self._hosts.default.machinery.alarms
        if why:
            self._log.warning("engine-full", reason=why)
            alarms.set("disk", ENGINE, why)
        else:
            self._log.info("engine-not-full")
            alarms.clear("disk", ENGINE)

    def _say(self, event: str, facts: Mapping[str, object]) -> None:
        say = self._log.error if event in ERRORS else self._log.warning if event in WARNINGS else self._log.info
        say(event, **facts)

    # --- the list of the members

    def _read_members(self) -> "MemberList":
        """The list that this node had last, or that of its configuration. Raises Invalid for a damaged file."""
        from core.cluster.member_list import MemberList
        from core.cluster.recovery import members_anew

        settings, path = self._settings, self._folder / MEMBERS_FILE
        try:
            kept = MemberList.decoded(path.read_bytes())
        except FileNotFoundError:
            kept = MemberList.first(settings.members, settings.etcd, settings.etcd_peers)
        if kept is None:
            raise Invalid(f"{path} has no list of members; remove it, and the configuration's list is read")
        return kept if self._recovery is None else members_anew(kept)

    def _first_endpoints(self, listed: "MemberList") -> Sequence[str]:
        """Where etcd is. A node that begins a new cluster starts the only one that has it."""
        if self._recovery is not None and self._settings.etcd_peers:
            return [own_addresses(self._settings)[0]]
        return endpoints_of(listed) or self._settings.etcd

    def _identity(self) -> str:
        if self._recovery is not None:
            return self._recovery.identity
        return self._kept_identity or secrets.token_hex(IDENTITY_BYTES)

    def _members_changed(self, listed: "MemberList") -> None:
        self._agreement.copies = len(listed.members)
        self._agreement.group_sizes = self._group_sizes(listed)
        for host in self._hosts.all:
            host.policies.copies = len(listed.members)
        if endpoints := endpoints_of(listed):
            self.etcd.follow(endpoints)
        self._to_keep = listed
        self._forgotten.due = True

    def _group_sizes(self, listed: "MemberList") -> frozenset[int]:
        return frozenset(map(self._groups.numbers.size_of, listed.groups))

    def _ask_members(self) -> "Sequence[EngineMember] | None":
        """Called in another thread."""
        from core.cluster.engine_members import ask_members

        own = own_addresses(self._settings)[0]
        others = [one for one in endpoints_of(self.member.changes.listed) if one != own]
        return ask_members(others, _tls_files(self._settings)) if others else None

    # --- the task

    def _deliver(self, act: Callable[[], None]) -> None:
        """Called in gRPC's threads."""
        self._answers.append(act)
        token = self._token
        if token is not None:
            try:
                token.run_sync_soon(self._wake_up)
            except trio.RunFinishedError:
                return

    def _wake_up(self) -> None:
        self._wake.set()

    @property
    def tasks(self) -> Sequence[Callable[[Callable[[], None]], Awaitable[None]]]:
        """What is to be run until the broker ends."""
        return [self.run] if self.own is None else [self.run, self.own.run]

    async def run(self, turn: Callable[[], None]) -> None:
        """Take part in the cluster until cancelled."""
        self._token = trio.lowlevel.current_trio_token()
        try:
            while True:
                with trio.move_on_after(HURRY_S if self.member.hurries or self._homes.busy else STEP_S):
                    await self._wake.wait()
                await trio.lowlevel.checkpoint()
                self._wake = trio.Event()
                self._take_answers()
                self._engine_leader.step()
                if self.member.joined and self.member.identity != self._kept_identity:
                    await trio.to_thread.run_sync(self._keep_identity, self.member.identity)  # before there is data
                if self._to_keep is not None:
                    listed, self._to_keep = self._to_keep, None
                    await trio.to_thread.run_sync(self._keep, MEMBERS_FILE, listed.encoded())
                if self._agreement.owed and self.member.definitions.made >= 0:
                    self._pay_owed()
                going_on = self.member.step() | self._homes.follow(self._clock().monotonic)
                self._order.reached(self.member.definitions.made)
                if self.member.changes.known and not self.member.refused:
                    self._forgotten.step(self.member.changes.listed.names)
                if going_on:
                    turn()
                if self._first_time and self.member.definitions.settled and self.member.beginning.end():
                    self._first_time = self.member.definitions.first_time = False
                    await trio.to_thread.run_sync((self._folder / SHARED_FILE).touch)
                    if self._recovery is not None:
                        await self._end_recovery(self._recovery)
        finally:
            self._token = None
            self.etcd.close()

    async def _end_recovery(self, recovery: "NewCluster") -> None:
        """This node has begun the new cluster: from now on it is one of its nodes."""
        await trio.to_thread.run_sync(end_recovery, self._folder)
        self._recovery, self._following.offers_queues = None, False
        if endpoints := endpoints_of(self.member.changes.listed):
            self.etcd.follow(endpoints)
        self._log.info("cluster-recovered", identity=recovery.identity)

    def _take_answers(self) -> None:
        """Take what has come, for no longer than a turn may last."""
        until = self._clock().monotonic + TURN_SECONDS_MAX
        while self._answers:
            self._answers.popleft()()
            if self._clock().monotonic > until:
                self._wake.set()
                return

    def _read_identity(self) -> str:
        try:
            return (self._folder / IDENTITY_FILE).read_text(encoding="ascii").strip()
        except FileNotFoundError:
            return ""

    def _keep_identity(self, identity: str) -> None:
        self._keep(IDENTITY_FILE, f"{identity}\n".encode("ascii"))
        self._kept_identity = identity

    def _keep(self, name: str, content: bytes) -> None:
        """Replace a file in the data folder."""
        new = self._folder / f"{name}.new"
        with new.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        new.replace(self._folder / name)

    # --- what operators do

    def set_aside(self, *, wanted: bool, force: bool) -> None:
        """Begin or end to hand over what this node leads, and to claim nothing. Raises PreconditionFailed if a group
        would lose its majority, unless ``force`` is set."""
        self.member.set_aside(wanted=wanted, force=force)
        self._wake_up()

    def rebalance(self) -> dict[int, str]:
        """Have each group led by the node that should lead it. Returns the groups that move, and where to."""
        moves = self.member.rebalance()
        self._wake_up()
        return moves

    def join(self, name: str, etcd: str, etcd_peer: str) -> None:
        """Take a node in. Raises StillGoing until that is done, Invalid, and PreconditionFailed."""
        from core.cluster.member_changes import ChangeOfMembers
        from core.cluster.member_list import ListedMember, MemberState

        if re.fullmatch(NAME, name) is None:
            raise Invalid(f"a node cannot be named {name!r}: it must have 1 to 64 letters, digits, '.', '_' and '-'")
        try:
            for address in filter(None, (etcd, etcd_peer)):
                parse_address(address)
        except ValueError as error:
            raise Invalid(str(error)) from None
        member = ListedMember(name, MemberState.JOINING, etcd, etcd_peer)
        self._change(ChangeOfMembers.JOIN, member, force=False)

    def leave(self, name: str, *, is_gone: bool, force: bool) -> None:
        """Have a node leave, or take one off the list that is gone. Raises StillGoing until it has begun, NotFound, and
        PreconditionFailed."""
        from core.cluster.member_changes import ChangeOfMembers

        self._check_part()
        if not force:
            self._check_votes(name)
            if not is_gone:
                self._check_classic(name)
        what = ChangeOfMembers.FORGET if is_gone else ChangeOfMembers.LEAVE
        self._change(what, self.member.changes.listed.named(name), force=force)

    def _check_classic(self, name: str) -> None:
        """Raises PreconditionFailed if classic queues live on a node: they do not move."""
        queues = sum(home == name for home in self._forgotten.homes())
        if queues:
            raise PreconditionFailed(
                f"classic queues live on node {name} ({queues}), and do not move: consume and delete them "
                "first, or use --force, and they are removed with what is in them"
            )

    def _change(self, what: "ChangeOfMembers", member: "ListedMember", *, force: bool) -> None:
        self._check_part()
        self._wake_up()
        self.member.changes.change(what, member, force=force)

    def replace_etcd(self, name: str, *, force: bool) -> None:
        """Have the etcd of a node taken in anew, which has lost its data. Raises StillGoing until that has begun,
        NotFound, and PreconditionFailed."""
        self._check_part()
        if not force:
            self._check_votes(name)
        self._wake_up()
        self.member.engine_members.replace(self.member.changes.listed.named(name), force=force)

    def _check_votes(self, without: str) -> None:
        """Raises PreconditionFailed if another node's etcd has no vote: one could be the last vote too many that is
        missing. Raises StillGoing until that is known."""
        listed = self.member.changes.listed
        self.member.engine_members.check_votes(listed, set(listed.counted) - {without})

    def _check_part(self) -> None:
        if self.member.refused:
            raise PreconditionFailed(self.member.refused)

    def leader_of(self, identity: str) -> tuple[int, str | None, Sequence[str]]:
        """Return the group of a quorum queue, the node that leads it now, and the nodes that keep it."""
        group = self._groups.of(identity)[0]
        return group.number, self.member.leader(group), self.member.beats.members_of(group.number)

    # --- what is shown

    def status(self) -> Snapshot:
        """The cluster as this node sees it."""
        from core.cluster.member_rows import group_rows, node_rows

        member = self.member
        return {
            "name": self._settings.name,
            "node": self._settings.node,
            "joined": member.joined,
            "trouble": member.refused
            or member.beginning.waits_for
            or ("" if self.own is None else self.own.why)
            or self.etcd.trouble,
            "engine": {
                "endpoints": self.etcd.endpoints,
                "tls": self._settings.etcd_ca is not None,
                "asked": self.etcd.endpoint,
                "requests": self.etcd.requests,
                "failures": self.etcd.failures,
                "own": None if self.own is None else self.own.row(),
            },
            "members_version": member.changes.listed.version,
            "nodes": node_rows(member),
            "groups": group_rows(member),
        }
