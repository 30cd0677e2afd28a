"""A client of etcd: requests that are answered later, over gRPC, at whichever member answers.

gRPC does its work in threads of its own. What an answer leads to is handed to ``deliver``, which has it done in the
thread of the event loop.

A request without an answer in time goes to no other member by itself, because only its sender knows whether it may be
carried out twice. But the next requests go to the next member, or to one that has answered since: so a member that has
ended, that is stopped, or that is cut off from the others holds a node up for one time-out at most.
"""

import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import grpc

from core.cluster.etcd_messages import MESSAGES, Message

OLDEST = (3, 4, 23)
DAMAGING = (3, 5, 0), (3, 5, 2)
"""The first and last of the versions that may lose data when a member is killed; etcd's own advice is not to use
them."""
ANSWER_BYTES_MAX = 64 << 20
"""The most bytes of an answer. A read gets eight batches, and a batch may have one message of any size that etcd
takes."""
UNSAID = 0
"""The number of the cluster in an answer without one: etcd 3.4 does not say it of alarms and of a defragmentation."""
STATUS = "Maintenance/Status"
METHODS = {
    "KV/Range": ("RangeRequest", "RangeResponse"),
    "KV/Txn": ("TxnRequest", "TxnResponse"),
    "KV/Compact": ("CompactionRequest", "CompactionResponse"),
    STATUS: ("StatusRequest", "StatusResponse"),
    "Maintenance/Defragment": ("DefragmentRequest", "DefragmentResponse"),
    "Maintenance/Alarm": ("AlarmRequest", "AlarmResponse"),
    "Cluster/MemberList": ("MemberListRequest", "MemberListResponse"),
    "Cluster/MemberAdd": ("MemberAddRequest", "MemberAddResponse"),
    "Cluster/MemberRemove": ("MemberRemoveRequest", "MemberRemoveResponse"),
    "Cluster/MemberPromote": ("MemberPromoteRequest", "MemberPromoteResponse"),
}


class EtcdRefused(Exception):
    """An engine that this broker does not use: too old, or of a version that is known to lose data."""


class EtcdAway(Exception):
    """No member of the engine has answered."""


class EtcdTlsFiles(NamedTuple):
    """Files for TLS with etcd, in PEM."""

    ca: Path
    certificate: Path | None
    key: Path | None


def check_version(version: str, endpoint: str) -> None:
    """Raises EtcdRefused for a version of etcd that must not be used."""
    found = re.match(r"(\d+)\.(\d+)\.(\d+)", version)
    numbers = tuple(map(int, found.groups())) if found else (0, 0, 0)
    if numbers < OLDEST:
        raise EtcdRefused(f"etcd at {endpoint} has version {version!r}; a cluster needs 3.4.23, 3.5.3 or a newer one")
    if DAMAGING[0] <= numbers <= DAMAGING[1]:
        raise EtcdRefused(
            f"etcd at {endpoint} has version {version}; versions 3.5.0 to 3.5.2 may lose data. Use 3.5.3 or a newer one"
        )


