"""A directory as an object store that S3 clients use over HTTP."""
