"""Active-active acceptance as a state machine."""
