"""Which ending of the tables in `endings` an error is."""

import ssl
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

import botocore.exceptions

from fencepost.impl.store import requests as ask
from fencepost.impl.store.errors import BrokenPromise, StoreError, Unusable
from fencepost.impl.store.requests import Outcome, Reply, Request
from fencepost.impl.store.s3.endings import (
    BUSY,
    BUSY_CODES,
    CODES,
    DEFINITE_5XX,
    HAS_OUTCOME,
    NO_ANSWER,
    REFUSED,
    STATUSES,
    UNKNOWN,
    Ending,
)

R = TypeVar("R", bound=Reply)

TEXT_MAX = 300
"""So much of a store's message is passed on."""
SUBJECT_MAX = 80
"""So much of a key is named in a message."""


def ended(request: Request[R], error: BaseException, where: str) -> R:
    """The reply that `error` amounts to, or raises what it amounts to. `where` names the store."""
    if isinstance(error, botocore.exceptions.ClientError):
        answer = _Answer(error.response)
        ending = _fit(request, _decide(request, answer), answer.code)
        message = (
            answer.message if isinstance(ending.means, Outcome) else f"{answer.message}; {ending.advice}"
        )
    else:
        ending = _unanswered(error)
        message = f"{ending.advice or 'no whole reply'} ({_counterexample(error)})"
    if isinstance(ending.means, Outcome):
        return request.ends(ending.means, message)
    subject = (
        request.subject if len(request.subject) <= SUBJECT_MAX else f"{request.subject[:SUBJECT_MAX]}..."
    )
    raise ending.means(f"{request.kind} {subject!r} in {where}: {message}")


class _Answer:
    """The parts of an error reply that decide."""

    def __init__(self, response: Mapping[str, Any]) -> None:
        error = response.get("Error", {})
        meta = response.get("ResponseMetadata", {})
        self.status = int(meta.get("HTTPStatusCode") or 0)
        code = str(error.get("Code") or "")
        self.code = "" if code.isdigit() else code
        """Empty where the reply had no body: the SDK then puts the status there."""
        self.attempts = 1 + int(meta.get("RetryAttempts") or 0)
        self.argument = str(error.get("ArgumentName") or "")
        self.region = str(meta.get("HTTPHeaders", {}).get("x-amz-bucket-region") or error.get("Region") or "")
        message = " ".join(str(error.get("Message") or "").split())[:TEXT_MAX]
        self.message = f"the store answers {' '.join(filter(None, (str(self.status), self.code)))}"
        self.message += f" ({message})" if message else ""
        self.message += f" (the bucket's region is {self.region})" if self.region else ""


def _decide(request: Request[Any], answer: _Answer) -> Ending:
    if answer.attempts > 1:
        return UNKNOWN
    if answer.status == 503 and answer.code in BUSY_CODES:
        return BUSY
    if not 300 <= answer.status < 500 and answer.status not in DEFINITE_5XX:
        return UNKNOWN
    if getattr(request, "version", "") and _no_such_version(answer):
        return Ending(Outcome.MISSING)
    if answer.status == 404 and not answer.code and isinstance(request, HAS_OUTCOME[Outcome.GONE]):
        return Ending(Outcome.GONE)
    return CODES.get(answer.code) or STATUSES.get(answer.status) or REFUSED


def _no_such_version(answer: _Answer) -> bool:
    """S3 answers 405 for a version that is a delete marker, 400 for a name that no version can have."""
    return answer.status == 405 or (answer.status == 400 and answer.argument.lower() == "versionid")


def _fit(request: Request[Any], ending: Ending, code: str) -> Ending:
    """`ending` as this request can have it."""
    when = getattr(request, "when", None)
    if ending.means is Outcome.CHANGED and isinstance(when, ask.Absent):
        return Ending(Outcome.EXISTS)
    if _possible(request, ending.means):
        return ending
    if isinstance(request, ask.Delete) and code in ("NoSuchKey", "NoSuchVersion"):
        # S3 answers 204 when nothing was there to delete, others 404: it is gone either way.
        return Ending(Outcome.DONE)
    if ending.means is Outcome.MISSING:
        # 404 to what needs nothing there: the bucket is missing, or this is no S3 endpoint.
        return Ending(Unusable, "check that the bucket exists and that the endpoint speaks S3")
    return Ending(BrokenPromise, "this is no answer to what was asked")


def _possible(request: Request[Any], means: Outcome | type[StoreError]) -> bool:
    if not isinstance(means, Outcome) or means not in HAS_OUTCOME:
        return True
    if not isinstance(request, HAS_OUTCOME[means]):
        return False
    if isinstance(request, ask.Get):
        return {
            Outcome.CHANGED: request.only_if is not None,
            Outcome.UNCHANGED: request.unless is not None,
            Outcome.PAST_END: request.start > 0 or request.stop is not None,
        }.get(means, True)
    conditional = isinstance(getattr(request, "when", None), ask.Matches)
    return means is Outcome.GONE or isinstance(request, ask.Head) or conditional


def _unanswered(error: BaseException) -> Ending:
    if any(isinstance(cause, ssl.SSLCertVerificationError) for cause in _causes(error)):
        return Ending(Unusable, "trust the store's certificate (AWS_CA_BUNDLE) or correct the endpoint")
    names = (ancestor.__name__ for ancestor in type(error).__mro__)
    return next((NO_ANSWER[name] for name in names if name in NO_ANSWER), UNKNOWN)


def _counterexample(error: BaseException) -> str:
    """What happened, without the exception's own text, which may hold headers and addresses."""
    reasons = [cause.strerror for cause in _causes(error) if isinstance(cause, OSError) and cause.strerror]
    return ": ".join([type(error).__name__, *reasons[-1:]])


def _causes(error: BaseException) -> Iterator[BaseException]:
    """`error`, what it was raised from, what the SDK or urllib3 kept inside of it, and so on."""
    seen: list[BaseException] = []
    left: list[Any] = [error]
    while left:
        cause = left.pop()
        if isinstance(cause, BaseException) and cause not in seen:
            seen.append(cause)
            kept = getattr(cause, "kwargs", {})
            left += [cause.__cause__, cause.__context__, *cause.args]
            left += list(kept.values()) if isinstance(kept, dict) else []
    return iter(seen)
