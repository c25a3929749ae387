"""Every condition, update and query that the store sends to DynamoDB, named and explained. Only
those of the pools' ledgers are elsewhere, in `layout.ledger_expressions`.

The promise "nothing lost" rests on these lines alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from slotq_core.model.callers import opener_mark

Expression = dict[str, Any]
"""The expression arguments of one call, or of one action of a transaction."""


def is_new() -> Expression:
    """Require that no item has this key. On JOB: a stored job is never overwritten by a new one."""
    return {"ConditionExpression": "attribute_not_exists(pk)"}


def is_there() -> Expression:
    """Require that an item has this key. On a message in PENDING: no other handler has taken it."""
    return {"ConditionExpression": "attribute_exists(pk)"}


def has_token(token_id: str) -> Expression:
    """Require that a job's callback is of this token. On CALLBACKS: a newer token is neither
    forgotten nor overwritten for an older one."""
    return {
        "ConditionExpression": "tokenId = :token",
        "ExpressionAttributeValues": {":token": _text(token_id)},
    }


def put_off(*, due: int, tries: int, trouble: str) -> Expression:
    """Note that a callback was not accepted, and when it is sent again. Nothing else of it changes:
    it may have been read long ago."""
    return {
        "UpdateExpression": "SET due = :due, tries = :tries, trouble = :trouble",
        "ExpressionAttributeValues": {
            ":due": _number(due),
            ":tries": _number(tries),
            ":trouble": _text(trouble),
        },
    }


def count_event(event: str) -> Expression:
    """Count an event for a digest. The count is part of the transaction that makes the message's
    TOLD item, so each event counts once."""
    return {
        "UpdateExpression": "ADD #event :one",
        "ExpressionAttributeNames": {"#event": event},
        "ExpressionAttributeValues": {":one": _number(1)},
    }


def is_new_job() -> Expression:
    """Require that no job of this name is stored; a refusal brings the stored one.

    So a submission need not read first, and a repeated one is recognised by the job it collides
    with. The loser of such a race sees the winner's job.
    """
    return {**is_new(), "ReturnValuesOnConditionCheckFailure": "ALL_OLD"}


def is_awaited(ended: Sequence[str]) -> Expression:
    """Require that a job lives, and that its end will notify its dependents. `ended`: the states of
    ended jobs. For the submission of a dependent."""
    states = {f":s{number}": _text(state) for number, state in enumerate(ended)}
    lives = " AND ".join(f"jobState <> {state}" for state in states)
    return {
        "ConditionExpression": f"followed = :true AND {lives}",
        "ExpressionAttributeValues": {":true": {"BOOL": True}, **states},
    }


def job_unchanged(version: int) -> Expression:
    """Require that the job has not changed since it was read. All of a job's copies depend on this
    condition.

    The condition also makes a repeated commit harmless. If the first try took effect but its answer
    was lost, the version has changed, and the whole second try is refused.
    """
    return {
        "ConditionExpression": "version = :before",
        "ExpressionAttributeValues": {":before": _number(version)},
    }


def touch_line(at: int, *, known: bool, arriving: int, opener: str = "") -> Expression:
    """Touch a line before a new job enters it, outside the transaction. `at`: ms. `known`: for a
    job that may open no line. `arriving`: how many jobs to count in (`waiting`). `opener`: the name
    that the caller is counted under who opens the line.

    The touch keeps the line from being removed. The bound may stay: it is never above the order key
    of a job that is being submitted (`line_bounds`). Condition, with `known`: the line exists.
    """
    values = {":at": _number(at)}
    if arriving:
        values[":arriving"] = _number(arriving)
    added = " ADD waiting :arriving" if arriving else ""
    return _line_update("SET touched = :at", added, values, known=known, opener=opener)


def _line_update(
    update: str, more: str, values: dict[str, Mapping[str, str]], *, known: bool, opener: str
) -> Expression:
    """The update of a line that exists (`known`), or that this caller may open."""
    if known:
        return {
            "UpdateExpression": update + more,
            "ConditionExpression": "attribute_exists(pk)",
            "ExpressionAttributeValues": values,
        }
    if opener:
        update += ", opener = if_not_exists(opener, :opener)"
        values = {**values, ":opener": _text(opener_mark(opener))}
    return {"UpdateExpression": update + more, "ExpressionAttributeValues": values}


def count_waiting(change: int) -> Expression:
    """Count jobs in or out of a line, after they have entered or left it. Condition: the line
    exists, so that no count makes a line."""
    return {
        "UpdateExpression": "ADD waiting :change",
        "ConditionExpression": "attribute_exists(touched)",
        "ExpressionAttributeValues": {":change": _number(change)},
    }


def correct_waiting(item: Mapping[str, Any], waiting: int) -> Expression:
    """Set a line's count after its jobs were counted one by one. Condition: the line exists, and
    the count is the one read before (`item`)."""
    unchanged = as_read(item, "waiting")
    corrected = on_condition(set_numbers({"waiting": waiting}), unchanged)
    exists = f"attribute_exists(touched) AND {unchanged['ConditionExpression']}"
    return {**corrected, "ConditionExpression": exists}


def return_to_line(at: int) -> Expression:
    """Create or touch a line before a stored job enters it, outside the transaction. `at`: ms.

    The job may be the oldest of all. So this removes the bound, and until `line_bounds.GRACE` after
    `returned` no pass sets another (`raise_bound`). No condition: a change that adds a job to a
    line, or repairs the line, may do this at any time.
    """
    return {
        "UpdateExpression": "SET touched = :at, returned = :at REMOVE bound",
        "ExpressionAttributeValues": {":at": _number(at)},
    }


def return_by_user(at: int, *, opener: str) -> Expression:
    """Do the same before a user's change puts a job into a line. `opener`: as for `touch_line`;
    empty: the change may open no line. Condition then: the line exists."""
    touched, values = "SET touched = :at, returned = :at", {":at": _number(at)}
    return _line_update(touched, " REMOVE bound", values, known=not opener, opener=opener)


def raise_bound(bound: str, *, returned: int | None) -> Expression:
    """Raise a line's bound to the order key `bound`. `returned`: as read before the line's first
    job was read; None: no return yet.

    Condition: the line exists; no return came since `returned` was read, because a returning job
    may be below this bound; the bound is missing, unreadable or lower.
    """
    values: dict[str, Mapping[str, str]] = {":bound": _text(bound), ":text": _text("S")}
    unreturned = "attribute_not_exists(returned)"
    if returned is not None:
        unreturned, values[":returned"] = "returned = :returned", _number(returned)
    lower = "(NOT attribute_type(bound, :text) OR bound < :bound)"
    return {
        "UpdateExpression": "SET bound = :bound",
        "ConditionExpression": f"attribute_exists(touched) AND {unreturned} AND {lower}",
        "ExpressionAttributeValues": values,
    }


def remove_bound(bound: str) -> Expression:
    """Remove a line's wrong bound. Condition: the bound is as it was read."""
    return {
        "UpdateExpression": "REMOVE bound",
        "ConditionExpression": "bound = :bound",
        "ExpressionAttributeValues": {":bound": _text(bound)},
    }


