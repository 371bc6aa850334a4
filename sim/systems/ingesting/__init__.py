"""What the audit of ingest is made of."""
