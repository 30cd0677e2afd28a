"""``python -m core``: a broker for AMQP 0.9.1 alone, over the same engine; for comparison runs.

It knows no AMQP 1.0, so it refuses a data folder in which messages in that encoding may be.
"""

import os
import secrets
import sys
from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NoReturn

import trio

from core.access.login import Access
from core.amqp091.content import entry_of
from core.amqp091.factory import amqp091_factory
from core.amqp091.inspection import Inspection
from core.amqp091.plain_messages import PlainMessages
from core.amqp091.properties import BasicProperties, encode_properties
from core.config import ConfigError, Settings, load
from core.control_plane import BrokerControl
from core.counters.traffic import Traffic
from core.engine.forwarding.nodes import HomeNode
from core.engine.quorum.annotations import PlainAnnotations
from core.engine.virtual_hosts import VirtualHosts
from core.errors import Invalid
from core.flow_facts import PACKET_CONTENT_TYPE
from core.message import Origin
from core.observe.flow_events.recorder import FlowEvents
from core.observe.stalls import Stalls
from core.order_position import OrderPosition
from core.process import headgate_version, serve
from core.server.dialling import Dialling
from core.server.frontends import FrontEndFactory
from core.server.signals import Signals
from core.standard_streams import leave_streams, print_notice
from core.store.errors import StoreDamaged, StoreFailure, StoreRefused

USAGE, DAMAGED, DISK_FAILED = 2, 8, 9
"""Exit codes: those of ``headgate serve``."""


class Amqp091Alone:
    """The 0.9.1 part of a process; see :class:`core.process.Protocols`."""

    def __init__(self) -> None:
        self.converter = Inspection()
        self.annotations = PlainAnnotations()  # none are added: only AMQP 1.0 consumers could add annotations
        self.encodings = (Origin.AMQP091,)
        self.traffic = {"amqp091": Traffic()}
        self._control: BrokerControl | None = None

    def front_ends(
        self, settings: Settings, hosts: VirtualHosts, access: Access, stalls: Stalls, flow: FlowEvents
    ) -> Sequence[FrontEndFactory]:
        """The front end factory of AMQP 0.9.1."""
        broker = hosts.default
        self._control = BrokerControl(broker, version=headgate_version(), pid=os.getpid(), stalls=stalls, hosts=hosts)
        self._control.message_forms = PlainMessages(self.converter)
        return [
            amqp091_factory(
                settings=settings,
                work=broker.work,
                engine=broker,
                hosts=hosts,
                converter=self.converter,
                access=access,
                stalls=stalls,
                random_bytes=secrets.token_bytes,
                traffic=self.traffic["amqp091"],
                flow=flow,
            )
        ]

    def nodes(self, settings: Settings, dial: Dialling) -> Mapping[str, HomeNode]:
        """None: nodes speak AMQP 1.0 with each other."""
        return {}

    def node_at(
        self, settings: Settings, dial: Dialling, order: OrderPosition, name: str, address: str
    ) -> HomeNode | None:
        """Connections between nodes speak AMQP 1.0, so there are none."""
        return None

    def flow_message(self, packet: bytes, wall: float) -> tuple[bytes, Origin]:
        """Make a message whose timestamp is the wall-clock time in whole seconds."""
        properties = BasicProperties(content_type=PACKET_CONTENT_TYPE, timestamp=int(wall))
        return entry_of(encode_properties(properties), packet), Origin.AMQP091

    @property
    def control(self) -> BrokerControl:
        """The control plane."""
        assert self._control is not None
        return self._control


def broker(config: Path | None, listen: Sequence[str], data: str | None) -> None:
    """Run a broker for AMQP 0.9.1 alone until it is interrupted or terminated."""
    overrides: dict[str, object] = {}
    if listen:
        overrides["server.listen"] = list(listen)
    if data is not None:
        overrides["data.folder"] = data
    try:
        settings = load(config, overrides)
    except ConfigError as error:
        _give_up(USAGE, "the configuration cannot be used:\n  " + "\n  ".join(error.problems))
    try:
        with Signals() as signals:
            read = partial(load, config, overrides)
            protocols = Amqp091Alone()
            trio.run(partial(serve, settings, protocols, ready=_ready, signals=signals, read=read, config=config))
    except* (StoreRefused, Invalid, OSError) as group:
        _give_up(USAGE, _text(group))
    except* StoreDamaged as group:
        _give_up(DAMAGED, _text(group))
    except* StoreFailure as group:
        _give_up(DISK_FAILED, _text(group))


def _ready(addresses: Sequence[tuple[str, int]], console: str, encrypted: Sequence[tuple[str, int]]) -> None:
    shown = " and ".join(f"{host}:{port}" for host, port in addresses)
    print_notice(f"Headgate for AMQP 0.9.1 is ready at {shown}{console and f', {console}'}")


def _text(group: BaseExceptionGroup[BaseException]) -> str:
    first: BaseException = group
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    return str(first)


def _give_up(code: int, text: str) -> NoReturn:
    print(f"headgate: {text}", file=sys.stderr)
    sys.exit(code)


def _main() -> None:
    parser = ArgumentParser(
        allow_abbrev=False,
        prog="python -m core",
        description="Run a broker for AMQP 0.9.1 alone until it is interrupted or terminated.",
        epilog="For example: python -m core --listen 127.0.0.1:5674 --data /tmp/headgate091",
    )
    parser.add_argument("--config", type=Path, help="The configuration, a TOML file. Default: none.")
    parser.add_argument("--listen", action="append", default=[], help="HOST:PORT; may be given several times.")
    parser.add_argument("--data", help="The data folder.")
    try:
        broker(**vars(parser.parse_args()))
    finally:
        leave_streams()


if __name__ == "__main__":
    _main()
