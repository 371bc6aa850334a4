"""What the audit of ingest is made of: the stage, the batches, the scenes, and what must hold."""
