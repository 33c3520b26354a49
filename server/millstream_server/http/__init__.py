"""Connections and their protocols.

* `listening`, `connections`, `connection`: sockets, and the choice of the protocol.
* `http1` (uvicorn), `http2`, `protocols`, `messages` (Hypercorn): the protocols.
* `admission`, `addresses`, `frames`, `progress`: limits and deadlines.
"""
