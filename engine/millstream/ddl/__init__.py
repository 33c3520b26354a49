"""What a statement that defines something means, as a value: the catalog after it and its effects.

`change.plan_change` is the way in. Executing a statement, replaying or following the command topic
and the dry run of a script all call it; none of them decides anything about a statement itself.

* `environment.py`: what a statement is planned with.
* `snapshot.py`: the catalog, and the plans of its queries.
* `effects.py`: the result.
* `sources.py`, `persistent.py`, `control.py`: one function for each kind of statement.
* `topics.py`, `topologies.py`, `upgrade.py`: what is checked against topics that exist.
"""
