"""Tests, in folders that mirror the code's. What several of them share is imported from `tests.servers`."""
