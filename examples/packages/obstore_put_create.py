"""`put(mode="create")` answers AlreadyExistsError when the object existed already, and not to the caller that created it."""

import obstore
from obstore.store import S3Store

PACKAGE = "obstore"
PLACE = "docstring of PutMode"
FAULTS = "none,reply_lost=1"
OVER_HTTP = True


def claim(endpoint, name):
    try:
        obstore.put(S3Store("bucket", aws_endpoint=endpoint), "claim", name.encode(), mode="create")
    except obstore.exceptions.AlreadyExistsError:
        return False
    return True


def program(world):
    def answered(view):
        created = view.get("bucket/claim").decode()
        assert view.result(created) is not False, f"{created} created it, and was answered AlreadyExistsError"

    world.boto3_bucket("bucket")
    for name in ("ann", "bob"):
        world.spawn(claim, world.endpoint, name, name=name, may_raise=(Exception,))
    world.finally_("the creator is not answered that it existed", answered)
