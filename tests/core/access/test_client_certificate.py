"""Which name a client's certificate proves, and the mechanism EXTERNAL."""

from dataclasses import replace

import pytest

from core.access.client_certificate import ClientCertificate, distinguished_name
from core.access.mechanisms import offered
from tests.kit.logins import from_here, make_access, user

SUBJECT = ((("countryName", "XX"),), (("organizationName", "Example, Inc."),), (("commonName", "alice"),))
ALTERNATIVES = (
    ("DNS", "host.example.org"),
    ("DNS", "other.example.org"),
    ("email", "alice@example.org"),
    ("URI", "spiffe://example.org/alice"),
)


@pytest.mark.parametrize(
    ("login_from", "name"),
    [
        ("common_name", "alice"),
        ("distinguished_name", "CN=alice,O=Example\\, Inc.,C=XX"),
        ("subject_alternative_name:dns", "host.example.org"),
        ("subject_alternative_name:email", "alice@example.org"),
        ("subject_alternative_name:uri", "spiffe://example.org/alice"),
    ],
)
def test_the_configured_field_is_the_name(login_from, name):
    decoded = {"subject": SUBJECT, "subjectAltName": ALTERNATIVES}
    assert ClientCertificate.of(decoded, login_from).login_name == name
    assert ClientCertificate.of({"subject": ()}, login_from).login_name is None


@pytest.mark.parametrize(
    ("subject", "text"),
    [
        (((("commonName", " a "),),), "CN=\\ a\\ "),
        (((("commonName", "#a"),),), "CN=\\#a"),
        (((("commonName", "a\0b"),),), "CN=a\\00b"),
        (((("commonName", "a"), ("userId", "1")),), "CN=a+UID=1"),
        (((("serialNumber", "1+2"),),), "serialNumber=1\\+2"),
        ((), ""),
    ],
)
def test_a_distinguished_name_is_escaped(subject, text):
    assert distinguished_name(subject) == text


@pytest.mark.parametrize(
    ("name", "response", "result"),
    [
        ("alice", b"", "success"),
        ("alice", b"alice", "success"),
        ("alice", b"bob", "failure"),
        ("mallory", b"", "failure"),
        ("guest", b"", "failure"),
    ],
)
def test_external_lets_in_the_user_in_the_certificate(name, response, result):
    access = make_access(user("alice", "wonderland"), user("bob", "builder"))
    mechanism = offered(access, replace(from_here(), certificate_name=name))[0]
    assert mechanism.name == "EXTERNAL"
    assert mechanism.start().respond(response) == (result, name.encode() if result == "success" else b"")


def test_external_is_not_offered_without_a_name_and_not_a_way_to_be_guest():
    access = make_access()
    assert "EXTERNAL" not in [mechanism.name for mechanism in offered(access, from_here())]
    mechanism = offered(access, replace(from_here(), certificate_name="guest"))[0]
    assert mechanism.start().respond(b"") == ("failure", b"")
