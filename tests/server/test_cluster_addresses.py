"""Which addresses with TLS a node tells of itself."""

import pytest

from core.config.cluster import ClusterSettings
from core.server.cluster_task import tls_addresses

LISTEN = ("0.0.0.0:5671", "[::]:5671")


@pytest.mark.parametrize(
    ("advertise", "advertise_tls", "listen", "told"),
    [
        ("", "", (), ()),
        ("10.0.0.1:5672", "10.0.0.1:5671", (), ()),
        ("", "", LISTEN, LISTEN),
        ("10.0.0.1:5672", "", LISTEN, ("10.0.0.1:5671",)),
        ("[fd00::1]:5672", "", LISTEN, ("[fd00::1]:5671",)),
        ("10.0.0.1:5672", "broker.example.org:443", LISTEN, ("broker.example.org:443",)),
    ],
)
def test_the_addresses_are_those_that_the_settings_say(advertise, advertise_tls, listen, told):
    settings = ClusterSettings(advertise=advertise, advertise_tls=advertise_tls)
    assert tls_addresses(settings, listen) == told
