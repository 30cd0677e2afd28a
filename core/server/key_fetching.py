"""The task that keeps the keys of the OAuth 2 provider: fetched at the start, at intervals, and when a token asks.

One fetch is under way at a time, in a thread. A thread whose fetch has taken too long is left to end by itself; there
are never more than :data:`THREADS_MAX`. What reads tokens and keys is imported with the first settings that have
tokens: it takes 0.2 MiB, and most brokers have no provider.
"""

from collections.abc import Callable
from importlib.util import find_spec
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import trio
from structlog.typing import FilteringBoundLogger

from core.access.login import Access
from core.clock import Now
from core.config.oauth2 import OAuth2Settings
from core.errors import Invalid
from core.server.key_download import DownloadFailed, KeyDownload

if TYPE_CHECKING:
    from core.access.token_keys import PublicKey, TokenKeys

THREADS_MAX = 2
"""One thread that has taken too long, and one that tries again."""


class Download(Protocol):
    """See :class:`core.server.key_download.KeyDownload`, which tests replace."""

    def read(self) -> bytes:
        """Read all, in a thread. Raises DownloadFailed."""

    def stop(self) -> None:
        """End a read now."""


class KeyFetching:
    """Gives the keys to the logins, as settings are taken and as they are fetched."""

    def __init__(
        self,
        access: Access,
        *,
        clock: Callable[[], Now],
        log: FilteringBoundLogger,
        download: Callable[[OAuth2Settings], Download] = KeyDownload,
    ) -> None:
        self._access = access
        self._clock = clock
        self._log = log
        self._download = download
        self._limiter = trio.CapacityLimiter(THREADS_MAX)
        self._wanted = trio.Event()

    def take(self, settings: OAuth2Settings) -> None:
        """Use these settings from now on: at the start, and with each reload, which reads ``jwks_file`` again. Raises
        Invalid, with everything as it was, if they cannot be used."""
        tokens = self._access.tokens
        if not settings.configured and tokens is None:
            return
        if settings.configured and find_spec("joserfc") is None:
            raise Invalid("[oauth2] needs the package joserfc: pip install 'joserfc>=1.8,<2'")
        keys = None if settings.jwks_file is None else _read_file(settings.jwks_file, settings.jwks_bytes_max)
        if tokens is None:
            from core.access.tokens import Tokens

            tokens = Tokens(settings, wall=lambda: self._clock().wall, monotonic=lambda: self._clock().monotonic)
            tokens.keys.fetches_wanted = lambda: self._wanted.set()
            self._access.tokens = tokens
        elif settings.jwks_url != tokens.settings.jwks_url:
            tokens.keys.keys = ()  # those of another provider
        tokens.replace(settings)
        if keys is not None:
            tokens.keys.keys = keys
        self._wanted.set()

    async def run(self, turn: Callable[[], None]) -> None:
        """Fetch until cancelled. ``turn`` gives the connections that were woken their turn."""
        seconds = inf
        while True:
            with trio.move_on_after(seconds):
                await self._wanted.wait()
            self._wanted = trio.Event()
            tokens = self._access.tokens
            if tokens is None or not tokens.settings.configured or tokens.settings.jwks_url is None:
                seconds = inf
                continue
            settings = tokens.settings
            seconds = settings.jwks_refresh if await self._fetch(tokens.keys, settings) else settings.jwks_interval_min
            turn()

    async def _fetch(self, keys: "TokenKeys", settings: OAuth2Settings) -> bool:
        """Fetch the keys once. Returns whether there are new ones."""
        keys.begin()
        download = self._download(settings)

        def read() -> "list[PublicKey]":
            return _keys(download.read())

        try:
            with trio.fail_after(settings.jwks_time_out):
                found = await trio.to_thread.run_sync(read, abandon_on_cancel=True, limiter=self._limiter)
        except trio.TooSlowError:
            download.stop()
            problem = f"there is no answer within {settings.jwks_time_out:g} s"
        except (DownloadFailed, Invalid) as error:
            problem = str(error)
        else:
            self._log.info("keys-fetched", url=settings.jwks_url, keys=len(found))
            keys.fetched(found)
            return True
        self._log.warning("keys-not-fetched", url=settings.jwks_url, reason=problem, keys_kept=len(keys.keys))
        keys.failed()
        return False


def _read_file(path: Path, bytes_max: int) -> "list[PublicKey]":
    """The keys in a file. Raises Invalid."""
    try:
        with path.open("rb") as file:
            data = file.read(bytes_max + 1)
    except OSError as error:
        raise Invalid(f"cannot read oauth2.jwks_file {path}: {error.strerror}") from None
    if len(data) > bytes_max:
        raise Invalid(f"oauth2.jwks_file {path} has more than {bytes_max} bytes, the limit oauth2.jwks_bytes_max")
    try:
        return _keys(data)
    except Invalid as error:
        raise Invalid(f"oauth2.jwks_file {path}: {error}") from None


def _keys(data: bytes) -> "list[PublicKey]":
    """The keys in what was read. Raises Invalid."""
    from core.access.token_keys import read_keys

    return [*read_keys(data)]
