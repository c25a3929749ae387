"""How the members of an elastic group agree on who takes part: without processes, on a clock."""

from __future__ import annotations

import json
import socket
import threading
import time
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import slotq_training
from slotq_training import (
    Peer,
    RendezvousError,
    RendezvousTimeoutError,
    World,
    _attended,
    _Generation,
    _Meeting,
    _Member,
    _Roster,
)

GENERATION = slotq_training._GENERATION
SILENT = slotq_training._SILENT_SECONDS


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr("time.monotonic", made)
    monkeypatch.setattr("time.sleep", made.sleep)
    monkeypatch.setenv("SLOTQ_RENDEZVOUS", "s3://bucket/prefix")
    return made


class Down(Exception):
    pass


class Refused(Exception):
    """As botocore's ClientError."""

    def __init__(self):
        super().__init__("AccessDenied")
        self.response = {"Error": {"Code": "AccessDenied"}}


class Store:
    """The entries below a prefix, and every generation that was ever there."""

    def __init__(self):
        self.objects, self.writes, self.generations = {}, 0, []
        self.trouble: Exception | None = None
        self.calls = {"list": 0, "get": 0, "put": 0}

    def _call(self, what):
        if self.trouble is not None:
            raise self.trouble
        self.calls[what] += 1

    def versions(self):
        self._call("list")
        names = sorted(self.objects, reverse=True)  # A folder has no order.
        return {name: self.objects[name][1] for name in names}

    def read(self, name):
        self._call("get")
        return json.loads(self.objects[name][0])

    def write(self, name, content):
        self._call("put")
        self.writes += 1
        self.objects[name] = (content, str(self.writes))

    def replace(self, name, content, version):
        if self.objects.get(name, (b"", None))[1] != version:
            self._call("put")
            return False
        self.write(name, content)
        self.generations.append(json.loads(content))
        return True


class Player:
    """A member: its entry, what it has seen, and the generation that it has got."""

    def __init__(self, store, number, *, attempt=1, size=1, minimum=1, last_call=30.0):
        self.store, self.beats, self.tickets = store, 0, 0
        self.peer = Peer(f"ring-{number}", "member", "10.0.0.1", 7000 + number, attempt)
        self.entry = slotq_training._entry_name(self.peer)
        self.roster = _Roster(store, self.peer)
        self.words = {"expected": size, "minimum": minimum, "last_call": last_call}
        self.after, self.got, self.state = 0, None, "ready"

    def come(self, step=0):
        self.after = max(self.after, self.got.number if self.got else 0)
        self.tickets += 1
        ticket = f"{self.entry}#{self.tickets}"
        self.me = _Member(self.peer, ticket, 9000, 1, step)
        self.meeting = _Meeting(self.roster, self.me, after=self.after, **self.words)
        self.got, self.state = None, "ready"
        self.beat()
        return self

    def beat(self):
        self.beats += 1
        document = {"state": self.state, "beat": self.beats, "at": 0, **self.me.document()}
        self.store.write(self.entry, json.dumps(document).encode())

    def leave(self):
        self.state = "left"
        self.beat()

    def look(self):
        found = self.meeting.look()
        if found is not None:
            self.got, self.state = found, "in"
            assert found.place(self.me.ticket) is not None
        return found


def names(generation):
    return [member.peer.name for member in generation.members]


def meet(clock, *players, seconds=120):
    """Let time pass until all have the same generation. Returns it."""
    for second in range(seconds):
        for player in players:
            if second % 2 == 0:
                player.beat()
            if player.got is None:
                player.look()
        if all(player.got for player in players):
            assert len({player.got.number for player in players}) == 1
            return players[0].got
        clock.sleep(1.0)
    raise AssertionError([player.meeting.waits_for for player in players])


def three(clock, store):
    players = [Player(store, number, size=3).come() for number in (1, 2, 3)]
    assert names(meet(clock, *players)) == ["ring-1", "ring-2", "ring-3"]
    return players


def test_the_first_generation_is_in_the_order_of_the_names_with_numbers_as_such(clock):
    store = Store()
    players = [Player(store, number, size=3).come() for number in (10, 2, 1)]
    found = meet(clock, *players)
    assert (found.number, names(found)) == (1, ["ring-1", "ring-2", "ring-10"])


def test_rank_0_has_the_newest_state_and_the_others_keep_their_order(clock):
    store = Store()
    one, two, three_ = three(clock, store)
    four = Player(store, 0).come(step=0)
    for player, step in ((one, 7), (two, 8), (three_, 8)):
        player.come(step=step)
    found = meet(clock, one, two, three_, four)
    assert (found.number, names(found)) == (2, ["ring-2", "ring-3", "ring-1", "ring-0"])


