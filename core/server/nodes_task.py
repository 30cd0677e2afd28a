"""The task of one of several processes on one port: it makes the changes of definitions that the first of them puts in
order. The first one's process has the order itself too."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import trio
from structlog.typing import FilteringBoundLogger

from core.access.users import Users
from core.clock import Now
from core.cluster.definitions_log import DefinitionsLog
from core.cluster.following import Following
from core.config import Settings
from core.config.address import UNIX
from core.engine.routing.agreement import AgreedChange, Agreement, Answered, ChangeVerdict
from core.engine.virtual_hosts import VirtualHosts
from core.errors import Invalid
from core.server.groups_on_disk import NODES_FILE
from core.server.listener import CannotListen
from core.server.order_client import OrderClient
from core.server.order_service import OrderService
from core.server.run import SharedPort

# NODES_FILE has the identity of the order whose definitions are in the data folder. Without it, or with another one,
# nothing is deleted that the order does not have; it is offered to the others.
STEP_S, HURRY_S = 0.1, 0.002
"""The longest waits between two steps; the second while changes wait for the record of those before them."""


class NodesTask:
    """One node."""

    def __init__(
        self,
        of_broker: Settings,
        hosts: VirtualHosts,
        agreement: Agreement,
        *,
        clock: Callable[[], Now],
        log: FilteringBoundLogger,
    ) -> None:
        """Raises StoreDamaged, StoreFailure, CannotListen."""
        settings = self._settings = of_broker.cluster
        self._folder, self._agreement, self._log = of_broker.data.folder, agreement, log
        self._wake = trio.Event()
        self.settled = trio.Event()
        """Set when this node has the definitions that the others have."""
        order = Path(settings.order.removeprefix(UNIX))
        self._service: OrderService | None = None
        if settings.node == settings.first_node:
            try:
                self._service = OrderService(self._folder, order, log)
            except OSError as error:
                raise CannotListen(error.errno, f"cannot listen at {order}: {error.strerror or error}") from None
        self._client = OrderClient(order, self._wake_up)
        self._order_identity = ""
        """That of the order that this life of the node follows."""
        self._kept_identity = self._read_identity()
        self._following = Following(hosts, agreement, lambda: clock().monotonic, self._say)
        self._definitions = DefinitionsLog(self._client, self._following, self._say, first_time=True)
        agreement.submit = self._submit

    @property
    def shared_port(self) -> SharedPort:
        """What the server needs to know of the others."""
        settings = self._settings
        return SharedPort(Path(settings.socket or ""), [node.name for node in settings.nodes], self.settled.wait)

    def begin(self, users: Users) -> None:
        """From now on, changes of definitions are agreed on with the other nodes."""
        self._following.users = users
        self._agreement.alone = False

    @property
    def tasks(self) -> Sequence[Callable[[Callable[[], None]], Awaitable[None]]]:
        """What is to be run until the broker ends."""
        service = [] if self._service is None else [self._service.run]
        return [*service, self._client.run, self.run]

    async def run(self, turn: Callable[[], None]) -> None:
        """Make changes until cancelled. Raises Invalid if the first node has another order than before."""
        while True:
            await self._wait()
            self._client.look()
            if self._client.latest is not None:
                self._hear(self._client.latest)
            if self._agreement.owed and self._definitions.made >= 0:
                self._pay_owed()
            if self._definitions.step():
                turn()
                self._wake_up()
            if self._definitions.settled and not self.settled.is_set():
                await trio.to_thread.run_sync(self._keep_identity)
                self._definitions.first_time = False
                self.settled.set()

    async def _wait(self) -> None:
        with trio.move_on_after(HURRY_S if self._definitions.busy or self._definitions.unkept else STEP_S):
            await self._wake.wait()
        await trio.lowlevel.checkpoint()
        self._wake = trio.Event()

    def _hear(self, latest: int) -> None:
        identity = self._client.identity
        if self._definitions.made < 0:
            self._definitions.first_time = identity != self._kept_identity
        elif identity != self._order_identity:
            raise Invalid(
                "the first node has lost the order of definitions and begins a new one; this node starts again"
            )
        self._order_identity = identity
        self._definitions.heard(latest)

    def _submit(self, change: AgreedChange, answered: Answered) -> None:
        self._definitions.submit(change, answered)
        self._wake_up()

    def _pay_owed(self) -> None:
        """Have the other nodes remove what has ended here."""
        owed, self._agreement.owed = self._agreement.owed, []
        for change in owed:
            self._definitions.submit(change, partial(self._paid, change))

    def _paid(self, change: AgreedChange, verdict: ChangeVerdict, why: str) -> None:
        if verdict is not ChangeVerdict.MADE:
            self._agreement.owed.append(change)

    def _wake_up(self) -> None:
        self._wake.set()

    def _say(self, event: str, facts: Mapping[str, object]) -> None:
        self._log.info(event, **facts)

    def _read_identity(self) -> str:
        try:
            return (self._folder / NODES_FILE).read_text(encoding="ascii").strip()
        except FileNotFoundError:
            return ""

    def _keep_identity(self) -> None:
        new = self._folder / f"{NODES_FILE}.new"
        new.write_text(self._client.identity + "\n", encoding="ascii")
        new.replace(self._folder / NODES_FILE)
