"""Drivers of the code: the world, the adversary, the clock, replay."""
