"""W&B Launch's runner for SageMaker, as its agent drives it: submit, wait, read the log.

    launch_agent.py REQUEST cancel|wait    prints the run's state and its log

Runs in the launchers' own environment: nothing of SlotQ's tests is here. The project is a double:
a real one comes from W&B's service.
"""

import asyncio
import json
import os
import sys
from types import SimpleNamespace

from wandb.sdk.launch.environment.aws_environment import AwsEnvironment
from wandb.sdk.launch.runner.sagemaker_runner import SageMakerRunner


def project(request):
    resources = {"sagemaker": request}
    return SimpleNamespace(
        resource_args=resources,
        run_id=request["TrainingJobName"],
        override_entrypoint=None,
        override_args=[],
        fill_macros=lambda _: resources,
        get_env_vars_dict=lambda *_: {"WANDB_LAUNCH": "True"},
    )


async def launched(request, what):
    environment = AwsEnvironment.from_default(os.environ["AWS_DEFAULT_REGION"])
    runner = SageMakerRunner(None, {"SYNCHRONOUS": False}, environment, None)
    run = await runner.run(project(request), "none")
    if what == "cancel":
        state, log = "", None
        while state != "running" or not log:
            await asyncio.sleep(0.5)
            state, log = (await run.get_status()).state, await run.get_logs()
        await run.cancel()
    else:
        await run.wait()
    return {"state": (await run.get_status()).state, "log": await run.get_logs()}


if __name__ == "__main__":
    print("RETURNED", json.dumps(asyncio.run(launched(json.loads(sys.argv[1]), sys.argv[2]))))
