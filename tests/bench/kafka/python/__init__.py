"""The same count of records by key, in the Python libraries that one would choose between. Each is
a program of its own, run by the Python in which its library is installed."""
