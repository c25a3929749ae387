"""The Terraform module of a release: its variables and outputs are those of the template."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

MAIN = Path(__file__).with_name("terraform") / "main.tf"
_BOOLEANS = ["true", "false"]
_TYPES = {"Number": "number", "CommaDelimitedList": "list(string)"}

Parameters = Mapping[str, Mapping[str, Any]]


def write(folder: Path, parameters: Parameters, outputs: Mapping[str, Mapping[str, Any]]) -> None:
    """Write the module. `parameters`: those that a user may set."""
    folder.mkdir()
    (folder / "main.tf").write_text(MAIN.read_text())
    (folder / "variables.tf").write_text("\n".join(_variables(parameters)))
    (folder / "outputs.tf").write_text("\n".join(_outputs(outputs)))


def variable_name(parameter: str) -> str:
    """`VpcEndpointIds` as vpc_endpoint_ids."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", parameter).lower()


def _variables(parameters: Parameters) -> Iterator[str]:
    widest = max(map(len, parameters))
    given = (f"    {name:{widest}} = {_value(name, each)}" for name, each in parameters.items())
    yield "\n".join(("locals {", "  parameters = {", *given, "  }", "}", ""))
    for name, each in parameters.items():
        yield "\n".join((*_variable(variable_name(name), each), ""))


def _variable(name: str, parameter: Mapping[str, Any]) -> Iterator[str]:
    """One without a default in the template has none here; null is the template's default."""
    yield f'variable "{name}" {{'
    yield f"  type        = {_type(parameter)}"
    if "Default" in parameter:
        yield "  default     = null"
    yield f"  description = {_text(_description(parameter))}"
    allowed = parameter.get("AllowedValues", _BOOLEANS)
    if allowed != _BOOLEANS:
        given, one_of = f"var.{name}", ", ".join(map(str, allowed))
        yield ""
        yield "  validation {"
        yield f"    condition     = {given} == null ? true : contains({_listed(allowed)}, {given})"
        yield f"    error_message = {_text(f'It must be one of {one_of}.')}"
        yield "  }"
    yield "}"


def _value(parameter: str, each: Mapping[str, Any]) -> str:
    """The parameter's text, or null."""
    name = f"var.{variable_name(parameter)}"
    if _type(each) == "list(string)":
        return f'{name} == null ? null : join(",", {name})'
    return f"{name} == null ? null : tostring({name})"


def _type(parameter: Mapping[str, Any]) -> str:
    if parameter.get("AllowedValues") == _BOOLEANS:
        return "bool"
    return _TYPES.get(parameter["Type"], "string")


def _description(parameter: Mapping[str, Any]) -> str:
    default = parameter.get("Default", "")
    told = " ".join(parameter["Description"].split())
    return f"{told} Default: {default}." if default != "" else told


def _outputs(outputs: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    for name, each in outputs.items():
        yield f'output "{variable_name(name)}" {{'
        yield f"  value       = try(aws_cloudformation_stack.queue.outputs[{_text(name)}], null)"
        yield f"  description = {_text(' '.join(each.get('Description', name).split()))}"
        yield "}\n"


def _listed(values: list[Any]) -> str:
    return f"[{', '.join(map(_text, values))}]"


def _text(value: Any) -> str:
    """A value as HCL writes it: like JSON, where nothing in a text is filled in."""
    return json.dumps(value, ensure_ascii=False).replace("${", "$${").replace("%{", "%%{")