class Etcd:
    """The members of one etcd cluster. Methods are for the thread of the event loop."""

    def __init__(
        self, endpoints: Sequence[str], deliver: Callable[[Callable[[], None]], None], tls: EtcdTlsFiles | None = None
    ) -> None:
        """``endpoints``: host and port of each member. ``deliver`` is called in any thread. Raises OSError for files
        that cannot be read."""
        self.endpoints: list[str] = []
        self.trouble = ""
        """Why the last request had no answer; empty if it had one."""
        self.requests = self.failures = 0
        """How many requests were sent, and how many of them had no answer."""
        self.cluster = 0
        """The number of the etcd cluster whose answers count; 0 for any. An address may come to lead to another one,
        which has none of what this one has."""
        self.term = 0
        """That of the last answer: another one has begun when the members have elected a leader."""
        self._deliver = deliver
        self._current = 0
        self._credentials = None if tls is None else _credentials(tls)
        self._channels: list[grpc.Channel] = []
        self._calls: list[dict[str, grpc.UnaryUnaryMultiCallable]] = []
        self.follow(endpoints)

    def follow(self, endpoints: Sequence[str]) -> None:
        """These are the members from now on. Requests that are under way at others get no answer."""
        before = dict(zip(self.endpoints, self._channels, strict=True))
        asked = self.endpoints[self._current] if self.endpoints else ""
        self.endpoints = list(endpoints)
        self._channels = [before.pop(one, None) or self._channel(one) for one in endpoints]
        self._calls = [{method: _call(channel, method) for method in METHODS} for channel in self._channels]
        self._current = self.endpoints.index(asked) if asked in self.endpoints else 0
        for channel in before.values():
            channel.close()

    def _channel(self, endpoint: str) -> grpc.Channel:
        limits = [("grpc.max_receive_message_length", ANSWER_BYTES_MAX), ("grpc.max_send_message_length", -1)]
        options = [*limits, ("grpc.initial_reconnect_backoff_ms", 100), ("grpc.max_reconnect_backoff_ms", 500)]
        if self._credentials is None:
            return grpc.insecure_channel(endpoint, options)
        return grpc.secure_channel(endpoint, self._credentials, options)

    @property
    def endpoint(self) -> str:
        """The member that is asked now."""
        return self.endpoints[self._current]

    def ask(
        self,
        method: str,
        request: Message,
        answered: Callable[[Message], None],
        unanswered: Callable[[], None],
        *,
        timeout_s: float,
        member: int | None = None,
    ) -> None:
        """Send a request, to this member if it has to be this one. One of the two functions is called later. A member
        that has answered is the one that is asked from then on, unless it was asked for its status: it says that also
        while it is cut off from the others."""
        member = self._current if member is None else member
        self.requests += 1
        future = self._calls[member][method].future(request, timeout=timeout_s)
        done = partial(self._done, future, method, self.endpoints[member], answered, unanswered)
        future.add_done_callback(lambda _: self._deliver(done))

    def _done(
        self,
        future: grpc.Future,
        method: str,
        endpoint: str,
        answered: Callable[[Message], None],
        unanswered: Callable[[], None],
    ) -> None:
        member = self.endpoints.index(endpoint) if endpoint in self.endpoints else None
        if future.cancelled() or future.code() is not grpc.StatusCode.OK:
            self.failures += 1
            self.trouble = "closed" if future.cancelled() else f"{endpoint}: {future.details()}"
            if member == self._current:
                self._current = (member + 1) % len(self._channels)
            unanswered()
            return
        answer = future.result()
        if self.cluster and answer.header.cluster_id not in (self.cluster, UNSAID):
            self.failures += 1
            self.trouble = f"{endpoint}: it is of another etcd cluster than when this broker was started"
            if member == self._current:
                self._current = (member + 1) % len(self._channels)
            unanswered()
            return
        self.trouble = ""
        if method != STATUS:
            self.term = answer.header.raft_term
            self._current = self._current if member is None else member
        answered(answer)

    def member_after(self, count: int) -> int:
        """The member that comes so many places after the one that is asked now."""
        return (self._current + count) % len(self._channels)

    def ask_first(self, endpoint: str) -> None:
        """The next requests go to this member."""
        if endpoint in self.endpoints:
            self._current = self.endpoints.index(endpoint)

    def ask_another(self) -> None:
        """The next requests go to another member: what this one has answered is damaged."""
        self._current = (self._current + 1) % len(self._channels)

    def ask_now(self, method: str, request: Message, *, timeout_s: float) -> Message:
        """Send a request and wait for the answer, at each member in turn: for a start. Raises EtcdAway."""
        for _ in self._channels:
            try:
                return self._calls[self._current][method](request, timeout=timeout_s)
            except grpc.RpcError as error:
                self.trouble = f"{self.endpoint}: {error.details()}"
                self._current = (self._current + 1) % len(self._channels)
        raise EtcdAway(f"etcd does not answer at {', '.join(self.endpoints)}: {self.trouble}")

    def check(self, *, timeout_s: float) -> list[str]:
        """Return the version of each member that answers. Blocks. Raises EtcdRefused, and EtcdAway if none answers."""
        versions = []
        for number, endpoint in enumerate(self.endpoints):
            try:
                status = self._calls[number][STATUS](MESSAGES["StatusRequest"](), timeout=timeout_s)
            except grpc.RpcError as error:
                self.trouble = f"{endpoint}: {error.details()}"
                continue
            check_version(status.version, endpoint)
            versions.append(status.version)
            self._current = number
        if not versions:
            raise EtcdAway(f"etcd does not answer at {', '.join(self.endpoints)}: {self.trouble}")
        return versions

    def close(self) -> None:
        """Close the connections. Requests without an answer get none."""
        for channel in self._channels:
            channel.close()


def _call(channel: grpc.Channel, method: str) -> grpc.UnaryUnaryMultiCallable:
    request, response = METHODS[method]
    return channel.unary_unary(
        f"/etcdserverpb.{method}",
        request_serializer=MESSAGES[request].SerializeToString,
        response_deserializer=MESSAGES[response].FromString,
    )


def _credentials(tls: EtcdTlsFiles) -> grpc.ChannelCredentials:
    return grpc.ssl_channel_credentials(
        tls.ca.read_bytes(),
        None if tls.key is None else tls.key.read_bytes(),
        None if tls.certificate is None else tls.certificate.read_bytes(),
    )
