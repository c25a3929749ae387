"""What follows from the tables of verbs and of routes as text: `python -m tests.table_pages`
(`make tables`).

client_sdk/ui/src/verbs.ts   the verbs for which the page has buttons
docs/cli.md                  the table of the commands
docs/cli-tools.md            the commands that select jobs by options
docs/permissions.md          the table of the routes
slotq/cli/summaries.json     the first sentence of each command's help
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path

import click

from slotq.cli.main import SUMMARIES, cli
from slotq_core.api.openapi import NUMBERS
from slotq_core.api.routes import ROUTES
from slotq_core.model.callers import NEEDED, Needed, Role
from slotq_core.model.jobs import JobState
from slotq_core.wire.verbs import VERBS, Verb

ROOT = Path(__file__).parents[1]
BUTTONS = ROOT / "client_sdk" / "ui" / "src" / "verbs.ts"
COMMANDS = ROOT / "docs" / "cli.md"
PERMISSIONS = ROOT / "docs" / "permissions.md"
SELECTING = ROOT / "docs" / "cli-tools.md"
BEGIN, END = "<!-- by `make tables` -->", "<!-- end -->"

_HEAD = """\
// Written by `make tables` from slotq_core/wire/verbs.py: what can be done with jobs, and in which
// words. What ends a job comes last.

export interface Verb {
  name: string;
  /** The key of the change, and its value if it is always the same. */
  key: string;
  value?: boolean;
  /** With the key `tags`: the tag that has the value. */
  tag?: string;
  /** The value is the number of the job's attempt. */
  ofAttempt?: boolean;
  /** What else it takes, and the words for it. */
  takes?: string;
  label?: string;
  /** For jobs in which states it has a button, and what that says will happen. */
  offers: { states: string[]; says: string }[];
  /** The same for the jobs of a group; absent: it has none there. */
  ofAGroup?: string;
  /** The key of the change in a what-if; absent: none shows it. */
  simulated?: string;
}

"""


def buttons() -> str:
    """The page's module."""
    verbs = sorted((verb for verb in VERBS if verb.offers), key=lambda verb: verb.key == "cancel")
    rows = "".join(f"  {json.dumps(_button(verb), ensure_ascii=False)},\n" for verb in verbs)
    return f"{_HEAD}export const VERBS: Verb[] = [\n{rows}];\n"


def _button(verb: Verb) -> Mapping[str, object]:
    told = {
        "tag": verb.tag,
        "ofAttempt": verb.of_attempt,
        "takes": verb.takes,
        "label": verb.label,
        "ofAGroup": verb.of_a_group,
        "simulated": verb.simulated,
    }
    return {
        "name": verb.name,
        "key": verb.key,
        **({} if verb.value is None else {"value": verb.value}),
        **{key: it for key, it in told.items() if it},
        "offers": [
            {"states": [it for it in JobState if it in offer.states], "says": offer.says}
            for offer in verb.offers
        ],
    }


def commands() -> str:
    """The table of docs/cli.md."""
    rows = "".join(f"| `{verb.name}` | {verb.means} |\n" for verb in VERBS)
    return f"| command | effect |\n|---|---|\n{rows}"


def selecting() -> str:
    """The sentence of docs/cli-tools.md."""
    names = ", ".join(f"`{verb.name}`" for verb in VERBS)
    return f"{names} and `retry` take names, options that select, or both.\n"


def routes() -> str:
    """The table of docs/permissions.md."""
    rows = "".join(
        f"| `{route.method}{re.sub('<[a-z]+>', '*', route.path)}` "
        f"| {route.summary.format(**NUMBERS)} | {_needed(NEEDED[route.action])} |\n"
        for route in ROUTES
    )
    return f"| right | what for | role in a shared queue |\n|---|---|---|\n{rows}"


def _needed(needed: Needed) -> str:
    own, others = (
        "" if role is Role.NOBODY else role.name.lower() for role in (needed.own, needed.others)
    )
    if own == others:
        return own
    return f"of one's own jobs {own}, of others {others}" if own else f"of others' jobs {others}"


def summaries() -> str:
    """The commands, and what each does: `slotq --help` and completion without their modules."""
    context = click.Context(cli)
    commands = {name: cli.get_command(context, name) for name in cli.list_commands(context)}
    texts = {name: it.get_short_help_str(sys.maxsize) for name, it in commands.items() if it}
    return json.dumps(texts, indent=2, ensure_ascii=False) + "\n"


def placed(page: Path, text: str) -> str:
    """The page with this text between its marks."""
    before, _, rest = page.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{text}\n{END}{after}"


def files() -> Mapping[Path, str]:
    """What `make tables` writes."""
    return {
        BUTTONS: buttons(),
        COMMANDS: placed(COMMANDS, commands()),
        SELECTING: placed(SELECTING, selecting()),
        PERMISSIONS: placed(PERMISSIONS, routes()),
        SUMMARIES: summaries(),
    }


if __name__ == "__main__":
    for path, text in files().items():
        path.write_text(text)
