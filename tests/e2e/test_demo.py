"""`slotq demo` works on any machine, whatever its environment variables."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from urllib.parse import urldefrag

import pytest

from slotq.ui.built_page import FOLDER

pytest.importorskip("sagemaker.estimator", reason="the sagemaker2 extra is not installed")

NOBODY = "http://127.0.0.1:9"
HOSTILE = {
    # Number formats.
    "OPENBLAS_CORETYPE": "Haswell", "OMP_NUM_THREADS": "3", "MKL_NUM_THREADS": "1",
    # Language and user.
    "LANG": "C", "LC_ALL": "C", "HOME": "/nowhere", "TZ": "Asia/Kolkata",
    "TERM": "dumb", "COLUMNS": "20", "NO_COLOR": "1",
    # Python.
    "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii",
    "PYTHONHASHSEED": "1", "PYTHONWARNINGS": "error", "PYTHONPATH": "/nowhere",
    # AWS's SDKs.
    "AWS_PROFILE": "nonexistent", "AWS_DEFAULT_REGION": "mars-north-1", "AWS_MAX_ATTEMPTS": "0",
    "AWS_ENDPOINT_URL": NOBODY, "AWS_ENDPOINT_URL_S3": NOBODY, "AWS_CA_BUNDLE": "/nowhere",
    "AWS_RETRY_MODE": "odd", "AWS_DEFAULTS_MODE": "odd",
    "SAGEMAKER_USER_CONFIG_OVERRIDE": "/nowhere/config.yaml",
    # The network.
    "HTTP_PROXY": NOBODY, "HTTPS_PROXY": NOBODY, "http_proxy": NOBODY, "no_proxy": "example.org",
    # SlotQ.
    "SLOTQ_ENDPOINT": "nonsense", "SLOTQ_PRIORITY": "abc", "SLOTQ_CONFIG": "/nowhere/config.toml",
    "SLOTQ_LOCAL_DIR": "/proc/nowhere", "SLOTQ_POOLS": "x", "SLOTQ_READ_ONLY": "1",
    "SLOTQ_HISTORY_DAYS": "-3", "SLOTQ_TRAINING_PLANS": "x", "SLOTQ_EXECUTION_ROLES": "nobody",
    "AWS_LAMBDA_FUNCTION_NAME": "other", "POWERTOOLS_LOG_LEVEL": "LOUD",
}  # fmt: skip


def test_the_demo_works_in_any_environment():
    demo = subprocess.run(
        [sys.executable, "-m", "slotq.cli", "demo", "--speed", "20"],
        env=os.environ | HOSTILE,
        capture_output=True,
        check=False,
        timeout=300,
    )
    said = demo.stdout.decode("ascii")
    assert demo.returncode == 0, said[-3000:] + demo.stderr.decode()[-3000:]
    assert "model equals, to the last bit," in said


@pytest.mark.skipif(not (FOLDER / "index.html").is_file(), reason="the page is not built")
def test_the_demo_is_shown_in_the_browser(tmp_path):
    opened = tmp_path / "opened"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {opened}.new && mv {opened}.new {opened}\n')
    browser.chmod(0o755)
    demo = subprocess.Popen(
        [sys.executable, "-m", "slotq.cli", "demo", "--ui", "--speed", "20"],
        env={**os.environ, "BROWSER": str(browser)},
        stdout=subprocess.PIPE,
        text=True,
    )
    with demo:
        said = []
        for line in demo.stdout:
            said.append(line)
            if "until you press Ctrl-C" in line:
                break
        address, token = urldefrag(opened.read_text().strip())
        key = {"Authorization": f"Bearer {token.removeprefix('token=')}"}
        asked = urllib.request.Request(f"{address}api/jobs?state=completed", headers=key)
        with urllib.request.urlopen(asked, timeout=30) as answer:
            names = {job["name"] for job in json.load(answer)["jobs"]}
        demo.send_signal(signal.SIGINT)
    assert names == {"job1", "job2", "job3", "job4"}
    assert "All checks passed.\n" in said  # The end of the page changes nothing.
    assert demo.returncode == 0
