"""Executes the statements that do not change the catalog.

* `pulling`, `keyed`: pull queries, and those by key that are prepared once.
* `inserting`, `row_inserts`, `row_values`, `constants`: rows of clients as values or JSON.
* `loading`, `local_file`: COPY from a file.
* `inspect`, `described`: SHOW, LIST and DESCRIBE.
* `explain`, `explained_pull`, `programs`: EXPLAIN.
* `asserts`: ASSERT. `control`: SET, DEFINE, and TERMINATE of a push query.
"""
