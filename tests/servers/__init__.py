"""S3 endpoints for tests: started by the test on a free port of 127.0.0.1, stopped by process id.

    def test_something(honest_moto):            # a fixture: one server a session
        url = honest_moto.bucket()              # a new bucket each; versioned=True for one with versions
        store = open_store(url)                 # dummy credentials are in the environment

Fixtures (see `fixtures`): `honest_moto` (in this process), `honest_moto_process` and `lying_moto` (each a
process of its own), `seaweedfs`, `given_store` (the URL in FENCEPOST_TEST_STORE).

Outside pytest, within `endpoint.dummy_credentials()`: `moto_here.moto_in_thread()`,
`processes.moto_process(lying=...)`, `processes.seaweedfs_process(directory)`.

Nothing is imported here: boto3 and moto take most of a second, which tests without a server need not pay.
"""