def test_all_that_have_started_are_waited_for_until_the_last_call(clock):
    store = Store()
    players = [Player(store, number, size=3, last_call=20).come() for number in (1, 2)]
    with pytest.raises(AssertionError, match="2 of at least 1 members have come"):
        meet(clock, *players, seconds=18)
    assert names(meet(clock, *players)) == ["ring-1", "ring-2"]
    late = Player(store, 3).come()
    for player in players:
        player.come(step=5)
    assert len(meet(clock, *players, late).members) == 3


def test_fewer_than_the_minimum_do_not_begin(clock):
    store = Store()
    player = Player(store, 1, minimum=2).come()
    with pytest.raises(AssertionError, match="1 of at least 2"):
        meet(clock, player, seconds=300)
    other = Player(store, 2, minimum=2).come()
    assert len(meet(clock, player, other).members) == 2


def test_who_says_that_it_leaves_is_not_waited_for(clock):
    one, two, three_ = three(clock, Store())
    one.leave()
    two.come(step=1)
    three_.come(step=1)
    began = clock.now
    assert names(meet(clock, two, three_)) == ["ring-2", "ring-3"]
    assert clock.now - began < 10


@pytest.mark.parametrize("victim", [0, 1])
def test_who_goes_without_a_word_is_waited_for_until_it_is_silent(clock, victim):
    last_beat = clock.now
    players = three(clock, Store())
    del players[victim]
    for player in players:
        player.come(step=1)
    assert len(meet(clock, *players).members) == 2
    assert SILENT <= clock.now - last_beat <= SILENT + 10


def test_a_member_that_died_while_it_wrote_its_entry_holds_nobody_up_for_long(clock):
    store = Store()
    one, two, _ = three(clock, store)
    store.write("ring-3/0001.json", b'{"version": 1, "name": "ring-3", "sta')
    one.come(step=1)
    two.come(step=1)
    assert len(meet(clock, one, two).members) == 2
    store.write("ring-4/0001.json", b"")
    one.come(step=2)
    two.come(step=2)
    began = clock.now
    assert len(meet(clock, one, two).members) == 2
    assert clock.now - began < 10, "it was no member of the last generation"


def test_a_generation_that_nobody_can_read_is_replaced_and_numbers_go_on(clock):
    store = Store()
    players = three(clock, store)
    store.write(GENERATION, b'{"generation": 1, "mem')
    for player in players:
        player.come(step=1)
    assert meet(clock, *players).number == 2


def test_two_who_lead_make_one_generation(clock):
    """Both have seen each other's entry and take the other for gone."""
    store = Store()
    one, two = (Player(store, number).come() for number in (1, 2))
    for player in (one, two):
        player.roster.look()
        player.roster.has_gone = lambda name: True
    first, second = one.look(), two.meeting
    assert names(first) == ["ring-1"]
    version, two.roster.version = two.roster.version, None
    assert second._proposed() is None, "it did not see the first, and may not replace it"
    two.roster.version = version
    assert [made["generation"] for made in store.generations] == [1]
    assert two.look().number == 2
    assert [made["generation"] for made in store.generations] == [1, 2]


def test_a_late_word_of_an_earlier_attempt_is_nobodys(clock):
    store = Store()
    one, two, three_ = three(clock, store)
    old = three_.come(step=9)
    stale = store.objects[old.entry][0]
    new = Player(store, 3, attempt=2).come(step=1)
    one.come(step=2)
    two.come(step=2)
    for _ in range(5):
        store.write(old.entry, stale)
        for player in (one, two, new):
            player.beat()
            player.look()
        clock.sleep(1.0)
    found = meet(clock, one, two, new)
    assert names(found) == ["ring-1", "ring-2", "ring-3"]
    assert found.members[2].peer.attempt == 2


def test_what_the_dead_have_left_is_not_taken_for_the_living(clock):
    store = Store()
    Player(store, 2).come(step=9)
    clock.sleep(5.0)
    assert names(meet(clock, Player(store, 1).come())) == ["ring-1"]


def test_an_attempt_that_should_be_dead_is_told_to_end(clock):
    store = Store()
    old = Player(store, 1).come()
    Player(store, 1, attempt=2).come()
    with pytest.raises(RendezvousError, match="attempt 2 of ring-1 has begun"):
        old.look()


