"""The engine as a whole: statements in, results out."""
