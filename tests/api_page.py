"""docs/api.md out of the code: `python -m tests.api_page > docs/api.md` (`make api`).

Reads the sources and imports nothing, so that no SDK need be there.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
CLIENT = ROOT / "client_sdk" / "src" / "slotq"

INTRODUCTION = """\
# The Python API

Written by `make api` from the code, and held to it by a test. What is not here is not public, and
may change with any release. How to use it: [client.md](client.md).
"""

PUBLIC = {
    "install": "session/install.py",
    "gang": "groups/gathering.py",
    "QueueClient": "client.py",
    "QueuedJob": "jobs/job.py",
    "QueueTrainingJobSession": "session/sdk2.py",
    "direct": "session/answers/other_calls.py",
    "Sweep": "sweeps/sweep.py",
    "uniform": "sweeps/space.py",
    "log_uniform": "sweeps/space.py",
    "reverse_log_uniform": "sweeps/space.py",
    "integer": "sweeps/space.py",
    "log_integer": "sweeps/space.py",
    "choice": "sweeps/space.py",
    "print_queue_state": "output/plain_table.py",
}
"""What `slotq` exports beside its version, in the order of the page, and where it is."""
IN_MODULES = {"pipelines": {"QueueStep": "pipelines/queue_step.py"}}
"""What modules of `slotq` export by themselves: each needs a package that others do without."""
FACETS = {
    "jobs": ("JobCalls", "jobs/job_calls.py"),
    "groups": ("GroupCalls", "groups/group_calls.py"),
    "sweeps": ("SweepCalls", "sweeps/sweep.py"),
    "pools": ("PoolCalls", "queue_calls.py"),
    "projects": ("ProjectCalls", "queue_calls.py"),
    "configuration": ("ConfigurationCalls", "queue_calls.py"),
    "usage": ("UsageCalls", "queue_calls.py"),
    "service": ("ServiceCalls", "queue_calls.py"),
}
"""The properties of QueueClient that hold calls, with their classes and where these are."""
BASES = {
    "QueueClient": ("BatchCalls", "groups/batches.py"),
    "QueuedJob": ("ObservedJob", "jobs/job.py"),
    "QueueTrainingJobSession": ("Sweeping", "sweeps/of_estimators.py"),
}
"""Classes whose methods are shown with those of the class that extends them."""
VERBS = {"JobCalls": "VerbsByName", "QueuedJob": "VerbsOfJob"}
"""The bases that have a class's verbs, shown behind its own methods; in jobs/verbs.py."""
INTERNAL = "do"
"""What the methods of verbs have in common, and the commands use."""
SETTINGS = {
    "JobSettings": "jobs/submission.py",
    "QueueSettings": "session/install.py",
}
"""The keyword arguments that several of these take, and where they are."""
TITLES = {
    "install": "`slotq.install`: plain boto3 through the queue",
    "gang": "`slotq.gang`: jobs that start together",
    "QueueClient": "`slotq.QueueClient`: the queue's calls",
    "QueuedJob": "`slotq.QueuedJob`: a job as an object",
    "QueueTrainingJobSession": "`slotq.QueueTrainingJobSession`: SageMaker's SDK through the queue",
    "direct": "`slotq.direct`: training jobs past the queue, on purpose",
    "Sweep": "`slotq.Sweep`: many jobs that try values",
    "uniform": "`slotq.uniform`: numbers to sample",
    "log_uniform": "`slotq.log_uniform`: numbers by their magnitude",
    "reverse_log_uniform": "`slotq.reverse_log_uniform`: numbers by their distance from 1",
    "integer": "`slotq.integer`: whole numbers to sample",
    "log_integer": "`slotq.log_integer`: whole numbers by their magnitude",
    "choice": "`slotq.choice`: one of several values",
    "print_queue_state": "`slotq.print_queue_state`: a look at the queue",
    "QueueStep": "`slotq.pipelines.QueueStep`: a step of SageMaker Pipelines that waits for a job",
}
OVERRIDES = {"QueueTrainingJobSession": ("__init__", "gang"), "QueueStep": ("__init__",)}
"""Of these only some methods are ours to promise: the others are the SDK's."""


def page() -> str:
    parts = [INTRODUCTION]
    exported = PUBLIC | {name: file for own in IN_MODULES.values() for name, file in own.items()}
    for name, file in exported.items():
        node = definition(CLIENT / file, name)
        parts.append(f"## {TITLES[name]}\n\n{prose(node)}\n\n```python\n{stub(node)}```\n")
        if name == "QueueClient":
            parts += [*facets(), earlier_names()]
    parts.append(
        "## Settings\n\nThe keyword arguments behind `Unpack`; each may be left out. "
        "`SessionSettings` are `QueueSettings` and the\nkeyword arguments of the SDK's own Session."
        f"\n\n{settings()}\n"
    )
    parts.append(f"## `slotq.errors`\n\n{errors()}\n")
    parts.append(
        "## Views\n\nWhat the client returns are the models of `slotq_core.wire.views` "
        "(`jobs.JobView`, `jobs.AttemptView`,\n`reasons.ReasonView`, `pools.PoolView`, "
        "`pools.PoolsView`, `about.FindingView`), of "
        "`slotq_core.wire.groups.views` (`GroupView`), of\n`slotq_core.wire.document.views` "
        "(`ConfigurationView`, `AppliedView`, `ProjectView`) and "
        "of `slotq_core.wire.record` (`ChangeView`): pydantic\nmodels, whose fields are those of "
        "the HTTP API ([openapi.json](openapi.json)).\n"
    )
    return "\n".join(parts)


