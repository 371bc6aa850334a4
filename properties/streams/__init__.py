"""Why the library of streams and its model agree."""
