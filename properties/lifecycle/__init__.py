"""Why lifecycles delete what they should: an oracle that walks the bucket."""
