"""Headgate's own operations, under ``/api/headgate``: rows of every kind, ``why``, the store, limits, time lines, the
flow map and the live stream; and an operator's actions on queues, links, sessions, connections and alarms.

Rows are listed in pages as on the management node: in the order of identities, and no row is listed twice.
"""

from collections.abc import Sequence

from starlette.types import ASGIApp

from core.admin.api.bodies import MoveBody, ReplayBody
from core.admin.api.flow_map import flow_map
from core.admin.api.limits import limits
from core.admin.api.live import MEDIA_TYPE, LiveFeed
from core.admin.api.operations import Call, Operation, Parameter, get, write
from core.admin.api.refusals import bad_request, not_found
from core.admin.api.rendering import ListOfRows, Walked, answered, done, render, walked
from core.admin.api.sources import ApiSources
from core.interface import ExchangeTarget, QueueTarget, Snapshot, Target
from core.observe.timelines import KINDS as TIMELINE_KINDS
from core.row_walks import page_of, row_of
from core.rows import KINDS, PAGE_MAX, WHY_KINDS
from core.server.orders import BoundLink, CloseLink, CloseSession, Order, PauseLink, ResumeLink
from core.slices import Walk

PEEKED_DEFAULT, PEEKED_MAX = 10, 100
LINK_CREDIT_MAX = 2**31 - 1
CLOSED_BY_OPERATOR = "closed by the operator"
REASON_CHARACTERS_MAX = 100
"""The most characters of the reason that a client is told. With it, a close frame fits into 512 bytes, whichever
characters it has [2.4.1]."""

REASON = Parameter("reason", "What its client is told.")
PAGE = (
    Parameter("limit", "Rows in one answer.", "integer", 1, PAGE_MAX),
    Parameter("after", "The identity after which to go on: ``next`` of the answer before."),
)


