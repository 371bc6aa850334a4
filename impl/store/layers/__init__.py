"""Layers that compose over any store: each is a store itself and holds the one below."""
