"""Starts a server from files, environment and flags.

* `startup`: the entry point. `options`, `config`, `secret`: the settings.
* `boot`: checks against insecure listeners. `wiring`: the guard.
* `reloading`: reading files again on SIGHUP.
"""
