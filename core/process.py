"""Where a broker process is put together, for any set of protocols: a configuration goes in, a running broker comes
out.

Everything that lower rooms must not use on their own is handed in here: the clocks, the data folder, users, and the
front ends that answer on the port.
"""

import gc
import os
import secrets
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

import trio
from structlog.typing import FilteringBoundLogger

from core.access.attempts import Attempts
from core.access.audit import AuditResult
from core.access.login import Access
from core.access.mechanisms import PASSWORD_NEEDS_TLS
from core.access.users import Users, UserStore
from core.clock import Now
from core.config import Settings, render
from core.config.address import is_loopback, parse_address
from core.config.rewrite import KeysInFile
from core.control_plane import BrokerControl
from core.counters.traffic import Traffic
from core.engine.broker import Broker
from core.engine.forwarding.nodes import HomeNode
from core.engine.quorum.annotations import AnnotationCodec
from core.engine.virtual_hosts import VirtualHosts
from core.interface import Converter
from core.message import Origin
from core.observe.flow_events.recorder import FlowEvents
from core.observe.idle_consumers import IdleConsumers
from core.observe.log import LogLevel, open_log
from core.observe.stall_log import StallLog
from core.observe.stalls import Stalls
from core.order_position import OrderPosition
from core.recent_rows import RecentRows
from core.server.audit_writer import AuditWriter, open_audit
from core.server.data import OpenData, StartGivenUp
from core.server.descriptors import raise_limit, sockets_limit
from core.server.dialling import Dialling
from core.server.flow_writer import Background, flow_tasks, open_flow_events
from core.server.frontends import FrontEndFactory
from core.server.hashing import Hashing
from core.server.joining import homes_of, join
from core.server.key_fetching import KeyFetching
from core.server.listener import CannotListen
from core.server.measures import (
    Measures,
    ResidentSet,
    disk_free,
    keep_freed_memory,
    memory_giver,
    memory_total,
    waits_of_thread,
)
from core.server.node_tls import open_certificates, watched
from core.server.reader import own_waiting_reader
from core.server.reload import Reload
from core.server.rounds import IdleRounds, StallRounds
from core.server.run import TAKEN, Server, finish_work, open_clocks, read_clocks
from core.server.run import serve as run_server
from core.server.sampler import Sampler
from core.server.service_notice import ServiceNotice
from core.server.signals import Signals
from core.server.trace_exporter import exporting, new_traces
from core.standard_streams import print_on_terminal
from core.version import headgate_version as headgate_version

if TYPE_CHECKING:
    from core.admin.serving import AdminServer

SWITCH_SECONDS = 0.0001
"""How long a worker that has synced waits for the interpreter while the loop is busy. With the default of 5 ms, the
longest commits took three times as long. With half of this value a quorum queue is slower again."""
OTHERS = 0o077
"""The rights of users of the machine other than ours: files of the broker are made without them, those of SQLite
included."""
GC_THRESHOLDS = (5_000, 2, 0)
"""Thresholds of the garbage collector: the number of new objects between two collections of the youngest generation,
and for each older one the number of collections of the younger generation between two of its own. The broker's objects
are freed by reference counts; with the default of 700 the collector runs thousands of times a second, for 2 % of a
quorum queue's CPU time."""
COLLECTED_MAX = 20_000
"""The most objects that one collection examines. It takes 0.3 us an object, and nothing interrupts it: 6 ms. The
thresholds alone do not bound it, because Python subtracts every freed object from the number of new ones: 130,000 new
objects were examined at once, for 40 ms, when as many old ones were freed meanwhile."""
REFUSAL_DELAY_S = (1.0, 3.0)
"""A refused authentication is answered after a random time between these: that makes guessing slow, and costs us
nothing."""
IDENTITY_BYTES = 16
"""The bytes of a queue's identity: 128 random bits, as many as in a UUID."""
UNIQUE_BYTES = 12
"""The bytes of names that must not be guessed."""


def new_identity() -> str:
    """Return a random identity for a newly declared queue: 32 hexadecimal digits."""
    return secrets.token_hex(IDENTITY_BYTES)


def node_name() -> str:
    """The name by which this broker calls itself in metrics and flow events."""
    return f"headgate@{socket.gethostname()}"


Ready = Callable[[Sequence[tuple[str, int]], str, Sequence[tuple[str, int]]], None]
"""Called with the addresses once connections are accepted; with the console's address or why there is none (empty when
no console is wanted); and with those of the addresses that need TLS."""