def test_a_member_whose_generation_came_without_it_takes_part_in_the_next(clock):
    store = Store()
    one, two, three_ = three(clock, store)
    one.come(step=5)
    two.come(step=5)
    for second in range(70):  # The third says that it lives, and does not come.
        for player in (one, two, three_):
            if second % 2 == 0:
                player.beat()
        one.look()
        two.look()
        if one.got and two.got:
            break
        clock.sleep(1.0)
    assert names(one.got) == ["ring-1", "ring-2"]
    assert not one.roster.has_changed(one.got)
    three_.come(step=4)
    one.roster.look()
    assert one.roster.has_changed(one.got)


def test_clocks_that_differ_by_days_do_not_matter(clock, monkeypatch):
    """Nothing reads what an entry says of the time, and the generation's time neither."""
    store = Store()
    players = [Player(store, number, size=3).come() for number in (1, 2, 3)]
    times = iter(range(10**12, 0, -(10**8)))
    monkeypatch.setattr(slotq_training, "_now", lambda: next(times))
    for turn in range(3):
        assert meet(clock, *players).number == turn + 1
        for player in players:
            player.come(step=turn)


def in_generation(clock, store):
    players = three(clock, store)
    leader = players[0]
    assert leader.got is not None
    return leader, players


def minute_of_running(clock, leader, others):
    """A minute of a generation, rank 0 looking every three seconds."""
    changed = []
    for second in range(60):
        if second % 10 == 5:
            for player in others:
                if store_is_up(player):
                    player.beat()
        if second % 3 == 0:
            try:
                leader.roster.look()
                changed.append(leader.roster.has_changed(leader.got))
            except Down:
                pass
        clock.sleep(1.0)
    return changed


def store_is_up(player):
    return player.store.trouble is None


def test_nobody_is_silent_because_s3_was_away_for_a_minute(clock):
    store = Store()
    leader, players = in_generation(clock, store)
    assert not any(minute_of_running(clock, leader, players))
    store.trouble = Down("503")
    assert minute_of_running(clock, leader, players) == []
    store.trouble = None
    assert not any(minute_of_running(clock, leader, players))
    assert any(minute_of_running(clock, leader, players[:2])), "the third has been silent since"


def test_a_meeting_outlives_a_minute_without_s3(clock):
    store = Store()
    players = three(clock, store)
    for player in players:
        player.come(step=1)
    store.trouble = Down("503")
    for _ in range(60):
        for player in players:
            with pytest.raises(Down):
                player.look()
        clock.sleep(1.0)
    store.trouble = None
    assert meet(clock, *players).number == 2


def test_a_newcomer_that_died_while_it_waited_stops_nobody(clock):
    store = Store()
    leader, players = in_generation(clock, store)
    Player(store, 4).come()
    for _ in range(4):
        clock.sleep(3.0)
        for player in players:
            player.beat()
        leader.roster.look()
    assert not leader.roster.has_changed(leader.got)


def test_the_calls_of_a_minute(clock):
    """The figures of docs/elastic-scripts.md: calls of S3 a minute."""
    store = Store()
    leader, players = in_generation(clock, store)
    store.calls.update(dict.fromkeys(store.calls, 0))
    minute_of_running(clock, leader, players)
    assert store.calls == {"list": 20, "get": 1, "put": 6 * len(players)}, "its own generation"

    players[1].come(step=1)  # The first never comes.
    store.calls.update(dict.fromkeys(store.calls, 0))
    for second in range(60):
        if second % 2 == 0:
            players[0].beat()
            players[1].beat()
        players[1].look()
        clock.sleep(1.0)
    assert store.calls["list"] == 60
    assert store.calls["get"] <= 32


class Presence:
    def __init__(self, player):
        self.write = player.beat


def test_a_right_that_is_missing_ends_the_wait_at_once(clock):
    store = Store()
    player = Player(store, 1).come()
    store.trouble = Refused()
    with pytest.raises(RendezvousError, match=r"The role needs s3:ListBucket, s3:GetObject"):
        _attended(player.meeting, Presence(player), clock.now + 600)


def test_a_wait_that_is_over_says_for_whom(clock):
    store = Store()
    player = Player(store, 1, minimum=2).come()
    with pytest.raises(RendezvousTimeoutError, match=r"1 of at least 2 .* `slotq why`") as raised:
        _attended(player.meeting, Presence(player), clock.now + 60)
    assert isinstance(raised.value, TimeoutError)
    store.trouble = Down("503 Slow Down")
    with pytest.raises(RendezvousTimeoutError, match=r"503 Slow Down"):
        _attended(player.meeting, Presence(player), clock.now + 60)


def test_outside_a_group_there_is_no_world(monkeypatch):
    monkeypatch.delenv("SLOTQ_RENDEZVOUS", raising=False)
    with pytest.raises(RendezvousError, match="belongs to no group"):
        slotq_training.world()


