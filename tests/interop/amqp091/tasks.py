"""A small Celery application: its tasks, which worker and caller import. AMQP091_BROKER has the broker's URL,
AMQP091_CA the file of the authority where it is one with TLS, AMQP091_CERTIFICATE and AMQP091_KEY those of the client
where the certificate is its login."""

import os
import ssl

from celery import Celery

app = Celery("tasks", broker=os.environ["AMQP091_BROKER"], backend="rpc://")
app.conf.update(
    task_default_queue=os.environ["AMQP091_TASK_QUEUE"],
    task_acks_late=True,
    worker_prefetch_multiplier=16,
    broker_connection_retry_on_startup=False,
    result_expires=60,
)

if "AMQP091_CA" in os.environ:
    app.conf.broker_use_ssl = {
        "ca_certs": os.environ["AMQP091_CA"],
        "cert_reqs": ssl.CERT_REQUIRED,
        "server_hostname": "localhost",
    }
if "AMQP091_CERTIFICATE" in os.environ:
    app.conf.broker_use_ssl |= {
        "certfile": os.environ["AMQP091_CERTIFICATE"],
        "keyfile": os.environ["AMQP091_KEY"],
    }
    app.conf.broker_login_method = "EXTERNAL"


@app.task
def add(x: int, y: int) -> int:
    """Return the sum."""
    return x + y


@app.task(bind=True, max_retries=1, default_retry_delay=0)
def second_time_lucky(self) -> int:
    """Fail at the first try; return the number of the try that succeeds."""
    if self.request.retries == 0:
        raise self.retry()
    return int(self.request.retries)
