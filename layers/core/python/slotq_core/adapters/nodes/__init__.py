"""Nodes: what is shipped to them, and the documents that they and the queue write.

agent      runs in a node's container, as one file of text; nothing here imports it
documents  orders and reports, in the bucket of the stack

The agent's file is laid at `nodes/agents/<hash>.py` and started as a node's ContainerEntrypoint.
"""

from __future__ import annotations

import hashlib
from functools import cache
from importlib import resources

LONGEST_WORD = 256
"""Characters of one word of ContainerEntrypoint."""

BOOTSTRAP = (
    "import boto3,hashlib,os,sys;_,s,b,k=sys.argv;"
    "t=boto3.client('s3').get_object(Bucket=b,Key=k)['Body'].read();"
    "hashlib.sha256(t).hexdigest()==s or sys.exit('agent');f=os.memfd_create('a',0);"
    "os.write(f,t);e=sys.executable;os.execv(e,[e,'/proc/self/fd/%d'%f])"
)
"""Fetches the agent, checks it and runs it from memory."""


@cache
def agent_source() -> bytes:
    """Return the agent's file."""
    return resources.files(__package__).joinpath("agent.py").read_bytes()


def agent_hash() -> str:
    """Return the SHA-256 (hex) of the agent's file."""
    return hashlib.sha256(agent_source()).hexdigest()


def agent_key() -> str:
    """Return the key of the agent's file in the bucket of the stack."""
    return f"nodes/agents/{agent_hash()}.py"


def entrypoint(bucket: str) -> list[str]:
    """Return the ContainerEntrypoint of a node."""
    return ["python3", "-c", BOOTSTRAP, agent_hash(), bucket, agent_key()]
