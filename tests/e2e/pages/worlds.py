"""What each page needs beforehand, and the blocks that run elsewhere.

A page that is not here runs whole, on an emulator with two slots. So does each block that is not in
ELSEWHERE: one that cannot run here has its reason there, and where it is tried.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tests.e2e.pages import checks
from tests.e2e.pages.page_files import apps, request


@dataclass(frozen=True, kw_only=True)
class World:
    """Where a page begins, and what of it does not end with 0."""

    pools: tuple[str, ...] = ("main=2",)
    """The emulator's pools; without any, the page starts an emulator itself, or needs none."""
    on_nodes: bool = False
    """Whether jobs get a Python that other users of this machine may run, as jobs on nodes do."""
    reader: str | None = None
    """The role that the reader of the page has; None: the emulator's own user."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Files in the reader's folder."""
    setup: tuple[str, ...] = ()
    """What was done before the first block, as the emulator's own user: statements of the shell, or
    cells of the notebook (`python: …`)."""
    before: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """What is done before a block with this text."""
    instead: Mapping[str, str] = field(default_factory=dict)
    """What is replaced in statements, cells and files."""
    ports: tuple[str, ...] = ()
    """Ports that the page names. Other processes may have them, so that free ones are taken."""
    exits: Mapping[str, int] = field(default_factory=dict)
    """How statements end that do not end with 0."""
    again: Mapping[str, str] = field(default_factory=dict)
    """Statements that the reader repeats until they print this."""
    then: Mapping[str, Callable[[str], None]] = field(default_factory=dict)
    """What is true of that which a statement has printed."""


WORLD = "{pools: [{name: p5, capacity: 4}], projects: [{name: vision}, {name: nlp}]}"
P5 = "p5=1@ml.p5.48xlarge"
BUSY = request("sleep", "600", name="busy", instance="ml.p5.48xlarge")
SLEEPS = {"TrainingInputMode: File}": "TrainingInputMode: File, ContainerEntrypoint: [sleep, '9']}"}
"""The emulator runs no images, so that a page's members get a command."""
LOSS = "ContainerEntrypoint: [echo, loss=0.21]"
FIRST = 'import os\nFIRST = os.environ["TRAINING_JOB_NAME"] == "long"\n'
"""The first attempt stands still until it is evicted, however slow the machine is."""
PLANS = (
    '{"plans": [{"name": "june", "instance_type": "ml.p5.48xlarge", '
    '"windows": [{"from": 0, "to": 777600, "instances": 2}]}]}'
)
QUEUE = "python: from slotq import QueueClient; queue = QueueClient()"

