"""A loopback proxy that makes a store slow, narrow and unreliable."""
