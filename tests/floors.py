"""The types of import-linter's contracts in `pyproject.toml` that give unnamed modules a place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from importlinter.contracts.forbidden import ForbiddenContract
from importlinter.contracts.layers import Layer, LayersContract, ModuleTail
from importlinter.domain.fields import ListField, ModuleExpressionField
from importlinter.domain.helpers import module_expressions_to_modules
from importlinter.domain.imports import ModuleExpression

if TYPE_CHECKING:
    from grimp import ImportGraph
    from importlinter.domain.contract import ContractCheck


class Floors(LayersContract):
    """`layers` of one container, in which `*` stands for every module that no layer names."""

    containers: Any = LayersContract.containers
    layers: Any = LayersContract.layers

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        (container,) = self.containers
        children = {child.rpartition(".")[2] for child in graph.find_children(str(container))}
        unnamed = children - {tail.name for layer in self.layers for tail in layer.module_tails}
        rest = Layer({ModuleTail(name) for name in unnamed}, is_independent=False)
        self.layers = [
            rest if ModuleTail("*") in layer.module_tails else layer for layer in self.layers
        ]
        return super().check(graph, verbose)


class ForbiddenToOthers(ForbiddenContract):
    """`forbidden` for all of the source modules but those that `allowed_modules` names."""

    source_modules: Any = ForbiddenContract.source_modules
    allowed_modules: Any = ListField(subfield=ModuleExpressionField())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        sources, allowed = (
            module_expressions_to_modules(graph, expressions, raise_if_unmatched=True)
            for expressions in (self.source_modules, self.allowed_modules)
        )
        self.source_modules = {ModuleExpression(module.name) for module in sources - allowed}
        return super().check(graph, verbose)
