"""The production implementation. Imports nothing of the other layers."""
