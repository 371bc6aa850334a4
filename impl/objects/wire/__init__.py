"""S3 on the wire: which operation a request is, its parameters, its body; and the response.

    codec        requests to parameters, results to headers and XML, from the service model of the SDK
    elements     values to XML and headers, each by its shape in that model
    errors       S3's error codes, their status and message, as XML
    signature    Signature Version 4: in headers, in the query of a presigned URL, in the chunks of a body
    body         bodies as they arrive: `aws-chunked`, signed or with a trailer, checksums, lengths
    requests     the bucket and key of a request line, its query
    conditions   conditions and ranges, and the errors of a store's outcomes
    parameters   rules for parameters that the service model leaves out
    listings     pages of listings

A request is a method, a path, a query and headers, and bytes. Nothing here opens a store or a connection, so
the object server and the audited world (`fencepost.sim.boto`) share all of it.
"""
