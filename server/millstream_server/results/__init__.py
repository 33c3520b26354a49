"""SELECT and PRINT: how they are executed, and how their rows are framed."""