def count_submissions(
    minute: str, number: int = 1, *, waiting: int, submissions: int, opened: int = 0
) -> Expression:
    """Count so many more waiting jobs of a caller, and as many submissions in this minute.
    `opened`: lines that earlier submissions have opened and that are not counted yet.

    Condition: neither count passes the caller's limit (0: no limit), if it is a number. The update
    itself fails on anything else.
    """
    counted = count_waiting_jobs(number, waiting=waiting)
    conditions = [counted["ConditionExpression"]] if waiting else []
    values = dict(counted["ExpressionAttributeValues"])
    if submissions:
        conditions.append("(NOT attribute_type(#minute, :number) OR #minute <= :submissions)")
        values |= {":submissions": _number(submissions - number), ":number": _text("N")}
    update, names = "ADD waiting :more, #minute :more", {"#minute": minute}
    if opened:
        update, names["#lines"] = f"{update}, #lines :opened", "lines"
        values[":opened"] = _number(opened)
    built: Expression = {
        "UpdateExpression": update,
        "ExpressionAttributeNames": names,
        "ExpressionAttributeValues": values,
    }
    return {**built, "ConditionExpression": " AND ".join(conditions)} if conditions else built


def count_waiting_jobs(number: int = 1, *, waiting: int) -> Expression:
    """Count so many more waiting jobs that no submission has brought. Condition and failures are
    those of `count_submissions`. More than the whole limit never pass."""
    built: Expression = {
        "UpdateExpression": "ADD waiting :more",
        "ExpressionAttributeValues": {":more": _number(number)},
    }
    if not waiting:
        return built
    limit = {":waiting": _number(waiting - number), ":number": _text("N")}
    return {
        **built,
        "ConditionExpression": "(NOT attribute_type(waiting, :number) OR waiting <= :waiting)",
        "ExpressionAttributeValues": {**built["ExpressionAttributeValues"], **limit},
    }


