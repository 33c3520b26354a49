"""The language as data: its statements as EBNF, its keywords, and sentences drawn from it."""
