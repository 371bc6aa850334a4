"""S3 and its relatives, through boto3: the only place that imports the SDK.

    store = S3Store("bucket", prefix="ledger", endpoint="http://127.0.0.1:9000", region="us-east-1")

**Every request is sent exactly once.** By default boto3 repeats a request that timed out or was
answered 500. If the first attempt was applied and only its reply lost, the repetition of a create-only put
meets the object that the first one wrote and is answered 412: the writer's own success, reported as another
writer's. The same holds for if-match, for deletes, and for completed uploads (404). So the SDK's retries and
its redirects to other regions are off, and a lost reply is `unknown`. The `Retrying` layer repeats the
requests that may be repeated. If a reply shows that the SDK sent several attempts all the same, its refusals
count as `unknown`.

The modules:

- `operations`: each request as an SDK call, and the SDK's answer as a reply.
- `endings`: every status, error code and exception as an outcome or an error, in tables.
- `client`: the configuration of the SDK.

This driver cannot check two things that a store must grant. It must evaluate conditions atomically
(`fencepost probe` tests that), and list in the order of the keys' bytes (SeaweedFS and directory buckets do
not; pages keep the store's order).

Replies give ETags without quotes. Conditions send them as the store sent them, which is with quotes:
Cloudflare R2 takes no others. Ceph, and with it DigitalOcean Spaces and Hetzner, matches only those without:
`unquoted_etags=True`, in a URL `unquoted_etags=true`. The row `etag-forms` of `fencepost probe` tells.

A `head` of an object in a bucket that does not exist is `missing`, because S3 does not say why in a reply
without a body.
"""

from fencepost.impl.store.s3.store import S3Store

__all__ = ["S3Store"]
