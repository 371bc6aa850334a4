"""`fencepost ingest audit --inventory PLACE`: where the report lies, and what in it is the store's."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit

from fencepost.commands.exit_codes import BadRequest
from fencepost.commands.ingest_options import ENV, opened
from fencepost.impl.ingest import Report, report_at, report_in
from fencepost.impl.store import Store

IN_STORE = "store:"


@contextmanager
def found_report(place: str, url: str, store: Store) -> Iterator[tuple[Report, str]]:
    """The report at `place`, and the prefix of the keys in it that are those of the store at `url`."""
    bucket, prefix = _bucket_of(url)
    with _report(place, url, store) as report:
        report.check(bucket=bucket, now_ns=ENV.now_ns())
        yield report, prefix


@contextmanager
def _report(place: str, url: str, store: Store) -> Iterator[Report]:
    if place.startswith(IN_STORE):
        yield report_in(store, ENV, place.removeprefix(IN_STORE).lstrip("/"))
    elif place.startswith("s3://"):
        # Opened at its root: a manifest names data files by their whole keys.
        parts = urlsplit(place)
        query = parts.query or (urlsplit(url).query if url.startswith("s3://") else "")
        with opened(f"s3://{parts.netloc}{'?' if query else ''}{query}") as elsewhere:
            yield report_in(elsewhere, ENV, unquote(parts.path.strip("/")))
    elif "://" in place:
        raise BadRequest(
            f"--inventory {place!r} names no report: give a file or folder, s3://bucket/key, or "
            f"{IN_STORE}KEY for one in --store itself"
        )
    else:
        yield report_at(Path(place))


def _bucket_of(url: str) -> tuple[str | None, str]:
    """The bucket and prefix that the keys of a store have in a report; a directory has neither."""
    parts = urlsplit(url)
    if parts.scheme != "s3":
        return None, ""
    prefix = unquote(parts.path.strip("/"))
    return parts.netloc, f"{prefix}/" if prefix else ""
