"""A server for the writers of a catalog, and its client. See docs/decisions/0057-catalog-server.md."""
