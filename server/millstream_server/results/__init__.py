"""SELECT and PRINT: their execution, and the framing of their rows.

* `queries`: from a request to streamed rows. `lookups`: batched pull queries by key.
* `framing`, `protobuf`, `values`: the media types. `held`: the limit on unread rows.
"""
