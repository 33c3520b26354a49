"""The catalogue of scalar, aggregate and table functions."""
