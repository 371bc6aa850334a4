"""Whether what the code did is something the model allows."""
