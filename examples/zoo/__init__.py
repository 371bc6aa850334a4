"""The zoo: failures that really happened, as small programs of their users; each broken and fixed.

Every module is one entry. It holds `broken` and `fixed` on the store interface, `broken_boto3` and
`fixed_boto3` on boto3, and sometimes a `tempting_...`: a mend that looks right and is not. Where what the SDK
does by itself matters, the two are written apart; elsewhere once, on the layer of `examples.storage`. Faults
that a program needs beyond the default (one crash, one lost response, one stall) are declared by the
program itself, with `@audit(...)`. `fencepost zoo --programs` audits them all, `fencepost audit self-412
--mutant broken` one of them.

Some counterexamples are a safeguard of one of the large protocols as well; `like` says which: switched off
there, the same failure follows. The entry is here all the same, because a user's code will look like this.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """The description of one entry, available without importing it."""

    property: str
    """The property that the broken programs violate."""
    sources: tuple[str, ...]
    """Where it happened."""
    like: tuple[str, ...] = ()
    """The safeguards, as `protocol/safeguard`, whose absence is the same mistake."""

    def module(self, name: str) -> str:
        """The module of the entry called `name`."""
        return f"{__name__}.{name.replace('-', '_')}"


ENTRIES = {
    # One's own write, misunderstood.
    "self-412": Entry(
        "no lock is left behind",
        ("opentofu#4405", "aws-sdk-java-v2#6580", "git-remote-s3#66"),
        like=("ingest/compare-after-412",),
    ),
    "self-fence": Entry("only a newer writer fences", ("slatedb#766", "slatedb#819")),
    "ambiguous-commit-cleaned-up": Entry(
        "every file of the table is there",
        ("iceberg#2317", "ClickHouse#112081"),
        like=("publish/read-back-on-unknown",),
    ),
    "proof-by-existence": Entry(
        "the report is true", ("ClickHouse#113994",), like=("ingest/compare-after-412",)
    ),
    "conflict-read-as-exists": Entry(
        "somebody runs the job",
        ("arrow-rs-object-store#852", "opendal#6741"),
        like=("ingest/409-proves-nothing",),
    ),
    # Names come back after garbage collection.
    "zombie-slot": Entry("no acknowledged row is lost", ("slatedb#352", "#1622")),
    "manifest-id-reuse": Entry(
        "no commit is lost", ("SlateDB's RFC 26",), like=("publish/boundary-check-after-create",)
    ),
    "fence-behind-boundary": Entry("one writer at a time", ("slatedb#1682", "#1709")),
    "epoch-before-slot": Entry("epochs never go back along the log", ("slatedb#271",)),
    "watermark-after-manifest": Entry("every file of the manifest is there", ("slatedb#1031",)),
    "temp-deleted-after-reservation": Entry("no hole in the log", ("delta-rs#2452",)),
    "collector-lost-its-race": Entry("every fragment of the manifest is there", ("chroma#4972",)),
    # Leases and epochs.
    "lease-expires-in-flight": Entry("no commit is in the log twice", ("delta-rs#268",)),
    "plain-put-log": Entry(
        "no acknowledged row is lost", ("lance#6432",), like=("publish/create-only-manifest",)
    ),
    "check-then-put": Entry(
        "all write under one key",
        ("dbtrail#929", "Quickwit's documentation"),
        like=("ingest/create-only-manifest",),
    ),
    # Tokens and reads that do not belong together.
    "stale-etag-published": Entry("pointer and object agree", ("lance#8455",)),
    "manifest-without-token": Entry("the cursor never goes back", ("arkflow#1192",)),
    "retried-contention": Entry("no appended entry is lost", ("chroma#4888",)),
}
"""By name, in the order of the catalog they were taken from. Stores that lie are `fencepost probe`'s."""
