"""A small Celery application: its tasks, which worker and caller import. AMQP091_BROKER has the broker's URL,
AMQP091_CA the file of the authority where it is one with TLS."""

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
