"""HTTP plumbing shared by all servers; the routes themselves belong to each server.

    service      the ASGI application: routes, error responses, health, readiness, metrics
    server       the process and its connections: signals, draining, deadlines
    places       which connection ends when there are too many
    numbers      whole numbers in requests
    heads        what makes the head of a request clear
    limits       the share of one client and of all clients; reading bodies within these limits
    answers      long answers: their number, their memory, and clients that do not read
    memory       what is held for clients in memory, with its limits
    sockets      what the system keeps for a client that does not read
    handshakes   TLS connections before they are ones of HTTP
    targets      the path of a request, decoded once
    tokens       bearer tokens: the file of hashes, and reading the Authorization header
    refusals     every response that is not a plain success
    metrics      Prometheus metrics
    shared_metrics   those of several processes on one page
    periodic     background tasks
    turns        turns at the processor, for long work of one request

This package imports nothing, because a client and the help of a command need no HTTP server.
"""
