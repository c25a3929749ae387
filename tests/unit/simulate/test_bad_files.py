"""Every fault of a scenario or a trace is reported with file, line, key and valid values, and
nothing in a file is ignored."""

from __future__ import annotations

import json
import re
from textwrap import dedent

import pytest
from click.testing import CliRunner

from slotq.cli.main import cli
from slotq.errors import ScenarioError
from slotq.simulate import load
from slotq.simulate.scenario.contents import SECTIONS

POOL = "pools: [{name: p, capacity: 4}]\n"
GPUS = "pools: [{name: p, capacity: {slots: 4, gpus: 8}}]\n"
MEM = "pools: [{name: p, capacity: 1, properties: {mem: 8}}]\n"
PLAN = "pools: [{{name: p, capacity: 1, capacity_kind: plan, plan_windows: {}}}]"
JOB = "jobs: [{name: j, submit_at: 0}]\n"
RESERVED = (
    "pools: [{name: p, capacity: 4, reservations: [{project: %s, slots: %s, begins: 0, ends: 9}]}]"
    "\n"
    "projects: [{name: a}]\n" + JOB
)
HEADER = "job,project,submit_s,runtime_s,slots\n"

RAM = "mem_per_gpu_in_GiB"
CASES = [
    # the whole file
    ("", 1, "", "a map of keys is needed, not nothing"),
    ("[1]", 1, "", "a map of keys is needed, not a list"),
    ("pools: [\n", 2, "", "not YAML"),
    ("pools: {a: 1\n  b: 2}", 2, "", "not YAML"),
    (POOL + "jobs: []\n---\na: 1", 3, "", "not YAML"),
    (POOL + "jobs: []\njobs: []", 3, "jobs", "this key occurs twice; it is already in line 2"),
    ("jobs: []", 1, "pools", "this key is needed"),
    ("pools: []", 1, "pools", "at least one is needed"),
    ("pools: {name: p}", 1, "pools", "a list is needed, not a map"),
    ("pools: [p]", 1, "pools[0]", "a map of keys is needed, not 'p'"),
    (POOL + "job: []", 2, "job", "did you mean 'jobs'? a scenario takes pools, projects"),
    (POOL + "on: 1", 2, "on", "a key must be a text: put it in quotes"),
    # keys
    ("pools:\n  - name: p\n    capacity: 1\n    capcity: 1", 4, "pools[0].capcity", "'capacity'?"),
    (POOL + "jobs: [{name: j, submit_at: 0, prio: 1}]", 2, "jobs[0].prio", "did you mean 'prior"),
    (POOL + "jobs: [{name: j, at: 0}]", 2, "jobs[0].at", "did you mean 'submit_at'?"),
    (POOL + "jobs: [{name: j, duration: 9}]", 2, "jobs[0].duration", "did you mean 'runtime'?"),
    (POOL + "jobs: [{name: j, instances: 9}]", 2, "jobs[0].instances", "did you mean 'slots'?"),
    ("pools: [{name: p, capacity: 1, changes: [{at: 1, capacty: 2}]}]", 1,
     "pools[0].changes[0].capacty", "takes at, capacity, foreign, state"),
    # training plans
    (PLAN.format("[]"), 1, "pools[0].plan_windows", "a pool of a training plan has windows"),
    (PLAN.format("[{from: 5, to: 5, slots: 1}]"), 1, "pools[0].plan_windows[0].to",
     "a window ends after it begins"),
    (PLAN.format("[{from: 0, to: 9, slots: 1}, {from: 8, to: 12, slots: 1}]"), 1,
     "pools[0].plan_windows[1].from", "a window begins when the one before it has ended"),
    (PLAN.format("[{from: 0, to: 9, slots: 0}]"), 1, "pools[0].plan_windows[0].slots", "from 1"),
    ("pools: [{name: p, capacity: 1, plan_windows: [{from: 0, to: 9, slots: 1}]}]", 1,
     "pools[0].plan_windows", "only a pool with capacity_kind plan has a plan"),
    ("pools: [{name: p, capacity: 1, unhealthy: 1}]", 1, "pools[0].unhealthy", "only a pool with"),
    ("pools: [{name: p, capacity: 1, changes: [{at: 1, plan_windows: []}]}]", 1,
     "pools[0].changes[0].plan_windows", "only a pool with capacity_kind plan has a plan"),
    # interruptions
    (POOL + "jobs: [{name: j, submit_at: 0, interruptions: [{lasts: 5}]}]", 2,
     "jobs[0].interruptions[0].after", "this key is needed"),
    (POOL + "jobs: [{name: j, submit_at: 0, interruptions: [{after: 5, lasts: 0}]}]", 2,
     "jobs[0].interruptions[0].lasts", "seconds"),
    (POOL + "jobs: [{name: j, submit_at: 0, interruptions: [{after: 5, for: 2}]}]", 2,
     "jobs[0].interruptions[0].for", "takes attempt, after, lasts"),
    (POOL + "jobs: [{name: j, submit_at: 0, interruptions: [{after: 5, lasts: 1}, {after: 0}]}]", 2,
     "jobs[0].interruptions[1].after", "only the first of an attempt may be at its start"),
    (POOL + "jobs: [{name: j, submit_at: 0, interruptions: [{after: 5}, {after: 1}]}]", 2,
     "jobs[0].interruptions[1]", "the one before it has no lasts, so it never ends"),
    (POOL + "jobs: [{name: j, running_since: 0, pool: p, interruptions: [{after: 0}]}]", 2,
     "jobs[0].interruptions[0].after", "the job runs at the start, so it has instances"),
    # reservations
    (RESERVED % ("nobody", 1), 1, "pools[0].reservations[0]", "there is no project 'nobody'"),
    (RESERVED % ("a", 9), 1, "pools[0].reservations", "project 'a' reserves 9 slots from 1970"),
    (RESERVED % ("a", 0), 1, "pools[0].reservations", "need slots from 1 to"),
    (RESERVED.replace("capacity: 4", "capacity: 4, nodes: {gpus: 8}") % ("a", 1), 1,
     "pools[0].nodes", "a pool with nodes has no reservations"),
    # types of values
    ("pools: [{name: p, capacity: 0}]", 1, "pools[0].capacity", "from 1 to 1,000,000"),
    ("pools: [{name: p, capacity: -1}]", 1, "pools[0].capacity", "is needed, not -1"),
    ("pools: [{name: p, capacity: '2'}]", 1, "pools[0].capacity", "a whole number"),
    ("pools: [{name: p, capacity: 2.5}]", 1, "pools[0].capacity", "is needed, not 2.5"),
    ("pools: [{name: p, capacity: true}]", 1, "pools[0].capacity", "is needed, not True"),
    ("pools: [{name: p, capacity: {gpus: 8}}]", 1, "pools[0].capacity", "slots are needed"),
    ("pools:\n- name: p\n  capacity:\n    slots: 1\n    gpus: 0", 5, "pools[0].capacity.gpus",
     "a whole number from 1"),
    ("pools: [{name: p, capacity: 1, properties: 5}]", 1, "pools[0].properties",
     "{mem_per_gpu_in_GiB: 16}, not 5"),
    ("pools: [{name: p, capacity: 1, properties: {mem: 0}}]", 1, "pools[0].properties.mem",
     "a whole number from 1"),
    ("pools:\n- name: p\n  instance_type: ml.p5.48xlarge\n  capacity: {slots: 2, gpus: 12}", 4,
     "pools[0].capacity.gpus", "contain 16: leave gpus out, or declare 16"),
    ("pools:\n- name: q\n  instance_type: ml.g5.xlarge\n  capacity: 1\n  properties: {vcpus: 9}", 5,
     "pools[0].properties.vcpus", "vcpus are a resource"),
    (f"pools: [{{name: p, instance_type: ml.p3.2xlarge, capacity: 1, properties: {{{RAM}: 8}}}}]",
     1, "pools[0].properties.mem_per_gpu_in_GiB",
     "each GPU of ml.p3.2xlarge has 16"),
    (POOL + "jobs: [{name: j, running_since: -1, pool: p, demand: {slots: 1, gpus: 1}}]", 2,
     "jobs[0].running_since", "'p'"),
    (POOL + "jobs: [{name: j, pool: p, running_since: 0, demand: {slots: 1, gpus: 1, num_gpus: 1}}]"
     , 2, "jobs[0].demand", "which are the same"),
    ("pools: [{name: p, capacity: 1, properties: {slots: 8}}]", 1, "pools[0].properties.slots",
     "'slots' is a resource of pool 'p'"),
    (GPUS[:-2] + ", {name: q, capacity: 1, properties: {gpus: 8}}]", 1, "pools[1].properties.gpus",
     "'gpus' is a resource of pool 'p': jobs use a resource up, and only require a property"),
    (MEM + "jobs: [{name: j, running_since: 0, pool: p, demand: {slots: 1, mem: 9}}]", 2,
     "jobs[0].running_since", "job 'j' needs mem of 9, but pool 'p' has 8"),
    ("pools: [{name: p, capacity: {slots: 1, 5: 1}}]", 1, "5", "a key must be a text"),
    ("pools: [{name: p, capacity: {? [a] : 1}}]", 1, "", "a key must be a text"),
    ("pools: [{name: p, capacity: {slots: 1, '': 1}}]", 1, "pools[0].capacity", "names are needed"),
    ("pools: [{name: p, capacity: {slots: 1, slots: 2}}]", 1, "slots", "occurs twice"),
    ("pools: [{name: 5, capacity: 1}]", 1, "pools[0].name", "not 5; put it in quotes"),
    ("pools: [{name: '', capacity: 1}]", 1, "pools[0].name", "a name is needed"),
    ("pools: [{name: p, capacity: 1, stop_seconds: soon}]", 1, "pools[0].stop_seconds",
     "a number of seconds is needed, not 'soon'"),
    ("pools: [{name: p, capacity: 1, stop_seconds: -3}]", 1, "pools[0].stop_seconds", "at least 0"),
    ("pools: [{name: p, capacity: 1, stop_seconds: .nan}]", 1, "pools[0].stop_seconds", "not nan"),
    ("pools: [{name: p, capacity: 1, stop_seconds: .inf}]", 1, "pools[0].stop_seconds", "not inf"),
    ("pools: [{name: p, capacity: 1, stop_seconds: 1e300}]", 1, "pools[0].stop_seconds", "seconds"),
    (f"pools: [{{name: p, capacity: 1, stop_seconds: {10**400}}}]", 1, "pools[0].stop_seconds",
     "a number of seconds is needed, not 1000"),
    ("pools: [{name: p, capacity: 1, stop_seconds: 2024-01-01}]", 1, "pools[0].stop_seconds",
     "not 2024-01-01"),
    ("pools: [{name: p, capacity: 1, stop_seconds: 2024-13-41}]", 0, "", "a value cannot be read"),
    ("pools: [{name: p, capacity: 1, state: broken}]", 1, "pools[0].state",
     "one of 'active', 'paused' or 'drained' is needed, not 'broken'"),
    ("pools: [{name: p, capacity: 1, changes: [{at: 5}]}]", 1, "pools[0].changes[0]",
     "a change needs capacity, foreign, state"),
    ("pools: [{name: p, capacity: 1, changes: [{at: 5, capacity: {gpus: 1}}]}]", 1,
     "pools[0].changes[0].capacity.gpus", "there is no resource 'gpus'; these exist: slots"),
    ("pools: [{name: p, capacity: 1, foreign: {gpus: 1}}]", 1, "pools[0].foreign.gpus",
     "there is no resource 'gpus'"),
    (POOL + "until: end", 2, "until", "a number of seconds is needed, not 'end'"),
    (POOL + "projects: [{name: a, over_quota: maybe}]", 2, "projects[0].over_quota",
     "true or false is needed, not 'maybe'"),
    (POOL + "projects: [{name: a, quota: lots}]", 2, "projects[0].quota", "a whole number"),
    (POOL + "projects: [{name: a, quota: {p: -1}}]", 2, "projects[0].quota.p", "a whole number"),
    (GPUS + "projects: [{name: a, quota: {p: {gpus: x}}}]", 2, "projects[0].quota.p.gpus",
     "a whole number"),
    ("pools: [{name: p, capacity: 1, open: maybe}]", 1, "pools[0].open", "true or false"),
    ("pools: [{name: p, capacity: 1, suspend_grace: -1}]", 1, "pools[0].suspend_grace",
     "at least 0"),
    # names
    ("pools:\n- {name: p, capacity: 1}\n- {name: p, capacity: 2}", 3, "pools[1].name",
     "'p' exists already, as pools[0]"),
    (POOL + "projects: [{name: a}, {name: a}]", 2, "projects[1].name", "exists already"),
    (POOL + "departments: [{name: a}, {name: a}]", 2, "departments[1].name", "exists already"),
    (POOL + "classes: [{name: A, value: 1}, {name: A, value: 2}]", 2, "classes[1].name", "already"),
    (POOL + "jobs:\n- {name: j, submit_at: 0}\n- {name: j, submit_at: 1}", 4, "jobs[1].name",
     "exists already"),
    (POOL + "jobs: [{name: a_b, submit_at: 0}]", 2, "jobs[0].name",
     "SageMaker does not accept the name"),
    # references between sections
    (POOL + "projects: [{name: a, department: d}]", 2, "projects[0].department",
     "there is no department 'd'; these exist: none"),
    (POOL + "projects: [{name: a}]\njobs: [{name: j, submit_at: 0, project: b}]", 3,
     "jobs[0].project", "there is no project 'b'; these exist: a"),
    (POOL + "classes: [{name: A, value: 1, demote_to: A}]", 2, "classes[0].demote_to",
     "classes demote in a circle: A -> A"),
    (POOL + "classes:\n- {name: A, value: 2, demote_to: B}\n- {name: B, value: 1, demote_to: A}",
     3, "classes[0].demote_to", "in a circle: A -> B -> A"),
    (POOL + "classes: [{name: A, value: 2, demote_to: B}]", 2, "classes[0].demote_to", "no class"),
    (POOL + "classes: [{name: A, value: 2, demote_to: B}, {name: B, value: 2}]", 2,
     "classes[0].demote_to", "'B' is not lower"),
    (POOL + "jobs: [{name: j, submit_at: 0, priority: GOLD}]", 2, "jobs[0].priority",
     "there is no class 'GOLD'"),
    (POOL + "jobs: [{name: j, submit_at: 0, priority: 2.5}]", 2, "jobs[0].priority",
     "the name of a class, or a whole number"),
    (POOL + "jobs: [{name: j, submit_at: 0, pools: [p, q]}]", 2, "jobs[0].pools[1]",
     "there is no pool 'q'; these exist: p"),
    (POOL + "jobs: [{name: j, submit_at: 0, pools: [p, p]}]", 2, "jobs[0].pools[1]", "twice"),
    (POOL + "jobs: [{name: j}]", 2, "jobs[0]", "either submit_at or running_since"),
    (POOL + "jobs: [{name: j, submit_at: 0, running_since: 0}]", 2, "jobs[0]", "either submit_at"),
    (POOL + "jobs: [{name: j, running_since: 0}]", 2, "jobs[0]", "give its pool"),
    (POOL + "jobs: [{name: j, running_since: 5, pool: p}]", 2, "jobs[0].running_since",
     "at most 0"),
    (POOL + "jobs: [{name: j, submit_at: 0, pool: p}]", 2, "jobs[0].pool",
     "pool belongs to running_since"),
    (POOL + "jobs: [{name: j, submit_at: 0, slots: 0}]", 2, "jobs[0].slots", "from 1"),
    (POOL + "jobs: [{name: j, submit_at: 0, slots: 1, demand: {slots: 1}}]", 2, "jobs[0].slots",
     "slots is short for demand"),
    (POOL + "jobs: [{name: j, submit_at: 0, demand: {gpus: 1}}]", 2, "jobs[0].demand",
     "slots are needed"),
    (POOL + "jobs:\n- {name: a, running_since: 0, pool: p, slots: 3}\n"
     "- {name: b, running_since: 0, pool: p, slots: 2}", 4, "jobs[1].running_since",
     "needs 2 slots, but pool 'p' has only 1 slots left for what runs at the start"),
    (POOL + "projects: [{name: a, quota: {q: 1}}]", 2, "projects[0].quota.q",
     "there is no pool or resource 'q'"),
    (GPUS + "projects: [{name: a, quota: {p: 1, gpus: 1}}]", 2, "projects[0].quota",
     "either all pools or all resources"),
    (GPUS.replace("name: p", "name: gpus") + "projects: [{name: a, quota: {gpus: 1}}]",
     2, "projects[0].quota.gpus",
     "'gpus' is a pool and a resource: write {gpus: {slots: n}} for the pool"),
    ("pools: [{name: slots, capacity: 1}]\nprojects: [{name: a, limit: {slots: 1}}]", 2,
     "projects[0].limit.slots",
     "for the resource in all pools, write n"),
    (GPUS + "projects: [{name: a, quota: {p: {cpus: 1}}}]", 2, "projects[0].quota.p.cpus",
     "there is no resource 'cpus'; these exist: gpus, slots"),
    (POOL + "projects:\n- {name: a, quota: 1}\n- {name: b, limit: {p: 1}}", 4,
     "projects[1].limit", "the same form: that of 'a' is over all pools together"),
    (POOL + "projects:\n- {name: a, quota: {p: 1}}\n- {name: b, limit: 0}", 4,
     "projects[1].limit", "that of 'a' is by pool"),
    (GPUS + "projects: [{name: a, quota: {gpus: 1}, weight: {gpu: 1}}]", 2,
     "projects[0].weight.gpu", "there is no resource 'gpu'; these exist: gpus, slots"),
    (GPUS + "projects: [{name: a, quota: {gpus: 1}, weight: {gpus: much}}]", 2,
     "projects[0].weight.gpus", "or one of None, Low, Medium, High, is needed, not 'much'"),
    (GPUS + "projects: [{name: a, quota: {p: {gpus: 1}}, weight: {p: {gpus: 1}}}]", 2,
     "projects[0].weight.p", "a whole number from 0"),
    (GPUS + "projects:\n- {name: a, quota: {p: 2}, weight: {slots: 1}}\n"
     "- {name: b, weight: {gpus: 1}}", 4,
     "projects[1].weight.gpus", "nobody has a quota of gpus, so gpus are not shared"),
    (GPUS + "projects: [{name: a, quota: {gpus: 1}}]\n"
     "departments: [{name: d, weight: {slots: 1}}]", 3,
     "departments[0].weight.slots", "give a quota of slots, or weights of gpus only"),
    # groups
    (POOL + JOB + "groups: [{name: g}]", 3, "groups[0].name", "group 'g' has no members"),
    (POOL + "groups: [{name: g, mandatory: [x]}]\njobs: [{name: j, submit_at: 0, group: g}]", 2,
     "groups[0].mandatory[0]", "'x' is not a member; the members are j"),
    (POOL + "groups: [{name: g, min_members: 2}]\njobs: [{name: j, submit_at: 0, group: g}]", 2,
     "groups[0].min_members", "1 members, fewer than 2"),
    (POOL + "groups: [{name: g, elastic: true}]\njobs: [{name: j, submit_at: 0, group: g}]", 2,
     "groups[0].min_members", "an elastic gang says how many jobs must run at once"),
    (POOL + "groups: [{name: g, elastic: true, min_members: 1, ends_with: j}]\n"
     "jobs: [{name: j, submit_at: 0, group: g}]", 2,
     "groups[0].ends_with", "a gang that ends with one of its jobs is not elastic"),
    (POOL + "groups: [{name: g, elastic: true, min_members: 1}]\n"
     "jobs: [{name: j, submit_at: 0, group: g, class: interactive}]", 2,
     "groups[0].elastic", "'j': a job of an elastic gang is training, not interactive"),
    (POOL + "jobs: [{name: j, submit_at: 0, group: g}]", 2, "jobs[0].group", "no group 'g'"),
    (POOL + "projects: [{name: a}, {name: b}]\ngroups: [{name: g}]\njobs:\n"
     "- {name: j, submit_at: 0, group: g, project: a}\n"
     "- {name: k, submit_at: 0, group: g, project: b}", 3, "groups[0].name",
     "a gang belongs to one project; its members belong to a, b"),
    # attempts, sweeps, dependencies
    (POOL + "scheduler: {max_jobs: 0}", 2, "scheduler.max_jobs", "a whole number from 1"),
    (POOL + "scheduler: {min_schedule_interval: 0}", 2, "scheduler.min_schedule_interval",
     "more than 0 seconds are needed, not 0"),
    (POOL + "scheduler: {min_schedule_interval: 700}", 2, "scheduler.max_schedule_interval",
     "at least the min_schedule_interval of 700 seconds is needed"),
    # fair_share
    (POOL + "fair_share: {half_life: 12h}", 2, "fair_share.half_life", "from 1d to 90d, not '12h'"),
    (POOL + "fair_share: {half_life: 91d}", 2, "fair_share.half_life", "from 1d to 90d, not '91d'"),
    (POOL + "fair_share: {influence: 1.01}", 2, "fair_share.influence",
     "from 0 to 1 in hundredths"),
    (POOL + "fair_share: {influence: 0.125}", 2, "fair_share.influence",
     "from 0 to 1 in hundredths"),
    (POOL + "fair_share: {influence: true}", 2, "fair_share.influence",
     "from 0 to 1 in hundredths"),
    (POOL + "fair_share: {}\njobs: [{name: j, submit_at: 0}]", 1, "", "until is needed"),
    (POOL + "groups: [{name: s, max_parallel: 0}]", 2, "groups[0].max_parallel", "from 1"),
    (POOL + "groups: [{name: s, max_parallel: 2, min_members: 1}]", 2, "groups[0].min_members",
     "this key is for gangs"),
    (POOL + "groups: [{name: s, max_parallel: 2, elastic: true}]", 2, "groups[0].elastic",
     "this key is for gangs"),
    (POOL + "jobs: [{name: j, submit_at: 0, after: [k]}]", 2, "jobs[0].after[0]",
     "there is no job 'k'; these exist: j"),
    (POOL + "jobs:\n- {name: a, submit_at: 0, after: [b]}\n- {name: b, submit_at: 0, after: [a]}",
     3, "jobs[0].after", "the jobs depend on each other in a circle: a -> b -> a"),
    (POOL + "jobs: [{name: j, submit_at: 0, after: ['group:k']}]", 2, "jobs[0].after[0]",
     "there is no group 'k'; these exist: j"),
    (POOL + "groups: [{name: g, max_parallel: 1}]\njobs:\n"
     "- {name: a, submit_at: 0, group: g, after: [b]}\n"
     "- {name: b, submit_at: 0, after_any: ['group:g']}",
     4, "jobs[0].after", "in a circle: a -> b -> a"),
    (POOL + "groups: [{name: g}]\njobs:\n- {name: a, submit_at: 0, group: g, after: ['group:g']}",
     4, "jobs[0].after", "in a circle: gang g -> gang g"),
    (POOL + "groups: [{name: g}]\njobs:\n- {name: a, submit_at: 1, group: g}\n"
     "- {name: b, submit_at: 0, after: ['group:g']}",
     5, "jobs[1].after[0]", "its member 'a' is submitted after this job"),
    (POOL + "groups: [{name: g}]\njobs:\n- {name: g1, submit_at: 0, group: g, after: [x]}\n"
     "- {name: g2, submit_at: 0, group: g}\n- {name: x, submit_at: 0, after: [g2]}",
     4, "jobs[0].after", "gang g -> x -> gang g"),
    (POOL + "jobs:\n- {name: a, submit_at: 0}\n- {name: b, running_since: -1, pool: p, after: [a]}",
     4, "jobs[1].after", "it cannot come after a job"),
    (POOL + "jobs: [{name: j, submit_at: 0, fails: [faults]}]", 2, "jobs[0].fails[0]",
     "one of fault, no_capacity, no_role, or null is needed, not 'faults'"),
    (POOL + "jobs: [{name: j, submit_at: 0, fails: [0]}]", 2, "jobs[0].fails[0]", "not 0"),
    (POOL + "jobs: [{name: j, running_since: -5, pool: p, fails: [5]}]", 2, "jobs[0].fails[0]",
     "must fail later"),
    (POOL + "jobs: [{name: j, submit_at: 0, retries: -1}]", 2, "jobs[0].retries", "from 0"),
    # expectations
    (POOL + JOB + "expect: [{states: {j: running}}]", 3, "expect[0].at", "this key is needed"),
    (POOL + JOB + "expect: [{at: later}]", 3, "expect[0].at", "a number of seconds, or end"),
    (POOL + JOB + "expect: [{at: 0, states: {k: running}}]", 3, "expect[0].states.k",
     "there is no job 'k'; these exist: j"),
    (POOL + JOB + "expect: [{at: 0, states: {j: runing}}]", 3, "expect[0].states.j",
     "there is no state 'runing'"),
    (POOL + JOB + "expect: [{at: 0, running_slots: {a: 1}}]", 3, "expect[0].running_slots.a",
     "there is no project 'a'"),
    (POOL + JOB + "expect: [{at: 0, why: [{job: k}]}]", 3, "expect[0].why[0].job",
     "there is no job 'k'; these exist: j"),
    (POOL + JOB + "expect: [{at: 0, why: [{job: j, reson: x}]}]", 3, "expect[0].why[0].reson",
     "did you mean 'reason'? an entry of expect.why takes job, reason, place, evictions"),
    (POOL + JOB + "expect: [{at: 0, why: [{job: j, reason: full}]}]", 3, "expect[0].why[0].reason",
     "there is no reason 'full'; these exist: backing_off"),
    (POOL + JOB + "expect: [{at: 0, why: [{job: j, evictions: {full: 1}}]}]", 3,
     "expect[0].why[0].evictions.full", "there is no cause 'full'; these exist: already_stopping"),
    (POOL + JOB + "expect: [{at: 0, why: [{job: j, reserved: {k: 1}}]}]", 3,
     "expect[0].why[0].reserved.k", "there is no job 'k'"),
    (POOL + JOB + "until: 5\nexpect: [{at: 9}]", 4, "expect[0].at", "after until"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "line", "key", "message"), CASES)
