"""The streams whose names fit a pattern, as Headgate lists them: for the option ``subscribePattern``."""

import re
from typing import Final
from urllib.parse import quote

from amqp10.blocking.connection import BlockingConnection
from amqp10.blocking.requests import BlockingManagement
from pyspark_amqp10.errors import BadOption, RequestRefused
from pyspark_amqp10.requests import QUEUES, SHOWN_QUEUES, facts_before_name
from pyspark_amqp10.stream_ends import STREAM_TYPE

PAGE_ROWS: Final = 100
"""Queues of one request: a row of a queue has some 2 KiB."""
TOO_LARGE: Final = 400
"""The status of a page that has too many bytes."""
STREAMS_MAX: Final = 1000
"""The most streams of one query: each costs a request before each micro-batch, and a place in every offset."""


class FoundStreams:
    """Lists the streams of one connection's broker."""

    def __init__(self, connection: BlockingConnection, pattern: re.Pattern[str]) -> None:
        """Raises BadOption for a broker that does not list its queues."""
        if facts_before_name(connection.broker) != SHOWN_QUEUES:
            raise BadOption("option subscribePattern needs Headgate: another broker does not list its streams")
        self._management = BlockingManagement(connection)
        self._pattern = pattern

    def addresses(self) -> list[str]:
        """The addresses of all streams there are now whose whole name fits, sorted.

        Raises BadOption for too many, and for a user that has no right to see the queues; and the connection's errors.
        """
        found: list[str] = []
        limit, after = PAGE_ROWS, ""
        while True:
            path = f"{SHOWN_QUEUES.rstrip('/')}?limit={limit}" + (f"&after={quote(after, safe='')}" if after else "")
            try:
                answer = self._management.request("GET", path).body
            except RequestRefused as error:
                if error.status == TOO_LARGE and limit > 1:
                    limit //= 2  # a page has a limit in bytes too
                    continue
                raise BadOption(f"option subscribePattern: the broker does not list its queues: {error.text}") from None
            assert isinstance(answer, dict)
            for row in answer["items"]:
                name = str(row.get("name"))
                if row.get("type") == STREAM_TYPE and self._pattern.fullmatch(name):
                    found.append(QUEUES + quote(name, safe=""))
            if answer.get("next") is None:
                break
            after = str(answer["next"])
        if len(found) > STREAMS_MAX:
            raise BadOption(
                f"option subscribePattern fits {len(found)} streams, and a query reads {STREAMS_MAX} at most"
            )
        return sorted(found)