class Protocols(Protocol):
    """The protocols of a broker. Each way to compose a process provides this."""

    @property
    def converter(self) -> Converter:
        """Reads and changes the content of messages; see :class:`core.interface.Converter`."""

    @property
    def annotations(self) -> AnnotationCodec:
        """Encodes the annotations that consumers add to messages."""

    @property
    def encodings(self) -> Iterable[Origin]:
        """The message encodings that it understands."""

    @property
    def traffic(self) -> Mapping[str, Traffic]:
        """The counts of each protocol, by the names that metrics give to protocols."""

    def front_ends(
        self, settings: Settings, hosts: VirtualHosts, access: Access, stalls: Stalls, flow: FlowEvents
    ) -> Sequence[FrontEndFactory]:
        """The protocols that answer on the port. The first also refuses peers that speak none of them."""

    def nodes(self, settings: Settings, dial: Dialling) -> Mapping[str, HomeNode]:
        """The other nodes of the cluster by name; ``dial`` connects to them."""

    def node_at(
        self, settings: Settings, dial: Dialling, order: OrderPosition, name: str, address: str
    ) -> HomeNode | None:
        """Another node of the cluster, at this address; None where connections between nodes are not possible.
        ``order``: how far this node is."""

    def flow_message(self, packet: bytes, wall: float) -> tuple[bytes, Origin]:
        """A message that carries flow events, made at this wall-clock time (seconds), and its encoding."""

    @property
    def control(self) -> BrokerControl:
        """The control plane for operators; available once there are front ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Surface:
    """The process's connection to its starter: what it reports, and what it is told."""

    log: FilteringBoundLogger
    recent: RecentRows
    level: LogLevel
    signals: Signals
    read: Callable[[], Settings]
    ready: Ready
    config: Path | None
    audit: AuditWriter | None

    def shown(self, control: BrokerControl) -> BrokerControl:
        """Let operators read the last lines of the log and of the audit log; returns the control plane."""
        control.recent_log = self.recent
        if self.audit is not None:
            control.recent_audit = self.audit.audit.recent
        return control


async def serve(
    settings: Settings,
    protocols: Protocols,
    *,
    ready: Ready,
    signals: Signals,
    read: Callable[[], Settings],
    config: Path | None = None,
) -> None:
    """Run the broker until a signal stops it. ``ready`` is called with the addresses once connections are accepted;
    ``read`` reads the configuration again, and raises ConfigError; ``config`` is the file that the settings were read
    from.

    Raises StoreRefused and StoreDamaged for a data folder that cannot be used, StoreFailure for one that fails, Invalid
    for settings that cannot be used, CannotListen.
    """
    descriptors = raise_limit()
    keep_freed_memory()
    sys.setswitchinterval(SWITCH_SECONDS)
    os.umask(OTHERS)
    level, recent = LogLevel(settings.log.level), RecentRows(settings.log.recent_max)
    with open_log(settings.log, sys.stderr, monotonic=time.monotonic, level=level, recent=recent) as log:
        connections = sockets_limit(settings.server.connections_max)
        log.info("descriptor-limit", total_limit=descriptors, sockets_limit=connections)
        clock = open_clocks()
        try:
            data = OpenData(
                settings.data.folder,
                settings.store,
                clock=clock,
                log=log,
                annotations=protocols.annotations,
                new_identity=new_identity,
                encodings=protocols.encodings,
                stop_wanted=lambda: signals.stop_wanted,
                cluster=settings.cluster if settings.cluster.shares else None,
                waits=waits_of_thread(),
            )
        except StartGivenUp:
            log.info("start-given-up")
            return
        try:
            with open_audit(settings.audit, clock=clock, log=log) as audit:
                surface = _Surface(
                    log=log,
                    recent=recent,
                    level=level,
                    signals=signals,
                    read=read,
                    ready=ready,
                    config=config,
                    audit=audit,
                )
                await _serve(settings, protocols, data, clock, surface)
        finally:
            data.close()


def _hosts(
    settings: Settings, protocols: Protocols, data: OpenData, log: FilteringBoundLogger, dial: Dialling
) -> VirtualHosts:
    """Make the engine. Policies that an earlier version has kept and this one cannot use are logged."""
    homes = homes_of(settings.cluster, data.agreement, dict(protocols.nodes(settings, dial)))
    broker = Broker(settings, protocols.converter, storage=data.storage, new_identity=new_identity, homes=homes)
    broker.machinery.confirms.traces = new_traces(settings.traces, read_clocks, secrets.token_bytes)
    hosts = VirtualHosts(broker, keeper=data.hosts)
    for host in hosts.all:
        for policy, why in host.policies.unusable:
            log.warning("policy-not-usable", policy=policy, reason=why)
    return hosts


