"""The properties of lifecycles, the map of their traces, and an oracle that walks the bucket."""
