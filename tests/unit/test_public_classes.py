"""A class with more than fifteen public methods is two classes."""

from __future__ import annotations

import ast
import inspect
import subprocess
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slotq import QueueClient
from slotq.earlier_names import EarlierNames
from tests.api_page import FACETS
from tests.unit.client.fake_queue import FakeHttp, client_of

ROOT = Path(__file__).parents[2]
MOST = 15
"""The most public methods, properties included, in the body of one class."""
COMPATIBILITY = "EarlierNames"
"""Holds the names of version 0.2 until version 0.4, and nothing else."""


def classes() -> Iterator[tuple[str, int]]:
    """The public classes of the product, each with the number of its public methods."""
    listed = (
        "git",
        "ls-files",
        "-co",
        "--exclude-standard",
        "--",
        "layers",
        "client_sdk",
        "functions",
    )
    for file in subprocess.check_output(listed, cwd=ROOT, text=True).splitlines():
        path = ROOT / file
        if path.suffix != ".py" or not path.exists():
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                yield node.name, len(methods(node))


def methods(node: ast.ClassDef) -> set[str]:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {it.name for it in node.body if isinstance(it, kinds) and not it.name.startswith("_")}


def test_no_public_class_has_more_than_fifteen_public_methods():
    counts = [(name, count) for name, count in classes() if name != COMPATIBILITY]
    assert [it for it in counts if it[1] > MOST] == []


EARLIER = [
    (name, method)
    for name, method in vars(EarlierNames).items()
    if getattr(method, "__deprecated__", None)
]


def signature(function: Any) -> list[tuple[Any, ...]]:
    """The parameters, and what it returns; of a default that is a function only that."""
    found = inspect.signature(function)
    return [
        *(
            (it.name, it.kind, it.annotation, callable(it.default) or it.default)
            for it in found.parameters.values()
        ),
        (found.return_annotation,),
    ]


def now(name: str, method: Any) -> tuple[str, str]:
    """The facet and the method that an earlier name stands for."""
    new, _, until = method.__deprecated__.partition(": ")
    assert until == f"{name} goes with version 0.4"
    facet, _, method_name = new.removeprefix("use queue.").partition(".")
    return facet, method_name


def test_the_compatibility_class_holds_earlier_names_only():
    public = {name for name in vars(EarlierNames) if not name.startswith("_")}
    assert public == {name for name, _ in EARLIER} | FACETS.keys()
    assert len(EARLIER) == 34


@pytest.mark.parametrize(("name", "method"), EARLIER, ids=[name for name, _ in EARLIER])
def test_an_earlier_name_does_what_the_new_one_does(name, method, monkeypatch):
    client = client_of(FakeHttp())
    facet, new_name = now(name, method)
    kind = type(getattr(client, facet))
    new = getattr(kind, new_name)
    assert signature(method) == signature(new)
    heard: list[Any] = []

    def hear(self: Any, *args: Any, **kwargs: Any) -> Any:
        heard.append(inspect.signature(new).bind(self, *args, **kwargs).arguments)
        return heard

    monkeypatch.setattr(kind, new_name, hear)
    parameters = [*inspect.signature(method).parameters.values()][1:]
    places = [object() for it in parameters if it.kind is it.POSITIONAL_OR_KEYWORD]
    named = {it.name: object() for it in parameters if it.kind is it.KEYWORD_ONLY}
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert getattr(client, name)(*places, **named) is heard
    assert [str(it.message) for it in said] == [method.__deprecated__]
    (arguments,) = heard
    assert [arguments[it.name] for it in parameters] == [*places, *named.values()]


@pytest.mark.parametrize("facet", FACETS)
def test_the_facets_are_the_properties_of_the_client(facet):
    kind, _ = FACETS[facet]
    assert isinstance(vars(QueueClient)[facet], property)
    assert type(getattr(client_of(FakeHttp()), facet)).__name__ == kind
