"""The shared vocabulary of all rooms: types, schemas, typed expressions, batches, errors."""
