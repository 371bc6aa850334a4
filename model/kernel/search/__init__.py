"""Exploration of the reachable states: breadth first, by random walks, one at a time."""
