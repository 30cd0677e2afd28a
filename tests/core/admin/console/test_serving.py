"""The console's files: each with its headers, readable without a token, and no file besides them."""

import re
from pathlib import Path

import core.admin.console.serving as serving
from core.admin.console.serving import POLICY, PREFIX, console_routes
from core.interface import FlowReason
from tests.kit.admin import TOKEN, Facts, client_of

PAGE = Path(serving.__file__).parent / "page"
FILES = sorted(path.relative_to(PAGE).as_posix() for path in PAGE.rglob("*") if path.is_file())
OWN = [path for path in FILES if not path.startswith("vendor/")]
SCRIPT_BYTES_MAX = 250_000


async def test_every_file_is_served_without_a_token():
    async with client_of(Facts().application(token=TOKEN)) as client:
        for path in ["/", PREFIX, *(PREFIX + path for path in FILES if path != "index.html")]:
            answer = await client.get(path)
            assert answer.status_code == 200, path
            assert answer.headers["content-security-policy"] == POLICY
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.content == (PAGE / FILES[-1]).read_bytes()
        assert (await client.get("/api/headgate/status")).status_code == 401


async def test_types_are_told_by_the_ends_of_names():
    async with client_of(Facts().application()) as client:
        for path, kind in {
            "/": "text/html",
            "/console/main.js": "text/javascript",
            "/console/base.css": "text/css",
            "/console/icon.svg": "image/svg+xml",
            "/console/vendor/uplot/LICENSE": "text/plain",
        }.items():
            assert (await client.get(path)).headers["content-type"].startswith(kind)


async def test_an_unchanged_file_is_not_sent_again():
    async with client_of(Facts().application()) as client:
        first = await client.get("/console/main.js")
        assert first.headers["cache-control"] == "no-cache"
        again = await client.get("/console/main.js", headers={"if-none-match": first.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")


async def test_nothing_else_is_served():
    async with client_of(Facts().application(token=TOKEN)) as client:
        for path in (
            "/console/serving.py",
            "/console/..%2fserving.py",
            "/console/%2e%2e/serving.py",
            "/console/pages/",
        ):
            assert (await client.get(path)).status_code in (401, 404), path
        assert (await client.post("/")).status_code in (401, 403, 405)


def test_the_policy_lets_nothing_in():
    rules = dict(rule.strip().partition(" ")[::2] for rule in POLICY.split(";"))
    assert rules["default-src"] == rules["frame-ancestors"] == rules["base-uri"] == rules["form-action"] == "'none'"
    assert {rules[kind] for kind in ("script-src", "style-src", "img-src", "connect-src")} == {"'self'"}
    assert rules["require-trusted-types-for"] == "'script'"
    assert "unsafe" not in POLICY


def test_scripts_are_small():
    size = sum((PAGE / path).stat().st_size for path in FILES if path.endswith(".js"))
    assert 50_000 < size < SCRIPT_BYTES_MAX


def test_the_page_names_its_own_files_only():
    known = {PREFIX + path for path in FILES}
    named = set(re.findall(r'(?:src|href)="(/[^"]*)"', (PAGE / "index.html").read_text()))
    assert len(named) >= 5
    assert named <= known
    for path in OWN:
        for address in re.findall(r"\bhttps?://[^\"'\s]+", (PAGE / path).read_text()):
            assert address == "http://www.w3.org/2000/svg", path  # the name of a language, which the page never fetches


def test_text_never_becomes_html():
    banned = re.compile(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|DOMParser|srcdoc"
    )
    assert [path for path in FILES if path.endswith(".js") and banned.search((PAGE / path).read_text())] == []


def test_the_licence_of_what_is_not_ours_is_beside_it():
    assert "MIT" in (PAGE / "vendor/uplot/LICENSE").read_text()
    assert "uPlot (v1.6.32)" in (PAGE / "vendor/uplot/uPlot.iife.min.js").read_text()


def test_the_page_knows_every_reason_and_no_other():
    table = (PAGE / "reasons.js").read_text().partition("const REASONS = {")[2].partition("};")[0]
    names = [name.strip('"') for name in re.findall(r'^  ("[a-z-]+"|[a-z]+): \[', table, re.MULTILINE)]
    assert sorted(names) == sorted(reason.value for reason in FlowReason)


def test_there_is_a_route_for_each_file():
    assert len(console_routes()) == len(FILES) + 1  # the page itself is in the list twice
