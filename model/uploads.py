"""Uploads: a multipart upload is completed once, whatever is repeated, crashes or is collected.

An upload is a directory that holds its parts. Completing it joins the parts into a file of this directory,
syncs it, and renames it to the name of the key. So publishing and the record that it happened are one system
call: where the joined file is gone, it was published. A client that got no answer completes again, perhaps
after another client has overwritten the key; the second completion must succeed and change nothing.

The directory has a lock. Completing, aborting and collecting hold it; uploading a part does not, because a
completion names the parts that it wants. The collector looks at the age of an upload twice: when it lists,
and once it holds the lock. `age` is the time since the last request for the upload; it is old when nothing
has touched it for the time that an upload may rest.
"""

from fencepost.model import *
from fencepost.model.store import Budget

NOBODY = -1
PARTS = 2


class Uploads(Machine):
    """One upload of two parts: requests that complete it, one that aborts it, another writer, a collector."""

    # Constants.

    completions = Size(2, most=4, doc="requests to complete the upload")
    crashes = Size(1, most=3)
    safeguards = {
        "upload-lock": "completing, aborting and collecting hold the lock of the upload",
        "publish-is-record": "the joined file is renamed from the upload, not linked and removed later",
        "parts-checked": "a completion fails unless every part that it names is there",
        "upload-age": "the collector leaves alone what was touched lately",
        "age-under-lock": "the collector looks at the age again once it holds the lock",
        "record-before-removal": "the result of a completion is kept when its directory is removed",
    }
    symmetric = ("completions",)

    # State.

    crash = Budget(crashes)
    part = Each(PARTS, Bool())
    directory = Enum("open", "removed")
    recorded = Bool()  # the result of a completion outlives its directory
    joined = Enum("none", "file", "published")  # the joined file: in the directory, or renamed to the key
    whole = Bool()  # the joined file has every part
    key = Enum("none", "upload", "other")
    published = Int(0, 2)  # ghost: how often the upload has become the content of the key
    old = Bool()
    lock = Id(completions, nobody=True)
    at = Each(
        completions,
        Enum("new", "locked", "joined", "published", "succeeded", "lacks-parts", "refused", "unanswered"),
    )
    aborted = Bool()
    collector = Enum("idle", "chose", "done")

    # Definitions.

    def everyone(s) -> range:
        return range(s.completions)

    def is_free(s) -> Truth:
        return s.lock == NOBODY

    def has_parts(s) -> Truth:
        return s.part.all(True)

    def is_published(s) -> Truth:
        """A completion that finds the directory can tell that an earlier one has published."""
        return s.joined == "published"

    def may_choose(s) -> Truth:
        return all_of([s.old])

    def may_remove(s) -> Truth:
        return s.is_free() & s.may_choose()

    def keeps_record(s) -> bool:
        return True

    lockless = without("upload-lock", replaces=is_free)(lambda s: True)
    parts_assumed = without("parts-checked", replaces=has_parts)(lambda s: True)
    no_record = without("publish-is-record", replaces=is_published)(lambda s: False)
    any_age = without("upload-age", replaces=may_choose)(lambda s: True)
    chosen_is_enough = without("age-under-lock", replaces=may_remove)(lambda s: s.is_free())
    forgets = without("record-before-removal", replaces=keeps_record)(lambda s: False)

    # Actions: the upload and its neighbours.

    @action(n=PARTS)
    def upload_part(s, n: int) -> None:
        s.require((s.directory == "open") & ~s.part[n])
        s.part[n], s.old = True, False

    @action
    def time_passes(s) -> None:
        """The upload rests for long; a request in progress touches it at every step."""
        s.require(~s.old & (s.directory == "open"))
        s.require(~any_of(s.at[c].is_in("locked", "joined", "published") for c in s.everyone()))
        s.old = True

    @action
    def other_put(s) -> None:
        s.require(s.key == "upload")
        s.key = "other"

    # Actions: a completion.

    @action(c=completions)
    def begin(s, c: int) -> None:
        s.require((s.at[c] == "new") & (s.directory == "open") & s.is_free())
        s.at[c], s.lock, s.old = "locked", c, False

    @action(c=completions)
    def find_nothing(s, c: int) -> None:
        """An earlier completion has removed the directory and recorded its result, or none ever did."""
        s.require((s.at[c] == "new") & (s.directory == "removed"))
        s.at[c] = pick(s.recorded, "succeeded", "refused")

    @action(c=completions)
    def join(s, c: int) -> None:
        s.require((s.at[c] == "locked") & ~s.is_published())
        s.require(s.has_parts() & (s.directory == "open"))
        s.joined, s.whole, s.at[c] = "file", s.part.all(True), "joined"

    @action(c=completions)
    def refuse_parts(s, c: int) -> None:
        s.require((s.at[c] == "locked") & ~s.is_published())
        s.require(~s.has_parts() | (s.directory == "removed"))
        s.at[c] = pick(s.directory == "open", "lacks-parts", "refused")
        s.release(c)

    @action(c=completions)
    def repeat_answer(s, c: int) -> None:
        """An earlier completion has published it and was not answered, or crashed."""
        s.require((s.at[c] == "locked") & s.is_published())
        s.at[c] = "published"

    @action(c=completions)
    def publish(s, c: int) -> None:
        s.require((s.at[c] == "joined") & (s.directory == "open"))
        s.key, s.joined, s.published, s.at[c] = "upload", "published", s.published + 1, "published"

    @action(c=completions)
    def refuse_removed(s, c: int) -> None:
        s.require((s.at[c] == "joined") & (s.directory == "removed"))
        s.at[c] = "refused"
        s.release(c)

    @action(c=completions)
    def remove_directory(s, c: int) -> None:
        s.require(s.at[c] == "published")
        s.recorded, s.directory, s.at[c] = s.keeps_record(), "removed", "succeeded"
        s.release(c)

    @action(c=completions)
    def crash_completing(s, c: int) -> None:
        """The client gets no answer; the operating system releases the lock."""
        s.require(s.at[c].is_in("locked", "joined", "published"))
        s.crash.spend()
        s.at[c] = "unanswered"
        s.release(c)

    def release(s, c: int) -> None:
        s.lock = pick(s.lock == c, NOBODY, s.lock)

    # Actions: abort and collection.

    @action
    def abort(s) -> None:
        """After a publication it removes the directory, as an abort of a completed upload does."""
        s.require((s.directory == "open") & s.is_free() & ~s.is_published())
        s.directory, s.aborted, s.joined = "removed", True, "none"

    @action
    def choose(s) -> None:
        s.require((s.collector == "idle") & (s.directory == "open") & s.may_choose())
        s.collector = "chose"

    @action
    def remove(s) -> None:
        """A published upload leaves its record."""
        s.require((s.collector == "chose") & s.may_remove() & (s.directory == "open"))
        s.directory, s.collector = "removed", "done"
        s.recorded = s.recorded | (s.is_published() & s.keeps_record())

    @action
    def leave(s) -> None:
        s.require((s.collector == "chose") & (~s.old | (s.directory == "removed")))
        s.collector = "idle"

    # Properties.

    @invariant
    def published_once(s) -> Truth:
        """Completing twice yields one object: a repeated completion overwrites no other."""
        return s.published <= 1

    @invariant
    def whole_object(s) -> Truth:
        """A published object has every part that the completion named."""
        return implies(s.key == "upload", s.whole)

    @invariant
    def success_is_true(s) -> Truth:
        """A completion that succeeded has published the upload, now or in an earlier request."""
        return all_of(implies(s.at[c] == "succeeded", s.published > 0) for c in s.everyone())

    @invariant
    def refusal_is_true(s) -> Truth:
        """A completion is answered that there is no such upload only if the upload is not published."""
        return all_of(implies(s.at[c] == "refused", s.published == 0) for c in s.everyone())

    @invariant
    def aborted_for_good(s) -> Truth:
        """An aborted upload is never published."""
        return implies(s.aborted, s.published == 0)

    @invariant
    def upload_safe(s) -> Truth:
        """The collector removes nothing that was touched lately."""
        return implies(s.collector == "done", s.old)

    @always_recoverable
    def collected(s) -> Truth:
        """Leftovers of a crash are removed in the end."""
        return s.directory == "removed"

    @reachable
    def completed_after_crash(s) -> Truth:
        """A completion can succeed though an earlier one crashed after it had published."""
        return s.at.any("unanswered") & s.at.any("succeeded")

    @reachable
    def overwritten_meanwhile(s) -> Truth:
        """A completion can be repeated after another client has overwritten the key."""
        return s.at.any("succeeded") & s.at.any("unanswered") & (s.key == "other")

    @may_end
    def over(s) -> Truth:
        return s.directory == "removed"

    # Where the checker shows what.

    fires_at = {"refuse_removed": "upload-lock"}
