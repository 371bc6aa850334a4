"""Capacity questions, as files."""
