"""Active-active acceptance of batches, with nothing shared but a bucket."""