class HeadgateApi:
    """The operations under ``/api/headgate``."""

    def __init__(self, sources: ApiSources, live: LiveFeed) -> None:
        self._sources = sources
        self._control = sources.control
        self._live = live

    def operations(self) -> Sequence[Operation]:
        """Return all operations."""
        return [*self._reads(), *self._writes()]

    def _reads(self) -> Sequence[Operation]:
        base = "/api/headgate"
        count = Parameter("count", "Messages.", "integer", 1, PEEKED_MAX)
        return [
            get(f"{base}/{{kind}}", "The rows of a kind.", self._page, query=PAGE),
            get(f"{base}/{{kind}}/{{identity}}", "One row.", self._one),
            get(f"{base}/status", "The broker at a glance.", self._status),
            get(f"{base}/overview", "What the live stream tells each second.", self._overview),
            get(f"{base}/drain", "How far a drain is.", lambda call: answered(self._control.draining())),
            get(f"{base}/store", "The lanes of the store.", self._store),
            get(f"{base}/limits", "Every limit, and how much of it is used.", self._limits),
            get(f"{base}/flow-map", "Who publishes where and who consumes, and what is blocked.", self._flow_map),
            get(f"{base}/why/{{kind}}/{{identity}}", "What holds something up.", self._why),
            get(f"{base}/timelines/{{kind}}/{{identity}}", "The last five minutes.", self._timelines),
            get(f"{base}/live", "Server-sent events.", lambda call: self._live.answer(), media_type=MEDIA_TYPE),
            get(f"{base}/queues/{{queue}}/peek", "The first messages of a queue.", self._peek, query=(count,)),
        ]

    def _writes(self) -> Sequence[Operation]:
        queue, link = "/api/headgate/queues/{queue}", "/api/headgate/links/{identity}"
        alarm, drain = "/api/headgate/alarms/{name}", "/api/headgate/drain"
        bound = Parameter("max", "Messages.", "integer", 1, LINK_CREDIT_MAX)
        return [
            write("POST", f"{queue}/move", "Begin to move messages elsewhere.", self._move, body=MoveBody, status=202),
            write("POST", f"{queue}/replay", "Begin to send messages back.", self._replay, body=ReplayBody, status=202),
            write("PUT", drain, "Drain the broker.", lambda call: self._drain(wanted=True), status=200),
            write("DELETE", drain, "Serve as usual again.", lambda call: self._drain(wanted=False), status=200),
            write("PUT", alarm, "Raise an alarm by hand.", self._set_alarm),
            write("DELETE", alarm, "Clear what was raised by hand.", self._clear_alarm),
            write(
                "DELETE", "/api/headgate/connections/{identity}", "Close a connection.", self._close, query=(REASON,)
            ),
            write(
                "DELETE",
                "/api/headgate/sessions/{identity}",
                "End a session.",
                lambda call: self._ordered(CloseSession(call.path["identity"], _reason(call))),
                query=(REASON,),
            ),
            write(
                "DELETE",
                link,
                "Detach a link.",
                lambda call: self._ordered(CloseLink(call.path["identity"], _reason(call))),
                query=(REASON,),
            ),
            write("PUT", f"{link}/pause", "Hold a link.", lambda call: self._ordered(PauseLink(call.path["identity"]))),
            write(
                "DELETE",
                f"{link}/pause",
                "Let it go on.",
                lambda call: self._ordered(ResumeLink(call.path["identity"])),
            ),
            write("PUT", f"{link}/credit", "Bound a publisher's link credit.", self._bound, query=(bound,)),
            write(
                "DELETE",
                f"{link}/credit",
                "No bound of an operator.",
                lambda call: self._ordered(BoundLink(call.path["identity"], None)),
            ),
        ]

    # --- rows --------------------------------------------------------------------------------------------------------

    def _page(self, call: Call) -> ASGIApp:
        return Walked(self._page_walk(_kind(call, KINDS), call.text("after"), call.number("limit", PAGE_MAX)))

    def _page_walk(self, kind: str, after: str | None, limit: int) -> Walk[ASGIApp]:
        items, following = yield from page_of(self._control.rows(kind), after=after, limit=limit)
        return ListOfRows(items, before=b'{"items":[', after=b'],"next":%s}' % render(following))

    def _one(self, call: Call) -> ASGIApp:
        kind, identity = _kind(call, KINDS), call.path["identity"]
        return Walked(_shown(row_of(self._control, kind, identity), kind, identity))

    # --- the whole ---------------------------------------------------------------------------------------------------

    def _status(self, call: Call) -> ASGIApp:
        return answered(self._control.status())

    def _overview(self, call: Call) -> ASGIApp:
        return walked(self._sources.overview.read())

    def _store(self, call: Call) -> ASGIApp:
        return answered({"lanes": self._sources.lanes()})

    def _limits(self, call: Call) -> ASGIApp:
        return answered({"limits": limits(self._sources)})

    def _flow_map(self, call: Call) -> ASGIApp:
        return walked(flow_map(self._sources))

    def _why(self, call: Call) -> ASGIApp:
        kind, identity = _kind(call, WHY_KINDS), call.path["identity"]
        return Walked(_shown(self._control.why(kind, identity), kind, identity))

    def _timelines(self, call: Call) -> ASGIApp:
        kind, identity = _kind(call, tuple(TIMELINE_KINDS)), call.path["identity"]
        lines = self._sources.timelines.times_and_series(kind, identity)
        if lines is None:
            raise not_found(f"there are no time lines of {identity!r} among the {kind}")
        return answered(lines)

    # --- doing something ---------------------------------------------------------------------------------------------

    def _peek(self, call: Call) -> ASGIApp:
        messages = self._control.peek_queue(call.path["queue"], call.number("count", PEEKED_DEFAULT))
        self._sources.turn()
        return answered({"messages": messages})

    def _move(self, call: Call) -> ASGIApp:
        body = call.taken(MoveBody)
        return self._begun(self._control.move_messages(call.path["queue"], _target(body), body.count))

    def _replay(self, call: Call) -> ASGIApp:
        return self._begun(self._control.replay_messages(call.path["queue"], call.taken(ReplayBody).count))

    def _begun(self, move: int) -> ASGIApp:
        self._sources.turn()
        return answered({"move": move}, 202)

    def _drain(self, *, wanted: bool) -> ASGIApp:
        facts = self._control.drain(wanted=wanted)
        self._sources.turn()
        return answered(facts)

    def _set_alarm(self, call: Call) -> ASGIApp:
        self._control.set_alarm(call.path["name"])
        return self._done()

    def _clear_alarm(self, call: Call) -> ASGIApp:
        self._control.clear_alarm(call.path["name"])
        return self._done()

    def _close(self, call: Call) -> ASGIApp:
        identity = call.path["identity"]
        if not self._control.close_connection(identity, _reason(call)):
            raise not_found(f"there is no connection {identity!r}")
        return self._done()

    def _bound(self, call: Call) -> ASGIApp:
        if "max" not in call.query:
            raise bad_request("max is missing")
        return self._ordered(BoundLink(call.path["identity"], call.number("max", 1)))

    def _ordered(self, order: Order) -> ASGIApp:
        self._control.order(order)
        return self._done()

    def _done(self) -> ASGIApp:
        self._sources.turn()
        return done()


def _shown(walk: Walk[Snapshot | None], kind: str, identity: str) -> Walk[ASGIApp]:
    found = yield from walk
    if found is None:
        raise not_found(f"there is no {identity!r} among the {kind}")
    return answered(found)


def _reason(call: Call) -> str:
    return (call.text("reason") or CLOSED_BY_OPERATOR)[:REASON_CHARACTERS_MAX]


def _kind(call: Call, kinds: Sequence[str]) -> str:
    kind = call.path["kind"]
    if kind not in kinds:
        raise not_found(f"there is no kind {kind!r} here; there are {', '.join(kinds)}")
    return kind


def _target(body: MoveBody) -> Target:
    if body.to is not None and body.exchange is None and not body.key:
        return QueueTarget(body.to)
    if body.to is None and body.exchange is not None:
        return ExchangeTarget(body.exchange, body.key)
    raise bad_request("either to, or exchange and key, must say where the messages go")
