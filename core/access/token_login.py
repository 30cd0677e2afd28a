"""A login with a token, from the first look at it to the rights of the connection, and the renewal of a token.

A :class:`TokenCheck` is for a token what :class:`core.access.login.PasswordCheck` is for a password, with the same
replies and the same threads. It may first wait for the provider's keys.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from core.access.exchange import LATER, WAIT, Reply
from core.access.login import Access, LoginPeer, Proof
from core.access.rights import VIRTUAL_HOST, Rights, TokenAnswer
from core.access.tokens import ACCEPTED, TokenClaims, TokenHeader, TokenRefused, Tokens, key_kind, verified

RENEWAL = "renewal"
"""Stands in the log for the mechanism when a token is renewed."""


@dataclass(slots=True)
class TokenLogin:
    """The token with which a connection has logged in, or that has replaced it."""

    access: Access
    peer: LoginPeer
    claims: TokenClaims

    def rights(self, virtual_host: str = VIRTUAL_HOST) -> Rights:
        """Return new rights on a virtual host, for one connection. What the connection has open counts for the user of
        the token's name, whose limits apply."""
        scopes, users = self.claims.scopes, self.access.users
        rights = Rights(
            self.claims.user,
            scopes.permission(virtual_host),
            topics=scopes.topics(virtual_host),
            tags=scopes.tags,
            virtual_host=virtual_host,
            elsewhere=self.rights,
            limits=users.limits_of(self.claims.user),
            expires_at=self.claims.expires_at,
            renew=self._renewed,
        )
        users.add_rights_of_token(rights)
        return rights

    def _renewed(self, rights: Rights, token: bytes) -> TokenAnswer:
        """See :meth:`core.access.rights.Rights.renewed`."""
        check = TokenCheck(self.access, self.peer, RENEWAL, _text(token), renews=rights, login=self)
        check.start()
        return check.answer


@dataclass(slots=True)
class TokenCheck:
    """The check of one token."""

    access: Access
    peer: LoginPeer
    mechanism: str
    token: str
    renews: Rights | None = None
    """The rights that it renews; None for a login."""
    login: TokenLogin | None = None
    """The token that it replaces; None for a login."""
    answer: TokenAnswer = field(default_factory=TokenAnswer)
    _found: TokenClaims | TokenRefused | None = None

    @property
    def reply(self) -> Reply:
        """The reply; ``WAIT`` until it is known."""
        return self.answer.reply

    def start(self) -> Reply:
        """Return the reply if it is known without a thread; else ``WAIT``."""
        self._look(may_fetch=True)
        return self.reply

    def keys_came(self) -> None:
        """A fetch for which the token has waited is over."""
        self._look(may_fetch=False)
        if self.reply is not WAIT:
            self.peer.wake()

    def begin(self) -> Callable[[], Proof] | None:
        """A thread is free: return the function for it to run; None if there are no keys any more."""
        try:
            header = self._tokens.header(self.token)
        except TokenRefused as refused:  # the settings have changed meanwhile
            self._refuse(refused)
            self.peer.wake()
            return None
        return self._prove(header)

    def finish(self, proof: Proof) -> None:
        """Process the thread's result."""
        found, self._found = self._found, None
        if isinstance(found, TokenClaims):
            self._accept(found)
        else:
            assert found is not None
            self._refuse(found)
        self.peer.wake()

    def give_up(self, reason: str) -> None:
        """End the attempt with ``LATER``: no thread was free in time, or too many checks wait."""
        self._put_off(reason, "the broker has too many logins to check")
        self.peer.wake()

    @property
    def _tokens(self) -> Tokens:
        assert self.access.tokens is not None
        return self.access.tokens

    def _look(self, *, may_fetch: bool) -> None:
        tokens = self._tokens
        try:
            if not tokens.settings.configured:
                raise TokenRefused("off", "tokens are not accepted any more")
            header = tokens.header(self.token)
            if tokens.keys.of(header.kid, key_kind(header.algorithm)):
                if not self.access.submit(self):
                    self._put_off("hashes-waiting", "the broker has too many logins to check")
            elif not (may_fetch and tokens.keys.wait(self)):
                if not tokens.keys.keys:
                    self._put_off("no-keys", "the broker has no keys of the provider yet")
                else:
                    raise TokenRefused("key", f"the provider has no key {header.kid!r:.80} for {header.algorithm}")
        except TokenRefused as refused:
            self._refuse(refused)

    def _prove(self, header: TokenHeader) -> Callable[[], Proof]:
        tokens = self._tokens
        keys = tokens.keys.of(header.kid, key_kind(header.algorithm))
        settings, wall = tokens.settings, tokens.wall()

        def prove() -> Proof:
            try:
                self._found = verified(self.token, keys, settings, wall)
            except TokenRefused as refused:
                self._found = refused
            return Proof(right=isinstance(self._found, TokenClaims))

        return prove

    def _accept(self, claims: TokenClaims) -> None:
        rights = self.renews
        if rights is not None:
            if rights.expired:
                self._refuse(TokenRefused("expired", "the token before has expired, and the connection ends"))
                return
            if claims.user != rights.user:
                self._refuse(TokenRefused("user", f"the new token is of {claims.user!r}, not of {rights.user!r}"))
                return
            host = rights.virtual_host
            assert self.login is not None
            self.login.claims = claims
            rights.expires_at = claims.expires_at
            rights.change(claims.scopes.permission(host), claims.scopes.topics(host), claims.scopes.tags)
        else:
            login = TokenLogin(self.access, replace(self.peer), claims)  # with a peer of its own: no cycle
            self.peer.token_rights = login.rights
        self._tokens.outcomes[ACCEPTED] += 1
        again = self.peer.asks_often and not self._tokens.is_new(self.token, self.peer.host)
        self._answer(self.access.admitted(self.mechanism, claims.user, self.peer, remembered=again))

    def _refuse(self, refused: TokenRefused) -> None:
        self._tokens.outcomes[refused.reason] += 1
        self.answer.why = str(refused)
        user = "" if self.renews is None else self.renews.user
        self._answer(self.access.refused_token(self.mechanism, user, self.peer, refused.reason, self.answer.why))

    def _put_off(self, reason: str, why: str) -> None:
        self.answer.why = f"{why}; try again later"
        self.access.tell_put_off(self.mechanism, "", self.peer, reason)
        self._answer(LATER)

    def _answer(self, reply: Reply) -> None:
        self.answer.reply = reply
        self.token = ""  # the check may be kept as long as the connection


def _text(token: bytes) -> str:
    """The token as text. Bytes that are no ASCII stay, and make no valid token."""
    return token.decode("latin-1").strip()
