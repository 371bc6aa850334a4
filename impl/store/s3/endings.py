"""Every way a request to S3 can end other than well, as an outcome or an error, in tables.

Three questions, in this order, decide: did the store answer, is its answer about *this* attempt, and was
the request applied?

1. No whole answer: `NO_ANSWER` looks the SDK's exception up by the name of its class. Where nothing can
   have been sent the request was not applied; in all other cases it is `unknown`.
2. An answer, but the SDK sent more than one attempt, or 5xx: `unknown`. A 500 says that the store broke,
   not where; "200 with an error inside", which the SDK turns into a 500, likewise. The exceptions are
   501, 507, and a 503 with a code by which S3 says that it did not even try.
3. Any other answer is a refusal, so nothing was applied: `CODES` looks at S3's error code, then `STATUSES`
   at the HTTP status, for replies without a body and for stores that speak codes of their own.

An outcome must also be one that the request can have: "no such key" in answer to a listing means that
something else is the matter.

Messages quote S3's code and message, and never the text of an exception: that may hold headers.
"""

import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import botocore.exceptions
import botocore.parsers
import urllib3.exceptions

from fencepost.impl.store import requests as ask
from fencepost.impl.store.errors import BrokenPromise, Misuse, StoreError, Unsupported, Unusable
from fencepost.impl.store.requests import Outcome, R, Request

TEXT_MAX = 300
"""So much of a store's message is passed on."""
SUBJECT_MAX = 80
"""So much of a key is named in a message."""

LIBRARY_ERRORS = (
    botocore.exceptions.BotoCoreError,
    botocore.exceptions.ClientError,
    botocore.parsers.ResponseParserError,
    urllib3.exceptions.HTTPError,
    OSError,
)
"""The exceptions that a call of the SDK can raise."""


@dataclass(frozen=True, slots=True)
class Ending:
    """The meaning of a request's end, and the remedy."""

    means: Outcome | type[StoreError]
    advice: str = ""


UNKNOWN = Ending(Outcome.UNKNOWN)
BUSY = Ending(Outcome.THROTTLED)
REFUSED = Ending(Unusable, "see what the store says, and its documentation")
_CREDENTIALS = Ending(Unusable, "renew the credentials (AWS_ACCESS_KEY_ID and so on, or the profile)")
_PERMISSION = Ending(
    Unusable,
    "give these credentials the permission, or use others (missing keys are refused too "
    "without permission to list)",
)
_REGION = Ending(Unusable, "name the bucket's own region in the store URL: &region=...")
_FULL = Ending(Unusable, "make room in the store, or raise the quota")
_CALLER = Ending(Misuse, "correct the request")
_PARTS = Ending(Misuse, "name the parts as upload_part answered them; all but the last need 5 MiB")
_OFFERS_NOT = Ending(Unsupported, "use another store, or do without")
_DAMAGED = Ending(Outcome.THROTTLED, "the request arrived damaged or cut, and was dropped")

CODES: Mapping[str, Ending] = {
    "NoSuchKey": Ending(Outcome.MISSING),
    "NoSuchVersion": Ending(Outcome.MISSING),
    "NoSuchUpload": Ending(Outcome.GONE),
    "NoSuchBucket": Ending(Unusable, "create the bucket, or correct its name"),
    "InvalidBucketName": Ending(Unusable, "correct the bucket's name"),
    "AccessDenied": _PERMISSION,
    "AllAccessDisabled": _PERMISSION,
    "AccountProblem": _PERMISSION,
    "InvalidObjectState": Ending(Unusable, "restore the object from its archive class first"),
    "InvalidAccessKeyId": Ending(Unusable, "the store does not know this access key: correct it"),
    "SignatureDoesNotMatch": Ending(Unusable, "the secret key does not fit the access key: correct it"),
    "RequestTimeTooSkewed": Ending(Unusable, "set this machine's clock"),
    "ExpiredToken": _CREDENTIALS,
    "TokenRefreshRequired": _CREDENTIALS,
    "InvalidToken": _CREDENTIALS,
    "AuthorizationHeaderMalformed": _REGION,
    "PermanentRedirect": _REGION,
    "TemporaryRedirect": _REGION,
    "Redirect": _REGION,
    "IllegalLocationConstraintException": _REGION,
    "QuotaExceeded": _FULL,
    "XMinioStorageFull": _FULL,
    "PreconditionFailed": Ending(Outcome.CHANGED),
    "ConditionalRequestConflict": Ending(Outcome.CONFLICT),
    "OperationAborted": Ending(Outcome.CONFLICT),
    "InvalidRange": Ending(Outcome.PAST_END),
    "EntityTooSmall": _PARTS,
    "InvalidPart": _PARTS,
    "InvalidPartOrder": _PARTS,
    "EntityTooLarge": Ending(Misuse, "use a multipart upload, with smaller parts"),
    "KeyTooLongError": _CALLER,
    "InvalidArgument": _CALLER,
    "MetadataTooLarge": _CALLER,
    # SeaweedFS keeps keys as files, so it never has both "a" and "a/b".
    "ExistingObjectIsFile": _OFFERS_NOT,
    "ExistingObjectIsDirectory": _OFFERS_NOT,
    "NotImplemented": _OFFERS_NOT,
    "MethodNotAllowed": _OFFERS_NOT,
    "BadDigest": _DAMAGED,
    "IncompleteBody": _DAMAGED,
    "RequestTimeout": _DAMAGED,
    "XAmzContentSHA256Mismatch": _DAMAGED,
    "XAmzContentChecksumMismatch": _DAMAGED,
}
"""Refusals by S3's own code, whatever their status."""