async def _serve(
    settings: Settings, protocols: Protocols, data: OpenData, clock: Callable[[], Now], surface: _Surface
) -> None:
    log = surface.log
    certificates, node_tls = open_certificates(settings, wall=time.time, log=log)
    dialling = Dialling(lambda *connected: server.adopt(*connected), node_tls)
    broker = (hosts := _hosts(settings, protocols, data, log, dialling)).default
    flow = open_flow_events(settings.flow_events, clock=clock, node=node_name())
    stall_log, idle = StallLog(log, settings.log, clock), IdleConsumers(addresses_max=settings.metrics.addresses_max)
    stalls = Stalls(clock=clock, listeners=[stall_log, flow], addresses_max=settings.metrics.addresses_max)
    resident, give_back, notice = ResidentSet(), memory_giver(), ServiceNotice(os.environ, status=data.status)
    sampler = _sampler(settings, broker, _measures(settings, resident, give_back, lambda: server.sockets), clock, log)
    admin: AdminServer | None = None

    async def serve_admin(turn: Callable[[], None]) -> None:
        if admin is not None:
            await admin.run()

    node_at = partial(protocols.node_at, settings, dialling, broker.machinery.order)
    joined = join(settings, data, hosts, node_at, dialling, clock, log)
    tasks = flow_tasks(flow, broker, settings=settings.flow_events, message=protocols.flow_message, log=log)
    tasks += [dialling.run, *([IdleRounds(hosts.idle_consumers, idle).run] if settings.admin.enabled else [])]
    tasks += data.tasks(broker.alarms, lambda seconds, whole: server.read_within(seconds, whole))
    access, hashing, fetching = _access(settings, clock=clock, surface=surface, store=data.users)
    tasks += joined.begin(hosts, access.users)
    tasks += [hashing.run, fetching.run, StallRounds(stalls, stall_log).run, *_more(surface, broker)]
    server = Server(
        settings=settings.server,
        engine=hosts,
        factories=protocols.front_ends(settings, hosts, access, stalls, flow),
        log=log,
        clock=clock,
        background=[sampler.run, serve_admin, notice.run, *watched(certificates, node_tls, broker.alarms), *tasks],
        sockets_changed=data.sockets_changed,
        store=data.write_inline,
        work=broker.work,
        make_reader=own_waiting_reader(data.at_work),
        certificates=certificates,
        node_tls=node_tls,
        shared_port=joined.shared_port,
    )
    reload, control = _reload(settings, surface, access, fetching, server, sampler), surface.shown(protocols.control)
    control.server, control.sampler, control.lanes, control.node = server, sampler, data.lanes, node_name()
    control.limits, control.access, control.cluster = _limits(settings), access, joined.cluster
    control.settings_text, control.reload = lambda: render(reload.in_force), reload
    open_admin = partial(
        _open_admin, settings, server=server, data=data, sampler=sampler, idle=idle, control=control,
        traffic=protocols.traffic, log=log,
    )  # fmt: skip
    try:
        said, admin = await console(settings, open_admin, log)
        _settle_memory(give_back)
        await run_server(
            server,
            partial(_tell_ready, surface.ready, said, server, admin),
            signals=surface.signals,
            reload=partial(_reload_by_signal, reload, access),
            before_stop=_last_work(reload, control),
        )
        hosts.conclude()
        await data.leave_in_order(server.turn)
    finally:
        if admin is not None:
            admin.close()
        resident.close()


def _tell_ready(
    ready: Ready, said: str, server: Server, admin: "AdminServer | None", addresses: Sequence[tuple[str, int]]
) -> None:
    ready(addresses, said, server.tls_listening_on)
    if admin is not None and admin.login_url is not None:
        print_on_terminal(f"log in to the console, once and within five minutes: {admin.login_url}")
        admin.login_url = None


def _settle_memory(give_back: Callable[[], None]) -> None:
    """Collect the garbage of the start, and keep the collector away from the objects that stay."""
    gc.collect()  # frees a few MiB of garbage from the start
    gc.freeze()  # excludes the present objects from collections: examining them took 3 % of a quorum queue's CPU time
    gc.callbacks.append(bound_collections)
    gc.set_threshold(*GC_THRESHOLDS)  # not before: it would start a collection of what the start is making
    give_back()


