"""The JSON objects that statements return (reference: rest-api, 8), built from plain data of the
engine."""
