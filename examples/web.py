"""A web service with a database in its own process: FastAPI takes orders, says what each customer
has spent, and sends changes to browsers as they come.

python examples/web.py       # asks the service itself, as a test does
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

from fastapi import FastAPI, HTTPException
from fastapi.responses import StreamingResponse
from fastapi.testclient import TestClient
from pydantic import BaseModel

import millstream
from millstream.functions.user import UserFunction

SQL = """
CREATE STREAM IF NOT EXISTS orders (customer STRING KEY, amount DOUBLE)
  WITH (KAFKA_TOPIC='orders', PARTITIONS=4, VALUE_FORMAT='JSON');
CREATE TABLE IF NOT EXISTS spending AS
  SELECT customer, COUNT(*) AS orders, SUM(amount) AS total FROM orders GROUP BY customer;
SET 'auto.offset.reset' = 'earliest';
"""
CHANGES = "SELECT customer, total FROM spending EMIT CHANGES LIMIT ?"
FUNCTIONS: list[UserFunction] = []


class Order(BaseModel):
    customer: str
    amount: float


def service(database: millstream.Database) -> FastAPI:
    """The service over an open database. FastAPI runs functions that block in threads."""
    database.execute(SQL)
    app = FastAPI()

    @app.post("/orders")
    def order(orders: list[Order]) -> int:
        # All of them, or none: and they are durable when this returns.
        return database.insert("orders", [order.model_dump() for order in orders])

    @app.get("/spending/{customer}")
    def spending(customer: str) -> dict[str, float]:
        # So that a client finds what it has ordered.
        database.wait()
        found = database.execute(
            "SELECT orders, total FROM spending WHERE customer = ?", (customer,)
        )
        assert isinstance(found, millstream.Rows)
        row = found.fetchone()
        if row is None:
            raise HTTPException(404, f"{customer} has ordered nothing")
        return {"orders": row[0], "total": row[1]}

    @app.get("/changes")
    async def changes(limit: int = 1_000_000) -> StreamingResponse:
        async def events() -> AsyncIterator[str]:
            async for customer, total in database.subscribe(CHANGES, (limit,)):
                yield f"data: {json.dumps({'customer': customer, 'total': total})}\n\n"

        return StreamingResponse(events(), media_type="text/event-stream")

    return app


def run(database: millstream.Database) -> None:
    """Order three times, and print the answers of the service."""
    client = TestClient(service(database))
    for orders in ([("ann", 12.5)], [("bob", 3.0), ("ann", 7.0)]):
        client.post("/orders", json=[{"customer": who, "amount": much} for who, much in orders])
        print(client.get("/spending/ann").json(), client.get("/spending/cleo").status_code)
    print(client.get("/changes", params={"limit": 1}).text.rstrip())


if __name__ == "__main__":
    with millstream.connect(functions=FUNCTIONS) as opened:
        run(opened)
