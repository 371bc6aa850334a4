"""State machines: what may happen. Imports nothing of the other layers."""
