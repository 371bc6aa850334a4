"""Holdfast: proves, attacks, times and watches protocols that coordinate through an object store."""

__version__ = "0.1.0"
