"""Requests about running links and sessions, and the orders that are made of them."""

import pytest

from core.server.orders import BoundLink, CloseLink, CloseSession, PauseLink, ResumeLink
from tests.kit.management import Console

LINK, SESSION = "c1/0/1", "c1/0"
LINK_PATH, SESSION_PATH = "/headgate/links/c1%2F0%2F1", "/headgate/sessions/c1%2F0"


@pytest.fixture
def console():
    console = Console()
    console.plant.links = [LINK, SESSION]
    return console


@pytest.mark.parametrize(
    ("method", "path", "order"),
    [
        ("PUT", f"{LINK_PATH}/pause", PauseLink(LINK)),
        ("DELETE", f"{LINK_PATH}/pause", ResumeLink(LINK)),
        ("PUT", f"{LINK_PATH}/credit?max=10", BoundLink(LINK, 10)),
        ("DELETE", f"{LINK_PATH}/credit", BoundLink(LINK, None)),
        ("DELETE", LINK_PATH, CloseLink(LINK, "closed by the operator")),
        ("DELETE", f"{LINK_PATH}?reason=stuck", CloseLink(LINK, "stuck")),
        ("DELETE", f"{SESSION_PATH}?reason=stuck", CloseSession(SESSION, "stuck")),
    ],
)
def test_a_request_is_an_order(console, method, path, order):
    assert console.ask(method, path).status == 204
    assert console.plant.orders == [order]


@pytest.mark.parametrize("path", ["links/c9%2F0%2F1/pause", "links/c9%2F0%2F1/credit", "links/c9", "sessions/c9"])
def test_orders_for_links_that_do_not_exist(console, path):
    answer = console.ask("DELETE", f"/headgate/{path}")
    assert (answer.status, answer.body) == (404, f"there is no '{path.split('/')[1].replace('%2F', '/')}'")


@pytest.mark.parametrize("text", ["", "0", "-1", "x", "4294967296", "1" * 5000])
def test_an_invalid_link_credit(console, text):
    answer = console.ask("PUT", f"{LINK_PATH}/credit?max={text}")
    assert answer.status == 400
    assert "1 to 4294967295" in answer.body
    assert console.plant.orders == []


def test_other_paths_and_methods_are_refused(console):
    assert console.ask("PUT", f"{LINK_PATH}/speed").status == 404
    assert console.ask("POST", f"{LINK_PATH}/pause").status == 405
