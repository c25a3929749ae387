"""The emulator tells of its jobs: `slotq config apply`, a job, a webhook on this machine."""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from pathlib import Path

import yaml

from tests.functional.local.account import PATIENCE
from tests.functional.local.conftest import slotq, start
from tests.loopback import Web, serving

KEY = "a-key-of-the-tests"
KEPT = "/slotq/notifications/hook"


def told(web: Web, job: str) -> list[str]:
    bodies = [json.loads(each.body) for each in web.got]
    return [each["event"] for each in bodies if each["job"] == job]


def test_a_users_jobs_are_told_to_a_webhook(tmp_path: Path):
    account = start(tmp_path, "--pool", "main=1")
    env = account.variables
    try:
        with serving() as web:
            account.endpoint.client("ssm").put_parameter(Name=KEPT, Value=KEY, Type="SecureString")
            to = {"webhook": f"{web.url}/hook", "secret": f"ssm:{KEPT}"}
            document = yaml.safe_load(slotq("config", "export", folder=tmp_path, env=env).stdout)
            document["notifications"] = [{"name": "hook", "for": "all", "to": to}]
            file = tmp_path / "queue.yaml"
            file.write_text(yaml.safe_dump(document))
            applied = slotq("config", "apply", str(file), folder=tmp_path, env=env)
            assert "warning" not in applied.stderr
            slotq("notify", "test", "hook", folder=tmp_path, env=env)
            assert json.loads(web.got[0].body)["event"] == "test"
            image = ["--image", "image", "--instance-type", "ml.m5.large"]
            place = ["--role", "arn:aws:iam::123456789012:role/trainer"]
            place += ["--output", f"s3://{account.bucket}/out"]
            script = tmp_path / "train.py"
            script.write_text("print('done')")
            slotq(
                *("submit", "--name", "told", *image, *place, "--", str(script)),
                folder=tmp_path,
                env=env,
            )
            until = time.monotonic() + PATIENCE
            while len(told(web, "told")) < 2 and time.monotonic() < until:
                time.sleep(0.1)
            assert told(web, "told")[0] == "started"
            assert told(web, "told")[1] in {"finished", "failed"}
            for got in web.got:
                moment, signature = got.headers["SlotQ-Signature"].split(",v1=")
                text = moment.removeprefix("t=").encode() + b"." + got.body
                assert signature == hmac.new(KEY.encode(), text, hashlib.sha256).hexdigest()
    finally:
        slotq("local", "stop", folder=tmp_path)
