"""Why model and implementation agree: invariants, histories, refinement maps."""
