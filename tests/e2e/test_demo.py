"""`slotq demo` works on any machine, whatever its environment variables."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

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
        [sys.executable, "-m", "slotq.cli", "demo"],
        env=os.environ | HOSTILE,
        capture_output=True,
        check=False,
        timeout=300,
    )
    said = demo.stdout.decode("ascii")
    assert demo.returncode == 0, said[-3000:] + demo.stderr.decode()[-3000:]
    assert "model equals, to the last bit," in said
