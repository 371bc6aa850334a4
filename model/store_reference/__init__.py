"""The behaviour of a store, as a sequential object to step: every backend is compared with it.

Written from what is recorded of S3, not from any backend; `model` imports nothing that ships. A state is
frozen and can be hashed, an operation and an answer are tuples that say what they are when printed:

    >>> state = State()
    >>> state, answer = step(state, ("put", "k", b"a", ("absent",), "text/plain", ()))
    >>> answer
    ('done', '0cc175b9c0f1b6a831c399e269772661', 0)
    >>> step(state, ("put", "k", b"b", ("absent",), "text/plain", ()))[1]
    ('exists',)

    operation                                                       done, and its values
    ("put", key, body, when, content_type, metadata)                etag, version
    ("get", key, start, stop, only_if, unless, version)             body, info
    ("head", key, version)                                          info
    ("delete", key, when, version)                                  version, marker
    ("list", prefix, after, delimiter, limit, token)                objects, prefixes, token
    ("list-versions", prefix, limit, token)                         versions, token
    ("create-upload", key, content_type, metadata)                  upload
    ("upload-part", key, upload, number, body)                      etag
    ("complete-upload", key, upload, parts, when)                   etag, version
    ("abort-upload", key, upload)
    ("list-uploads", prefix, limit, token)                          uploads, token

An info is (key, etag, size, version, content_type, metadata), a listed object its first three, a version
(key, version, latest, marker, etag, size), an upload (key, upload), metadata sorted pairs. Versions and
uploads are numbers counting up from 1; 0 is no version (none requested, or the bucket keeps none). A
token is the last entry of the page before, or None. Any other outcome has no values: `exists`, `changed`,
`missing`, `unchanged`, `past-end`, `gone`, `conflict`; `misuse` and `unsupported` are what a backend raises.

It leaves out what is not sequential (conflicts between rivals, throttling, lost replies) and time.
"""

from fencepost.model.store_reference.bucket import Answer, Metadata, Operation, State, Upload, Write
from fencepost.model.store_reference.objects import fingerprint
from fencepost.model.store_reference.one_key import KeyOperation, Standing, When, on_key, reading, refusal
from fencepost.model.store_reference.steps import step
from fencepost.model.store_reference.uploads import fingerprint_of_parts

__all__ = [
    "Answer",
    "KeyOperation",
    "Metadata",
    "Operation",
    "Standing",
    "State",
    "Upload",
    "When",
    "Write",
    "fingerprint",
    "fingerprint_of_parts",
    "on_key",
    "reading",
    "refusal",
    "step",
]
