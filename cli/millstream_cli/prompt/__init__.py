"""The prompt: entries, commands, completion, toolbar."""
