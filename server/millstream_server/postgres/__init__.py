"""PostgreSQL's protocol over the same server: its clients read streams and tables."""
