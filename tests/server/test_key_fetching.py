"""The task that fetches keys, with a clock and downloads of the test's own."""

import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
import structlog
import trio
import trio.testing
from structlog.testing import LogCapture

from core.access.exchange import WAIT
from core.access.mechanisms import PlainMechanism
from core.clock import Now
from core.config.oauth2 import OAuth2Settings
from core.errors import Invalid
from core.server.key_download import DownloadFailed
from core.server.key_fetching import THREADS_MAX, KeyFetching
from tests.kit.logins import from_here, make_access
from tests.kit.tokens import NOW, ec_key, key_set, make_token, oauth2

URL = oauth2(jwks_file=None, jwks_url="https://login.example.org/keys")


class Provider:
    """Downloads that the test decides about: ``answer`` returns bytes, raises, or blocks until it is stopped."""

    def __init__(self, answer: Callable[["Provider"], bytes]) -> None:
        self.answer = answer
        self.began = 0
        self.stopped = threading.Event()

    def __call__(self, settings: OAuth2Settings) -> "Provider":
        self.began += 1
        return self

    def read(self) -> bytes:
        return self.answer(self)

    def stop(self) -> None:
        self.stopped.set()


class Place:
    """A task that fetches, and the logins that it serves."""

    def __init__(self, answer: Callable[[Provider], bytes]) -> None:
        self.provider, self.log, self.turns = Provider(answer), LogCapture(), 0
        self.access = make_access(log=self.log)
        self.fetching = KeyFetching(
            self.access,
            clock=lambda: Now(trio.current_time(), NOW + trio.current_time()),
            log=structlog.wrap_logger(None, processors=[self.log]),
            download=self.provider,
        )
        self.turned = trio.Event()

    def turn(self) -> None:
        self.turns += 1
        self.turned.set()

    async def fetched(self) -> None:
        """Wait for the end of a fetch."""
        await self.turned.wait()
        self.turned = trio.Event()

    def events(self, name: str) -> list[object]:
        return [entry for entry in self.log.entries if entry["event"] == name]


@asynccontextmanager
async def running(answer: Callable[[Provider], bytes], settings: OAuth2Settings = URL) -> AsyncIterator[Place]:
    place = Place(answer)
    place.fetching.take(settings)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(place.fetching.run, place.turn)
        yield place
        nursery.cancel_scope.cancel()


async def test_keys_are_fetched_at_the_start_and_at_intervals(mock_clock: trio.testing.MockClock):
    async with running(lambda provider: key_set()) as place:
        await place.fetched()
        assert len(place.access.tokens.keys.keys) == 2
        assert place.provider.began == 1
        mock_clock.jump(3600.0)
        await place.fetched()
        assert place.provider.began == 2
        assert place.access.tokens.keys.fetches == {"done": 2, "failed": 0}
        assert [entry["keys"] for entry in place.events("keys-fetched")] == [2, 2]


@pytest.mark.parametrize(
    ("answer", "words"), [(b"<html>", "not JSON"), (b'{"keys": []}', "no public key"), (b"", "not JSON")]
)
async def test_what_is_no_key_set_leaves_the_keys_and_is_tried_again(
    mock_clock: trio.testing.MockClock, answer: bytes, words: str
):
    answers = [key_set(), answer, key_set(ec_key("new"))]
    async with running(lambda provider: answers.pop(0)) as place:
        await place.fetched()
        mock_clock.jump(3600.0)
        await place.fetched()
        (entry,) = place.events("keys-not-fetched")
        assert words in entry["reason"]
        assert (entry["keys_kept"], entry["url"]) == (2, URL.jwks_url)
        assert len(place.access.tokens.keys.keys) == 2
        mock_clock.jump(30.0)
        await place.fetched()
        assert [key.kid for key in place.access.tokens.keys.keys] == ["new"]


async def test_a_download_that_fails_is_told_and_puts_logins_off():
    def fails(provider: Provider) -> bytes:
        raise DownloadFailed("it redirects to 'http://elsewhere'; set oauth2.jwks_url")

    async with running(fails) as place:
        exchange = PlainMechanism(place.access, from_here()).start()
        assert exchange.respond(b"\0x\0" + make_token().encode()) == WAIT
        await place.fetched()
        assert exchange.respond(b"")[0] == "later"
        assert "redirects" in place.events("keys-not-fetched")[0]["reason"]
        assert place.access.tokens.keys.fetches == {"done": 0, "failed": 1}


async def test_a_provider_that_hangs_holds_up_only_those_that_need_it(mock_clock: trio.testing.MockClock):
    threads = []

    def hangs(provider: Provider) -> bytes:
        threads.append(threading.current_thread())
        provider.stopped.wait(10)
        raise DownloadFailed("stopped")

    async with running(hangs) as place:
        await trio.testing.wait_all_tasks_blocked()
        exchange = PlainMechanism(place.access, from_here()).start()
        assert exchange.respond(b"\0x\0" + make_token().encode()) == WAIT
        assert PlainMechanism(place.access, from_here()).start().respond(b"\0guest\0guest")[0] == "success"
        mock_clock.jump(5.0)
        await place.fetched()
        assert place.provider.stopped.is_set()
        assert exchange.respond(b"")[0] == "later"
        assert "no answer within 5 s" in place.events("keys-not-fetched")[0]["reason"]
        assert len(threads) <= THREADS_MAX


async def test_nothing_is_fetched_without_an_address():
    async with running(lambda provider: key_set(), type(URL)()) as place:
        await trio.testing.wait_all_tasks_blocked()
        assert place.provider.began == 0
        assert place.access.tokens is None


async def test_settings_that_are_taken_later(tmp_path, mock_clock: trio.testing.MockClock):
    file = tmp_path / "keys.json"
    file.write_bytes(key_set(ec_key()))
    in_file = oauth2(jwks_file=str(file))
    async with running(lambda provider: key_set(ec_key("fetched")), type(URL)()) as place:
        place.fetching.take(in_file)
        tokens = place.access.tokens
        assert [key.kid for key in tokens.keys.keys] == ["one"]
        file.write_bytes(key_set(ec_key("two")))
        place.fetching.take(in_file)
        assert [key.kid for key in tokens.keys.keys] == ["two"]
        file.write_text("nonsense")
        with pytest.raises(Invalid, match=r"oauth2\.jwks_file .*keys\.json: the keys are not JSON"):
            place.fetching.take(in_file)
        file.unlink()
        with pytest.raises(Invalid, match=r"cannot read oauth2\.jwks_file"):
            place.fetching.take(in_file)
        file.write_bytes(b" " * 300_000)
        with pytest.raises(Invalid, match="more than 262144 bytes"):
            place.fetching.take(in_file)
        assert [key.kid for key in tokens.keys.keys] == ["two"]
        place.fetching.take(URL)
        assert tokens.keys.keys == (), "those of another provider are of no use"
        await place.fetched()
        assert [key.kid for key in tokens.keys.keys] == ["fetched"]
        place.fetching.take(type(URL)())
        assert not tokens.takes("x", make_token())
