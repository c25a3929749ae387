"""The command that enters one job of a node: a session of SSM is in the node's container, and the
job is one of several there.

It becomes the job's user, in the job's folder, with the job's environment. A job of the node could
bear another one's name, so the user is the owner of the folder that the agent has made for the
attempt, and nobody else's process is looked at.
"""

from __future__ import annotations

import base64
import shlex

PLACES = ("/opt/ml", "/tmp")  # noqa: S108 # nosec B108
"""Where the agent may have its folder, `slotq-<node>`."""

_ENTER = """
import os, sys
attempt, node, *places = sys.argv[1:]

def end(why):
    sys.exit("slotq: " + why)

with open("/proc/1/status") as file:
    agent = next(int(line.split()[1]) for line in file if line.startswith("Uid:"))
for place in places:
    jobs = os.path.join(place, "slotq-" + node, "jobs")
    folder = os.path.join(jobs, attempt)
    if os.path.isdir(folder) and os.stat(jobs).st_uid == agent:
        break
else:
    end("no job " + attempt + " runs on node " + node)
uid = os.stat(folder).st_uid
try:
    if uid != os.geteuid():
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
except OSError as error:
    end("cannot become the user of " + attempt + ": " + str(error))
name = b"TRAINING_JOB_NAME=" + os.fsencode(attempt)
for pid in sorted(int(entry) for entry in os.listdir("/proc") if entry.isdigit()):
    try:
        if os.stat("/proc/%d" % pid).st_uid != uid or os.getsid(pid) != pid:
            continue
        with open("/proc/%d/environ" % pid, "rb") as file:
            said = file.read().split(b"\\0")
        if name not in said:
            continue
        os.chdir("/proc/%d/cwd" % pid)
        os.chdir(os.getcwd())
    except OSError:
        continue
    break
else:
    end("job " + attempt + " has no process now: it is starting, or has ended")
there = dict(entry.split(b"=", 1) for entry in said if b"=" in entry)
there[b"TERM"] = os.fsencode(os.environ.get("TERM", "xterm"))
for shell in ("/bin/bash", "/bin/sh"):
    if os.access(shell, os.X_OK):
        os.execve(shell, [shell], there)
end("the image has no shell")
"""
"""Standard library only, and Python 3.8: the image's."""


def enter_command(training_job: str, node: str, places: tuple[str, ...] = PLACES) -> str:
    """The command line that opens a shell in the attempt of this name, in the container of its
    node."""
    packed = base64.b64encode(_ENTER.encode()).decode()  # No shell on the way changes it.
    program = f"import base64;exec(base64.b64decode('{packed}'))"
    return shlex.join(["python3", "-c", program, training_job, node, *places])
