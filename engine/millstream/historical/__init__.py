"""Historical queries and back-fills: bounded runs over a range of the log."""
