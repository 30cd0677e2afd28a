"""Settings of a cluster: this node's name, the other nodes, and which queues live where."""

from collections import Counter
from typing import Self

from pydantic import Field, field_validator, model_validator

from core.config.address import is_loopback, parse_address
from core.config.section import Section


class NodeSettings(Section):
    """Another node of the cluster."""

    name: str = Field(min_length=1, max_length=255)
    """Its name: what it has as cluster.node."""

    address: str = Field(min_length=1, max_length=512)
    """Where it listens for AMQP, HOST:PORT."""

    queues: tuple[str, ...] = Field(default=(), strict=False)
    """The queues that live there, on every virtual host: names, or beginnings of names with * behind them."""

    @field_validator("address")
    @classmethod
    def _address(cls, address: str) -> str:
        parse_address(address)
        return address


class ClusterSettings(Section):
    """The nodes of a cluster. Clients may use any node: it forwards to the node on which a queue lives."""

    node: str = Field(default="", max_length=255)
    """The name of this node. When empty, the broker is alone."""

    trust_loopback: bool = False
    """Whether a connection from this machine may call itself a node without a certificate: for trials only."""

    nodes: tuple[NodeSettings, ...] = Field(default=(), strict=False)
    """The other nodes."""

    @field_validator("nodes")
    @classmethod
    def _names_once(cls, nodes: tuple[NodeSettings, ...]) -> tuple[NodeSettings, ...]:
        for name, count in Counter(node.name for node in nodes).items():
            if count > 1:
                raise ValueError(f"must not have the name {name!r} {count} times")
        return nodes

    @model_validator(mode="after")
    def _may_connect(self) -> Self:
        if self.nodes and not self.node:
            raise ValueError("must have the name of this node in node")
        for node in self.nodes:
            if node.name == self.node:
                raise ValueError(f"must not have this node, {self.node!r}, among the others")
            if not (self.trust_loopback and is_loopback(parse_address(node.address)[0])):
                raise ValueError("can have nodes only on this machine, and with trust_loopback, as yet")
        return self

    def home_of(self, virtual_host: str, queue: str) -> str | None:
        """Return the node on which a queue lives, as far as these settings say; None for any other queue."""
        for node in self.nodes:
            for pattern in node.queues:
                if queue == pattern or (pattern.endswith("*") and queue.startswith(pattern[:-1])):
                    return node.name
        return None
