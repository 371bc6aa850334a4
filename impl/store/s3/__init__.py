"""S3 and its relatives, through boto3: the only place that imports the SDK.

    store = S3Store("bucket", prefix="ledger", endpoint="http://127.0.0.1:9000", region="us-east-1")

**Every request is sent exactly once.** boto3 repeats by itself what timed out or was answered 500. If the
first attempt was applied and only its reply lost, the repetition of a create-only put meets the object
that the first one wrote, and is answered 412: one's own success, reported as somebody else's. The same
holds for if-match, for deletes, and for completed uploads (404). So the SDK's retries and its redirects
to other regions are off, a lost reply is `unknown`, and whoever wants a repetition puts the `Retrying`
layer above, which knows what may be repeated. Should a reply say all the same that the SDK sent more than
one attempt, its refusals count as `unknown`.

Where the truth is written down:

- `operations`: each request as an SDK call, and the SDK's answer as a reply.
- `endings`: every status, error code and exception as an outcome or an error, in tables.
- `client`: how the SDK is set up.

What a store must grant and this driver cannot check: that it looks at the conditions at all, and does so
atomically (`fencepost probe` checks), and that it lists in order of the keys' bytes (SeaweedFS and
directory buckets do not; pages are passed on in the store's order). ETags are given without quotes, and
sent without: every store tried takes them so, and Ceph takes them only so. A `head` of an object in a
bucket that does not exist is `missing`, because S3 does not say why in a reply without a body.
"""

from fencepost.impl.store.s3.store import S3Store

__all__ = ["S3Store"]
