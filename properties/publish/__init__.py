"""Why the publish library and its model agree."""
