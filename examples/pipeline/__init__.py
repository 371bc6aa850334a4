"""A data pipeline: batches are accepted, their sums published as a table, and Spark reports on it."""
