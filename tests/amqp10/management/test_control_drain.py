"""Requests about the broker as a whole: begin maintenance mode, end it, and show the settings in force."""

from tests.kit.management import decode_answer, encode_request, respond
from tests.kit.wire import InProcessBroker, numbered


def ask(broker: InProcessBroker, method: str, path: str):
    answer = decode_answer(respond(broker.node, broker.engine, encode_request(method, path)))
    broker.run()
    return answer


def test_drain_and_back():
    broker = InProcessBroker()
    peer = broker.connect()
    peer.begin()
    peer.attach_receiver(broker.queue())
    peer.grant(5)
    broker.fill(numbered(2))
    for method, alarms in (("GET", []), ("PUT", ["drain-mode"]), ("GET", ["drain-mode"]), ("DELETE", [])):
        answer = ask(broker, method, "/headgate/drain")
        assert (answer.status, answer.body["unsettled"]) == (200, 2)
        assert peer.front_end.snapshot("connections", broker.now)[0]["alarms"] == alarms
    assert ask(broker, "POST", "/headgate/drain").status == 405


def test_the_settings_in_force():
    broker = InProcessBroker()
    assert ask(broker, "GET", "/headgate/configuration").body == ""
    broker.control.settings_text = lambda: 'listen = "here"\n'
    answer = ask(broker, "GET", "/headgate/configuration")
    assert (answer.status, answer.body) == (200, 'listen = "here"\n')
