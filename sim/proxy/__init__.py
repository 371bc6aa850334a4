"""A loopback proxy that makes a store slow, narrow and unreliable.

    with running(Plan(Upstream.of("http://127.0.0.1:9000"), delays=Delays(...), cap=8)) as proxy:
        ...  # an S3 client whose endpoint is proxy.url

`plan` describes the faults, `server` causes them, `http` parses as much of HTTP as a proxy needs.
"""

from fencepost.sim.proxy.plan import BadPlan, Delay, Plan, Upstream, read_delay
from fencepost.sim.proxy.server import Proxy, running
