"""What the audit of ingest is made of: the run, the batches, the scenarios, and what must hold."""
