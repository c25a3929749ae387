"""The port `NodeDocuments` on S3: the bucket of the stack.

Every write of orders is conditional (If-Match, If-None-Match), so that no handler undoes another
one's. The agent's file is written with each launch, not looked for: a bucket may remove old
objects. A report is untrusted input: it is read up to its longest form, and checked by the caller.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from slotq_core.adapters import nodes
from slotq_core.errors import Conflict, Unavailable
from slotq_core.model.nodes import OF_PROJECT, Node
from slotq_core.model.pools import NodeRules
from slotq_core.ports.nodes import Document, Launch
from slotq_core.timestamps import from_datetime
from slotq_core.wire.nodes.documents import LARGEST_ORDERS, LARGEST_REPORT

LEASE, LEASE_WITHOUT_ROUTE = 60, 180
"""Seconds that a node may run jobs without another report. Without a route, the tick alone reads
reports."""

_ABSENT = frozenset({"NoSuchKey", "404"})
_CHANGED = frozenset({"PreconditionFailed", "412", "ConditionalRequestConflict", "409"})
_CHANGED_OR_GONE = _ABSENT | _CHANGED


class S3NodeDocuments:
    """The documents of all nodes of a deployment. `make_client` is called with the first call, and
    its calls should end within seconds. A 403 is an error: who may list the bucket, as the queue
    may, gets a 404 for an object that does not exist."""

    def __init__(
        self, *, bucket: str, route: str, lease: int, make_client: Callable[[], Any]
    ) -> None:
        """`route`: the address of the API, to which agents report changes; empty: none, or this
        handler launches no nodes. `lease`: in seconds (`lease_of`)."""
        self._bucket, self._route, self._lease = bucket, route, lease
        self._make_client = make_client
        self._built: Any = None

    @property
    def _client(self) -> Any:
        if self._built is None:
            self._built = self._make_client()
        return self._built

    def launch(self, node: Node, rules: NodeRules) -> Launch:
        self._call("put_object", nodes.agent_key(), Body=nodes.agent_source())
        return launched(node, rules, bucket=self._bucket, route=self._route, lease=self._lease)

    def lease(self) -> int:
        return self._lease

    def orders(self, node: Node) -> Document | None:
        return self._read(f"{folder(node)}/orders.json", LARGEST_ORDERS)

    def put_orders(self, node: Node, content: bytes, *, replaces: str | None) -> None:
        condition = {"IfNoneMatch": "*"} if replaces is None else {"IfMatch": replaces}
        key = f"{folder(node)}/orders.json"
        written = {"Body": content, "ContentType": "application/json", **condition}
        if self._call("put_object", key, refusals=_CHANGED_OR_GONE, **written) is None:
            raise Conflict(f"{key}: others have been written meanwhile")

    def report(self, node: Node) -> Document | None:
        return self._read(f"{folder(node)}/report.json", LARGEST_REPORT)

    def _read(self, key: str, largest: int) -> Document | None:
        """Read an object, up to one byte more than its longest legal form."""
        found = self._call("get_object", key, refusals=_ABSENT)
        if found is None:
            return None
        try:
            with found["Body"] as body:
                content = body.read(largest + 1)
        except Exception as error:
            raise Unavailable(f"S3 object {key}: {type(error).__name__}") from error
        written_at = from_datetime(found["LastModified"])
        return Document(content=content, version=found["ETag"], written_at=written_at)

    def _call(
        self, word: str, key: str, *, refusals: frozenset[str] = frozenset(), **more: Any
    ) -> Any:
        """Call S3. Returns None for one of the refusals. Raises Unavailable."""
        try:
            return getattr(self._client, word)(Bucket=self._bucket, Key=key, **more)
        except Exception as error:
            response = getattr(error, "response", None) or {}
            code = str((response.get("Error") or {}).get("Code", ""))
            if code in refusals:
                return None
            why = code or type(error).__name__
            raise Unavailable(f"S3 {word} {key}: {why}") from error


def launched(node: Node, rules: NodeRules, *, bucket: str, route: str, lease: int) -> Launch:
    """Return what starts the agent on this node. `route`: the address of the API, or empty. `lease`
    in seconds."""
    environment = {
        "SLOTQ_NODE": node.name,
        "SLOTQ_NODE_GENERATION": str(node.generation),
        "SLOTQ_NODE_FOLDER": f"s3://{bucket}/{folder(node)}",
        "SLOTQ_NODE_LEASE": str(lease),
        "SLOTQ_NODE_TOKEN": node.token,
    }
    if route:
        path = f"nodes/{node.pool}/{node.name}/report"
        environment["SLOTQ_NODE_ROUTE"] = f"{route.rstrip('/')}/{path}"
    if OF_PROJECT not in node.tenant:
        environment["SLOTQ_NODE_SHARED"] = "1"
    if rules.gpu_ids:
        environment["SLOTQ_NODE_GPUS"] = ",".join(rules.gpu_ids)
    return Launch(entrypoint=tuple(nodes.entrypoint(bucket)), environment=environment)


def lease_of(route: str) -> int:
    """Return how long (s) a node may run jobs without another report."""
    return LEASE if route else LEASE_WITHOUT_ROUTE


def folder(node: Node) -> str:
    """Return the folder of this generation of the node, in the bucket."""
    return f"nodes/{node.pool}/{node.name}/{node.generation}"