def count_line(minute: str | None, *, lines: int, submissions: int, opened: int = 0) -> Expression:
    """Count one more line that a caller opens. With a minute, a change opens it, which counts as a
    submission in this minute. `opened`: as in `count_submissions`.

    Condition: the caller has opened fewer than `lines`, and, with a minute, the count of that
    minute is below `submissions` (0: no limit), if these are numbers.
    """
    update, names, conditions = "ADD #lines :opened", {"#lines": "lines"}, []
    values = {":opened": _number(opened + 1)}
    if lines:
        conditions.append("(NOT attribute_type(#lines, :number) OR #lines < :lines)")
        values[":lines"] = _number(lines - opened)
    if minute is not None:
        update, names["#minute"] = f"{update}, #minute :one", minute
        values[":one"] = _number(1)
    if minute is not None and submissions:
        conditions.append("(NOT attribute_type(#minute, :number) OR #minute < :submissions)")
        values[":submissions"] = _number(submissions)
    built: Expression = {"UpdateExpression": update, "ExpressionAttributeNames": names}
    if conditions:
        values[":number"] = _text("N")
        built["ConditionExpression"] = " AND ".join(conditions)
    return {**built, "ExpressionAttributeValues": values}


def uncount_submissions(minute: str, number: int = 1) -> Expression:
    """Take back the count of submissions that were not stored. Condition: so many are counted, so
    an audit has apparently not subtracted them already."""
    return {
        "UpdateExpression": "ADD waiting :less, #minute :less",
        "ConditionExpression": (
            "attribute_type(waiting, :number) AND waiting >= :these"
            " AND attribute_type(#minute, :number) AND #minute >= :these"
        ),
        "ExpressionAttributeNames": {"#minute": minute},
        "ExpressionAttributeValues": {
            ":less": _number(-number),
            ":these": _number(number),
            ":number": _text("N"),
        },
    }


def uncount_waiting(number: int = 1) -> Expression:
    """Take back the count of waiting jobs that were not stored; their submissions stay counted in
    their minute. Condition: so many are counted."""
    return {
        "UpdateExpression": "ADD waiting :less",
        "ConditionExpression": "attribute_type(waiting, :number) AND waiting >= :these",
        "ExpressionAttributeValues": {
            ":less": _number(-number),
            ":these": _number(number),
            ":number": _text("N"),
        },
    }


def correct_count(change: int, audits: int, *, forget: Sequence[str], lines: int = 0) -> Expression:
    """Correct a counter by an audit's difference, of waiting jobs and of opened `lines`; later
    submissions stay counted. Condition: no other audit has corrected the counter since it was
    read."""
    old = {f"#m{n}": attribute for n, attribute in enumerate(forget)}
    removed = f" REMOVE {', '.join(old)}" if old else ""
    built: Expression = {
        "UpdateExpression": f"ADD waiting :change, audits :one{removed}",
        "ConditionExpression": "attribute_not_exists(audits) OR audits = :seen",
        "ExpressionAttributeValues": {
            ":change": _number(change),
            ":one": _number(1),
            ":seen": _number(audits),
        },
    }
    names = old
    if lines:
        built["UpdateExpression"] = f"ADD waiting :change, audits :one, #lines :lines{removed}"
        built["ExpressionAttributeValues"][":lines"] = _number(lines)
        names = {**old, "#lines": "lines"}
    return {**built, "ExpressionAttributeNames": names} if names else built


