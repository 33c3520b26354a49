"""The state machine that moves batches through tasks and commits them."""
