"""`python -m tests.kafka.neighbour SERVERS SERVICE`: one more instance of a service, until it is
killed. It says `ready` when it is one."""

from __future__ import annotations

import sys
import threading

import millstream
from tests.kafka.test_standbys import SHARING

if __name__ == "__main__":
    _, servers, service = sys.argv
    with millstream.connect(kafka=servers, service_id=service, sharing=SHARING):
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        threading.Event().wait()