def set_numbers(numbers: Mapping[str, int]) -> Expression:
    """Set these attributes, to mend them."""
    names = {f"#n{n}": attribute for n, attribute in enumerate(numbers)}
    values = {f":n{n}": _number(number) for n, number in enumerate(numbers.values())}
    pairs = ", ".join(f"{name} = :{name[1:]}" for name in names)
    return {
        "UpdateExpression": f"SET {pairs}",
        "ExpressionAttributeNames": names,
        "ExpressionAttributeValues": values,
    }


def line_untouched(touched: int) -> Expression:
    """Require that the line was not touched since it was seen empty, so that no submission relies
    on the line."""
    return {
        "ConditionExpression": "touched = :seen",
        "ExpressionAttributeValues": {":seen": _number(touched)},
    }


def as_read(item: Mapping[str, Any], *attributes: str) -> Expression:
    """Require that these attributes, of any value, are as they were when the item was read. Used to
    repair unreadable items."""
    names = {f"#a{n}": attribute for n, attribute in enumerate(attributes)}
    values = {
        f":a{n}": item[attribute] for n, attribute in enumerate(attributes) if attribute in item
    }
    conditions = [
        f"{name} = :{name[1:]}" if f":{name[1:]}" in values else f"attribute_not_exists({name})"
        for name in names
    ]
    built: Expression = {
        "ConditionExpression": " AND ".join(conditions),
        "ExpressionAttributeNames": names,
    }
    return {**built, "ExpressionAttributeValues": values} if values else built


def on_condition(update: Expression, condition: Expression) -> Expression:
    """Make an update depend on a condition whose placeholders differ."""
    merged = {**update, **condition}
    for part in ("ExpressionAttributeNames", "ExpressionAttributeValues"):
        if both := {**update.get(part, {}), **condition.get(part, {})}:
            merged[part] = both
    return merged


def unchanged(item: Mapping[str, Any]) -> Expression:
    """Require that the item exists and that every attribute read is unchanged."""
    contents = [attribute for attribute in item if attribute not in {"pk", "sk"}]
    return as_read(item, "pk", *contents)


def unmark(entry_time: Mapping[str, Any]) -> Expression:
    """Remove a record's expiry mark. Condition: the record belongs to the given job, which
    lives."""
    return {
        "UpdateExpression": "REMOVE expiresAt",
        "ConditionExpression": "entryTime = :entry",
        "ExpressionAttributeValues": {":entry": entry_time},
    }


def expire(*, entry_time: Mapping[str, Any], at: Mapping[str, Any]) -> Expression:
    """Mark a record to expire at `at` (seconds since the epoch), if it belongs to the job that
    entered the queue at `entry_time`.

    The name may be in use again, and records of a living job never expire. A record without an
    entry time (`layout.items.entry_time_of`) belongs to that job too.
    """
    of_old = "(attribute_exists(pk) AND attribute_not_exists(entryTime))"
    return {
        "UpdateExpression": "SET expiresAt = :at",
        "ConditionExpression": f"entryTime = :entry OR {of_old}",
        "ExpressionAttributeValues": {":at": at, ":entry": entry_time},
    }


def raise_generation() -> Expression:
    """Raise the generation: one more reason for a pass. ADD loses none, however many come at
    once."""
    return {
        "UpdateExpression": "ADD generation :one",
        "ExpressionAttributeValues": {":one": _number(1)},
    }


def new_generation() -> Expression:
    """Replace a generation that is no number by one that no handler has seen."""
    return {
        "UpdateExpression": "SET generation = :new",
        "ExpressionAttributeValues": {":new": _number(1 << 40)},
    }


