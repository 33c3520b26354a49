"""From statements to logical plans: names, types, keys and the shape of the query.

* `build`: the entry point `plan_query`. `nodes`: the plan. `show`: its text.
* `scope`, `sources`, `typing`, `calls`, `operators`, `nested`, `literals`: names and types.
* `joins`, `join_rules`, `aggregation`, `group_rules`, `projection`, `select_list`, `keys`: clauses.
* `sinks`, `delivery`, `upgrade`: targets of a query, and replacing one.
* `define`: CREATE, ALTER and DROP of streams, tables and types.
"""
