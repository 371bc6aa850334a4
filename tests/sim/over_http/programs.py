"""Programs whose processes are real. They use the standard library's HTTP client, which starts fast."""

import http.client
import os
import signal
import sys
import threading
import time
from urllib.parse import urlsplit


class S3:
    """One connection to the endpoint."""

    def __init__(self, endpoint):
        self._connection = http.client.HTTPConnection(urlsplit(endpoint).netloc, timeout=30)

    def send(self, method, key, body=None, **headers):
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        self._connection.request(method, f"/jobs/{key}", body, headers)

    def __call__(self, method, key, body=None, **headers):
        self.send(method, key, body, **headers)
        reply = self._connection.getresponse()
        return reply.status, reply.read(), reply.getheader("ETag")


def add(world, safe):
    s3 = S3(world.endpoint)
    while True:
        _, body, etag = s3("GET", "counter")
        condition = {"If_Match": etag} if safe else {}
        status, _, _ = s3("PUT", "counter", str(int(body) + 1).encode(), **condition)
        if status == 200:
            return int(body) + 1


def _counter(world, safe):
    world.boto3_bucket("jobs")
    world.boto3_client("s3").put_object(Bucket="jobs", Key="counter", Body=b"0")
    for name in ("ann", "bob"):
        world.spawn(add, world, safe, name=name, restart=False)


def lost_update(world, safe=False):
    _counter(world, safe)
    world.finally_("both are counted", lambda view: view.get("jobs/counter") == b"2")


def elect(world, name, safe):
    s3 = S3(world.endpoint)
    if not safe and s3("HEAD", "leader")[0] != 404:
        return
    condition = {"If_None_Match": "*"} if safe else {}
    if s3("PUT", "leader", name.encode(), **condition)[0] == 200:
        world.note("leads", name)


def election(world, safe=False):
    world.boto3_bucket("jobs")
    for name in ("ann", "bob"):
        world.spawn(elect, world, name, safe, name=name, restart=False)
    world.always("one leads", lambda view: len(view.notes("leads")) <= 1)


def transfer(world, safe):
    s3 = S3(world.endpoint)
    if safe:
        s3("PUT", "both", b"")
    else:
        s3("PUT", "debit", b"")
        s3("PUT", "credit", b"")


def half_a_transfer(world, safe=False):
    """Restarting does not help, because nobody starts it again."""
    world.boto3_bucket("jobs")
    world.spawn(transfer, world, safe, name="ann", restart=False)
    world.finally_("all or nothing", lambda view: len(view.keys("jobs/")) != 1 or safe)


def claim(world, safe):
    s3 = S3(world.endpoint)
    try:
        status, _, _ = s3("PUT", "claim", b"ann", If_None_Match="*")
    except (http.client.HTTPException, OSError):
        s3 = S3(world.endpoint)
        status, _, _ = s3("PUT", "claim", b"ann", If_None_Match="*")
        if status == 412 and safe and s3("GET", "claim")[1] == b"ann":
            status = 200
    return status == 200


def own_write(world, safe=False):
    """The second attempt finds what the first one left."""
    world.boto3_bucket("jobs")
    world.spawn(claim, world, safe, name="ann", restart=False)
    world.finally_("the claim is known", lambda view: view.result("ann") or view.get("jobs/claim") is None)