def take_lease(holder: str, *, now: int, until: int, never: int, only_news: bool) -> Expression:
    """Take the lease.

    Condition: the lease is free, this holder has it, or it has run out. A lease whose end is no
    number or is after `never` comes from a wrong clock and counts as run out. With `only_news`, the
    generation must also differ from the generation last seen. Times are ms.
    """
    free = (
        "attribute_not_exists(#holder) OR #holder = :holder"
        " OR NOT attribute_type(#until, :number) OR #until <= :now OR #until > :never"
    )
    news = "(attribute_not_exists(seen) OR seen <> generation)"
    return {
        "UpdateExpression": "SET #holder = :holder, #until = :until",
        "ConditionExpression": f"{news} AND ({free})" if only_news else free,
        "ExpressionAttributeNames": {"#holder": "holder", "#until": "until"},
        "ExpressionAttributeValues": {
            ":holder": _text(holder),
            ":now": _number(now),
            ":until": _number(until),
            ":never": _number(never),
            ":number": _text("N"),
        },
    }


def bump_and_take_lease(holder: str, until: int) -> Expression:
    """Raise the generation, and take the lease if it is free. `until`: ms.

    There is no condition, because the generation must rise in any case. `if_not_exists` does not
    change a held lease; the new item shows the caller who holds it.
    """
    return {
        "UpdateExpression": (
            "SET #holder = if_not_exists(#holder, :holder), #until = if_not_exists(#until, :until)"
            " ADD generation :one"
        ),
        "ExpressionAttributeNames": {"#holder": "holder", "#until": "until"},
        "ExpressionAttributeValues": {
            ":holder": _text(holder),
            ":until": _number(until),
            ":one": _number(1),
        },
    }


def end_lease(holder: str, generation: int | None) -> Expression:
    """End the lease and record the generation as seen.

    Condition: this holder still has the lease, and the generation has not risen since. With None,
    bumps do not matter, and no generation counts as seen.
    """
    condition, values = "#holder = :holder", {":holder": _text(holder)}
    change = "SET seen = :seen REMOVE #holder, #until"
    if generation is not None:
        values[":seen"] = _number(generation)
        condition += " AND generation = :seen"
        if not generation:
            condition = "#holder = :holder AND attribute_not_exists(generation)"
            del values[":seen"]
    if ":seen" not in values:
        change = "REMOVE #holder, #until, seen"
    return {
        "UpdateExpression": change,
        "ConditionExpression": condition,
        "ExpressionAttributeNames": {"#holder": "holder", "#until": "until"},
        "ExpressionAttributeValues": values,
    }


def move() -> Expression:
    """Move the queue's version without a reason for a pass."""
    return {
        "UpdateExpression": "ADD moves :moved",
        "ExpressionAttributeValues": {":moved": _number(1)},
    }


def also_moves(expression: Expression) -> Expression:
    """The update of WAKE, which also moves the queue's version. It adds to nothing else."""
    moved = move()
    return {
        **expression,
        "UpdateExpression": f"{expression['UpdateExpression']} {moved['UpdateExpression']}",
        "ExpressionAttributeValues": {
            **expression["ExpressionAttributeValues"],
            **moved["ExpressionAttributeValues"],
        },
    }


def new_moves() -> Expression:
    """Replace a number of moves that is no number."""
    return {
        "UpdateExpression": "SET moves = :new",
        "ExpressionAttributeValues": {":new": _number(1 << 40)},
    }


def take_turn(*, now: int, next_at: int, never: int) -> Expression:
    """Take a task's turn. Condition: the task is due and no other handler has taken this turn. A
    task is due at once if its due time is missing, is no number, or is after `never` (from a wrong
    clock). Times are ms."""
    return {
        "UpdateExpression": "SET nextAt = :next",
        "ConditionExpression": (
            "NOT attribute_type(nextAt, :number) OR nextAt <= :now OR nextAt > :never"
        ),
        "ExpressionAttributeValues": {
            ":number": _text("N"),
            ":next": _number(next_at),
            ":now": _number(now),
            ":never": _number(never),
        },
    }


