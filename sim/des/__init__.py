"""The clock: a store in simulated time."""
