"""Refused requests: the HTTP status and the error id for each kind of engine error."""

from collections.abc import Mapping

from core.errors import (
    EngineError,
    Forbidden,
    HomeLost,
    Inequivalent,
    Invalid,
    LimitReached,
    Locked,
    NotFound,
    PreconditionFailed,
    ResourceDeleted,
    StillGoing,
)

STATUS: Mapping[type[EngineError], tuple[int, str]] = {
    NotFound: (404, "not-found"),
    ResourceDeleted: (404, "not-found"),
    Invalid: (400, "bad-request"),
    Inequivalent: (400, "bad-request"),
    Forbidden: (403, "forbidden"),
    Locked: (409, "conflict"),
    PreconditionFailed: (400, "precondition-failed"),
    StillGoing: (400, "precondition-failed"),
    LimitReached: (409, "conflict"),
    HomeLost: (503, "not-available"),
}


class HttpRefusal(Exception):
    """A refused request: a status, an error id for programs, and a reason for people."""

    def __init__(self, status: int, error: str, reason: str, *, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(reason)
        self.status = status
        self.error = error
        self.headers = headers


def bad_request(reason: str) -> HttpRefusal:
    """Return a refusal with status 400: the request is invalid and will stay so."""
    return HttpRefusal(400, "bad-request", reason)


def not_found(reason: str) -> HttpRefusal:
    """Return a refusal with status 404."""
    return HttpRefusal(404, "not-found", reason)


def refusal_of(error: EngineError) -> HttpRefusal:
    """Return the refusal for an engine error."""
    status, word = STATUS[type(error)]
    return HttpRefusal(status, word, str(error))