def bound_collections(phase: Literal["start", "stop"], info: dict[str, int]) -> None:
    """Exclude from collections the survivors of a full one, and all present objects where there are too many for one.

    Such objects are still freed when nothing refers to them. They leak if they form a reference cycle and are
    forgotten; so every object of the broker that ends drops the references to what refers to it
    (tests/hostile/test_cycles.py).
    """
    generation = info["generation"]
    if phase == "stop":
        if generation == 2:
            gc.freeze()
    else:
        # One expression in C: no other thread may run while the list of the objects lives. If it has begun to make a
        # tuple out of an iterator, the list is a second reference to that tuple, which then cannot grow: SystemError.
        present = sum(map(len, map(gc.get_objects, range(generation + 1))))
        if present > COLLECTED_MAX:
            gc.freeze()


async def console(
    settings: Settings, open_admin: Callable[[], Awaitable["AdminServer"]], log: FilteringBoundLogger
) -> tuple[str, "AdminServer | None"]:
    """Return what to say about the console, and the listening admin server; "" and None where none is wanted.

    Raises CannotListen, Invalid for one that the settings ask for. One that is not set is left out where its address is
    taken: a second broker on a machine, and one beside a RabbitMQ with its metrics, must start.
    """
    if not settings.admin.enabled:
        return "", None
    try:
        admin = await open_admin()
    except CannotListen as error:
        if settings.admin.asked_for:
            raise
        log.warning("admin-not-listening", reason=error.strerror)
        return f"no console: {error.strerror}", None
    return f"console at {' and '.join(admin.urls)}", admin


def _sampler(
    settings: Settings, broker: Broker, measures: Measures, clock: Callable[[], Now], log: FilteringBoundLogger
) -> Sampler:
    return Sampler(
        settings=settings.alarms,
        registry=broker.alarms,
        measures=measures,
        clock=clock,
        memory_sampled=broker.memory_sampled,
        log=log,
    )


def _measures(
    settings: Settings, resident: ResidentSet, give_back: Callable[[], None], sockets: Callable[[], tuple[int, int]]
) -> Measures:
    return Measures(
        memory_used=resident,
        memory_total=memory_total,
        disk_free=partial(disk_free, settings.data.folder),
        sockets=sockets,
        give_back=give_back,
    )


def _access(
    settings: Settings, *, clock: Callable[[], Now], surface: _Surface, store: UserStore
) -> tuple[Access, Hashing, KeyFetching]:
    """Make the state that logins share, the threads that hash their passwords, and the task that fetches keys of
    tokens."""

    def monotonic() -> float:
        return clock().monotonic

    own = settings.access
    hashing = Hashing(
        running_max=own.hashes_running_max,
        waiting_max=own.hashes_waiting_max,
        wait_seconds_max=settings.server.handshake_time_out,
        clock=clock,
    )
    access = Access(
        users=Users(
            settings.users,
            cache_seconds=own.password_cache,
            monotonic=monotonic,
            random_bytes=secrets.token_bytes,
            store=store,
        ),
        attempts=Attempts(own, monotonic=monotonic),
        submit=hashing.submit,
        random_bytes=secrets.token_bytes,
        log=surface.log,
        iterations=own.password_iterations,
        hash_name=own.password_hash,
        anonymous=own.anonymous,
        plain_without_tls=own.plain_without_tls,
        amqplain=own.amqplain,
        keep=KeysInFile(surface.config).replace,
        audit=None if surface.audit is None else surface.audit.audit,
    )
    for why in access.users.unusable:
        surface.log.error("user-not-usable", reason=why)
    tell_plain_passwords(settings, surface.log)
    fetching = KeyFetching(access, clock=clock, log=surface.log)
    fetching.take(settings.oauth2)
    return access, hashing, fetching


def _more(surface: _Surface, broker: Broker) -> list[Background]:
    """The task that sends spans, and the one that writes the audit log with the broker's notice, if there are these.
    Raises Invalid."""
    tasks: list[Background] = []
    audit, traces = surface.audit, broker.machinery.confirms.traces
    if traces is not None:
        tasks.append(exporting(traces, node_name(), surface.log).run)
    if audit is not None:
        audit.notice = partial(broker.alarms.notice, "audit")
        tasks.append(audit.run)
    return tasks


def tell_plain_passwords(settings: Settings, log: FilteringBoundLogger) -> None:
    """Log what becomes of PLAIN on addresses without TLS that other machines can reach."""
    exposed = [address for address in settings.server.listen if not is_loopback(parse_address(address)[0])]
    if exposed and settings.access.plain_without_tls:
        remedy = "use server.tls_listen, and take access.plain_without_tls away"
        log.warning("passwords-in-clear", addresses=", ".join(exposed), remedy=remedy)
    elif exposed:
        log.info("plain-not-offered", addresses=", ".join(exposed), reason=PASSWORD_NEEDS_TLS)


