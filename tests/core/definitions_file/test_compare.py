"""A file against a broker: the differences, the order in which they are applied, and those that can never be
applied."""

from core.definitions_file import Action, Change, Document, Step, compare, steps, unknown_ends
from core.interface import ExchangeType
from core.store.definitions import PolicyDeclaration
from tests.kit.engine import binding, exchange, queue


def policy(name, **definition):
    return PolicyDeclaration(
        name=name, pattern="", definition={key.replace("_", "-"): v for key, v in definition.items()}
    )


WANTED = Document(
    exchanges=[exchange("new"), exchange("same"), exchange("type", ExchangeType.TOPIC)],
    queues=[queue("longer", x_max_length=9), queue("same", x_queue_type="classic")],
    bindings=[binding("new", "same"), binding("same", "same", "k")],
    policies=[policy("changed", max_length=9), policy("same", max_length=1)],
)
FOUND = Document(
    exchanges=[exchange("old"), exchange("same"), exchange("type")],
    queues=[queue("longer", x_max_length=5, x_expires=1), queue("old"), queue("same")],
    bindings=[binding("old", "old"), binding("same", "same", "k"), binding("same", "same", "k", own=1)],
    policies=[policy("changed", max_length=5), policy("old", max_length=1), policy("same", max_length=1)],
)


def of(change):
    return [one.thing for one in compare(WANTED, FOUND) if one.change is change]


def test_every_definition_has_its_place():
    assert of(Change.CREATE) == [exchange("new"), binding("new", "same")]
    assert of(Change.CHANGE) == [policy("changed", max_length=9)]
    assert of(Change.CONFLICT) == [exchange("type", ExchangeType.TOPIC), queue("longer", x_max_length=9)]
    assert len(of(Change.UNCHANGED)) == 4
    assert of(Change.EXTRA) == [
        policy("old", max_length=1),
        binding("same", "same", "k", own=1),
        binding("old", "old"),
        queue("old"),
        exchange("old"),
    ]


def test_differences_are_told_field_by_field():
    fields = {one.thing.name: list(one.fields) for one in compare(WANTED, FOUND) if one.fields}
    assert fields == {
        "type": ["type is 'direct', the file says 'topic'"],
        "longer": [
            "argument x-expires is 1, the file says not set",
            "argument x-max-length is 5, the file says 9",
        ],
        "changed": ["key max-length is 5, the file says 9"],
    }


def test_a_boolean_is_not_a_number():
    (one,) = compare(Document(queues=[queue("q", own=True)]), Document(queues=[queue("q", own=1)]))
    assert (one.change, list(one.fields)) == (Change.CONFLICT, ["argument own is 1, the file says True"])


def test_what_is_made_comes_before_what_is_bound_and_nothing_is_deleted_unasked():
    assert steps(compare(WANTED, FOUND), delete_extra=False) == [
        Step(Action.DECLARE, exchange("new")),
        Step(Action.DECLARE, binding("new", "same")),
        Step(Action.DECLARE, policy("changed", max_length=9)),
    ]


def test_what_is_deleted_goes_behind_everything_and_ends_last():
    taken = steps(compare(WANTED, FOUND), delete_extra=True)
    assert [step.action for step in taken] == [Action.DECLARE] * 3 + [Action.DELETE] * 5
    assert [step.thing for step in taken[3:]] == of(Change.EXTRA)


def test_equal_documents_need_no_steps():
    assert steps(compare(WANTED, WANTED), delete_extra=True) == []


def test_an_auto_delete_exchange_is_declared_again_behind_the_last_binding_that_leaves_it():
    fleeting, into = exchange("f", auto_delete=True), binding("x", "f", to_exchange=True)
    wanted = Document(exchanges=[fleeting, exchange("x")], queues=[queue("q")], bindings=[into])
    found = Document(exchanges=[fleeting, exchange("x")], queues=[queue("q")], bindings=[binding("f", "q"), into])
    assert steps(compare(wanted, found), delete_extra=True) == [
        Step(Action.DELETE, binding("f", "q")),
        Step(Action.DECLARE, fleeting),
        Step(Action.DECLARE, into),
    ]


def test_bindings_without_ends_are_found_before_anything_is_done():
    wanted = Document(
        exchanges=[exchange("x")],
        bindings=[binding("x", "there"), binding("amq.topic", "gone"), binding("none", "x", to_exchange=True)],
    )
    assert [remark.text for remark in unknown_ends(wanted, Document(queues=[queue("there")]))] == [
        "there is no queue 'gone' in the file or the broker",
        "there is no exchange 'none' in the file or the broker",
    ]
