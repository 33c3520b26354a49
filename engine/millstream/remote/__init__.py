"""A database that another process serves over HTTP, with the interface of one in this process."""