def put_four(world):
    def put(number):
        S3(world.endpoint)("PUT", f"part{number}", str(number).encode())

    threads = [threading.Thread(target=put, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def four_at_once(world):
    world.boto3_bucket("jobs")
    world.spawn(put_four, world, name="ann", restart=False)
    world.always(
        "in order", lambda view: view.keys("jobs/") == sorted(view.keys("jobs/"))[: len(view.keys("jobs/"))]
    )
    world.sometimes("the last comes first", lambda view: view.keys("jobs/") == ["jobs/part3"])


def sleep_and_put(world, name, seconds):
    time.sleep(seconds)
    S3(world.endpoint)("PUT", name, b"")


def sleepers(world):
    world.boto3_bucket("jobs")
    for name, seconds in (("ann", 0.0), ("bob", 0.05)):
        world.spawn(sleep_and_put, world, name, seconds, name=name, restart=False)
    world.sometimes("bob is first", lambda view: view.keys("jobs/") == ["jobs/bob"])
    world.sometimes("ann is first", lambda view: view.keys("jobs/") == ["jobs/ann"])


def sleep_for_ever():
    time.sleep(3600)


def hangs(world):
    world.boto3_bucket("jobs")
    world.configure(idle_s=0.05, hang_s=0.2)
    world.spawn(sleep_for_ever, name="ann")


def raise_it(code):
    sys.exit(code) if code else os.kill(os.getpid(), signal.SIGABRT)


def fails(world, code=3):
    world.boto3_bucket("jobs")
    world.spawn(raise_it, code, name="ann", restart=False)


def ask_for_the_acl(world):
    S3(world.endpoint)("GET", "key?acl")


def unknown(world):
    world.boto3_bucket("jobs")
    world.spawn(ask_for_the_acl, world, name="ann")


def not_there(world):
    world.boto3_bucket("jobs")
    world.spawn_command(["there-is-no-such-program"], name="ann")


def sleeps_long(world):
    world.boto3_bucket("jobs")
    world.spawn(sleep_for_ever, name="ann")


def nested(world):
    world.boto3_bucket("jobs")
    world.spawn(lambda: None, name="ann")


def grandchild(world, folder):
    """One child stays in the process group, and one leaves it."""
    for leave in (os.getpgrp, os.setsid):
        if not os.fork():
            leave()
            open(f"{folder}/{os.getpid()}", "w").close()
            time.sleep(3600)
    open(f"{folder}/{os.getpid()}", "w").close()
    S3(world.endpoint)("PUT", world.me, b"")
    if world.me == "ann":
        time.sleep(3600)


def leaves_children(world, folder):
    world.boto3_bucket("jobs")
    world.configure(idle_s=0.5, hang_s=3)
    for name in ("ann", "bob"):
        world.spawn(grandchild, world, folder, name=name)


def sleeps_for_ever(world):
    """For a driver that is killed meanwhile."""
    world.boto3_bucket("jobs")
    world.configure(idle_s=600, hang_s=600)
    world.spawn(note_pid, name="ann")


def beat(world):
    while True:
        S3(world.endpoint)("PUT", "beat", b"")


def put_once(world):
    S3(world.endpoint)("PUT", "done", b"")


def heartbeat(world):
    world.boto3_bucket("jobs")
    world.spawn(beat, world, name="beat", daemon=True)
    world.spawn(put_once, world, name="ann", restart=False)
    world.finally_("it is done", lambda view: view.get("jobs/done") == b"")


def send_and_leave(world):
    S3(world.endpoint).send("PUT", "key", b"body")


def fire_and_forget(world):
    """It does not wait for the reply."""
    world.boto3_bucket("jobs")
    world.spawn(send_and_leave, world, name="ann", restart=False)
    world.finally_("it lands", lambda view: view.get("jobs/key") == b"body")


def too_much(world):
    return S3(world.endpoint)("PUT", "big", b"x" * 2048)[0]


def big_body(world):
    world.boto3_bucket("jobs")
    world.spawn(too_much, world, name="ann", restart=False)
    world.finally_("refused", lambda view: view.result("ann") == 413 and not view.keys("jobs/"))


def note_pid():
    with open(os.environ["PID_FILE"], "w") as file:
        file.write(f"{os.getpid()}\n")
    time.sleep(3600)


def fickle(world, folder):
    """What it sends depends on how often it ran before."""
    with open(f"{folder}/runs", "a+") as runs:
        runs.write(".")
        number = runs.tell()
    S3(world.endpoint)("PUT", f"key{number}", b"")


def never_the_same(world, folder):
    world.boto3_bucket("jobs")
    world.spawn(fickle, world, folder, name="ann", restart=False)
    world.finally_("not key1", lambda view: view.keys("jobs/") != ["jobs/key1"])


SHELL = """
import http.client, os, sys
connection = http.client.HTTPConnection(os.environ["AWS_ENDPOINT_URL"].removeprefix("http://"))
connection.request("PUT", "/jobs/" + sys.argv[1], os.environ["BODY"])
connection.getresponse().read()
connection.request("POST", "/-/note/first%20note", "plain text")
connection.getresponse().read()
connection.request("POST", "/-/note/endpoint", '"' + sys.argv[2] + '"')
connection.getresponse().read()
print("printed")
sys.exit(int(sys.argv[3]))
"""


def command(world, code=0, may_exit=(0,)):
    world.boto3_bucket("jobs")
    argv = [sys.executable, "-c", SHELL, "key", world.endpoint, str(code)]
    world.spawn_command(argv, name="ann", env={"BODY": "b"}, restart=False, may_exit=may_exit)
    world.finally_(
        "all is known",
        lambda view: (
            view.get("jobs/key") == b"b"
            and view.notes("first note") == ["plain text"]
            and view.notes("endpoint")[0].startswith("http://127.0.0.1:")
            and view.result("ann") == (code, "printed\n")
        ),
    )


def put_again(world):
    """Until the store answers that it is written; what was answered is returned."""
    answers = []
    while not answers or answers[-1] not in (200, 412):
        try:
            answers.append(S3(world.endpoint)("PUT", "key", b"body", If_None_Match="*")[0])
        except (http.client.HTTPException, OSError):
            answers.append("closed")
    return answers


def every_fault(world):
    world.boto3_bucket("jobs")
    world.spawn(put_again, world, name="ann", restart=False)
    for answers in (
        [200],
        ["closed", 200],
        ["closed", 412],
        [409, 200],
        [503, 200],
        [412],
    ):
        world.sometimes(str(answers), lambda view, answers=answers: view.result("ann") == answers)
    world.finally_("it is written", lambda view: view.get("jobs/key") == b"body")
    world.finally_("nothing else is answered", lambda view: len(view.result("ann")) <= 2)


def note_the_incarnation(world, folder):
    with open(f"{folder}/pids", "a") as file:
        file.write(f"{os.getpid()}\n")
    for key in ("one", "two"):
        S3(world.endpoint)("PUT", key, str(os.getpid()).encode())


def restarts(world, folder):
    world.boto3_bucket("jobs")
    world.spawn(note_the_incarnation, world, folder, name="ann")
    world.finally_("the last one wrote both", lambda view: view.get("jobs/one") == view.get("jobs/two"))
