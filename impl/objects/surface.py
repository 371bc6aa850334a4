"""All operations of the server: which parameters each honours, and what answers it."""

import functools
import re
from collections.abc import Callable, Mapping
from typing import Any

from fencepost.impl.objects import bucket_rules, bucket_settings, multipart, object_settings, operations
from fencepost.impl.objects.bucket_rules import BucketRules
from fencepost.impl.objects.bucket_settings import DEFAULTS, NOT_CONFIGURED, BucketSettings
from fencepost.impl.objects.buckets import Buckets
from fencepost.impl.objects.context import Context
from fencepost.impl.objects.credentials import Caller
from fencepost.impl.objects.multipart import Multipart
from fencepost.impl.objects.object_settings import ObjectSettings
from fencepost.impl.objects.operations import Operations

KNOWN: Mapping[str, tuple[str, ...]] = {
    **operations.KNOWN,
    **multipart.KNOWN,
    **bucket_settings.KNOWN,
    **bucket_rules.KNOWN,
    **object_settings.KNOWN,
}


def act(operation: str, buckets: Buckets, caller: Caller, *, wait: bool = True) -> Callable[..., Any]:
    """Return the function for an operation of `KNOWN`, whose caller was authorized (`access`).

    Without `wait` (see `Context`) it is one that reads an object.
    """
    if operation in NOT_CONFIGURED or operation in DEFAULTS:
        return functools.partial(BucketSettings(buckets, caller).not_configured, operation)
    answering: Any
    if operation in operations.KNOWN:
        answering = Operations(buckets, caller, wait)
    elif operation in bucket_settings.KNOWN:
        answering = BucketSettings(buckets, caller)
    elif operation in bucket_rules.KNOWN:
        answering = BucketRules(buckets, caller)
    else:
        part = Multipart if operation in multipart.KNOWN else ObjectSettings
        answering = part(Context(buckets, caller))
    method: Callable[..., Any] = getattr(answering, _method(operation))
    return method


@functools.cache
def _method(operation: str) -> str:
    """`ListObjectsV2` to `list_objects_v2`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", operation).lower()
