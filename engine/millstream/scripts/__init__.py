"""Scripts: the text of clients as statements, with the position of each in its script."""
