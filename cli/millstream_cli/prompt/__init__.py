"""The prompt: entries, commands, completion, toolbar.

* `shell`: the loop. `editing`: keys and colours. `entry`: the parts of an entry.
* `completion`, `place`: candidates by the grammar position. `commands`: the shell's own commands.
* `terminal`: executing statements in a session. `toolbar`: the status line.
"""
