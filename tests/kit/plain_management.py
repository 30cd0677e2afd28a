"""A management client that does not wait for answers: it sends requests as fast as it gets link credit."""

import re
import threading
from collections import Counter
from collections.abc import Callable, Iterable

from amqp10.wire.framing import FRAME_HEADER_BYTES
from amqp10.wire.messaging import Source, Target
from amqp10.wire.performatives import Attach, Flow, Transfer, decode_performative
from amqp10.wire.sections import AMQP_VALUE, Properties, encode_properties, encode_section
from tests.kit.plain_clients import ATTACH, FLOW, PATIENCE_S, TRANSFER, WIDE, Client10, grant, performative

NODE = "/management"
REQUESTS, ANSWERS = 0, 1
"""The handles of the two links."""
STATUS = re.compile(rb"\xa1\x03([1-5][0-9][0-9])")
"""The subject of an answer: a text of three digits in the frame with which the answer begins."""
BEGINNING_BYTES = 200
"""How many bytes of an answer are searched for its subject."""

Request = tuple[str, str, object]
"""The method, path and body of a request."""


class ManagementClient:
    """One pair of links on a connection of its own. It counts answers by their status."""

    def __init__(self, host: str, port: int) -> None:
        self._news = threading.Condition()
        self._limit = 0
        """How many requests the link credit has allowed in all."""
        self._sent = 0
        self._theirs: int | None = None
        """The broker's handle for the link of requests."""
        self._began = False
        """True while more frames of an answer that has begun are to come."""
        self.answers: Counter[int] = Counter()
        self.client = Client10(host, port, on_frame=self._frame)
        for handle in (ANSWERS, REQUESTS):
            attach = Attach(
                name="management",
                handle=handle,
                role=handle == ANSWERS,
                source=Source(address=NODE),
                target=Target(address=NODE),
                initial_delivery_count=0 if handle == REQUESTS else None,
                properties={"paired": True},
            )
            self.client.send(performative(attach))
        self.client.wait(ATTACH, 2)
        self.client.send(grant(WIDE, ANSWERS))

    def ask(self, requests: Iterable[Request]) -> Counter[int]:
        """Send all requests and wait for their answers; returns the number of answers by status. Raises
        TimeoutError."""
        before = self.answers.copy()
        for method, path, body in requests:
            with self._news:
                self._wait(lambda: self._limit > self._sent)
            self.client.send(self._request(method, path, body))
            self._sent += 1
        with self._news:
            self._wait(lambda: self.answers.total() >= self._sent)
        return self.answers - before

    def _wait(self, done: Callable[[], bool]) -> None:
        if not self._news.wait_for(lambda: done() or self.client.plain.ended, PATIENCE_S):
            raise TimeoutError(f"{self.answers.total()} of {self._sent} requests were answered in {PATIENCE_S:.0f} s")
        if not done():
            raise ConnectionError(f"the connection ended after {self.answers.total()} answers")

    def _request(self, method: str, path: str, body: object) -> bytes:
        properties = Properties(message_id=f"{self._sent}", to=path, subject=method, reply_to="$me")
        message = encode_properties(properties) + encode_section(AMQP_VALUE, body)
        transfer = Transfer(
            handle=REQUESTS,
            delivery_id=self._sent,
            delivery_tag=self._sent.to_bytes(4),
            message_format=0,
            settled=True,
        )
        return performative(transfer, message)

    def _frame(self, code: int, frame: bytes) -> None:
        if code not in (ATTACH, FLOW, TRANSFER):
            return
        found, end = decode_performative(frame, FRAME_HEADER_BYTES, len(frame))
        with self._news:
            if isinstance(found, Attach) and found.role:
                self._theirs = found.handle
            elif isinstance(found, Flow) and found.handle == self._theirs and found.link_credit is not None:
                self._limit = max(self._limit, (found.delivery_count or 0) + found.link_credit)
            elif isinstance(found, Transfer):
                if not self._began:
                    status = STATUS.search(frame, end, end + BEGINNING_BYTES)
                    self.answers[0 if status is None else int(status[1])] += 1
                self._began = found.more
            self._news.notify_all()