def facets() -> Iterator[str]:
    """A section for each property of QueueClient that holds calls."""
    for name, (kind, file) in FACETS.items():
        node = definition(CLIENT / file, kind)
        yield f"### `queue.{name}`\n\n{prose(node)}\n\n```python\n{stub(node)}```\n"


def earlier_names() -> str:
    """The methods of QueueClient that go with a later version, and what to use instead."""
    node = definition(CLIENT / "earlier_names.py", "EarlierNames")
    assert isinstance(node, ast.ClassDef)
    rows = []
    for method in methods(node):
        for decorator in method.decorator_list:
            if isinstance(decorator, ast.Call):
                new, says = ast.literal_eval(decorator.args[0]).removeprefix("use ").split(": ")
                rows.append(f"| `{method.name}` | `{new}` | {says.rpartition(' ')[2]} |")
    table = "\n".join(["| earlier | now | goes with version |", "|---|---|---|", *rows])
    return f"### Earlier names\n\nWith the same arguments and results.\n\n{table}\n"


def definition(path: Path, name: str) -> ast.ClassDef | ast.FunctionDef:
    """The class or function of that name in a file."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name:
            return node
    raise LookupError(f"{path.name} has no {name}")


def prose(node: ast.ClassDef | ast.FunctionDef) -> str:
    return ast.get_docstring(node) or ""


def stub(node: ast.ClassDef | ast.FunctionDef) -> str:
    """Signatures with the first line of what each says."""
    if isinstance(node, ast.FunctionDef):
        return signature(node) + "\n"
    inner = "\n".join(textwrap.indent(signature(method), "    ") for method in methods(node))
    return f"class {node.name}:\n{inner}\n"


def methods(node: ast.ClassDef) -> Iterator[ast.FunctionDef]:
    if node.name in BASES:
        base, file = BASES[node.name]
        yield from (it for it in _inherited(base, file) if it.name != "__init__")
    for item in node.body:
        if isinstance(item, ast.FunctionDef) and _is_public(item.name, node.name):
            yield item
    if node.name in VERBS:
        yield from _inherited(VERBS[node.name], "jobs/verbs.py")


def _inherited(base: str, file: str) -> Iterator[ast.FunctionDef]:
    node = definition(CLIENT / file, base)
    assert isinstance(node, ast.ClassDef)
    return methods(node)


def _is_public(method: str, owner: str) -> bool:
    if method == INTERNAL:
        return False
    if owner in OVERRIDES:
        return method in OVERRIDES[owner]
    return method in {"__init__", "__call__"} or not method.startswith("_")


def signature(node: ast.FunctionDef) -> str:
    """As the code has it, after the decorators that are part of it."""
    decorators = [ast.unparse(each) for each in node.decorator_list]
    lines = [f"@{each}" for each in decorators if not each.startswith("takes(")]
    says = (ast.get_docstring(node) or "").split("\n\n")[0].replace("\n", " ")
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    if says and node.name not in PUBLIC:
        lines += [f"# {line}" for line in textwrap.wrap(says, 92)]
    return "\n".join([*lines, f"def {node.name}({ast.unparse(node.args)}){returns}: ..."])


def settings() -> str:
    """The keyword arguments behind `Unpack`, with their texts."""
    stubs = []
    for name, file in SETTINGS.items():
        node = definition(CLIENT / file, name)
        assert isinstance(node, ast.ClassDef)
        bases = ", ".join(ast.unparse(base) for base in node.bases)
        stubs.append("\n".join([f"class {name}({bases}):", *map(_keyword, _fields(node))]))
    return "```python\n" + "\n\n".join(stubs) + "\n```"


def _fields(node: ast.ClassDef) -> Iterator[ast.AnnAssign]:
    return (item for item in node.body if isinstance(item, ast.AnnAssign))


def _keyword(field: ast.AnnAssign) -> str:
    """`key: Annotated[type, "text"]`, with the text as a comment."""
    assert isinstance(field.annotation, ast.Subscript)
    assert isinstance(field.annotation.slice, ast.Tuple)
    kind, text = field.annotation.slice.elts
    return f"    # {ast.literal_eval(text)}\n    {ast.unparse(field.target)}: {ast.unparse(kind)}"


def errors() -> str:
    """The tree of errors, from the module's docstring, and the core's under its Refused."""
    ours = ast.get_docstring(ast.parse((CLIENT / "errors.py").read_text())) or ""
    core = ROOT / "layers/core/python/slotq_core/errors.py"
    theirs = ast.get_docstring(ast.parse(core.read_text())) or ""
    refused = theirs[theirs.index("├── Refused") : theirs.index("├── Conflict")]
    first, tree = ours.split("\n\n", 1)
    return f"{first}\n\n```text\n{tree}\n```\n\nThe refusals:\n\n```text\n{refused.rstrip()}\n```"


if __name__ == "__main__":
    print(page(), end="")
