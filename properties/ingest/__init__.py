"""Why the ingest library and its model agree."""
