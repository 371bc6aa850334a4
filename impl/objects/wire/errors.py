"""S3's errors: each code with its status and AWS's message, and the response that carries it.

A code that is not in the table cannot be raised, so a client never meets one of our own invention.
"""

from collections.abc import Mapping
from typing import NoReturn
from xml.sax.saxutils import escape

CODES: Mapping[str, tuple[int, str]] = {
    "AccessDenied": (403, "Access Denied"),
    "AccessControlListNotSupported": (400, "The bucket does not allow ACLs"),
    "AccessForbidden": (403, "CORSResponse: This CORS request is not allowed."),
    "AuthorizationHeaderMalformed": (400, "The authorization header you provided is invalid."),
    "AuthorizationQueryParametersError": (400, "The authorization query parameters that you provided are not valid."),
    "BadRequest": (400, "Bad Request"),
    "BadDigest": (400, "The Content-MD5 or checksum value that you specified did not match what the server received."),
    "BucketAlreadyExists": (409, "The requested bucket name is not available. Please select a different name."),
    "BucketAlreadyOwnedByYou": (409, "Your previous request to create the named bucket succeeded and you already own it."),
    "BucketNotEmpty": (409, "The bucket you tried to delete is not empty"),
    "ConditionalRequestConflict": (409, "The conditional request cannot succeed due to a conflicting operation against this resource."),
    "EntityTooLarge": (400, "Your proposed upload exceeds the maximum allowed size"),
    "EntityTooSmall": (400, "Your proposed upload is smaller than the minimum allowed size"),
    "ExpiredToken": (400, "The provided token has expired."),
    "IllegalVersioningConfigurationException": (400, "The versioning configuration specified in the request is invalid."),
    "InvalidLocationConstraint": (400, "The specified location-constraint is not valid"),
    "InvalidPartNumber": (416, "The requested partnumber is not satisfiable"),
    "InvalidStorageClass": (400, "The storage class you specified is not valid"),
    "NoSuchBucketPolicy": (404, "The bucket policy does not exist"),
    "NoSuchCORSConfiguration": (404, "The CORS configuration does not exist"),
    "NoSuchPublicAccessBlockConfiguration": (404, "The public access block configuration was not found"),
    "NoSuchWebsiteConfiguration": (404, "The specified bucket does not have a website configuration"),
    "OwnershipControlsNotFoundError": (404, "The bucket ownership controls were not found"),
    "ReplicationConfigurationNotFoundError": (404, "The replication configuration was not found"),
    "ServerSideEncryptionConfigurationNotFoundError": (404, "The server side encryption configuration was not found"),
    "IllegalLocationConstraintException": (400, "The unspecified location constraint is incompatible for the region specific endpoint this request was sent to."),
    "IncompleteBody": (400, "You did not provide the number of bytes specified by the Content-Length HTTP header"),
    "InsufficientStorage": (507, "There is no room left for the object."),
    "InternalError": (500, "We encountered an internal error. Please try again."),
    "InvalidAccessKeyId": (403, "The AWS Access Key Id you provided does not exist in our records."),
    "InvalidArgument": (400, "Invalid Argument"),
    "InvalidBucketAclWithObjectOwnership": (400, "Bucket cannot have ACLs set with ObjectOwnership's BucketOwnerEnforced setting"),
    "InvalidBucketName": (400, "The specified bucket is not valid."),
    "InvalidBucketState": (409, "The request is not valid with the current state of the bucket."),
    "InvalidDigest": (400, "The Content-MD5 you specified was invalid."),
    "InvalidPart": (400, "One or more of the specified parts could not be found.  The part may not have been uploaded, or the specified entity tag may not match the part's entity tag."),
    "InvalidPartOrder": (400, "The list of parts was not in ascending order. Parts must be ordered by part number."),
    "InvalidPolicyDocument": (400, "The content of the form does not meet the conditions specified in the policy document."),
    "InvalidRange": (416, "The requested range is not satisfiable"),
    "InvalidRetentionPeriod": (400, "The retention period must be a positive integer."),
    "InvalidRequest": (400, "Invalid Request"),
    "InvalidTag": (400, "The tag provided was not a valid tag."),
    "InvalidURI": (400, "Couldn't parse the specified URI."),
    "KeyTooLongError": (400, "Your key is too long"),
    "MalformedPOSTRequest": (400, "The body of your POST request is not well-formed multipart/form-data."),
    "MalformedPolicy": (400, "This policy contains invalid Json"),
    "MalformedXML": (400, "The XML you provided was not well-formed or did not validate against our published schema"),
    "MaxPostPreDataLengthExceeded": (400, "Your POST request fields preceding the upload file were too large."),
    "MetadataTooLarge": (400, "Your metadata headers exceed the maximum allowed metadata size"),
    "MethodNotAllowed": (405, "The specified method is not allowed against this resource."),
    "MissingContentLength": (411, "You must provide the Content-Length HTTP header."),
    "MissingRequestBodyError": (400, "Request Body is empty"),
    "NoSuchBucket": (404, "The specified bucket does not exist"),
    "NoSuchKey": (404, "The specified key does not exist."),
    "NoSuchLifecycleConfiguration": (404, "The lifecycle configuration does not exist"),
    "NoSuchObjectLockConfiguration": (404, "The specified object does not have a ObjectLock configuration"),
    "NoSuchTagSet": (404, "The TagSet does not exist"),
    "NoSuchUpload": (404, "The specified upload does not exist. The upload ID may be invalid, or the upload may have been aborted or completed."),
    "NoSuchVersion": (404, "The specified version does not exist."),
    "NotImplemented": (501, "A header you provided implies functionality that is not implemented"),
    "NotModified": (304, ""),
    "OperationAborted": (409, "A conflicting conditional operation is currently in progress against this resource. Try again."),
    "ObjectLockConfigurationNotFoundError": (404, "Object Lock configuration does not exist for this bucket"),
    "PreconditionFailed": (412, "At least one of the pre-conditions you specified did not hold"),
    "RequestTimeTooSkewed": (403, "The difference between the request time and the current time is too large."),
    "RequestTimeout": (400, "Your socket connection to the server was not read from or written to within the timeout period."),
    "SignatureDoesNotMatch": (403, "The request signature we calculated does not match the signature you provided. Check your key and signing method."),
    "SlowDown": (503, "Please reduce your request rate."),
    "UnresolvableGrantByEmailAddress": (400, "The email address you provided does not match any account on record."),
    "XAmzContentChecksumMismatch": (400, "The provided 'x-amz-checksum' header does not match what was computed."),
    "XAmzContentSHA256Mismatch": (400, "The provided 'x-amz-content-sha256' header does not match what was computed."),
}  # fmt: skip


