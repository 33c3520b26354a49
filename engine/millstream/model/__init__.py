"""The vocabulary every other room speaks: types, schemas, typed expressions, batches, errors."""
