"""The client's way to the real handler, for commands that are run against it."""

from __future__ import annotations

from contextlib import redirect_stdout
from io import StringIO
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from click.testing import CliRunner, Result

from slotq.cli.app import App
from slotq.cli.main import cli
from tests.functional.account import Account, sample
from tests.unit.client.fake_queue import FakeAnswer, client_of

OPERATOR = sample("set-limits")["requestContext"]["identity"]["userArn"]


def slotq(account: Account, *words: str, by: str = OPERATOR, status: int | None = 0) -> Result:
    """Run a command of `slotq` as this caller. `status`: its exit code; None: any."""
    world = App(connect=lambda _: client_of(RealHttp(account, by)))
    done = CliRunner().invoke(cli, words, obj=world)
    assert status in {None, done.exit_code}, done.output
    return done


class RealHttp:
    """Sends the client's requests to the real handler, as `caller`."""

    def __init__(self, account: Account, caller: str = OPERATOR) -> None:
        self._account = account
        self.caller = caller
        self.methods: list[str] = []

    def send(self, request: Any) -> FakeAnswer:
        url = urlsplit(request.url)
        path, query = unquote(url.path.removeprefix("/prod")), parse_qs(url.query)
        event = {
            **sample("set-limits"),
            "httpMethod": request.method,
            "path": path,
            "resource": "/{proxy+}",
            "body": (request.body or b"").decode(),
            "queryStringParameters": {key: each[-1] for key, each in query.items()},
            "multiValueQueryStringParameters": query,
        }
        event["requestContext"]["identity"]["userArn"] = self.caller
        self.methods.append(request.method)
        with redirect_stdout(StringIO()):  # The function prints metrics.
            answer = self._account.send(event)
        headers = {key: each[-1] for key, each in answer["multiValueHeaders"].items()}
        return FakeAnswer(answer["statusCode"], answer["body"], headers)
