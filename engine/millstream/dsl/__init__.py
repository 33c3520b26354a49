"""Queries as chains of Python methods, with typed expressions as arguments.

A chain holds the parser's own tree of a query. Where it runs, the tree is printed and the text is
executed as if a client had sent it, so a chain means exactly the statement that it prints.
"""
