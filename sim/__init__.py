"""Who drives the code: the world, the adversary, the clock, replay."""
