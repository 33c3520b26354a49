"""What is typed: entries, commands, completion, the bar below."""
