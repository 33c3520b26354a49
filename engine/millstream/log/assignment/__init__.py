"""How the instances of a service agree on which of them has which task of which query.

* `group_assignment`: what they agree on, and what a member reports.
* `agreement`: folds the records of the assignment topic, and makes the next assignment.
* `leader`: when the leader makes one.
* `member_tasks`: what one member knows of its tasks, and reports.
* `balance`: which member each task should have, from where its state is up to date.
* `encoding`: the records as bytes.
"""