def set_turn(next_at: int) -> Expression:
    """Set the next turn (ms) unconditionally."""
    return {
        "UpdateExpression": "SET nextAt = :next",
        "ExpressionAttributeValues": {":next": _number(next_at)},
    }


def next_revision(seen: int, digest: str, document: str, mark: str = "") -> Expression:
    """Raise the configuration's revision, and record the digest of the new configuration and its
    document. Conditions: the configuration has not changed since it was read, and is not being
    changed in parts; with `mark`, by nobody else than who has set this mark, which goes.
    `seen` 0: the revision is missing or unreadable."""
    build = "SET revision = :next, digest = :digest, sharing = :sharing"
    condition, values = _revision_is(seen)
    own = {":mark": _text(mark)} if mark else {}
    free = "changing = :mark" if mark else "attribute_not_exists(changing)"
    return {
        "UpdateExpression": f"{build} REMOVE changing" if mark else build,
        "ConditionExpression": f"{condition} AND {free}",
        "ExpressionAttributeValues": {
            **values,
            **own,
            ":next": _number(seen + 1),
            ":digest": _text(digest),
            ":sharing": _text(document),
        },
    }


def _revision_is(seen: int) -> tuple[str, dict[str, Any]]:
    if seen:
        return "revision = :seen", {":seen": _number(seen)}
    return "NOT attribute_type(revision, :number)", {":number": _text("N")}


def begin_change(seen: int, mark: str) -> Expression:
    """Mark that the configuration is being changed in parts. Conditions: it has not changed since
    it was read, and nobody else is changing it."""
    condition, values = _revision_is(seen)
    return {
        "UpdateExpression": "SET changing = :mark",
        "ConditionExpression": f"{condition} AND attribute_not_exists(changing)",
        "ExpressionAttributeValues": {**values, ":mark": _text(mark)},
    }


def take_over_change(before: str, mark: str) -> Expression:
    """Replace the mark of a handler that has died by one's own, before taking its parts back: that
    handler can do nothing any more. Condition: nobody else was faster."""
    return {
        "UpdateExpression": "SET changing = :mark",
        "ConditionExpression": "changing = :before",
        "ExpressionAttributeValues": {":before": _text(before), ":mark": _text(mark)},
    }


def change_goes_on(mark: str) -> Expression:
    """Require that the change with this mark has neither ended nor been taken over."""
    return {
        "ConditionExpression": "changing = :mark",
        "ExpressionAttributeValues": {":mark": _text(mark)},
    }


def end_change(mark: str) -> Expression:
    """Remove the mark of a change whose parts are taken back. Condition: it is still there."""
    return {"UpdateExpression": "REMOVE changing", **change_goes_on(mark)}


def outdate_configuration() -> Expression:
    """Make every handler read the configuration again, after a repair that does not change the
    revision."""
    return {
        "UpdateExpression": "ADD repairs :one",
        "ExpressionAttributeValues": {":one": _number(1)},
    }


def record_use(*, waiting: int, lines: int) -> Expression:
    """Record all callers' use at an audit, beside the revision: one read gives both."""
    return {
        "UpdateExpression": "SET waiting = :waiting, #lines = :lines",
        "ExpressionAttributeNames": {"#lines": "lines"},
        "ExpressionAttributeValues": {":waiting": _number(waiting), ":lines": _number(lines)},
    }


def keep_sum(name: str, packed: bytes, *, seen: int) -> Expression:
    """Store a sum of use (`spent` or `pastUse`), beside the revision: one read gives both.
    Condition: not stored again since; `seen` 0: never stored, or the version is unreadable."""
    version = f"{name}Version"
    condition = f"{version} = :seen" if seen else f"NOT attribute_type({version}, :number)"
    return {
        "UpdateExpression": f"SET {name} = :sum, {version} = :next",
        "ConditionExpression": condition,
        "ExpressionAttributeValues": {
            ":sum": {"B": packed},
            ":next": _number(seen + 1),
            **({":seen": _number(seen)} if seen else {":number": _text("N")}),
        },
    }


