"""Clients that are not made from the session that was hooked, and processes that this one starts:
they go to the queue, or the user is told that they do not."""

from __future__ import annotations

import multiprocessing
import os
import time

import boto3
import pytest
from moto import mock_aws

import slotq
from slotq.session.other_sessions import SPAWNED
from slotq.transport.signed_http import Transport
from tests.unit.client.fake_aws import REQUEST
from tests.unit.client.fake_queue import ENDPOINT, FakeQueue, client_of, served


@pytest.fixture(autouse=True)
def aws():
    with mock_aws():
        yield


@pytest.fixture
def queue():
    return FakeQueue()


def named(name):
    return REQUEST | {"TrainingJobName": name}


def test_a_later_default_session_goes_to_the_queue(http, queue):
    slotq.install(queue=client_of(http), endpoint=ENDPOINT, priority=3)
    boto3.client("sagemaker").create_training_job(**named("first"))
    boto3.setup_default_session(region_name="us-east-1")
    made = boto3.client("sagemaker").create_training_job(**named("second"))
    assert ":us-east-1:" in made["TrainingJobArn"]
    boto3.DEFAULT_SESSION = None
    boto3.client("sagemaker").create_training_job(**named("third"))
    assert [*queue.requests] == ["first", "second", "third"]


def test_a_second_install_replaces_the_settings_of_later_default_sessions(http, queue):
    for priority in (3, 4):
        slotq.install(queue=client_of(http), endpoint=ENDPOINT, priority=priority)
    boto3.setup_default_session()
    boto3.client("sagemaker").create_training_job(**REQUEST)
    assert queue.requests["job1"]["Tags"] == [{"Key": "priority", "Value": "4"}]


def test_the_default_session_stays_as_it_is_where_another_one_is_named(http, queue):
    slotq.install(boto3.Session(), queue=client_of(http), endpoint=ENDPOINT)
    boto3.setup_default_session()
    boto3.client("sagemaker").create_training_job(**REQUEST)
    assert not queue.requests


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_forked_process_goes_to_the_queue_over_connections_of_its_own(queue, monkeypatch):
    with served(queue) as endpoint:
        aws = boto3.Session()
        client = slotq.install(aws, endpoint=endpoint)
        sagemaker = aws.client("sagemaker")
        sagemaker.create_training_job(**named("parent"))
        before = client.transport._http()
        if (child := os.fork()) == 0:
            code = 1
            try:
                sagemaker.create_training_job(**named("child"))
                code = 2 if client.transport._http() is before else 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert [*queue.requests] == ["parent", "child"]
        assert client.transport._http() is before


def test_a_given_sender_of_requests_is_used_in_each_process(http, monkeypatch):
    transport: Transport = client_of(http).transport
    monkeypatch.setattr(os, "getpid", lambda: 1)
    assert transport._http() is http


def test_that_spawned_processes_go_past_the_queue_is_said_once(http):
    said = []
    slotq.install(boto3.Session(), queue=client_of(http), endpoint=ENDPOINT, say=said.append)
    for _ in range(2):
        process = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(0,))
        process.start()
        process.join()
        assert process.exitcode == 0
        assert said == [SPAWNED]
