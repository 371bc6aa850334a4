"""Run by `processes.moto_process`: moto's server, alone in its process.

    python moto_main.py honest      one lock around the application: every request is atomic
    python moto_main.py lying       as it ships, but threads switch every microsecond: it lies a little

Prints its port on the first line. Ends when its standard input closes, so that a test that is killed
leaves no server behind.
"""

import sys
import threading
from pathlib import Path

from werkzeug.serving import make_server

# Run as a script, so that the folder that holds `tests` is not on the path yet.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.servers.moto_here import HonestApp, QuietHandler, moto_app

SWITCH_SECONDS = 1e-6
"""At the default of 5 ms moto's check and write nearly always happen in one go."""


def main(manner: str) -> None:
    app = moto_app() if manner == "lying" else HonestApp(moto_app())
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=QuietHandler)
    sys.stdout.write(f"{server.server_port}\n")
    sys.stdout.flush()
    if manner == "lying":
        sys.setswitchinterval(SWITCH_SECONDS)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1])
