"""What can be generated. Fields and ranges are those of ksqlDB's `ksql-datagen`, of clickstream a
part of them; bids are like those of the Nexmark benchmark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

Row = Mapping[str, Any]
MakeRow = Callable[[Random, int, int], Row]
"""From the source of randomness, the number of the row from 0 on, and the time in ms."""

PARTITIONS = 4
"""Of the topics of streams and tables that are created for a preset."""
_CHANNELS = ("ios", "iOS-test", "android", "web")
_MESSAGES = (
    "why is it so difficult to keep the bathrooms clean ?",
    "is this as good as it gets? really ?",
    "your team here rocks!",
    "Surprisingly good, maybe you are getting your mojo back at long last!",
    "thank you for the most friendly, helpful experience today at your new lounge",
)
_REQUESTS = (
    "GET /index.html HTTP/1.1",
    "GET /images/logo.png HTTP/1.1",
    "GET /site/login HTTP/1.1",
    "GET /site/user_status.html HTTP/1.1",
)
_AGENTS = ("Mozilla/5.0 (X11; Linux x86_64)", "Mozilla/5.0 (compatible; Googlebot/2.1)")


@dataclass(frozen=True, slots=True)
class Preset:
    """A kind of records. `columns`: names and types, as in CREATE; the first one is the key."""

    name: str
    kind: str
    columns: tuple[tuple[str, str], ...]
    about: str
    row: MakeRow

    @property
    def key(self) -> str:
        """The column that is the key."""
        return self.columns[0][0]

    def create(self, name: str) -> str:
        """The statement that creates its stream or table unless it is there."""
        (key, kind), *others = self.columns
        key_kind = "PRIMARY KEY" if self.kind == "TABLE" else "KEY"
        columns = ", ".join((f"{key} {kind} {key_kind}", *map(" ".join, others)))
        return (
            f"CREATE {self.kind} IF NOT EXISTS {name} ({columns})"
            f" WITH (KAFKA_TOPIC='{name.lower()}', PARTITIONS={PARTITIONS}, VALUE_FORMAT='JSON');"
        )


def _order(random: Random, number: int, now: int) -> Row:
    return {
        "ordertime": now,
        "orderid": number,
        "itemid": f"Item_{random.randint(1, 999)}",
        "orderunits": round(random.uniform(0.1, 10), 2),
        "address": {
            "city": f"City_{_digits(random, 2)}",
            "state": f"State_{_digits(random, 2)}",
            "zipcode": random.randint(10_000, 99_999),
        },
    }


def _user(random: Random, number: int, now: int) -> Row:
    del number, now
    return {
        "userid": f"User_{_digits(random, 1)}",
        "registertime": random.randint(1_487_715_775_521, 1_519_273_364_600),
        "regionid": f"Region_{_digits(random, 1)}",
        "gender": random.choice(("MALE", "FEMALE", "OTHER")),
    }


def _pageview(random: Random, number: int, now: int) -> Row:
    del number
    return {
        "viewtime": now,
        "userid": f"User_{_digits(random, 1)}",
        "pageid": f"Page_{random.randint(1, 99)}",
    }


def _rating(random: Random, number: int, now: int) -> Row:
    return {
        "rating_id": number + 1,
        "user_id": random.randint(-1, 20),
        "stars": random.randint(1, 5),
        "route_id": random.randint(1, 9999),
        "rating_time": now,
        "channel": random.choice(_CHANNELS),
        "message": random.choice(_MESSAGES),
    }


def _click(random: Random, number: int, now: int) -> Row:
    del number
    user = random.randint(-1, 40)
    return {
        "ip": f"222.{user + 2}.{random.randint(1, 5)}.{random.randint(1, 254)}",
        "userid": user,
        "time": now,
        "request": random.choice(_REQUESTS),
        "status": random.choice((200, 200, 200, 302, 404, 405, 406, 407)),
        "bytes": random.choice((278, 1289, 2048, 4006, 4196, 14096)),
        "agent": random.choice(_AGENTS),
    }


def _bid(random: Random, number: int, now: int) -> Row:
    del number
    return {
        # Most bids are for few auctions.
        "auction": int(1000 + random.paretovariate(1.2)) if random.random() < 0.9 else 1000,
        "bidder": random.randint(1, 10_000),
        "price": round(10 ** random.uniform(0, 6)),
        "channel": random.choice(("Google", "Facebook", "Baidu", "Apple")),
        "datetime": now,
    }


def _digits(random: Random, most: int) -> str:
    """No digit up to `most`, none of them 0."""
    return "".join(str(random.randint(1, 9)) for _ in range(random.randint(0, most)))


PRESETS = {
    preset.name: preset
    for preset in (
        Preset(
            "orders", "STREAM",
            (
                ("orderid", "INT"), ("ordertime", "BIGINT"), ("itemid", "STRING"),
                ("orderunits", "DOUBLE"),
                ("address", "STRUCT<city STRING, state STRING, zipcode BIGINT>"),
            ),
            "orders of items, with addresses", _order,
        ),
        Preset(
            "users", "TABLE",
            (
                ("userid", "STRING"), ("registertime", "BIGINT"), ("regionid", "STRING"),
                ("gender", "STRING"),
            ),
            "ten users, whose regions change", _user,
        ),
        Preset(
            "pageviews", "STREAM",
            (("viewtime", "BIGINT"), ("userid", "STRING"), ("pageid", "STRING")),
            "pages that these users look at", _pageview,
        ),
        Preset(
            "ratings", "STREAM",
            (
                ("rating_id", "BIGINT"), ("user_id", "INT"), ("stars", "INT"),
                ("route_id", "INT"), ("rating_time", "BIGINT"), ("channel", "STRING"),
                ("message", "STRING"),
            ),
            "ratings of flights, with messages", _rating,
        ),
        Preset(
            "clickstream", "STREAM",
            (
                ("ip", "STRING"), ("userid", "INT"), ("time", "BIGINT"), ("request", "STRING"),
                ("status", "INT"), ("bytes", "INT"), ("agent", "STRING"),
            ),
            "requests of a web server", _click,
        ),
        Preset(
            "bids", "STREAM",
            (
                ("auction", "BIGINT"), ("bidder", "BIGINT"), ("price", "BIGINT"),
                ("channel", "STRING"), ("datetime", "BIGINT"),
            ),
            "bids of auctions, like those of the Nexmark benchmark", _bid,
        ),
    )
}  # fmt: skip
"""All presets by name."""