def yielded_at(at: int) -> Expression:
    """Require that the user has not yielded again since this yield (ms), which is about to be
    deleted."""
    return {
        "ConditionExpression": "#at = :at",
        "ExpressionAttributeNames": {"#at": "at"},
        "ExpressionAttributeValues": {":at": _number(at)},
    }


def note_once(attribute: str) -> Expression:
    """Set an attribute that records a fact. Condition: the attribute is not set yet."""
    return {
        "UpdateExpression": "SET #fact = :one",
        "ConditionExpression": "attribute_not_exists(#fact)",
        "ExpressionAttributeNames": {"#fact": attribute},
        "ExpressionAttributeValues": {":one": _number(1)},
    }


def forget_facts(attributes: Sequence[str]) -> Expression:
    """Remove what `note_once` has set."""
    names = {f"#f{n}": attribute for n, attribute in enumerate(attributes)}
    return {
        "UpdateExpression": f"REMOVE {', '.join(names)}",
        "ExpressionAttributeNames": names,
    }


def open_group(name: str, digest: str, now: int, members: Sequence[str]) -> Expression:
    """Begin a group's submission. Condition: no other one of that name is open, and this one is not
    being withdrawn. Each beginning sets a new time (ms)."""
    return {
        "UpdateExpression": "SET #name = :name, digest = :digest, #at = :at, members = :members",
        "ConditionExpression": (
            "attribute_not_exists(withdrawn) AND (attribute_not_exists(digest) OR digest = :digest)"
        ),
        "ExpressionAttributeNames": {"#name": "name", "#at": "at"},
        "ExpressionAttributeValues": {
            ":name": _text(name),
            ":digest": _text(digest),
            ":at": _number(now),
            ":members": {"L": [_text(member) for member in members]},
        },
    }


def is_open(digest: str) -> Expression:
    """Require that this submission of a group is open, and is not being withdrawn."""
    return {
        "ConditionExpression": "digest = :digest AND attribute_not_exists(withdrawn)",
        "ExpressionAttributeValues": {":digest": _text(digest)},
    }


def withdraw_group(at: int) -> Expression:
    """Withdraw a group's submission. Condition: it was not begun again since `at` (ms)."""
    return {
        "UpdateExpression": "SET withdrawn = :true",
        "ConditionExpression": "#at = :at",
        "ExpressionAttributeNames": {"#at": "at"},
        "ExpressionAttributeValues": {":at": _number(at), ":true": {"BOOL": True}},
    }


def decide_about_groups(seen: int | None, *, opens: bool, closes: bool) -> Expression:
    """Count one more decision about a group, beside the configuration's revision: every load reads
    that item before anything else. `opens`, `closes`: whether a decision in parts begins or ends.

    Condition: no decision about a group was committed since the decision's load (`seen`), so the
    members that hold slots are the same in every pool. `seen` None: no condition, for a last part.
    """
    clauses = ["ADD groupDecisions :one"]
    values: dict[str, Mapping[str, Any]] = {":one": _number(1)}
    if opens:
        clauses.append("SET inParts = :true")
        values[":true"] = {"BOOL": True}
    if closes:
        clauses.append("REMOVE inParts")
    built: Expression = {
        "UpdateExpression": " ".join(clauses),
        "ExpressionAttributeValues": values,
    }
    if seen is None:
        return built
    if not seen:
        return {**built, "ConditionExpression": "attribute_not_exists(groupDecisions)"}
    values[":seen"] = _number(seen)
    return {**built, "ConditionExpression": "groupDecisions = :seen"}


def mark_in_parts() -> Expression:
    """Make every load look for a decision in parts. A mark without a decision does no harm."""
    return {
        "UpdateExpression": "SET inParts = :true",
        "ExpressionAttributeValues": {":true": {"BOOL": True}},
    }


def is_in_parts(number: int, kind: str) -> Expression:
    """Require that this decision is still to be finished, in this way."""
    return {
        "ConditionExpression": "#number = :number AND kind = :kind",
        "ExpressionAttributeNames": {"#number": "number"},
        "ExpressionAttributeValues": {":number": _number(number), ":kind": _text(kind)},
    }


