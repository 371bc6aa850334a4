"""Lifecycle: objects of a bucket expire by the bucket's rules. So far: what the rules mean, see `policy`."""
