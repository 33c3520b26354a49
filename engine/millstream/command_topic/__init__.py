"""The command topic: statements that change the catalog are appended, replayed and followed."""