def turn_back(number: int, kind: str, undo: str) -> Expression:
    """Turn a decision in parts into its undoing. Condition: no other handler has done so, or
    finished it."""
    condition = is_in_parts(number, kind)
    values = {**condition["ExpressionAttributeValues"], ":undo": _text(undo)}
    return {
        **condition,
        "UpdateExpression": "SET kind = :undo",
        "ExpressionAttributeValues": values,
    }


def meet_goal(job: str) -> Expression:
    """Note which job has reached a sweep's goal. Condition: the group exists."""
    return {
        "UpdateExpression": "SET metBy = :job",
        "ConditionExpression": "attribute_exists(digest)",
        "ExpressionAttributeValues": {":job": _text(job)},
    }


def all_but_requests() -> Expression:
    """Select every item except the (large) requests, but include requests that are marked to
    expire."""
    return {"FilterExpression": "attribute_not_exists(jobDetails) OR attribute_exists(expiresAt)"}


def partition(pk: str) -> Expression:
    """Select every item of a partition, in the order of the sort keys."""
    return {"KeyConditionExpression": "pk = :pk", "ExpressionAttributeValues": {":pk": _text(pk)}}


def partition_from(pk: str, prefix: str) -> Expression:
    """Select the items whose sort key begins with `prefix`."""
    return {
        "KeyConditionExpression": "pk = :pk AND begins_with(sk, :prefix)",
        "ExpressionAttributeValues": {":pk": _text(pk), ":prefix": _text(prefix)},
    }


def partition_after(pk: str, begin: str) -> Expression:
    """Select the items whose sort key is above `begin`, such as the jobs behind one in a line."""
    return {
        "KeyConditionExpression": "pk = :pk AND sk > :begin",
        "ExpressionAttributeValues": {":pk": _text(pk), ":begin": _text(begin)},
    }


def partition_before(pk: str, end: str) -> Expression:
    """Select the items whose sort key is below `end`, such as the jobs ahead of one in a line."""
    return {
        "KeyConditionExpression": "pk = :pk AND sk < :end",
        "ExpressionAttributeValues": {":pk": _text(pk), ":end": _text(end)},
    }


def partition_between(pk: str, first: str, last: str) -> Expression:
    """Select the items whose sort key is from `first` to `last`, both included."""
    return {
        "KeyConditionExpression": "pk = :pk AND sk BETWEEN :first AND :last",
        "ExpressionAttributeValues": {
            ":pk": _text(pk),
            ":first": _text(first),
            ":last": _text(last),
        },
    }


def in_state(state: str) -> Expression:
    """Select the jobs of one state, on the index `by-state`."""
    return {
        "KeyConditionExpression": "jobState = :state",
        "ExpressionAttributeValues": {":state": _text(state)},
    }


def in_state_from(state: str, moment: str, *, backward: bool, inclusive: bool) -> Expression:
    """Select the jobs of one state that entered from a moment on (`backward`: until then), on the
    index `by-state`; `inclusive`: also those of the moment itself."""
    sign = ("<" if backward else ">") + ("=" if inclusive else "")
    return {
        "KeyConditionExpression": f"jobState = :state AND entryTime {sign} :moment",
        "ExpressionAttributeValues": {":state": _text(state), ":moment": _text(moment)},
    }


def attributes_in_state(state: str, attributes: Sequence[str]) -> Expression:
    """Select these attributes of the jobs of one state, on the index `by-state`."""
    names = {f"#a{number}": attribute for number, attribute in enumerate(attributes)}
    return {
        **in_state(state),
        "ProjectionExpression": ", ".join(names),
        "ExpressionAttributeNames": names,
    }


def openers(pk: str) -> Expression:
    """Select the names of all lines, and their openers."""
    return {**partition(pk), "ProjectionExpression": "sk, opener"}


def _number(amount: int) -> Mapping[str, str]:
    return {"N": str(amount)}


def _text(text: str) -> Mapping[str, str]:
    return {"S": text}
