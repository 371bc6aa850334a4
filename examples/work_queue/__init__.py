"""A work queue on S3: plain boto3 code, its model, and the map by which traces are held against it.

    work_queue      the queue: jobs, one claim object for each, records of what became of them
    model           what may happen to one job
    refinement      the map from recorded requests to the model
    run             real processes on a real endpoint, some of them killed, recorded

See docs/guides/write-a-refinement-map.md.
"""
