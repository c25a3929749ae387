"""The configuration of a fake queue: it takes documents and projects, and knows no jobs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from slotq_core.admission.user_quotas import user_quotas
from slotq_core.errors import NoSuchProject
from slotq_core.model.sharing import Settings
from slotq_core.wire.document.amending import with_project
from slotq_core.wire.document.contents import read
from slotq_core.wire.document.differences import differences
from slotq_core.wire.document.views import (
    AppliedView,
    QuotasView,
    applied_view,
    configuration_view,
    parse_configuration,
    parse_project,
    projects_view,
    quotas_view,
)

DOCUMENT = {
    "pools": [{"name": "p5", "capacity": 4, "instance_type": "ml.p5.48xlarge"}],
    "projects": [{"name": "nlp", "quota": 2}],
}


class FakeConfiguration:
    def __init__(self) -> None:
        self.settings = read(DOCUMENT)
        self.revision = 1

    def handle(self, method: str, path: str, body: bytes, *, dry_run: bool, user: str = "") -> Any:
        name = path.removeprefix("/projects").removeprefix("/")
        match method, path:
            case "GET", "/configuration":
                return configuration_view(self.settings, self.revision)
            case "GET", "/quota":
                return self._quotas(user)
            case "GET", _:
                return projects_view(self.settings, {}, (), revision=self.revision)
            case "PUT", _:
                return self._change(parse_configuration(body)[0], dry_run=dry_run)
            case "PATCH", _:
                return self._change(with_project(self.settings, name, parse_project(body)[0]))
        return self._change(self._without(name))

    def _quotas(self, user: str) -> QuotasView:
        sharing, pools = self.settings.sharing, self.settings.pools
        users = None if user == "everyone" else [user]
        return quotas_view(user_quotas(sharing, pools, (), users), sharing.contact)

    def _without(self, name: str) -> Settings:
        sharing = self.settings.sharing
        if sharing.project(name) is None:
            raise NoSuchProject(f"there is no project '{name}'", field="name")
        rest = tuple(each for each in sharing.projects if each.name != name)
        return replace(self.settings, sharing=replace(sharing, projects=rest))

    def _change(self, after: Settings, *, dry_run: bool = False) -> AppliedView:
        found = [*differences(self.settings, after)]
        if not dry_run and found:
            self.settings, self.revision = after, self.revision + 1
        return applied_view(found, revision=self.revision, dry_run=dry_run)
