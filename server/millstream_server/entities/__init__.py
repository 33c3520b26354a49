"""The JSON objects that statements give (reference: rest-api, 8), made from plain engine facts."""
