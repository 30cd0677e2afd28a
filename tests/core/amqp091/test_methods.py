"""The table of methods: complete, with the ids of the specification and of RabbitMQ, and each method easy to
construct."""

import dataclasses
import inspect

import pytest

from core.amqp091 import methods
from core.amqp091.methods import METHODS, BasicQos, ExchangeUnbindOk, QueueDeclare

IDS = {
    10: {10, 11, 20, 21, 30, 31, 40, 41, 50, 51, 60, 61, 70, 71},
    20: {10, 11, 20, 21, 40, 41},
    30: {10, 11},
    40: {10, 11, 20, 21, 30, 31, 40, 51},
    50: {10, 11, 20, 21, 30, 31, 40, 41, 50, 51},
    60: {10, 11, 20, 21, 30, 31, 40, 50, 60, 70, 71, 72, 80, 90, 100, 110, 111, 120},
    85: {10, 11},
    90: {10, 11, 20, 21, 30, 31},
}


def test_every_method_is_there():
    assert set(METHODS) == {(class_id, method_id) for class_id, ids in IDS.items() for method_id in ids}


def test_no_dataclass_of_the_module_is_left_out():
    defined = {value for value in vars(methods).values() if inspect.isclass(value) and dataclasses.is_dataclass(value)}
    assert defined == set(METHODS.values())


def test_the_answer_to_unbind_has_its_own_id():
    assert METHODS[40, 51] is ExchangeUnbindOk


def test_what_an_application_leaves_out_has_a_default():
    declare = QueueDeclare(queue="q")
    assert declare == QueueDeclare(ticket=0, queue="q", durable=False, arguments={})
    assert BasicQos(prefetch_count=5).global_ is False


@pytest.mark.parametrize("method", METHODS.values(), ids=lambda method: method.__name__)
def test_methods_are_values(method):
    parameters = method.__dataclass_params__
    assert parameters.eq
    assert "__dict__" not in dir(method)
