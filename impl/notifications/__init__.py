"""Notifications of a store: their forms, and who receives them."""
