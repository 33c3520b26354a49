"""The count by Quix Streams: SERVERS TOPIC OUT FOLDER."""

from __future__ import annotations

import sys

from quixstreams import Application, State


def count(_: object, state: State) -> dict[str, int]:
    """The number of records of the key so far, in a store with a changelog."""
    found: int = state.get("n", 0) + 1
    state.set("n", found)
    return {"N": found}


def main(servers: str, topic: str, out: str, folder: str) -> None:
    """Run until the process is ended."""
    application = Application(
        broker_address=servers,
        consumer_group=f"{out}-quix",
        auto_offset_reset="earliest",
        state_dir=folder,
        commit_interval=0.2,
        loglevel="WARNING",
    )
    read = application.topic(topic, key_deserializer="str", value_deserializer="json")
    written = application.topic(out, key_serializer="str", value_serializer="json")
    application.dataframe(read).apply(count, stateful=True).to_topic(written)
    application.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
