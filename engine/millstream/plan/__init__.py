"""From statements to logical plans: names, types, keys and the shape of the query."""
