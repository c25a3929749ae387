"""`slotq whatif`: the tables, the change put into force, refusals, and docs/whatif.md."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from slotq_core.model.capacity.plans import PlanFacts, PlanStatus, PlanWindow
from slotq_core.model.jobs import JobState
from slotq_core.model.pools import PoolHealth
from slotq_core.timestamps import from_iso
from tests.least_request import least_request
from tests.unit.client.fake_scenario import DOCUMENT, HOUR, fake_scenario, job

PLAN_ARN = "arn:aws:sagemaker:us-east-1:123456789012:training-plan/june"
PAGE = (Path(__file__).parents[3] / "docs" / "whatif.md").read_text()
BLOCKS = re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
LINES = [line for block in BLOCKS for line in block.splitlines()]


@pytest.fixture
def whatif(slotq):
    """The answer as JSON."""

    def ask(*words):
        result = slotq("whatif", *words, "--json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    return ask


def now(answer):
    return {row["job"]: (row["before"]["what"], row["after"]["what"]) for row in answer["now"]}


def moments(answer):
    """When each thing happens without the change and with it."""
    return {
        (row["job"], row["event"]): tuple(
            side and side["at"][11:16] for side in (row["before"], row["after"])
        )
        for row in answer["timeline"]
    }


@pytest.mark.parametrize("line", LINES)
def test_each_line_of_the_page_runs(slotq, queue, tmp_path, monkeypatch, line):
    monkeypatch.chdir(tmp_path)
    request = least_request("mine", Tags=[{"Key": "slotq:project", "Value": "team-a"}])
    (tmp_path / "request.json").write_text(json.dumps(request))
    (tmp_path / "prices.toml").write_text('[usd_per_hour]\n"ml.p5.48xlarge" = 40\n')
    result = slotq(*shlex.split(line)[1:])
    assert result.exit_code == 0, result.output
    assert result.stdout


def test_the_page_shows_what_is_printed(slotq):
    shown = re.findall(r"^```text\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)[0]
    printed = slotq(*shlex.split(LINES[0])[1:]).stdout
    lines = [line.rstrip() for line in printed.splitlines()]
    for line in shown.splitlines():
        assert line in lines


def test_without_a_change_it_shows_what_comes_next(slotq, queue):
    assert "nothing starts and nothing is evicted" in slotq("whatif").stdout
    queue.scenario = fake_scenario(job("urgent", priority=9))
    printed = slotq("whatif").stdout
    assert re.search(r"^vit +team-a +evicted for urgent in p5$", printed, re.MULTILINE)
    assert "WITH IT" not in printed


def test_what_it_costs_is_shown_by_pool_and_kind(slotq, whatif, tmp_path):
    prices = tmp_path / "mine.toml"
    prices.write_text('source = "a contract"\n[usd_per_hour]\n"ml.p5.48xlarge" = 40\n')
    words = "--pool", "p5=5", "--hours", "1", "--prices", str(prices)
    (row,) = whatif(*words)["costs"]
    # bert ends after half an hour, and resnet takes its slot. With two slots more all five run.
    assert (row["pool"], row["kind"]) == ("p5", "on_demand")
    assert row["before"] == {"instance_hours": 3, "usd": 120, "saved_usd": 0}
    assert row["after"] == {"instance_hours": 4.5, "usd": 180, "saved_usd": 0}
    printed = slotq("whatif", *words).stdout
    row_of = r"^p5 +on_demand +3\.0 h, 120\.00 USD +4\.5 h, 180\.00 USD$"
    assert re.search(row_of, printed, re.MULTILINE)
    assert "a contract" in printed


def test_a_larger_pool_starts_who_waits(whatif):
    answer = whatif("--pool", "p5=5")
    assert now(answer) == {"resnet": ("waits", "starts"), "whisper": ("waits", "starts")}
    assert moments(answer)["resnet", "start"] == ("12:30", "12:00")
    (entry,) = answer["configuration"]
    assert (entry["before"]["capacity"], entry["after"]["capacity"]) == (3, 5)
    assert answer["assumed"]["runtimes"] == {"eta": 1, "max_runtime": 4}


def test_both_worlds_are_beside_each_other_by_project(slotq, whatif):
    """bert ends after half an hour and resnet starts; whisper waits. With two slots more both start
    now."""
    words = "--pool", "p5=5", "--hours", "1"
    a, b = whatif(*words)["worlds"]
    assert (a["project"], b["project"]) == ("team-a", "team-b")
    figures = "starts", "evictions", "completions", "slot_hours", "wait_seconds"
    assert [a["before"][name] for name in figures] == [1, 0, 1, 2, 600]
    assert [a["after"][name] for name in figures] == [1, 0, 1, 2.5, 0]
    assert [b["before"][name] for name in figures] == [0, 0, 0, 1, 1_800]
    assert [b["after"][name] for name in figures] == [1, 0, 0, 2, 0]
    printed = slotq("whatif", *words).stdout
    shown = r"^team-b +0 starts, 0 evictions, 0 completed, 1\.0 slot-hours, waits 30 min +1 start, "
    assert re.search(shown, printed, re.MULTILINE)
    assert "slot-hours" not in slotq("whatif", "--hours", "1").stdout, "nothing is changed"


def test_more_slots_for_a_time_go_again(whatif):
    """The job that has them goes on; when another ends, its slot is not there for the next."""
    answer = whatif("--more", "p5=1:15m", "--runtime", "3h")
    assert now(answer) == {"whisper": ("waits", "starts")}
    (entry,) = answer["configuration"]
    assert (entry["before"]["capacity"], entry["after"]["capacity"]) == (3, 4)
    gets = moments(whatif("--pool", "p5=4", "--runtime", "3h")).get(("resnet", "start"))
    assert gets is None, "with another slot for good, it starts at 12:30 as it does without"
    assert moments(answer)["resnet", "start"] == ("12:30", "12:32"), "it has to evict first"


def test_a_jobs_estimate_precedes_its_limit_and_what_is_assumed_of_all(whatif, queue):
    """Until it has run longer; a report of its own, and what is said of the job, come before."""
    queue.scenario = fake_scenario(job("other", project="team-b", runtime_estimate=2 * HOUR))
    words = "--pool", "p5=9"
    assert whatif(*words)["assumed"]["runtimes"]["estimate"] == 1
    assert moments(whatif(*words))["other", "complete"][1] == "14:00"
    assert moments(whatif(*words, "--runtime", "5h"))["other", "complete"][1] == "14:00"
    assert moments(whatif(*words, "--runtime", "other=1h"))["other", "complete"][1] == "13:00"
    over = job("other", project="team-b", running=3 * HOUR, runtime_estimate=2 * HOUR)
    queue.scenario = fake_scenario(over)
    assert "estimate" not in whatif(*words)["assumed"]["runtimes"]


def plan_queue(**windows):
    pool = DOCUMENT["pools"][0] | {"capacity_kind": "plan", "plan_arn": PLAN_ARN}
    plan = PlanFacts(arn=PLAN_ARN, status=PlanStatus.ACTIVE, **windows)
    document = DOCUMENT | {"pools": [pool]}
    return fake_scenario(document=document, health=PoolHealth(plan=plan))


def test_another_window_of_a_plan_ends_by_its_own_rules(whatif, queue):
    """SageMaker takes the instances 30 minutes before its end."""
    now_, hour = from_iso("2026-11-20T12:00:00Z"), 3_600_000
    window = PlanWindow(begins=now_ - hour, ends=now_ + 100 * hour, slots=3)
    queue.scenario = plan_queue(windows=(window,))
    answer = whatif("--more", "p5=1:2h")
    assert now(answer) == {"whisper": ("waits", "starts")}
    assert moments(answer)["whisper", "evict"] == (None, "13:30")


def test_a_plan_that_is_over_may_be_bought_again(whatif, queue):
    queue.scenario = plan_queue()
    answer = whatif("--more", "p5=5:3h")
    assert now(answer) == {"resnet": ("waits", "starts"), "whisper": ("waits", "starts")}


def test_a_larger_quota_takes_slots_back(whatif):
    assert now(whatif("--quota", "team-b=2")) == {"vit": ("runs", "evicted")}


def test_a_priority_evicts_and_the_evicted_comes_back(whatif):
    answer = whatif("--priority", "whisper=9", "--runtime", "4h", "--hours", "12")
    assert now(answer) == {"llama": ("runs", "evicted"), "whisper": ("waits", "waits")}
    assert moments(answer)["whisper", "start"] == ("15:00", "12:02")
    assert moments(answer)["llama", "evict"] == (None, "12:00")
    assert answer["assumed"]["runtimes"] == {"eta": 1, "given": 4}


def test_one_jobs_runtime_counts_before_what_it_reports(whatif):
    answer = whatif("--hold", "resnet", "--runtime", "bert=3h")
    assert moments(answer)["resnet", "start"] == ("13:00", None)


def test_cancel_hold_release_and_move(whatif, queue):
    assert now(whatif("--cancel", "vit")) == {"vit": ("runs", "stops")}
    assert now(whatif("--cancel", "resnet")) == {"resnet": ("waits", "ended")}
    assert now(whatif("--hold", "resnet")) == {"resnet": ("waits", "held")}
    assert now(whatif("--move", "resnet=p5")) == {"resnet": ("waits", "waits")}
    queue.scenario = fake_scenario(job("kept", priority=9, state=JobState.HELD))
    answer = whatif("--release", "kept")
    assert now(answer) == {"kept": ("held", "waits"), "vit": ("runs", "evicted")}


def test_what_comes_after_a_cancelled_job_is_cancelled(whatif, queue):
    queue.scenario = fake_scenario(job("report", after=("resnet",)))
    assert now(whatif("--cancel", "resnet")) == {
        "resnet": ("waits", "ended"),
        "report": ("waits", "ended"),
    }


def test_a_new_job_enters_as_by_the_door(whatif, tmp_path):
    tags = {"priority": "9", "slotq:project": "team-a"}
    request = least_request(
        "mine", Tags=[{"Key": key, "Value": value} for key, value in tags.items()]
    )
    request["StoppingCondition"] = {"MaxRuntimeInSeconds": 1800}
    (tmp_path / "request.json").write_text(json.dumps(request))
    answer = whatif("--submit", str(tmp_path / "request.json"))
    assert now(answer)["mine"] == ("absent", "waits")
    assert moments(answer)["mine", "start"] == (None, "12:02")
    assert moments(answer)["mine", "complete"] == (None, "12:32")


def test_a_pool_with_nodes_starts_who_asks_for_less_than_an_instance(whatif, queue):
    quarters = [job(f"trial-{n}", group="trials", role="train") for n in (1, 2, 3)]
    document = DOCUMENT | {"pools": [DOCUMENT["pools"][0] | {"capacity": 5}]}
    queue.scenario = fake_scenario(*quarters, document=document)
    answer = whatif("--nodes", "p5", "--hold", "resnet", "--gpus", "trials=0.25")
    why = "starts on node node-1 of pool p5 when it is ready; needs 0.25 GPUs"
    for trial in quarters:
        (row,) = (row for row in answer["now"] if row["job"] == trial.name)
        assert row["after"] == {"what": "waits", "pool": None, "why": why}
        assert moments(answer)[trial.name, "start"][1] == "12:05"
    added = whatif("--nodes", "p5=8", "--add", "gpus=0.5,pool=p5,project=team-a,name=half")
    assert now(added)["half"] == ("absent", "waits")


def test_a_job_that_asks_for_gpus_may_take_a_whole_instance(whatif, queue):
    document = DOCUMENT | {"pools": [DOCUMENT["pools"][0] | {"capacity": 5}]}
    queue.scenario = fake_scenario(job("trial", gpus=25, tenant="t"), document=document)
    words = ("--nodes", "p5", "--hold", "resnet")
    assert moments(whatif(*words))["trial", "start"][1] == "12:05", "its node needs five minutes"
    assert moments(whatif(*words, "--gpus", "trial=0"))["trial", "start"][1] == "12:00"


def test_a_request_that_asks_for_gpus_enters_as_it_would(whatif, tmp_path):
    tags = {"slotq:gpus": "2", "slotq:project": "team-a", "priority": "9"}
    request = least_request("mine", Tags=[{"Key": key, "Value": tags[key]} for key in tags])
    request["AlgorithmSpecification"]["ContainerEntrypoint"] = ["python", "train.py"]
    (tmp_path / "request.json").write_text(json.dumps(request))
    asked = "--submit", str(tmp_path / "request.json"), "--hours", "4"
    mine = moments(whatif(*asked, "--nodes", "p5"))["mine", "start"]
    whole = moments(whatif(*asked))["mine", "start"]
    assert (whole, mine) == ((None, "12:02"), (None, "12:07")), "its node needs five minutes"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--pool", "p6=1"], "there is no pool 'p6'; the pools are p5"),
        (["--pool", "p5=x"], "p5=x: give a number of slots"),
        (["--more", "p6=1:1h"], "there is no pool 'p6'"),
        (["--more", "p5=1"], "p5=1: give slots and for how long, such as 2:1w"),
        (["--more", "p5=0:1h"], "p5=0:1h: give slots and for how long, such as 2:1w"),
        (["--more", "p5=1:0s"], "p5=1:0s: give slots and for how long, such as 2:1w"),
        (["--more", "p5=1:1h", "--apply"], "--more only asks"),
        (["--more", "p5=1:1h", "--diff"], "--more only asks"),
        (["--quota", "team-x=1"], "the projects are team-a, team-b"),
        (["--quota", "team-b=9"], "quota"),
        (["--quota", "team-b=2026-02-30"], "give slots, or a mapping"),
        (["--quota", f"team-b={'[' * 1000}"], "give slots, or a mapping"),
        (["--quota", "team-b=&a [*a]"], "quota"),
        (["--quota", "team-b=&a {p5: *a}"], "quota"),
        (["--priority", "nobody=1"], "there is no job 'nobody' that waits or runs"),
        (["--hold", "vit"], "only a waiting job can be held"),
        (["--add", "slots=9,pool=p5,project=team-a"], "9 slots"),
        (["--add", "size=9"], "'size' is not one of name, slots, pool"),
        (["--add", "slots=1,project=team-a,name=vit"], "a job named 'vit' exists already"),
        (["--runtime", "long"], "neither seconds nor a time such as 90s"),
        (["--diff"], "give --pool, --nodes, --quota or --set"),
        (["--set", "fairshare.half_life=7d"], "no section 'fairshare'; did you mean 'fair_share'?"),
        (["--set", "pools.p6.min_runtime=5m"], "section 'pools' has no entry 'p6'"),
        (["--set", "pools=5"], "name a setting"),
        (["--set", "fair_share.half_live=7d"], "half_live"),
        (["--set", "pools.p5.capacity=[1"], "give a value as in the configuration"),
        (["--nodes", "p6"], "there is no pool 'p6'"),
        (["--nodes", "p5=x"], "p5=x: give a number of GPUs"),
        (["--gpus", "resnet=1"], "no pool of p5 keeps nodes: add --nodes"),
        (["--nodes", "p5", "--gpus", "vit=1"], "job vit is running, and keeps what it has"),
        (["--nodes", "p5", "--gpus", "nobody=1"], "there is no job 'nobody'"),
        (["--nodes", "p5", "--gpus", "resnet=0.333"], "resnet=0.333: "),
        (["--nodes", "p5", "--gpus", "resnet=9"], "the job needs 9 GPUs of one instance"),
        (["--nodes", "p5", "--gpus", "resnet=1", "--apply"], "--gpus is part of a job's request"),
        (["--apply"], "give a change"),
        (["--add", "slots=1,project=team-a", "--apply"], "use --submit FILE"),
        (["--pool", "p5=4", "--apply"], "confirm with --yes"),
    ],
)
def test_what_cannot_be_is_refused(slotq, words, said):
    result = slotq("whatif", *words)
    assert result.exit_code != 0
    assert said in result.stderr


def test_apply_puts_everything_into_force_once_confirmed(slotq, queue):
    words = ("whatif", "--priority", "job3=4", "--apply")
    queue.scenario = fake_scenario(job("job3"))
    asks = {"asks": lambda: True}
    refused = slotq(*words, world=asks, input="n\n")
    assert (refused.exit_code, queue.jobs["job3"].priority) == (1, 1)
    assert "Nothing was changed." in refused.stderr
    done = slotq(*words, world=asks, input="y\n")
    assert (done.exit_code, queue.jobs["job3"].priority) == (0, 4)
    assert "job3: priority 4" in done.stderr


def test_apply_says_what_was_done_before_a_refusal(slotq, queue):
    queue.scenario = fake_scenario(job("job3"))
    result = slotq("whatif", "--priority", "job3=4", "--cancel", "resnet", "--apply", "--yes")
    assert result.exit_code != 0
    assert "job3: priority 4\nthe changes above are in force" in result.stderr


def test_the_diff_is_that_of_the_configuration(slotq):
    printed = slotq("whatif", "--pool", "p5=4", "--diff").stdout
    assert printed.splitlines() == [
        "--- queue (revision 7)", "+++ what if", "@@ pools: p5 @@", " name: p5",
        "-capacity: 3", "+capacity: 4", " instance_type: ml.p5.48xlarge",
    ]  # fmt: skip


def test_any_setting_may_be_asked_for(slotq, whatif):
    answer = whatif("--set", "projects.team-b.quota=2", "--set", "fair_share.of=users")
    assert now(answer) == now(whatif("--quota", "team-b=2"))
    assert [entry["section"] for entry in answer["configuration"]] == ["projects", "fair_share"]
    printed = slotq("whatif", "--set", "pools.p5.reserve_after=1h", "--diff").stdout
    assert "+reserve_after: 3600" in printed


def test_an_empty_value_is_the_default(whatif):
    (entry,) = whatif("--set", "projects.team-b.quota=")["configuration"]
    assert "quota" not in entry["after"]


def test_a_partial_answer_says_so(slotq, queue):
    told = fake_scenario(left_out=7, withheld=frozenset({"llama"}))
    queue.scenario = told
    printed = slotq("whatif", "--pool", "p5=4").stdout
    assert "Partial: 1 job of others bear" in printed
    assert "Partial: at least 7 jobs far behind in the line are left out." in printed


def test_a_job_that_ran_longer_than_assumed_does_not_end_before_the_next_pass(whatif):
    answer = whatif("--runtime", "1m", "--pool", "p5=4")
    assert now(answer) == {"whisper": ("waits", "starts")}
    queue_ends = [at for (_, event), at in moments(answer).items() if event == "complete"]
    assert all(at >= "12:01" for pair in queue_ends for at in pair if at)
