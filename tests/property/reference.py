"""DESIGN section 5 as it is written, slowly: after every decision the walk begins anew.

Written from the text and not from the policy's code, to be compared with it.
"""

from __future__ import annotations

from slotq_core.model import Job, JobState, Pool, Snapshot


def decide(snapshot: Snapshot, now: int) -> tuple[set[tuple[str, str]], dict[str, tuple[str, set[str]]]]:
    """(job, pool) of every start, and for every evicting job its pool and victims."""
    pools = {pool.name: pool for pool in snapshot.pools}
    running = {j.name: j for j in snapshot.active if j.state is not JobState.STOPPING}
    where = {j.name: j.attempt.pool for j in snapshot.active if j.attempt}
    stopping = {j.name: j for j in snapshot.active if j.state is JobState.STOPPING}
    waiting = {j.name: j for j in snapshot.waiting}
    claims = {j.name: j.claim.pool for j in snapshot.waiting if j.claim}
    starts: set[tuple[str, str]] = set()
    evictions: dict[str, tuple[str, set[str]]] = {}

    def size(job: Job) -> int:
        return job.demand.slots

    def free(pool: Pool) -> int:
        used = sum(size(j) for j in (*running.values(), *stopping.values()) if where[j.name] == pool.name)
        return (pool.capacity - pool.foreign).slots - used

    def coming(pool: Pool) -> int:
        return sum(size(j) for j in stopping.values() if where[j.name] == pool.name)

    def entitled(evictor: Job, holder: Job) -> bool:
        return holder.preemptible and holder.priority < evictor.priority

    def safe(job: Job, pool: Pool) -> bool:
        if not job.preemptible or not job.attempt or (job.attempt.running_since is None and not job.attempt.created):
            return True
        span = max(pool.min_runtime, min(job.min_runtime, pool.max_min_runtime))
        since = job.attempt.running_since
        return span > 0 and (since is None or now < since + span)

    def lost(job: Job) -> int:
        assert job.attempt
        return now - job.attempt.running_since if job.attempt.running_since is not None else 0

    def victims(job: Job, pool: Pool, left: int) -> list[Job] | None:
        options = [
            v for v in running.values()
            if where[v.name] == pool.name and v.priority < job.priority and not safe(v, pool)
        ]
        options.sort(key=lambda v: (v.priority, lost(v), -size(v), -v.entry_time, v.name))
        chosen: list[Job] = []
        while left + sum(map(size, chosen)) < size(job):
            if not options:
                return None
            chosen.append(options.pop(0))
        for victim in reversed(list(chosen)):
            if left + sum(map(size, chosen)) - size(victim) >= size(job):
                chosen.remove(victim)
        return chosen

    def one_walk() -> bool:
        """True if it came to a decision."""
        held_free: dict[str, int] = dict.fromkeys(pools, 0)
        held_coming: dict[str, int] = dict.fromkeys(pools, 0)
        drains: set[str] = set()
        walked: set[str] = set()
        blocked: set[tuple[object, ...]] = set()
        for job in sorted(waiting.values(), key=lambda j: (-j.priority, j.entry_time, j.name)):
            line = (job.pools, job.demand, job.preemptible, job.priority)
            if line in blocked and job.name not in claims:
                continue
            mine = [pools[n] for n in job.pools if n in pools]
            allowed = [p for p in mine if p.name not in drains or claims.get(job.name) == p.name]

            def left(pool: Pool, job: Job = job) -> int:
                if claims.get(job.name) == pool.name:
                    return free(pool) - held_free[pool.name] + coming(pool) - held_coming[pool.name]
                owed = sum(
                    size(waiting[n]) for n, at in claims.items()
                    if at == pool.name and n not in walked and n != job.name and not entitled(job, waiting[n])
                )
                return free(pool) - held_free[pool.name] + coming(pool) - held_coming[pool.name] - owed

            def hold(pool: Pool, job: Job = job) -> None:
                part = max(0, min(size(job), free(pool) - held_free[pool.name]))
                held_free[pool.name] += part
                held_coming[pool.name] += size(job) - part

            walked.add(job.name)
            now_here = [p for p in allowed if size(job) <= min(left(p), free(p) - held_free[p.name])]
            if now_here:
                starts.add((job.name, now_here[0].name))
                running[job.name] = job
                where[job.name] = now_here[0].name
                del waiting[job.name]
                claims.pop(job.name, None)
                return True
            soon = [p for p in allowed if size(job) <= left(p)]
            soon.sort(key=lambda p: p.name != claims.get(job.name))
            if soon:
                if claims.get(job.name) not in {None, soon[0].name}:
                    del claims[job.name]
                    return True
                hold(soon[0])
                continue
            offers = [(p, found) for p in allowed if (found := victims(job, p, left(p))) is not None]
            if offers:
                def harm(offer: tuple[Pool, list[Job]]) -> tuple[object, ...]:
                    chosen = offer[1]
                    return (
                        sorted((v.priority for v in chosen), reverse=True),
                        sum(size(v) * lost(v) for v in chosen),
                        len(chosen),
                    )
                pool, chosen = min(offers, key=harm)
                evictions[job.name] = (pool.name, {v.name for v in chosen})
                for victim in chosen:
                    stopping[victim.name] = running.pop(victim.name)
                claims[job.name] = pool.name
                return True
            if job.name in claims:
                del claims[job.name]
                return True
            blocked.add(line)
            large = [p for p in allowed if size(job) <= (p.capacity - p.foreign).slots]
            due = [p for p in large if p.reserve_after is not None and now - job.entry_time >= p.reserve_after]
            if due:
                drains.add(min(due, key=lambda p: max(0, size(job) - left(p))).name)
        return False

    while one_walk():
        pass
    return starts, evictions
