"""A commit whose position in the stream is taken is refused: a stream has one commit for each position."""

import datetime
import uuid

from aett.domain import ConflictDetector, ConflictingCommitException, NonConflictingCommitException
from aett.eventstore import Commit, TopicMap
from aett.s3 import CommitStore, S3Config

PACKAGE = "aett-s3"
PLACE = "docstring of ICommitEvents.commit in aett-eventstore"
FAULTS = "none"


def append():
    store = CommitStore(S3Config("bucket", profile_name=""), TopicMap(), ConflictDetector())
    now = datetime.datetime.now(datetime.UTC)
    event = Commit(tenant_id="t", stream_id="s", stream_revision=1, commit_id=uuid.uuid4(), commit_sequence=1,
                   commit_stamp=now, headers={}, events=[], checkpoint_token=0)  # fmt: skip
    try:
        store.commit(event)
    except (ConflictingCommitException, NonConflictingCommitException):
        pass


def program(world):
    world.boto3_bucket("bucket")
    for name in ("ann", "bob"):
        world.spawn(append, name=name)
    world.always("one commit for each position", lambda view: len(view.keys("bucket/")) <= 1)
