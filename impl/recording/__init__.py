"""Recorders: what a program sends to an object store, as events in files that `fencepost replay` judges.

    fencepost.record(client, "traces")        every request of a boto3 client, also of aiobotocore

    files      the files: a bounded queue that survives kill -9, rotation, limits, gaps
    s3         S3 operations, of any front end, as the columns of events
    sdk        the hook into botocore
    http       requests and responses as a proxy or a server sees them
    bodies     the parts of bodies that may be recorded

All imports are light: this package needs what production has, boto3 and the standard library.
"""

from fencepost.impl.recording.bodies import json_fields
from fencepost.impl.recording.files import Recorder
from fencepost.impl.recording.sdk import record

__all__ = ["Recorder", "json_fields", "record"]
