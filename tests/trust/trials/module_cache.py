"""A module keeps the tokens that it has read in a dictionary for ever, and accepts a revoked token.

`broken` must be violated: the dictionary belongs to its process, and each run begins with an empty one.
`fixed` reads the tokens each time.
"""

import json
from functools import lru_cache

import boto3

BUCKET = "auth"
ACCEPTED = "accepted after it was revoked"
_cache = {}


@lru_cache
def client():
    return boto3.client("s3", region_name="eu-west-1")


def load():
    found = client().get_object(Bucket=BUCKET, Key="tokens.json")
    return json.load(found["Body"])


def allowed_cached(token):
    if "tokens" not in _cache:
        _cache["tokens"] = load()
    return token in _cache["tokens"]


def allowed_fresh(token):
    return token in load()


def is_revoked():
    found = client().list_objects_v2(Bucket=BUCKET, Prefix="revoked/")
    return bool(found.get("Contents"))


def serve(world, allowed):
    for _ in range(2):
        revoked = is_revoked()
        if allowed("t1") and revoked:
            world.note(ACCEPTED)


def revoke():
    client().put_object(Bucket=BUCKET, Key="tokens.json", Body="[]")
    client().put_object(Bucket=BUCKET, Key="revoked/t1", Body=b"")


def program(world, allowed):
    world.boto3_bucket(BUCKET)
    world.boto3_client("s3").put_object(Bucket=BUCKET, Key="tokens.json", Body='["t1"]')
    world.spawn(serve, world, allowed, name="server")
    world.spawn(revoke, name="admin")
    world.always("revoked tokens are refused", lambda view: not view.notes(ACCEPTED))


def broken(world):
    program(world, allowed_cached)


def fixed(world):
    program(world, allowed_fresh)
