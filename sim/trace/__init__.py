"""Traces: the event schema as columns, and who writes and reads it."""
