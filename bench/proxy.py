"""Measure the time that `fencepost proxy` adds beyond the 20 ms of its setting.

    python -m bench.proxy [--in-flight 8] [--requests 100]

Then a proxy without delays passes the same requests on: requests a second, and the processor time of the
proxy for each, which other load changes less.

An upstream that answers at once, the proxy, and this client are a process each. The client keeps so many
requests in flight and measures each, first straight to the upstream, then through the proxy. Bar: the median
through the proxy, less the 20 ms, is under 1 ms.
"""

import argparse
import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

from bench.report import median, write
from fencepost.sim.proxy.clock import precise_loop

LATENCY_MS, BAR_MS = 20, 1.0
REQUEST = b"GET /b/k HTTP/1.1\r\nHost: h\r\n\r\n"
UPSTREAM = """
import asyncio, contextlib

async def answer(reader, writer):
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
        while await reader.readuntil(b"\\r\\n\\r\\n"):
            writer.write(b"HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nok")

async def main():
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()

asyncio.run(main())
"""


async def one(port: int, count: int, took: list[float]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for _ in range(count):
        began = time.perf_counter()
        writer.write(REQUEST)
        await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(2)
        took.append(1000 * (time.perf_counter() - began))
    writer.close()


async def all_at_once(port: int, in_flight: int, count: int) -> dict[str, float]:
    took: list[float] = []
    await asyncio.gather(*(one(port, count, took) for _ in range(in_flight)))
    ordered = sorted(took)
    return {"p50_ms": round(median(took), 3), "p90_ms": round(ordered[len(took) * 9 // 10], 3)}


def measure_throughput(
    loop: asyncio.AbstractEventLoop, upstream: int, in_flight: int, count: int
) -> dict[str, float]:
    words = [sys.executable, "-m", "fencepost", "proxy", f"http://127.0.0.1:{upstream}"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as proxy:  # noqa: S603 - our own command
        assert proxy.stdout is not None
        port = int(proxy.stdout.readline().split()[0].rpartition(":")[2])
        loop.run_until_complete(all_at_once(port, in_flight, 20))
        began, before = time.perf_counter(), cpu_s(proxy.pid)
        loop.run_until_complete(all_at_once(port, in_flight, count))
        took, used = time.perf_counter() - began, cpu_s(proxy.pid) - before
        proxy.terminate()
    total = in_flight * count
    return {"a_second": round(total / took), "cpu_us": round(1e6 * used / total)}


def cpu_s(pid: int) -> float:
    """The processor time that a process has used, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="bench.proxy", description=__doc__.splitlines()[0])
    parser.add_argument("--in-flight", type=int, default=8)
    parser.add_argument("--requests", type=int, default=100, help="Of each of those in flight.")
    options = parser.parse_args(arguments)
    loop = precise_loop()
    with subprocess.Popen([sys.executable, "-c", UPSTREAM], stdout=subprocess.PIPE, text=True) as upstream:  # noqa: S603 - our own text
        assert upstream.stdout is not None
        port = int(upstream.stdout.readline())
        words = ["proxy", f"http://127.0.0.1:{port}", "--latency", f"{LATENCY_MS}ms"]
        with subprocess.Popen(  # noqa: S603 - our own command
            [sys.executable, "-m", "fencepost", *words], stdout=subprocess.PIPE, text=True
        ) as proxy:
            assert proxy.stdout is not None
            behind = int(proxy.stdout.readline().split()[0].rpartition(":")[2])
            rows = {
                name: loop.run_until_complete(all_at_once(at, options.in_flight, options.requests))
                for name, at in (("straight", port), ("through", behind))
            }
            proxy.terminate()
        throughput = measure_throughput(loop, port, options.in_flight, 20 * options.requests)
        upstream.terminate()
    loop.close()
    added = round(rows["through"]["p50_ms"] - LATENCY_MS, 3)
    ok = added < BAR_MS
    sys.stdout.write(
        f"{'ok' if ok else 'MISSED':7} {added} ms beside the {LATENCY_MS} asked for (under {BAR_MS})\n"
    )
    rate, cpu_us = throughput["a_second"], throughput["cpu_us"]
    sys.stdout.write(f"        {rate} requests a second, {cpu_us} us of the processor each\n")
    figures = {
        "in_flight": options.in_flight,
        "rows": rows,
        "throughput": throughput,
        "added_ms": added,
        "bar_ms": BAR_MS,
        "ok": ok,
    }
    sys.stdout.write(f"written to {write('proxy', figures)}\n")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
