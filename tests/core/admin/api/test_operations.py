"""How a request finds its operation, and which parameters the operation takes."""

import httpx
import pytest

from core.admin.api.refusals import STATUS, HttpRefusal
from core.admin.api.rendering import render
from core.admin.api.requests import path_segments
from core.errors import EngineError
from core.operations.no_such import NoSuchPath
from core.operations.operation import DONE, Operation, Parameter, Right
from core.operations.table import OperationTable
from tests.kit.admin import Facts, client_of
from tests.kit.engine import make_broker


async def ask(path: str, method: str = "GET") -> httpx.Response:
    async with client_of(Facts(broker=make_broker("a")).application()) as client:
        return await client.request(method, path, headers={"x-headgate-request": "1"})


def operation(method: str, path: str) -> Operation:
    return Operation(
        name=path,
        method=method,
        path=path,
        summary="",
        handler=lambda control, arguments: DONE,
        right=Right.OPERATE,
        parameters=(
            Parameter(name="kind", sentence="", in_path=True),
            Parameter(name="name", sentence="", in_path=True),
        ),
    )


def found(method: str, path: bytes) -> tuple[str, dict[str, str]]:
    paths = ("/{kind}/{name}", "/{kind}/status", "/things/{name}")
    table = OperationTable(
        {"/api": [*(operation("GET", path) for path in paths), operation("DELETE", "/{kind}/{name}")]}
    )
    call = table.find(method, [*path_segments(path)])
    return f"/api{call.spelling.path}", dict(call.path)


def test_a_literal_path_is_preferred():
    assert found("GET", b"/api/things/status") == ("/api/things/{name}", {"name": "status"})
    assert found("GET", b"/api/others/status") == ("/api/{kind}/status", {"kind": "others"})
    assert found("GET", b"/api/others/one") == ("/api/{kind}/{name}", {"kind": "others", "name": "one"})
    assert found("DELETE", b"/api/things/one") == ("/api/{kind}/{name}", {"kind": "things", "name": "one"})


def test_names_are_decoded_after_the_path_is_taken_apart():
    assert found("GET", b"/api/things/a%2Fb%20%C3%BC") == ("/api/things/{name}", {"name": "a/b ü"})
    assert found("GET", b"/api/things/%2e%2e") == ("/api/things/{name}", {"name": ".."})


def test_a_path_may_end_with_a_slash():
    assert found("GET", b"/api/things/a/") == found("GET", b"/api/things/a")


@pytest.mark.parametrize("path", [b"/api", b"/api/", b"/api/things", b"/api/things/a/b", b"/api/things/a//", b"", b"*"])
def test_other_paths_are_not_found(path: bytes):
    with pytest.raises(NoSuchPath, match="there is no such path"):
        found("GET", path)


@pytest.mark.parametrize("path", [b"/api/things/%ff", b"/api/things/\xff"])
def test_what_is_no_name_is_refused(path: bytes):
    with pytest.raises(HttpRefusal) as refused:
        found("GET", path)
    assert refused.value.status == 400


async def test_another_method_is_told_which_there_are():
    refused = await ask("/api/queues/%2F/a", "PATCH")
    assert refused.status_code == 405
    assert refused.headers["allow"] == "DELETE, GET, PUT"
    assert refused.json()["error"] == "method-not-allowed"


async def test_a_head_is_a_get():
    assert (await ask("/api/queues", "HEAD")).status_code == 200


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("limit=0", "limit must be a number from 1 to 1000"),
        ("limit=1001", "limit must be a number from 1 to 1000"),
        ("limit=x", "limit must be a number"),
        ("limit=", "limit must be a number"),
        ("limit=%D9%A3", "limit must be a number"),
        ("limit=1&limit=2", "limit is given more than once"),
        ("nothing=1", "there is no parameter 'nothing' here; there are: limit, after"),
        ("after=" + "x" * 1025, "after must have at most 1024 characters"),
        ("after=%ff", "percent-encoded UTF-8"),
        ("&".join(f"a{number}=" for number in range(40)), "at most 32 parameters"),
    ],
)
async def test_a_parameter_that_cannot_be_is_named(query: str, reason: str):
    refused = await ask(f"/api/headgate/queues?{query}")
    assert (refused.status_code, refused.json()["error"]) == (400, "bad-request")
    assert reason in refused.json()["reason"]


async def test_a_flag_is_true_or_false():
    assert (await ask("/api/queues?sort_reverse=1")).status_code == 400
    assert (await ask("/api/queues?sort_reverse=false")).status_code == 200


def test_everything_that_the_engine_refuses_has_a_status():
    assert set(EngineError.__subclasses__()) == STATUS.keys()


def test_what_json_lacks_is_rendered_all_the_same():
    facts = {"text": b"abc", "bytes": b"\xff", "endless": float("inf"), "none": None, b"key": (1, True)}
    assert render(facts) == (
        b'{"text":"abc","bytes":{"base64":"/w=="},"endless":null,"none":null,"abc":[1,true]}'.replace(
            b'abc":[', b'key":['
        )
    )
    assert render("\ud800 </script>") == b'"\\ud800 </script>"'


async def test_ten_thousand_rows_are_rendered_in_slices():
    facts = Facts(broker=make_broker(*(f"q{number}" for number in range(250))))
    async with client_of(facts.application()) as client:
        rows = (await client.get("/api/queues")).json()
    assert [row["name"] for row in rows] == [f"q{number}" for number in range(250)]
