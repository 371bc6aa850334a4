"""Every operation by its name: what it does is in `objects`, `listings` and `uploads`."""

from fencepost.model.store_reference.bucket import Answer, Operation, State
from fencepost.model.store_reference.listings import list_objects, list_uploads, list_versions
from fencepost.model.store_reference.objects import delete, delete_version, fingerprint, get, head, put
from fencepost.model.store_reference.uploads import abort_upload, complete_upload, create_upload, upload_part


def step(state: State, operation: Operation) -> tuple[State, Answer]:
    """The state after `operation`, and its answer."""
    match operation:
        case ("put", key, body, when, content_type, metadata):
            return put(state, key, when, fingerprint(body), body, content_type, metadata)
        case ("get", key, start, stop, only_if, unless, version):
            return state, get(state, key, (start, stop), only_if, unless, version)
        case ("head", key, version):
            return state, head(state, key, version)
        case ("delete", key, when, 0):
            return delete(state, key, when)
        case ("delete", key, _, version):
            return delete_version(state, key, version)
        case ("list", prefix, after, delimiter, limit, token):
            return state, list_objects(state, prefix, after, delimiter, limit, token)
        case ("list-versions", prefix, limit, token):
            return state, list_versions(state, prefix, limit, token)
        case ("list-uploads", prefix, limit, token):
            return state, list_uploads(state, prefix, limit, token)
        case ("create-upload", key, content_type, metadata):
            return create_upload(state, key, content_type, metadata)
        case ("upload-part", key, upload, number, body):
            return upload_part(state, key, upload, number, body)
        case ("complete-upload", key, upload, parts, when):
            return complete_upload(state, key, upload, parts, when)
        case ("abort-upload", key, upload):
            return abort_upload(state, key, upload)
    raise ValueError(f"{operation!r} is no operation on a store")
