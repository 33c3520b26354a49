"""Authentication, authorisation, limits and the audit log."""
