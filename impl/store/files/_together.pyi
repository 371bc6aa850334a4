def create(
    drafts: int,
    folder: int,
    name: str,
    flush: int,
    attribute: str,
    value: bytes,
    etag_at: int,
    body: bytes,
    /,
) -> tuple[int, int, int, str]: ...
