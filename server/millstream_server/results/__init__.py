"""SELECT and PRINT: their execution, and the framing of their rows."""
