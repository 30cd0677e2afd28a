"""Files of RabbitMQ and files with mistakes: what is taken over, and that everything that is not is reported."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.definitions_file import read
from core.definitions_file.entries import KEYS_WITHOUT_MEANING, known_fields
from core.definitions_file.reading import LEFT_OUT, SECTIONS
from core.engine.options.policies import KEYS
from core.interface import ExchangeType
from core.store.definitions import PolicyDeclaration
from tests.kit.engine import binding, exchange, queue

RABBITMQ = Path(__file__).with_name("rabbitmq.json").read_bytes()


def reading(value, **choices):
    return read(json.dumps(value).encode(), **choices)


def told(remarks):
    return [str(remark) for remark in remarks]


def the_problem(value):
    (problem,) = told(reading(value).problems)
    return problem


# --- a file of RabbitMQ ----------------------------------------------------------------------------------------------


def test_what_is_taken_over_of_a_file_of_rabbitmq():
    found = read(RABBITMQ)
    assert found.problems == []
    assert found.document.exchanges == [
        exchange("orders", ExchangeType.TOPIC, alternate_exchange="rest"),
        exchange("rest", ExchangeType.FANOUT, internal=True),
    ]
    assert found.document.queues == [
        queue("dead", x_queue_type="quorum", x_delivery_limit=20),
        queue("log", x_queue_type="stream", x_max_age="7D", x_max_length_bytes=20_000_000_000),
        queue(
            "work.eu",
            x_queue_type="classic",
            x_dead_letter_exchange="",
            x_dead_letter_routing_key="dead",
            x_max_priority=10,
        ),
    ]
    assert found.document.bindings == [
        binding("amq.headers", "log", "", x_match="any", kind="log"),
        binding("orders", "rest", "#.copy", to_exchange=True),
        binding("orders", "work.eu", "eu.#"),
    ]
    assert found.document.policies == [
        PolicyDeclaration(
            name="limits",
            pattern=r"^work\.",
            apply_to="classic_queues",
            priority=5,
            definition={"max-length": 100_000, "overflow": "reject-publish", "message-ttl": 3_600_000},
        ),
        PolicyDeclaration(
            name="mirrors",
            pattern="^m",
            definition={"ha-mode": "exactly", "ha-params": 2, "ha-sync-mode": "automatic"},
        ),
    ]


def test_what_is_not_taken_over_of_it_is_told():
    notes = told(read(RABBITMQ).notes)
    beginnings = [
        "queues: 1 of virtual host 'staging'",
        "policies[0].definition.queue-version: there is one kind of index",
        "policies[2].definition.federation-upstream-set: this broker has no federation",
        "policies[2]: policy 'federate' says nothing else",
        "vhosts[0].default_queue_type: it is 'quorum'; a queue without x-queue-type is classic here",
        "vhosts[1]: virtual host 'staging'; '/' was asked for",
        "parameters: 1 of component 'federation-upstream'; this broker has no federation",
        "parameters: 1 of component 'vhost-limits'; limits are in the configuration file",
        "global_parameters: 1 of them",
    ]
    assert len(notes) == len(beginnings)
    assert {name: len(entries) for name, entries in read(RABBITMQ).users.items()} == {
        "users": 1,
        "permissions": 1,
        "topic_permissions": 1,
    }
    for beginning in beginnings:
        assert any(note.startswith(beginning) for note in notes), beginning


def test_hashes_of_passwords_are_not_repeated():
    assert b"Pb0ZGkzTGfkG" in RABBITMQ
    assert not any("Pb0ZGkzTGfkG" in note for note in told(read(RABBITMQ).notes))


def test_another_virtual_host_of_the_file():
    found = read(RABBITMQ, host="staging")
    assert found.problems == []
    assert found.document.queues == [queue("trial")]
    assert found.document.bindings == []
    assert "queues: 3 of virtual host '/'; those of 'staging' were asked for" in told(found.notes)


def test_a_virtual_host_that_the_file_does_not_have():
    (problem,) = told(read(RABBITMQ, host="prod").problems)
    assert problem == "the file: it has no virtual host 'prod'; there is '/', 'staging'; choose one of them"


def test_a_file_of_one_virtual_host_names_none():
    found = reading({"queues": [{"name": "a"}], "default_queue_type": "classic"}, host="whatever")
    assert found.document.queues == [queue("a")]
    assert found.notes == []


# --- the limits of what is taken over --------------------------------------------------------------------------------


def test_an_empty_object_is_an_empty_file():
    found = reading({})
    assert (found.problems, found.notes, found.document.things()) == ([], [], [])


def test_the_type_of_a_queue_may_stand_beside_its_arguments_or_for_them():
    found = reading({"queues": [{"name": "a", "type": "quorum"}, {"name": "b", "type": "classic"}]})
    assert found.document.queues == [queue("a", x_queue_type="quorum"), queue("b")]
    wrong = {"queues": [{"name": "a", "type": "quorum", "arguments": {"x-queue-type": "stream"}}]}
    assert the_problem(wrong) == "queues[0].type: it is 'quorum', and x-queue-type says otherwise; take one out"


@pytest.mark.parametrize(
    ("section", "entry", "note"),
    [
        ("exchanges", {"name": "", "type": "direct"}, "exchange '' is the broker's own"),
        ("exchanges", {"name": "amq.topic", "type": "topic"}, "exchange 'amq.topic' is the broker's own"),
        ("queues", {"name": "amq.gen-Xa"}, "queue 'amq.gen-Xa' was named by a broker"),
        ("queues", {"name": "q", "exclusive": True}, "queue 'q' is exclusive and goes with its connection"),
        ("bindings", {"source": "", "destination": "q", "destination_type": "queue"}, "to the default exchange"),
        ("bindings", {"source": "x", "destination": "amq.gen-Xa", "destination_type": "queue"}, "named by a broker"),
    ],
)
def test_what_no_client_can_declare_is_left_out_with_a_note(section, entry, note):
    found = reading({section: [entry]})
    (told_note,) = told(found.notes)
    assert note in told_note
    assert told_note.startswith(f"{section}[0]: ")
    assert (found.problems, found.document.things()) == ([], [])


def test_unknown_fields_are_told_once_for_each_kind():
    found = reading({"queues": [{"name": name, "shards": 1} for name in "abc"], "shards": {}})
    assert told(found.notes) == [
        "queues: the field 'shards' of 3; it is not known here",
        "shards: this key is not known here",
    ]


def test_keys_without_meaning_are_keys_that_policies_here_do_not_have():
    assert not KEYS_WITHOUT_MEANING.keys() & KEYS.keys()
    assert not SECTIONS.keys() & LEFT_OUT.keys()
    assert "apply-to" in known_fields(SECTIONS["policies"])


# --- mistakes --------------------------------------------------------------------------------------------------------

EXCHANGE = {"name": "x", "type": "direct"}
BINDING = {"source": "x", "destination": "q", "destination_type": "queue"}
POLICY = {"name": "p", "pattern": "^q", "definition": {"max-length": 5}}


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ([], "the file: it is [], it must be an object with the keys exchanges, queues, bindings, policies"),
        ({"queues": {}}, "queues: it is {}, it must be an array"),
        ({"vhosts": "/"}, "vhosts: it is '/', it must be an array"),
        ({"parameters": {}}, "parameters: it is {}, it must be an array"),
        ({"queues": None}, "queues: it is None, it must be an array"),
        ({"queues": ["a"]}, "queues[0]: it is 'a', it must be an object"),
        ({"queues": [{}]}, "queues[0].name: it is missing"),
        ({"queues": [{"name": 5}]}, "queues[0].name: it is 5, it must be a string"),
        ({"queues": [{"name": "a", "vhost": 1}]}, "queues[0].vhost: it is 1, it must be a string"),
        ({"queues": [{"name": "a", "durable": 1}]}, "queues[0].durable: it is 1, it must be true or false"),
        ({"queues": [{"name": "a", "arguments": []}]}, "queues[0].arguments: it is [], it must be an object"),
        ({"queues": [{"name": ""}]}, "queues[0].name: it is empty; give it a name"),
        ({"queues": [{"name": "a\nb"}]}, r"queues[0].name: 'a\nb' contains a line break; take it out"),
        ({"queues": [{"name": "ü" * 128}]}, "has 256 bytes, names have at most 255"),
        ({"queues": [{"name": "a"}, {"name": "a"}]}, "queues[1]: queue 'a' is there already, at queues[0]; keep one"),
        (
            {"queues": [{"name": "a", "arguments": {"x-queue-type": "best"}}]},
            "queues[0].arguments.x-queue-type: there is no type 'best'; use one of classic, quorum, stream",
        ),
        (
            {"queues": [{"name": "a", "arguments": {"x-speed": 1}}]},
            "queues[0].arguments.x-speed: queues of type 'classic' do not have this argument; take it out",
        ),
        (
            {"queues": [{"name": "a", "arguments": {"x-max-length": -1}}]},
            "queues[0].arguments.x-max-length: it is -1, it must be an integer, 0 or more",
        ),
        (
            {"queues": [{"name": "a", "arguments": {"x-dead-letter-routing-key": "k"}}]},
            "queues[0]: queue 'a': x-dead-letter-routing-key needs an x-dead-letter-exchange beside it",
        ),
        (
            {"queues": [{"name": "a", "durable": False, "arguments": {"x-queue-type": "quorum"}}]},
            "queues[0]: queue 'a': a queue of type 'quorum' cannot be not durable; use type 'classic'",
        ),
        ({"exchanges": [{"name": "x"}]}, "exchanges[0].type: it is missing"),
        (
            {"exchanges": [{"name": "x", "type": "x-delayed-message"}]},
            "exchanges[0].type: there is no type 'x-delayed-message'; use one of direct, fanout, topic, headers,",
        ),
        (
            {"exchanges": [EXCHANGE | {"arguments": {"x-speed": 1}}]},
            "exchanges[0].arguments.x-speed: exchange 'x': argument x-speed is not supported",
        ),
        (
            {"bindings": [BINDING | {"destination_type": "topic"}]},
            "bindings[0].destination_type: it is 'topic', it must be 'queue' or 'exchange'",
        ),
        (
            {"bindings": [BINDING | {"routing_key": "k" * 256}]},
            "bindings[0].routing_key: it is longer than 255 bytes; shorten it",
        ),
        ({"bindings": [BINDING, BINDING]}, "binding from 'x' to queue 'q' by '' is there already, at bindings[0]"),
        (
            {"bindings": [BINDING | {"source": "amq.headers", "arguments": {"x-match": "some"}}]},
            "bindings[0].arguments.x-match: it is 'some', it must be one of all, any, all-with-x, any-with-x",
        ),
        ({"policies": [POLICY | {"pattern": "("}]}, "policies[0]: policy 'p': pattern '(' is no regular expression"),
        ({"policies": [POLICY | {"apply-to": "topics"}]}, "policies[0]: policy 'p': apply_to is 'topics'"),
        ({"policies": [POLICY | {"priority": 1.5}]}, "policies[0].priority: it is 1.5, it must be a whole number"),
        ({"policies": [POLICY | {"definition": {}}]}, "policies[0]: policy 'p': its definition is empty"),
        (
            {"policies": [POLICY | {"definition": {"speed": 1}}]},
            "policies[0].definition.speed: policies do not have this key; take it out",
        ),
        (
            {"policies": [POLICY | {"definition": {"expires": 0}}]},
            "policies[0].definition.expires: it is 0, it must be an integer, 1 or more milliseconds",
        ),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_a_mistake_is_told_with_its_place_and_nothing_is_taken_over(value, problem):
    found = reading(value)
    assert problem in the_problem(value)
    assert found.document.things() == []


def test_all_mistakes_are_told_at_once():
    value = {
        "queues": [{"name": "a", "arguments": {"x-speed": 1, "x-max-length": "many", "x-expires": 0}}, {"name": 1}],
        "policies": [POLICY | {"definition": {"speed": 1, "max-length": -1}}],
        "bindings": [{}],
    }
    assert {problem.path for problem in reading(value).problems} == {
        "queues[0].arguments.x-speed",
        "queues[0].arguments.x-max-length",
        "queues[0].arguments.x-expires",
        "queues[1].name",
        "policies[0].definition.speed",
        "policies[0].definition.max-length",
        "bindings[0].source",
        "bindings[0].destination",
        "bindings[0].destination_type",
    }


def test_a_value_of_any_length_is_cut():
    problem = the_problem({"queues": [{"name": "a", "arguments": {"x-max-length": "9" * 100_000}}]})
    assert len(problem) < 250


fields = st.sampled_from(
    ["name", "vhost", "type", "durable", "arguments", "source", "destination", "destination_type", "pattern",
     "definition", "priority", "apply-to", "x-queue-type", "x-match", "max-length", "metadata", "component"]
)  # fmt: skip
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["/", "", "q", "queue", "quorum", "headers", "amq.x"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(fields, inner, max_size=4),
    max_leaves=12,
)
keys = st.sampled_from([*SECTIONS, *LEFT_OUT, "vhosts", "parameters", "default_queue_type", "other"])


@given(st.dictionaries(keys, st.lists(st.dictionaries(fields, values), max_size=3) | values, max_size=5))
def test_whatever_the_file_has_there_are_only_remarks(value):
    found = reading(value)
    assert not (found.problems and found.document.things())
    assert all(remark.text for remark in (*found.problems, *found.notes))