class S3Error(Exception):
    """A refusal with one of S3's codes. `details` become elements of the XML, named like AWS names them."""

    headers: Mapping[str, str] = {}
    """Of the response: what a delete marker is known by."""

    def __init__(self, code: str, message: str = "", **details: str) -> None:
        self.code = code
        self.status, usual = CODES[code]
        self.message = message or usual
        self.details = details
        super().__init__(f"{code}: {self.message}")


def error_answer(
    error: S3Error, method: str, resource: str, request_id: str
) -> tuple[int, dict[str, str], bytes]:
    """Return the status, the headers and the body of the response to a request that is refused."""
    if error.status == 304:
        return 304, {"ETag": f'"{error.details.get("etag", "")}"'}, b""
    body = error_body(error, resource, request_id)
    headers = {"Content-Type": "application/xml", "Content-Length": str(len(body)), **error.headers}
    return error.status, headers, b"" if method == "HEAD" else body


def error_body(error: S3Error, resource: str, request_id: str) -> bytes:
    details = "".join(
        f"<{_element(name)}>{escape(value)}</{_element(name)}>" for name, value in error.details.items()
    )
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f"<Error><Code>{error.code}</Code><Message>{escape(error.message)}</Message>{details}"
        f"<Resource>{escape(resource)}</Resource><RequestId>{request_id}</RequestId></Error>"
    ).encode()


def _element(name: str) -> str:
    return _ELEMENTS.get(name, "".join(word.capitalize() for word in name.split("_")))


_ELEMENTS = {"argument": "ArgumentName", "value": "ArgumentValue"}


def refuse(code: str, message: str = "", **details: str) -> NoReturn:
    raise S3Error(code, message, **details)