def test_a_fault_is_reported_with_its_place_and_the_valid_values(
    tmp_path, text, line, key, message
):
    path = tmp_path / "s.yaml"
    path.write_text(text)
    with pytest.raises(ScenarioError) as refused:
        load(path)
    where = f"{path}:{line}: " if line else f"{path}: "
    first = str(refused.value).splitlines()[0]
    assert first.startswith(where + (f"{key}: " if key else "")), first
    assert message in first


def test_the_table_has_an_unknown_key_for_every_section():
    """A new section needs a row in the table above, or here."""
    for name, section in SECTIONS.items():
        assert "sellotape" not in section.keys(), name  # noqa: SIM118


WRONG_POOL = "pools: [{name: p, capacity: 1, nodes: {gpus: 8, "
WRONG_ENTRY = {
    "pools.nodes": f"{WRONG_POOL}sellotape: 1}}}}]\n",
    "pools.nodes.vpc": f"{WRONG_POOL}vpc: {{sellotape: 1}}}}}}]\n",
    "pools.plan_windows": PLAN.format("[{sellotape: 1}]"),
    "jobs.interruptions": "jobs: [{name: j, submit_at: 0, interruptions: [{sellotape: 1}]}]\n",
    "scheduler": "scheduler: {sellotape: 1}\n",
    "fair_share": "fair_share: {sellotape: 1}\n",
    "people": "people: {sellotape: 1}\n",
    "sharing": "sharing: {sellotape: 1}\n",
    "projects.budget": "projects: [{name: a, budget: {slot_hours: 1, sellotape: 1}}]\n",
    "projects.requests": "projects: [{name: a, requests: {sellotape: 1}}]\n",
}


