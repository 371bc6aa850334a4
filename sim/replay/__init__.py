"""Whether a trace is a behaviour of the model, for millions of runs."""
