"""An HTTP service with FastAPI that puts orders into a queue, and answers when the broker has accepted them.

The connection lives as long as the service, and comes back by itself after a loss. To run it:

    uvicorn --app-dir examples 16_fastapi_orders:app
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, HTTPException, Request

from amqp10.client import Message, Sender, SendTimedOut, connect
from amqp10.wire.messaging import Accepted

URL = os.environ.get("HEADGATE_URL", "amqp://guest:guest@127.0.0.1:5672")
WITHIN_S = 5.0
"""How long a client of the service waits for the broker, in seconds."""


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[dict[str, Sender]]:
    """One connection and one sender for all requests."""
    async with connect(URL) as connection:
        await connection.request("PUT", "/queues/orders", {})
        yield {"orders": await connection.open_sender("/queues/orders")}


app = FastAPI(lifespan=lifespan)


@app.post("/orders", status_code=202)
async def order(request: Request) -> dict[str, str]:
    """Take the body of the request as an order. 503 says why the broker makes the service wait."""
    sender: Sender = request.state.orders
    try:
        fate = await sender.send(Message(await request.body()), within_s=WITHIN_S)
    except SendTimedOut as late:
        raise HTTPException(503, str(late)) from late
    if not isinstance(fate, Accepted):
        raise HTTPException(502, f"the order was not accepted: {fate}")
    return {"order": "accepted"}


@app.get("/waiting")
async def waiting(request: Request) -> dict[str, str | None]:
    """Say why the broker makes the service wait, for a health check or a page."""
    wait = request.state.orders.wait
    return {"reason": wait and wait.reason, "culprit": wait and wait.culprit, "remedy": wait and wait.remedy}
