"""Plans statements that change the catalog: the result is the next catalog and its effects, as a
value.

`change.plan_change` is the entry point. Executing a statement, replaying or following the command
topic and the dry run of a script all call it; the rules for a statement are here alone.

* `environment.py`: the inputs of planning, besides the catalog.
* `snapshot.py`: the catalog, and the plans of its queries.
* `effects.py`: the result, `Change`, and the effects.
* `sources.py`, `persistent.py`, `control.py`: one function for each kind of statement.
* `topics.py`, `topologies.py`: the checks against topics that exist. `upgrade.py`: the check of the
  state of a query whose plan is replaced.
"""