# The promises, whatever happens: each number is given once, all who live end in one generation.

ACTS = st.tuples(
    st.sampled_from(["look", "look", "look", "beat", "die", "start", "leave", "tick", "outage"]),
    st.integers(0, 3),
    st.integers(0, 40),
)


class Ring:
    """Four members that come, go, look and die as they are told."""

    def __init__(self, clock):
        self.clock, self.store, self.living = clock, Store(), {}
        self.attempts = dict.fromkeys(range(4), 0)

    def act(self, what, number, amount):
        if what == "tick":
            self.clock.sleep(float(amount))
        elif number not in self.living:
            if what == "start":
                self.attempts[number] += 1
                player = Player(self.store, number, attempt=self.attempts[number])
                self.living[number] = player.come()
        elif what in {"die", "leave"}:
            player = self.living.pop(number)
            if what == "leave":
                player.leave()
        elif what in {"look", "outage"}:
            self.look(self.living[number], is_down=what == "outage", step=amount)
        else:
            self.living[number].beat()

    def look(self, player, *, is_down, step):
        if player.got is not None:
            player.come(step=step)
        elif is_down:
            self.store.trouble = Down()
            with pytest.raises(Down):
                player.look()
            self.store.trouble = None
        else:
            player.look()


@given(acts=st.lists(ACTS, max_size=60))
def test_all_that_live_end_in_one_generation_and_no_number_is_given_twice(acts):
    clock = Clock()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("time.monotonic", clock)
        ring = Ring(clock)
        ring.act("start", 0, 0)
        for act in acts:
            ring.act(*act)
        if ring.living:
            settle(clock, ring.living)
    numbers = [made["generation"] for made in ring.store.generations]
    assert numbers == sorted(set(numbers))


def settle(clock, living):
    """Who notices that its generation is not that of all living members comes again."""
    for second in range(400):
        held = {player.me.ticket for player in living.values() if player.got}
        for player in living.values():
            if second % 2 == 0:
                player.beat()
            if player.got is None:
                player.look()
                continue
            tickets = {member.ticket for member in player.got.members}
            is_broken = second % 30 == 29 and tickets != held  # Rank 0 is not reached.
            if player.me.ticket == player.got.members[0].ticket:
                player.roster.look()
                is_broken |= player.roster.has_changed(player.got)
            if is_broken or any(
                other.got is None and other.after >= player.got.number for other in living.values()
            ):
                player.come(step=second)
        clock.sleep(1.0)
    final = {player.got for player in living.values()}
    assert len(final) == 1, {name: player.meeting.waits_for for name, player in living.items()}
    (last,) = final
    assert last is not None
    assert {member.ticket for member in last.members} == {p.me.ticket for p in living.values()}


# What a process does with what a meeting has come to.


@pytest.fixture
def process(monkeypatch, tmp_path):
    """This process has its own folder, and forgets its world afterwards."""
    monkeypatch.setenv("SLOTQ_RENDEZVOUS", "s3://bucket/prefix")
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    monkeypatch.setenv("SLOTQ_CHECKPOINT_DIR", str(tmp_path / "checkpoints"))
    for name in ("_world", "_presence"):
        monkeypatch.setattr(slotq_training, name, None)
    monkeypatch.setattr(slotq_training, "_told_at", 0)
    reports = SimpleNamespace(acknowledge=list)
    watch = SimpleNamespace(found=None, reports=reports, listen=list, alert=False)
    watch.add_callback = lambda callback: None
    monkeypatch.setattr(slotq_training, "_watch", watch)
    monkeypatch.setattr("atexit.register", lambda call: None)
    return watch


def closed_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def test_a_rank_0_that_nobody_reaches_is_given_up_with_advice(process, monkeypatch):
    monkeypatch.setattr(slotq_training, "_JOIN_SECONDS", 0.1)
    control, asked = closed_port(), []

    def meet(after):
        asked.append(after)
        peers = [Peer(f"ring-{n}", "member", "127.0.0.1", 1, 1) for n in (1, 2)]
        members = tuple(_Member(peer, peer.name, control, 1, 0) for peer in peers)
        return slotq_training._Met(_Generation(after + 1, members), 1)

    with pytest.raises(slotq_training.RendezvousConnectionError, match=r"127\.0\.0\.1:\d+.* VPC"):
        slotq_training._entered(meet)
    assert asked == [0, 1, 2]