@pytest.mark.parametrize("section", [name for name in SECTIONS if name != "pools"])
def test_an_unknown_key_is_refused_in_every_section(tmp_path, section):
    path = tmp_path / "s.yaml"
    text = WRONG_ENTRY.get(section, f"{section}: [{{sellotape: 1}}]\n")
    path.write_text(text if text.startswith("pools:") else POOL + text)
    with pytest.raises(ScenarioError, match=r"sellotape: there is no such key"):
        load(path)


def test_all_faults_are_reported_in_line_order(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text(
        dedent(
            """\
            pools: [{name: p, capacity: 1}]
            until: -1
            jobs:
              - {name: a, submit_at: 0, slots: 0}
              - {name: b, submit_at: x}
            """
        )
    )
    with pytest.raises(ScenarioError) as refused:
        load(path)
    lines = re.findall(r"s\.yaml:(\d+): ", str(refused.value))
    assert lines == ["2", "4", "5"]


def test_a_long_list_of_faults_is_cut(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text(POOL + "jobs:\n" + "- {name: j, submit_at: x}\n" * 100)
    with pytest.raises(ScenarioError) as refused:
        load(path)
    told = str(refused.value).splitlines()
    assert len(told) == 21
    assert told[-1] == "and 80 more"


def test_a_missing_file_is_reported(tmp_path):
    with pytest.raises(ScenarioError, match=r"none\.yaml: No such file or directory"):
        load(tmp_path / "none.yaml")


def test_a_binary_file_is_reported(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ScenarioError, match="not UTF-8"):
        load(path)


TRACES = [
    ("", 1, "the columns must be job,project,submit_s,runtime_s,slots, not nothing"),
    ("job,project,submit_s,runtime_s\n", 1, "the columns must be"),
    ("job,project,submit_s,runtime_s,slots,gpus\n", 1, "the columns must be"),
    (HEADER + "a,x,0,1\n", 2, "4 columns, but the first line names 5"),
    (HEADER + "\na,x,soon,1,1\n", 3, "submit_s: a number of seconds is needed, not 'soon'"),
    (HEADER + "a,x,0,,1\n", 2, "runtime_s: a number of seconds is needed, not ''"),
    (HEADER + "a,x,0,nan,1\n", 2, "runtime_s: a number of seconds is needed, not 'nan'"),
    (HEADER + "a,x,0,1,1.5\n", 2, "slots: a whole number is needed, not '1.5'"),
    (HEADER + "a,x,0,-1,1\n", 2, "runtime_s: a duration is at least 0 seconds"),
    (HEADER + "a,x,0,1,0\n", 2, "slots: a whole number from 1"),
    (HEADER + "a b,x,0,1,1\n", 2, "job: SageMaker does not accept the name 'a b'"),
    (HEADER + "a,x,0,1,1\na,x,0,1,1\n", 3, "job: 'a' exists already, as jobs[1]"),
    (HEADER + "own,x,0,1,1\n", 2, "job: 'own' exists already, as jobs[0]"),
    (HEADER + "a,x,0,1,1\nb,y,0,1,1\n", 3, "project: there is no project 'y'; these exist: x"),
    (HEADER + 'a,x,0,1,"1\n', 2, "not CSV"),
]


@pytest.mark.parametrize(("text", "line", "message"), TRACES)
def test_a_fault_in_a_trace_is_reported_with_its_line_and_column(tmp_path, text, line, message):
    world, trace = tmp_path / "w.yaml", tmp_path / "t.csv"
    world.write_text(
        POOL + "projects: [{name: x}]\njobs: [{name: own, submit_at: 0, project: x}]\n"
    )
    trace.write_text(text)
    with pytest.raises(ScenarioError) as refused:
        load(world, trace)
    assert str(refused.value).startswith(f"{trace}:{line}: {message}"), refused.value


def test_a_fault_of_the_scenario_is_reported_with_its_line(tmp_path):
    world, trace = tmp_path / "w.yaml", tmp_path / "t.csv"
    world.write_text(POOL + "jobs:\n  - {name: own, submit_at: 0}\n  - {name: two}\n")
    trace.write_text(HEADER + "a,,0,1,1\n")
    with pytest.raises(ScenarioError) as refused:
        load(world, trace)
    assert str(refused.value).startswith(f"{world}:4: jobs[1]: give job 'two' either")


@pytest.mark.parametrize("as_json", [False, True])
def test_a_wrong_file_has_its_exit_code(tmp_path, as_json):
    path = tmp_path / "s.yaml"
    path.write_text("pools: []")
    words = [*(["--json"] if as_json else []), "simulate", str(path)]
    result = CliRunner().invoke(cli, words)
    assert result.exit_code == 2
    if as_json:
        told = json.loads(result.stderr)
        assert told["code"] == "scenario_error"
        assert told["message"] == f"{path}:1: pools: at least one is needed"
    else:
        assert result.stderr == f"slotq: {path}:1: pools: at least one is needed\n"


def test_the_keys_of_a_section_are_listed_once(tmp_path):
    """A file written from memory has the same wrong key in each job."""
    path = tmp_path / "s.yaml"
    jobs = "\n".join(f"  - {{name: j{n}, at: {n}, duration: 9}}" for n in range(8))
    path.write_text(f"pools: [{{name: p, slots: 1}}]\njobs:\n{jobs}\nexpect: [{{t: 1}}]\n")
    with pytest.raises(ScenarioError) as refused:
        load(path)
    said = str(refused.value)
    assert said.count("an entry of jobs takes") == 1
    assert said.count("there is no such key; did you mean 'submit_at'?") == 8
    assert said.count("there is no such key; did you mean 'runtime'?") == 8
    assert "pools[0].slots: there is no such key; did you mean 'capacity'?" in said
    assert "expect[0].t: there is no such key; did you mean 'at'?" in said


def test_times_take_units(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text(
        "pools: [{name: p, capacity: 1, reserve_after: 1h, min_runtime: 90s}]\n"
        "jobs: [{name: j, submit_at: 1m, runtime: 2h, cancel_at: 1d}]\nuntil: 1w\n"
    )
    scenario = load(path)
    (pool,), (job,) = scenario.pools, scenario.jobs
    assert (pool.reserve_after, pool.min_runtime) == (3_600_000, 90_000)
    assert (job.submit_at, job.runtime, job.cancel_at) == (60_000, 7_200_000, 86_400_000)
    assert scenario.until == 604_800_000
