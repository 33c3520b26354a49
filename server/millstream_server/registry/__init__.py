"""The schema registry of a database over HTTP, with the API of Confluent's registry."""
