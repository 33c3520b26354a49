"""`millstream format` and `millstream lint`: files of SQL, without running them."""
