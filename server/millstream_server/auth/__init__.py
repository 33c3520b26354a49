"""Who asks, what they may, how much, and what is written down about it."""