def _reload(
    settings: Settings, surface: _Surface, access: Access, fetching: KeyFetching, server: Server, sampler: Sampler
) -> Reload:
    """Make the function that reloads the configuration: which settings can change while the broker runs, and how."""

    def take_plain(new: Settings) -> None:
        access.plain_without_tls = new.access.plain_without_tls
        tell_plain_passwords(new, surface.log)

    def take_certificates(new: Settings) -> None:
        server.certificates.reload(new.tls)

    def take_keys(new: Settings) -> None:
        fetching.take(new.oauth2)

    return Reload(
        settings,
        read=surface.read,
        actions={
            lambda new: access.users.replace(new.users): ("users",),
            take_plain: ("access.plain_without_tls",),
            lambda new: surface.level.set(new.log.level): ("log.level",),
            lambda new: server.take(new.server): TAKEN,
            take_certificates: [f"tls.{key}" for key in type(settings.tls).model_fields],
            take_keys: [f"oauth2.{key}" for key in type(settings.oauth2).model_fields],
            lambda new: sampler.set_memory_watermark(new.alarms.memory_watermark): ("alarms.memory_watermark",),
            lambda new: sampler.set_disk_free_limit(new.alarms.disk_free_limit): ("alarms.disk_free_limit",),
        },
        log=surface.log,
        each_time=(take_certificates, take_keys),
    )


def _reload_by_signal(reload: Reload, access: Access) -> None:
    """Reload the configuration after SIGHUP; the audit log has who asked, and what has changed."""
    reloaded = reload()
    if access.audit is not None:
        details = {"taken": ", ".join(reloaded.taken), "needs_restart": ", ".join(reloaded.needs_restart)}
        if not reloaded.read:
            details = {"reason": "the configuration has errors"}
        result: AuditResult = "done" if reloaded.read else "failed"
        access.audit.put("operations", "config.reload", result, user="", peer="signal", details=details)


def _last_work(reload: Reload, control: BrokerControl) -> Callable[[], Awaitable[None]]:
    """Make the function that is awaited between the request to stop and the good-bye."""

    def drain() -> None:
        control.drain(wanted=True, force=True)
        control.turn()

    async def finish() -> None:
        seconds = reload.in_force.server.drain_time
        await finish_work(drain=drain, unsettled=lambda: control.hosts.unsettled, seconds=seconds)

    return finish


def _limits(settings: Settings) -> Mapping[str, int]:
    """The configured limits, by what they limit."""
    return {
        "queues": settings.engine.queues_max,
        "exchanges": settings.engine.exchanges_max,
        "bindings": settings.engine.bindings_max,
        "policies": settings.engine.policies_max,
        "unauthenticated": settings.server.unauthenticated_max,
    }


async def _open_admin(
    settings: Settings,
    *,
    server: Server,
    data: OpenData,
    sampler: Sampler,
    idle: IdleConsumers,
    control: BrokerControl,
    traffic: Mapping[str, Traffic],
    log: FilteringBoundLogger,
) -> "AdminServer":
    """Open the admin server; it listens when this returns. Its code is loaded here, so that a broker without one saves
    that."""
    from core.admin.encrypted import EncryptedStream
    from core.admin.start import open_admin_server
    from core.observe.link_sums import ConnectionLinks
    from core.observe.scrape import MetricSources

    changes = server.changes()
    links = ConnectionLinks(changed=changes.take, rows=lambda one: server.connections("link_figures", one))
    changes.gone = links.gone
    sources = MetricSources(
        broker=control.hosts,
        server=server,
        links=links,
        traffic=traffic,
        lanes=data.lanes,
        lag=sampler,
        stalls=control.stalls,
        full_sockets=server.counters.full_sockets,
        idle_consumers=lambda: idle.ratios,
        monotonic=lambda: read_clocks().monotonic,
        addresses_max=settings.metrics.addresses_max,
        version=headgate_version(),
        node=control.node,
        limits=control.limits,
        audit=None if control.access is None else control.access.audit,
        tokens=lambda: None if control.access is None else control.access.tokens,
        traces=control.hosts.default.machinery.confirms.traces,
    )

    def encrypt(transport: trio.SocketStream) -> EncryptedStream:
        return EncryptedStream(transport, server.certificates.new_tunnel(), server.handshakes)

    return await open_admin_server(
        settings.admin,
        sources=sources,
        control=control,
        traffic=traffic,
        encrypt=encrypt if settings.admin.tls else None,
        log=log,
    )