STATUSES: Mapping[int, Ending] = {
    301: _REGION,
    302: _REGION,
    304: Ending(Outcome.UNCHANGED),
    307: _REGION,
    308: _REGION,
    400: REFUSED,
    401: _CREDENTIALS,
    403: _PERMISSION,
    404: Ending(Outcome.MISSING),
    405: _OFFERS_NOT,
    # 408 and 499 come from something between us and the store, which may have heard all of it.
    408: UNKNOWN,
    409: Ending(Outcome.CONFLICT),
    412: Ending(Outcome.CHANGED),
    413: Ending(Misuse, "use a multipart upload, with smaller parts"),
    416: Ending(Outcome.PAST_END),
    429: BUSY,
    499: UNKNOWN,
    501: _OFFERS_NOT,
    507: _FULL,
}
"""Refusals by status, where the code is not in the table above. In neither table: `REFUSED`."""

BUSY_CODES = frozenset(
    {
        "SlowDown",
        "SlowDownRead",
        "SlowDownWrite",
        "ServiceUnavailable",
        "Busy",
        "ServerBusy",
        "RequestLimitExceeded",
        "BandwidthLimitExceeded",
        "RequestThrottled",
        "Throttling",
        "ThrottlingException",
        "TooManyRequests",
        "TooManyRequestsException",
    }
)
"""With a 503: the store did not begin."""

DEFINITE_5XX = frozenset({501, 507})
"""Server errors that say what was not done."""


def _named(ending: Ending, names: str) -> Iterator[tuple[str, Ending]]:
    return ((name, ending) for name in names.split())


