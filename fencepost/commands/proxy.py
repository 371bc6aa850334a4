"""`fencepost proxy UPSTREAM`: a store that is slow, narrow and unreliable, for tests of one's own."""

import asyncio
import json
import signal
import sys
from pathlib import Path
from typing import Any

import click

from fencepost.commands.exit_codes import BadRequest, Exit
from fencepost.commands.operating import allow_connections
from fencepost.commands.output_files import json_option, write_result
from fencepost.commands.recording import http_recording, recording_options
from fencepost.commands.values import listen_option, size_option
from fencepost.impl.http.limits import Limits
from fencepost.impl.store.faults import KINDS, BadScript, Script, read_script
from fencepost.reports.media import printable
from fencepost.sim.proxy.clock import precise_loop
from fencepost.sim.proxy.plan import BadPlan, Plan, Upstream, read_chances, read_delay, read_delays
from fencepost.sim.proxy.server import IDLE_MAX, Proxy

EPILOG = f"""DELAY is 20ms, or 20ms/80ms for a lognormal one with this median and 99th percentile. CHANCE
is 0.01 or 1%. Both may be for one KIND of request, as in put=80ms: {", ".join(KINDS)}. Exit codes: 0 stopped,
2 the request made no sense. Example: fencepost proxy http://127.0.0.1:9000 --listen 127.0.0.1:8400 --latency
20ms --cap 8 --reply-lost put=1%."""


@click.command("proxy", short_help="Put a slow, unreliable proxy in front of a store.", epilog=EPILOG)
@click.argument("upstream", metavar="UPSTREAM")
@listen_option("127.0.0.1:0")
@click.option("--latency", multiple=True, metavar="[KIND=]DELAY", help="Delay of requests.")
@click.option("--reply-latency", multiple=True, metavar="[KIND=]DELAY", help="Delay of replies.")
@click.option("--cap", type=click.IntRange(1), metavar="N", help="Limit of requests in flight.")
@click.option("--throttled", multiple=True, metavar="[KIND=]CHANCE", help="Reply 503 SlowDown.")
@click.option("--reply-lost", multiple=True, metavar="[KIND=]CHANCE", help="Apply, and lose the reply.")
@click.option("--late", multiple=True, metavar="[KIND=]CHANCE", help="Send no reply, and apply later.")
@click.option("--late-after", metavar="DELAY", help="Delay of --late.  [default: 1s]")
@click.option("--fault-script", metavar="FILE", help="Fail by this script, TOML or JSON.")
@click.option("--seed", type=click.IntRange(0), default=0, metavar="N", help="Seed of chance.  [default: 0]")
@size_option("--body-max", 64 << 20, "Largest body.")
@click.option(
    "--connections",
    type=click.IntRange(1),
    default=Limits().connections,
    show_default=True,
    metavar="N",
    help="Maximum number of open connections.",
)
@recording_options
@click.option("--budget", type=click.FloatRange(0, min_open=True), metavar="SECONDS", help="Time limit.")
@json_option
def command(upstream: str, json_file: str | None, **options: Any) -> int:
    """Listen, and pass every request on to the S3 endpoint UPSTREAM (http://host:port), with latency, a cap
    on requests in flight, 503s, lost replies and late landings; with --record, write a trace.
    Runs until it is stopped (Ctrl-C); then it prints statistics. Give its address to your client as the
    endpoint, with path-style addresses. Heads are passed on byte for byte, so signatures stay valid.
    """
    if options["late_after"] is not None and not options["late"]:
        raise BadRequest("--late-after is the delay of --late; give --late with it, the chance")
    try:
        plan = Plan(
            Upstream.of(upstream),
            latency=read_delays(options["latency"], "--latency"),
            reply_latency=read_delays(options["reply_latency"], "--reply-latency"),
            throttled=read_chances(options["throttled"], "--throttled"),
            reply_lost=read_chances(options["reply_lost"], "--reply-lost"),
            late=read_chances(options["late"], "--late"),
            late_after=read_delay(options["late_after"] or "1s"),
            body_bytes_max=options["body_max"],
            listen=options["listen"].host,
            port=options["listen"].port,
            cap=options["cap"],
            seed=options["seed"],
            script=_script(options["fault_script"]),
        )
    except BadPlan as error:
        raise BadRequest(str(error)) from error
    stream = sys.stderr if json_file == "-" else sys.stdout
    limits = Limits(connections=options["connections"])
    allow_connections(2 * limits.connections + IDLE_MAX)  # each may have one to the upstream
    recording = http_recording(options, "proxy")
    proxy = Proxy(plan, recording=recording, limits=limits)
    loop = precise_loop()
    try:
        loop.run_until_complete(_until_stopped(proxy, options["budget"], stream))
    finally:
        loop.close()
        if recording is not None:
            recording.close()
    result = {"upstream": plan.upstream.url, "url": proxy.url, "plan": plan.describe(), "seed": plan.seed}
    result |= proxy.statistics.as_json()
    for line in format_statistics(result):
        print(printable(line), file=stream)
    if json_file:
        write_result(result, json_file)
    return Exit.HOLDS


def _script(file: str | None) -> Script:
    from fencepost.impl.objects.wire.service_model import service_model

    if file is None:
        return Script()
    try:
        return read_script(Path(file).read_text(), service_model().operation_names.__contains__)
    except (OSError, UnicodeDecodeError) as error:
        raise BadRequest(f"cannot read {file}: {getattr(error, 'strerror', error)}") from None
    except BadScript as error:
        raise BadRequest(f"{file}: {error}") from None


async def _until_stopped(proxy: Proxy, seconds: float | None, stream: Any) -> None:
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    await proxy.check_upstream()
    await proxy.start()
    print(
        f"{proxy.url} is a proxy of {proxy.plan.upstream.url}: {proxy.plan.describe()}",
        file=stream,
        flush=True,
    )
    try:
        async with asyncio.timeout(seconds):
            await stopped.wait()
    except TimeoutError:
        pass
    finally:
        await proxy.stop()


def format_statistics(result: dict[str, Any]) -> list[str]:
    """The statistics for people."""
    lines = [
        f"{result['requests']:,} requests, up to {result['in_flight_max']} in flight and "
        f"{result['waiting_max']} waiting"
    ]
    for kind, row in result["kinds"].items():
        fates = ", ".join(f"{count:,} {fate}" for fate, count in row["fates"].items())
        times = row["whole_ms"]
        took = f"; p50 {times['p50']:g} ms, p99 {times['p99']:g} ms" if times else ""
        lines.append(f"  {kind:<7} {fates}{took}")
    if result["refused"]:
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in result["refused"].items())
        lines.append(f"  connections refused by a limit: {kinds}")
    if result["landed_late"]:
        lines.append("  landed late: " + json.dumps(result["landed_late"])[1:-1].replace('"', ""))
    return lines
