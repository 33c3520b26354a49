"""Sessions that execute statements: an engine in this process, or a server.

* `results`: the `Session` protocol and its results. `local`: an engine in this process.
* `remote`, `http`, `frames`, `entities`, `settings`: a server.
"""
