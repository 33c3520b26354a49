"""Pull and push queries."""