NO_ANSWER: Mapping[str, Ending] = dict(
    [
        # No connection, so that nothing was sent.
        *_named(
            Ending(Outcome.THROTTLED, "no connection"),
            "EndpointConnectionError ConnectTimeoutError ProxyConnectionError CapacityNotAvailableError",
        ),
        # The reply is lost, or was never given.
        *_named(
            UNKNOWN,
            "ConnectionError HTTPClientError ConnectionClosedError ReadTimeoutError ResponseStreamingError "
            "IncompleteReadError SSLError AwsChunkedWrapperError UnseekableStreamError ResponseParserError "
            "HTTPError OSError BotoCoreError ClientError EventStreamError",
        ),
        # Found out before sending: who we are.
        *_named(
            Ending(Unusable, "give credentials: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile"),
            "NoCredentialsError PartialCredentialsError CredentialRetrievalError NoAuthTokenError "
            "LoginError LoginAuthorizationCodeError LoginInsufficientPermissions LoginRefreshRequired "
            "LoginTokenLoadError MetadataRetrievalError RefreshWithMFAUnsupportedError SSOError "
            "SSOTokenLoadError UnauthorizedSSOTokenError TokenRetrievalError UnknownCredentialError "
            "UnknownTokenProviderError InvalidIMDSEndpointError InvalidIMDSEndpointModeError ProfileNotFound",
        ),
        # Found before sending: the operator's AWS settings.
        *_named(
            Ending(Unusable, "correct the AWS settings (the AWS_* variables, ~/.aws/config)"),
            "ConfigNotFound ConfigParseError InvalidConfigError InfiniteLoopConfigError "
            "InvalidChecksumConfigError InvalidDefaultsMode InvalidEndpointConfigurationError "
            "InvalidEndpointDiscoveryConfigurationError InvalidProxiesConfigError "
            "InvalidRetryConfigurationError InvalidMaxRetryAttemptsError InvalidRetryModeError "
            "InvalidS3AddressingStyleError InvalidS3UsEast1RegionalEndpointConfigError "
            "InvalidSTSRegionalEndpointsConfigError UnsupportedS3ConfigurationError "
            "UnsupportedS3AccesspointConfigurationError UnsupportedS3ControlConfigurationError "
            "UnsupportedSignatureVersionError UnknownSignatureVersionError UnknownServiceStyle "
            "MissingDependencyException",
        ),
        # Found out before sending: no address can be made of bucket, region and endpoint.
        *_named(
            Ending(Unusable, "correct the bucket, region and endpoint of the store URL"),
            "BaseEndpointResolverError EndpointVariantError NoRegionError UnknownEndpointError "
            "UnknownFIPSEndpointError EndpointProviderError EndpointResolutionError "
            "UnknownEndpointResolutionBuiltInName InvalidDNSNameError InvalidHostLabelError "
            "InvalidRegionError UnknownRegionError ServiceNotInRegionError UnsupportedS3ArnError "
            "UnsupportedOutpostResourceError UnsupportedS3ControlArnError",
        ),
        # Found out before sending: the SDK on this machine is not whole, or too old.
        *_named(
            Ending(Unusable, "install boto3 and botocore anew"),
            "DataNotFoundError UnknownServiceError ApiVersionNotFoundError MD5UnavailableError "
            "UnsupportedServiceProtocolsError UnknownClientMethodError",
        ),
        # Found before sending: the request itself.
        *_named(
            _CALLER,
            "ParamValidationError ValidationError AliasConflictParameterError RangeError UnknownKeyError "
            "UnknownParameterError MissingParametersError",
        ),
        # The body read differs from the body stored.
        *_named(
            Ending(BrokenPromise, "read it again; if it stays so, the object is damaged"),
            "FlexibleChecksumError ChecksumError",
        ),
        # Of waiters, paginators, stubs and discovery, which no call here uses. Should one come all the
        # same, `unknown` is the one answer that is always true.
        *_named(
            UNKNOWN,
            "WaiterError WaiterConfigError PaginationError OperationNotPageableError "
            "InvalidExpressionError StubResponseError StubAssertionError UnStubbedResponseError "
            "EndpointDiscoveryException EndpointDiscoveryRequired EndpointDiscoveryRefreshFailed",
        ),
    ]
)
"""Exceptions by the name of their class or of its nearest ancestor in here: not every release of the SDK
has them all. A test walks the installed one and fails on a class that is not named."""

HAS_OUTCOME: Mapping[Outcome, tuple[type[Request[Any]], ...]] = {
    Outcome.MISSING: (ask.Put, ask.Get, ask.Head, ask.Delete, ask.CompleteUpload),
    Outcome.GONE: (ask.UploadPart, ask.CompleteUpload, ask.AbortUpload),
    Outcome.CHANGED: (ask.Put, ask.Get, ask.Delete, ask.CompleteUpload),
    Outcome.UNCHANGED: (ask.Get,),
    Outcome.PAST_END: (ask.Get,),
}
"""Outcomes that only some requests can have."""


def ended(request: Request[R], error: BaseException, where: str) -> R:
    """Map an SDK exception to a reply, or raise the StoreError it stands for. `where` names the store."""
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
    # S3 answers 405 for a version that is a delete marker, 400 for a name that no version can have.
    no_version = answer.status == 400 and answer.argument.lower() == "versionid"
    if getattr(request, "version", "") and (answer.status == 405 or no_version):
        return Ending(Outcome.MISSING)
    if answer.status == 404 and not answer.code and isinstance(request, HAS_OUTCOME[Outcome.GONE]):
        return Ending(Outcome.GONE)
    return CODES.get(answer.code) or STATUSES.get(answer.status) or REFUSED


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
    """Describe the failure without the exception's own text, which may hold headers and addresses."""
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