WORLDS: dict[str, World] = {
    "docs/share-a-cluster.md": World(
        exits={"slotq local as Operator -- slotq config diff queue.yaml": 1},
        then={"slotq local as Vision -- slotq show dogs": checks.says("evicted for words")},
    ),
    "docs/local.md": World(
        pools=(), instead={"slotq local start": "slotq local start --port 4777"}, ports=("4777",)
    ),
    "docs/arrays.md": World(
        pools=("main=4",),
        files={
            "job.json": request("true", name="train"),
            "train.py": "import time; time.sleep(600)",
        },
        instead={"1-500%20": "1-5%2"},  # A hundredth of it shows the same.
    ),
    "docs/client.md": World(pools=(P5,)),
    "docs/client-jobs.md": World(
        pools=("p5=2@ml.p5.48xlarge",),
        files={
            "job.json": request("sleep", "600", instance="ml.p5.48xlarge"),
            "short.json": request("true", instance="ml.p5.48xlarge"),
        },
        setup=(
            QUEUE,
            "slotq submit job.json --name job1 --priority 1",
            "slotq submit job.json --name gate --after job1",
            "slotq submit short.json --name plain --after-any gate",
            "slotq hold plain",
            "slotq cancel gate",
            "slotq submit job.json --name ablation-1 --after job1",
            "slotq submit job.json --name ablation-2 --after job1",
        ),
        before={
            "print_queue_state": ("slotq submit job.json --name job3 --priority 10 --after job1",),
        },
    ),
    "docs/configuration.md": World(reader="Operator", exits={"slotq config diff queue.yaml": 1}),
    "docs/cost.md": World(pools=()),
    "docs/dependencies.md": World(
        pools=("main=4",),
        files={"job.json": request("sleep", "600")},
        before={"group:grid": ("slotq submit job.json --name grid --array 1-2",)},
    ),
    "docs/deploy-parameters.md": World(pools=("main=2", "small=1")),
    "docs/federated.md": World(
        pools=("server=1", "site-1=1", "site-2=1"),
        files=apps("hospitals"),
        then={"slotq logs averaging -f": checks.says("averaged over site-1 site-2")},
        before={
            "slotq submit hospitals/": (
                "slotq pools set site-1 --instance-type ml.g4dn.12xlarge",
                "slotq pools set pool-a --slots 1 --instance-type ml.m5.large",
                "slotq pools set pool-c --slots 1 --instance-type ml.m5.large",
            )
        },
    ),
    "docs/nodes.md": World(
        pools=(P5,),
        on_nodes=True,
        files={"train.py": "import os; print('GPU', os.environ['CUDA_VISIBLE_DEVICES'])"},
        instead={"1-60": "1-6", "--shell -- sleep 28800": "--shell -- sleep 28800 </dev/null"},
    ),
    "docs/notifications.md": World(
        pools=(),
        instead={"slotq local start": "slotq local start --port 0"},
        ports=("8700",),
        again={"cat received.txt": "finished first"},
    ),
    "docs/gangs.md": World(
        pools=("p5=3@ml.p5.48xlarge",),
        files={"job.json": BUSY},
        setup=("slotq submit job.json --not-preemptible",),
        instead=SLEEPS,
    ),
    "docs/groups.md": World(
        pools=(P5,),
        files={"job.json": BUSY},
        setup=("slotq submit job.json --not-preemptible",),
        instead=SLEEPS,
    ),
    "docs/share-a-gpu.md": World(
        pools=(P5,),
        on_nodes=True,
        instead={
            "1-60": "1-6",
            "trials-60": "trials-6",
            "--shell -- sleep 28800": "--shell -- sleep 28800 </dev/null",
        },
    ),
    "docs/simulate.md": World(
        pools=(),
        files={"world.yaml": WORLD},
    ),
    "docs/suspendable.md": World(pools=(P5,)),
    "docs/sweeps.md": World(
        pools=("p5=6@ml.p5.48xlarge",),
        setup=('python: import boto3; boto3.client("s3").create_bucket(Bucket="my-bucket")',),
        instead={"TrainingInputMode: File\n": f"TrainingInputMode: File\n    {LOSS}\n"},
        then={"slotq show grid --sort objective": checks.says("0.21")},
    ),
    "docs/tutorial.md": World(
        pools=(),
        instead={
            "slotq local start": "slotq local start --port 0",
            "time.sleep(1)  #": 'time.sleep(3600 if state["step"] == 10 and FIRST else 0.1)  #',
            "import argparse\n": f"import argparse\n{FIRST}",
        },
        again={"slotq logs long": "saved step 10"},
        then={
            "slotq logs -f long": checks.says("begins after step 10"),
            "slotq history long": checks.says("evicted for urgent"),
        },
    ),
    "docs/usage.md": World(
        pools=("main=1@ml.g5.xlarge",),
        files={"job.json": request("sleep", "600", instance="ml.g5.xlarge")},
        setup=(
            "slotq submit job.json --name evicted",
            "slotq submit job.json --name urgent --priority 2",
            "slotq cancel urgent",
        ),
        then=checks.USAGE,
    ),
    "docs/warm.md": World(pools=(P5,)),
    "docs/processing.md": World(
        pools=(P5,),
        files={"clean.py": "print('clean')"},
        then={"slotq show processing:clean": checks.says("processing:clean")},
    ),
    "docs/plans.md": World(
        files={"plans.json": PLANS},
        setup=(
            (
                'curl -s --fail -H "x-slotq-token: $SLOTQ_LOCAL_TOKEN" '
                "$AWS_ENDPOINT_URL/_slotq/plans -d @plans.json"
            ),
        ),
        then={"slotq pools show june": checks.says("june is active, 0 of 2 instances in use")},
    ),
    "docs/use-what-you-have-bought.md": World(
        then={"slotq pools show june": checks.says("june is active, 0 of 2 instances in use")},
    ),
}

