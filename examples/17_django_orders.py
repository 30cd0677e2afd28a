"""A view of Django that puts orders into a queue, and answers when the broker has accepted them.

Django's views are called in many threads. They share one connection of ``amqp10.client.scripts``, which runs in a
thread of its own. To run it:

    python examples/17_django_orders.py runserver --noreload
"""

import os
import sys
from contextlib import ExitStack
from functools import cache

import django
from django.conf import settings
from django.core.handlers.wsgi import WSGIHandler
from django.core.management import execute_from_command_line
from django.http import HttpRequest, JsonResponse
from django.urls import path

from amqp10.client import ClientError, Message
from amqp10.client.scripts import ScriptSender, connect

URL = os.environ.get("HEADGATE_URL", "amqp://guest:guest@127.0.0.1:5672")
WITHIN_S = 5.0
"""How long a client of the view waits for the broker, in seconds."""
OPEN = ExitStack()
"""The connection, which is closed with the process."""


@cache
def orders() -> ScriptSender:
    """The sender that all threads share; the first request opens it."""
    connection = OPEN.enter_context(connect(URL))
    connection.request("PUT", "/queues/orders", {})
    return connection.open_sender("/queues/orders")


def order(request: HttpRequest) -> JsonResponse:
    """Take the body of the request as an order. 503 says what the broker has said."""
    try:
        orders().send(Message(request.body), within_s=WITHIN_S)
    except ClientError as error:
        return JsonResponse({"error": str(error)}, status=503)
    return JsonResponse({"order": "accepted"}, status=202)


urlpatterns = (path("orders", order),)


def application() -> WSGIHandler:
    """The settings of the smallest project, and its WSGI application."""
    if not settings.configured:
        settings.configure(ROOT_URLCONF=sys.modules[__name__], ALLOWED_HOSTS=["*"], SECRET_KEY=os.urandom(32).hex())
        django.setup()
    return WSGIHandler()


if __name__ == "__main__":
    application()
    with OPEN:
        execute_from_command_line(sys.argv)
