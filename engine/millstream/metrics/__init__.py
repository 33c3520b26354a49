"""The metrics of an engine: sampling, rates, and their output as data, text and for Prometheus."""
