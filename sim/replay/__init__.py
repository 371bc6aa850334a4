"""Judging of traces by the model, for millions of runs."""