AWS = "it is about an AWS account"
FAKE = "tests/unit/client/test_cli_page.py runs every line in order, against a fake queue"
POLICY = "an IAM policy: tests/iam/test_documented_policies.py asks what it admits"
SDK = (
    "an image is not run on the emulator; tests/unit/client/test_client_page.py runs it against a "
    "served queue, for version 3 in `make test-sagemaker3`"
)
PIPELINES = (
    "it wants SageMaker: tests/unit/client/test_pipelines.py builds the definition, for version 3 "
    "in `make test-sagemaker3`"
)
MIGRATION = "tests/unit/client/test_migration_pages.py runs it against a served queue"
ANOTHER = "another way to submit what the page has just submitted, under the same name"
STATES = "tests/functional/test_step_functions.py starts, stops and ends such executions"
FRAGMENT = "a part of a file: tests/unit/test_docs.py loads it"

ELSEWHERE: dict[str, dict[str, str]] = {
    "README.md": {
        "make demo": "`.ci/run` runs both",
        "pip install": "tests/built/test_wheels.py installs both packages",
        "PyTorch(": "tests/unit/client/test_readme.py runs it against a served queue",
        "sam build": AWS,
    },
    "docs/airflow.md": {
        "pip install": "it wants Airflow: `make ecosystem`",
        "service_config": "tests/ecosystem/test_page.py gives Airflow this connection",
        "slotq.airflow": "tests/ecosystem/test_page.py runs it in Airflow",
        "slotq exec": "tests/ecosystem/test_sagemaker_operator.py runs Airflow like this",
    },
    "docs/api.md": {"": "generated by `make api`; tests/unit/client/test_api_page.py compares it"},
    "docs/backup.md": {"": f"{AWS}; tests/functional/test_backup.py saves and loads"},
    "docs/callbacks.md": {
        "slotq:callback": "the part of a body: tests/functional/test_callbacks.py sends it whole",
    },
    "docs/cli.md": {
        "slotq": FAKE,
        "└── baseline": "tests/unit/client/test_graph.py draws such a graph",
    },
    "docs/cli-operators.md": {"slotq": FAKE},
    "docs/cli-tools.md": {"slotq": FAKE},
    "docs/client.md": {
        "endpoint =": FRAGMENT,
        "Estimator(": SDK,
        "ModelTrainer(": SDK,
        "the request has 3 faults": "tests/unit/client/test_request_check.py has it",
    },
    "docs/configuration.md": {
        "(revision 7)": "a change of another file",
        "classes:": FRAGMENT,
        "fair_share:": FRAGMENT,
        "scheduler:": FRAGMENT,
        "not -1": "tests/unit/test_docs.py has the form of a fault",
    },
    "docs/dependencies.md": {
        "queue.after(": f"{ANOTHER}; tests/unit/client/test_client_page.py runs it",
        "name: steps": "a body of the API",
        "└── group grid": "tests/unit/client/test_graph.py draws such a graph",
    },
    "docs/deploy.md": {"": AWS},
    "docs/elastic-scripts.md": {
        "slotq.world(": "tests/functional/training/test_worlds.py runs it as several processes",
    },
    "docs/events.md": {"detail-type": "tests/functional/test_announcements.py matches events"},
    "docs/faults.md": {"make faults": "`.ci/run` runs it in short"},
    "docs/federated.md": {"  meta.json\n": "a picture of the folder"},
    "docs/gangs.md": {"estimator": f"{ANOTHER}; tests/unit/client/test_gangs.py runs it"},
    "docs/give-it-to-your-team.md": {
        "make wheels": "it wants npm: tests/built/test_wheels.py installs wheels",
        "aws s3 sync": AWS,
        "pip download": "it wants an index: tests/built/test_wheels.py installs wheels",
        "aws codeartifact": AWS,
        "git+https": "it is about a repository of your own",
        "slotq configure": "tests/unit/client/test_cli_page.py runs such a line",
    },
    "docs/groups.md": {"groups.submit(": f"{ANOTHER}; tests/unit/client/test_groups.py runs it"},
    "docs/guardrails.md": {
        '"Version"': POLICY,
        "aws iam create-role": AWS,
    },
    "docs/interactive.md": {
        "slotq": "tests/functional/local/test_interactive_page.py runs it, with a server in the "
        "place of Jupyter",
        "aws ssm": AWS,
    },
    "docs/local.md": {
        "toolkit/bin/pip": "it wants a C compiler: `make test-toolkit`",
        "sam build": "it wants Docker: `make sam-local`",
        "sam local invoke": "it wants Docker: `make sam-local`",
    },
    "docs/metrics.md": {"": AWS},
    "docs/migrate-from-batch.md": {"estimator": MIGRATION},
    "docs/migrate-from-sagemaker.md": {
        "estimator": MIGRATION,
        "boto3": MIGRATION,
        "slotq exec": "tests/e2e/test_aws_cli.py",
    },
    "docs/migrate-from-slurm.md": {
        "QueueClient": MIGRATION,
        "#SBATCH": "a script of Slurm",
        '"TrainingJobName"': MIGRATION,
    },
    "docs/network.md": {"": AWS},
    "docs/nodes.md": {"instance_type": FRAGMENT},
    "docs/notifications.md": {
        "aws ssm": AWS,
        "vision-slack": AWS,
        "def verified": "tests/unit/notices/test_page.py checks signatures with it",
    },
    "docs/operations.md": {"": AWS},
    "docs/performance.md": {"make bench": "`.ci/run` runs it in short"},
    "docs/permissions.md": {"": POLICY},
    "docs/pipelines.md": {
        "PipelineSession()\ninstances": PIPELINES,
        "ModelTrainer(": PIPELINES,
        "sam deploy": f"{AWS}; tests/functional/test_pipelines.py runs the function",
        "aws cloudformation": f"{AWS}; tests/iam/test_pipelines_queue.py judges its policy",
    },
    "docs/regions.md": {"SLOTQ_REGION": AWS},
    "docs/release.md": {
        "slotq deploy": f"{AWS}; tests/unit/client/test_cli_deploy.py runs such lines",
        "module": "tests/built/test_release.py reads the module",
    },
    "docs/request-rules.md": {
        "requests:": "tests/unit/requests/test_request_rules_page.py applies it"
    },
    "docs/scenario-file.md": {"expect:": "tests/unit/test_docs.py simulates each"},
    "docs/security.md": {"pytest": "`make test` runs them"},
    "docs/share-a-gpu.md": {
        "slotq whatif": "its jobs have ended: tests/unit/client/test_whatif.py asks the same"
    },
    "docs/simulate.md": {
        '"metrics"': "a picture of the document's form; tests/unit/simulate",
        "do not hold": "a scenario that fails; tests/unit/simulate",
    },
    "docs/step-functions.md": {
        "aws stepfunctions": f"{AWS}; {STATES}",
        "sam deploy": f"{AWS}; tests/unit/test_step_functions_files.py knows its parameters",
        '"ended_at"': STATES,
        '"ErrorEquals"': "a part of a file: tests/unit/test_step_functions_files.py",
    },
    "docs/suspendable.md": {
        "import": "a script: tests/functional/training/test_page.py suspends and resumes each",
        "torchrun": "it wants torch: tests/functional/training/test_torch.py",
        "stall_after": FRAGMENT,
    },
    "docs/sweeps.md": {
        "STATE      lr": "a sweep that still runs; tests/unit/client/test_sweeps.py prints it",
        "session.sweep(tuner": f"{ANOTHER}; tests/unit/client/test_session.py runs it",
        "session.sweep": f"{ANOTHER}; tests/unit/client/test_sweeps.py runs it",
        "halving:": "a part of a file; tests/unit/client/test_sweeps.py submits it",
    },
    "docs/ui.md": {
        "": "it wants the page that `make ui` builds: tests/functional/local/test_ui_page.py"
    },
    "docs/upgrade.md": {"": AWS},
    "docs/whatif.md": {
        "slotq whatif": "tests/unit/client/test_whatif.py runs each line",
        "WITHOUT THE CHANGE": "tests/unit/client/test_whatif.py prints it",
    },
}
"""By page, then by a text in the block: why it is not run, and what is done with it."""
