"""What executes each kind of statement."""