def test_who_is_asked_to_suspend_while_it_waits_is_alone_and_goes(process):
    process.found = {"via": "marker"}
    member = _Member(Peer("ring-1", "member", "127.0.0.1", 1, 1), "t", 1, 1, 0)
    met = slotq_training._Met(_Generation(4, (member,)), 0, alone=True)
    world = slotq_training._entered(lambda after: met)
    assert (world.rank, world.world_size, world.generation) == (0, 1, 4)
    assert world.changed()
    assert world.leaves(process)
    assert process.alert, "should_suspend asks the world"


def test_the_other_processes_of_a_member_hear_of_each_meeting_once(process, monkeypatch):
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    member = _Member(Peer("ring-1", "member", "127.0.0.1", 1, 1), "t", 1, 2, 7)
    met = slotq_training._Met(_Generation(4, (member,)), 0)
    now = time.monotonic()
    with pytest.raises(RendezvousTimeoutError, match="first process of this member"):
        slotq_training._told(now, 0)
    slotq_training._tell_processes(met)
    assert slotq_training._told(now, 0) == met
    with pytest.raises(RendezvousTimeoutError):
        slotq_training._told(now, 0)


# What a process sees of its world.


class Group:
    """The agreement, as far as a world uses it."""

    def __init__(self, said=None):
        self.asks, self.said, self.gone = [], said, False

    def ask(self, kind):
        if self.gone:
            raise OSError("rank 0 has gone")
        self.asks.append(kind)

    def gather(self, key, value, seconds):
        if self.said is None:
            raise OSError("no answer")
        return self.said

    def close(self):
        self.gone = True


def a_world(*processes, number=0, found=None, group=None):
    members = tuple(
        _Member(Peer(f"ring-{n}", "member", "h", 1, 1), f"t{n}", 1, count, 0)
        for n, count in enumerate(processes)
    )
    acknowledged = []
    reports = SimpleNamespace(acknowledge=lambda: acknowledged.append(True))
    watch = SimpleNamespace(found=found, reports=reports)
    made = World(_Generation(3, members), number, watch)  # type: ignore[arg-type]
    made._group = group or Group()  # type: ignore[assignment]
    return made


def test_ranks_count_the_processes_of_all_members(monkeypatch):
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    world = a_world(8, 2, 2, number=1)
    assert (world.rank, world.world_size, world.local_rank, world.group_rank) == (9, 12, 1, 1)
    assert repr(world) == "World(generation=3, rank=9, world_size=12)"


def test_a_world_changes_at_the_boundary_that_was_agreed():
    world = a_world(1, 1)
    assert [world.changed() for _ in range(4)] == [False] * 4
    assert world._asked("suspend#1") == 4
    threading.Timer(0.05, world._stop, args=("suspend#1", 6)).start()
    assert [world.changed() for _ in range(3)] == [False, True, True]


def test_a_world_ends_where_rank_0_has_gone():
    world = a_world(1, 1)
    assert not world.changed()
    world._stop(None, 0)
    assert world.changed()


def test_what_is_agreed_stands_though_rank_0_goes():
    world = a_world(1, 1)
    world._stop("suspend#1", 3)
    world._stop(None, 0)
    assert [world.changed() for _ in range(3)] == [False, False, True]


def test_who_is_asked_to_suspend_asks_the_others_and_ends_alone_without_them():
    group = Group()
    world = a_world(1, 1, group=group)
    world.ask()
    assert group.asks == ["suspend"]
    group.gone = True
    world.ask()
    assert world.changed()


def test_rank_0_looks_on_until_the_world_changes_though_s3_fails(monkeypatch):
    monkeypatch.setattr(slotq_training, "_LEAD_SECONDS", 0.001)
    looks = iter([Down("503"), Down("503"), None, None])

    class Watched:
        changes = iter([False, True])

        def look(self):
            if trouble := next(looks):
                raise trouble

        def has_changed(self, generation):
            return next(self.changes)

    group = Group()
    a_world(1, 1, group=group).lead(Watched())  # type: ignore[arg-type]
    assert group.asks == ["suspend"]


@pytest.mark.parametrize(
    ("said", "leaves"),
    [
        ({0: [0, False], 1: [0, True], 2: [1, False]}, True),
        ({0: [0, False], 1: [0, False], 2: [1, True]}, False),
        (None, True),
    ],
)
def test_a_member_goes_if_any_of_its_processes_was_asked(monkeypatch, said, leaves):
    """Where the others do not answer, each process says what it knows itself."""
    found = {"via": "marker"} if said is None else None
    world = a_world(2, 1, found=found, group=Group(said))
    assert not world.leaves(world._watch)
    world.end()
    assert world.changed()
    assert world.leaves(world._watch) is leaves
