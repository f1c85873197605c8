import random
from pathlib import Path

import msgspec
import pytest
from tests.unit.agent.flight_desk import INFINIBAND_POOL, ROCE, ROCE_POOL, Desk, found

from railside_agent.binding import Bound, Refused
from railside_agent.flight_log import Began, Entry, ListMade, Note, StartMade, read, write
from railside_agent.own_node import NodeFacts
from railside_agent.raw_machine import RawMachine
from railside_agent.replay import Replayed, replay
from railside_proto.machine import PciAddress
from railside_proto.names import RECORDER_DIR, RESOURCE
from railside_proto.reasons import Code

_DOWN, _ACTIVE = "1: DOWN", "4: ACTIVE"
_FIRST_GPU = "GPU-8b938a01-0274-c6b2-7d36-58bbf68415a9"
_LAST_GPU = "GPU-6a0659bf-21d1-4355-2729-d413fb671f4a"


@pytest.fixture
async def desk(raw: RawMachine, tmp_path: Path) -> Desk:
    made = Desk(raw, tmp_path)
    made.look()
    for pool in made.outlooks:
        made.relist(pool)
    return made


async def test_a_pods_life_is_decided_again_the_same(desk: Desk) -> None:
    """A start beside a GPU, another in a full zone, and the pods' end come out as they were recorded."""
    desk.deal("train", "n0-s0", gpus=(_FIRST_GPU,))
    desk.relist()
    started = await desk.start("n0-s0")
    assert isinstance(started.outcome, Bound)
    assert started.outcome.pairs != ()
    desk.deal("wide", "n0-s1", "n0-s2", "n0-s3")
    await desk.start("n0-s1", "n0-s2", "n0-s3")
    desk.end("train")
    desk.relist()
    steps = await desk.decided()
    assert found(steps) == []
    assert [one.what for one in steps if one.what.startswith("start")] == [
        f"start of n0-s0: {started.outcome.hcas[0].address}",
        "start of n0-s1, n0-s2, n0-s3: 0000:2b:00.0, 0000:3c:00.0, 0000:5d:00.0",
    ]


async def test_a_start_while_an_hca_recovers(desk: Desk) -> None:
    """The window in which a card that was ill stays out of new hands is known again, with its end."""
    for device in ("mlx5_6", "mlx5_7", "mlx5_8", "mlx5_9"):
        desk.port(device, _DOWN)
    desk.relist()
    desk.now += 3
    for device in ("mlx5_6", "mlx5_7", "mlx5_8", "mlx5_9"):
        desk.port(device, _ACTIVE)
    desk.relist()
    desk.deal("train", "n1-s0")
    refused = await desk.start("n1-s0")
    desk.now += 10
    started = await desk.start("n1-s0")
    assert isinstance(refused.outcome, Refused)
    assert isinstance(started.outcome, Bound)
    assert found(await desk.decided()) == []


async def test_seats_that_leave_with_time(desk: Desk) -> None:
    """A seat that is withdrawn stays for a while and then leaves, in the recording as on the node."""
    desk.node.set(NodeFacts(seen=True, mode_label="ib-shared-multi"))
    many = desk.relist()
    desk.node.set(NodeFacts(seen=True, mode_label="ib-shared"))
    withdrawn = desk.relist()
    desk.now += 61
    few = desk.relist()
    assert (len(many), len(withdrawn), sum(withdrawn.values()), len(few)) == (128, 128, 8, 8)
    assert found(await desk.decided()) == []


async def test_what_is_dealt_ended_or_claimed_counts_again(desk: Desk) -> None:
    """Seats on their way, pods that are over and GPUs of resource claims change the same decisions as they did."""
    outlook = desk.outlooks[INFINIBAND_POOL]
    outlook.in_flight.set({"n0-s0": 1})
    desk.relist()
    desk.claim(3)
    desk.deal("train", "n0-s0")
    claimed = await desk.start("n0-s0")
    outlook.in_flight.set({})
    outlook.heard.set(desk.now)
    desk.tell_pod("train", ended=True)
    desk.relist()
    desk.deal("next", "n0-s0")
    await desk.start("n0-s0")
    assert isinstance(claimed.outcome, Bound)
    assert claimed.outcome.hcas[0].address == "0000:5d:00.0"
    assert found(await desk.decided()) == []


async def test_a_pod_that_insists_on_its_hca_being_near(desk: Desk) -> None:
    """A start that was refused for its pod's annotations is refused again for the same reason."""
    desk.tell_pod("train", locality="required-pcie")
    desk.deal("train", "n0-s0", gpus=(_LAST_GPU,))
    desk.relist()
    refused = await desk.start("n0-s0")
    assert isinstance(refused.outcome, Refused)
    assert refused.outcome.reason.code is Code.LOCALITY_NOT_MET
    steps = await desk.decided()
    assert found(steps) == []
    assert "start of n0-s0: refused (LocalityNotMet)" in [one.what for one in steps]


async def test_a_start_that_a_list_overtook(desk: Desk) -> None:
    """A start that its thread decided before a list is kept behind it, and decided again with what it had."""
    desk.deal("train", "n0-s0")
    desk.relist()
    decision = desk.decide("n0-s0")
    for device in ("mlx5_0", "mlx5_3", "mlx5_4", "mlx5_5"):
        desk.port(device, _DOWN)
    desk.relist()
    assert isinstance(decision.outcome, Bound)
    assert found(await desk.decided()) == []


async def test_two_pools_do_not_take_each_others_news(desk: Desk) -> None:
    """What a pool's list was made from is known for the other's too, also where its own list did not change."""
    desk.deal("train", "any-s0" if "any-s0" in desk.relist(ROCE_POOL) else "n0-s0", resource=ROCE)
    (seat,) = desk.relist(ROCE_POOL)
    await desk.start(seat, pool=ROCE_POOL)
    for state in (_DOWN, _ACTIVE):
        desk.port("mlx5_bond_0", state)
        desk.port("mlx5_0", state)
        desk.relist(INFINIBAND_POOL)
        desk.relist(ROCE_POOL)
    desk.bindings.clear()
    desk.end("train")
    assert desk.relist(ROCE_POOL) == {seat: False}
    desk.deal("next", seat, resource=ROCE)
    refused = await desk.start(seat, pool=ROCE_POOL)
    assert isinstance(refused.outcome, Refused)
    assert found(await desk.decided()) == []


async def test_a_torn_checkpoint_is_as_torn_again(desk: Desk) -> None:
    """While the kubelet's file makes no sense the last good one counts, also at the desk."""
    desk.deal("train", "n0-s0")
    desk.relist()
    desk.write_checkpoint(b"{")
    desk.relist()
    await desk.start("n0-s0")
    desk.write_checkpoint()
    desk.relist()
    assert found(await desk.decided()) == []


@pytest.mark.parametrize("seed", range(8))
async def test_nothing_that_happens_is_decided_otherwise(desk: Desk, seed: int) -> None:
    """Whatever a node lives through, in two pools, each decision comes out the same from the recording."""
    world = _World(desk, random.Random(seed))  # noqa: S311 -- a repeatable choice
    for _ in range(60):
        await world.happen()
    steps = await desk.decided()
    assert found(steps) == []
    assert len(steps) > 30


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        pytest.param("hca", "n0-s0 was healthy, held, 0000:2b:00.0, is healthy, held, 0000:1a:00.0", id="hca"),
        pytest.param("seat", "n1-s3 was not listed, is healthy, free", id="seat"),
        pytest.param("health", "n1-s3 was unhealthy, free, is healthy, free", id="health"),
        pytest.param("refusal", "was refused (HcaGone), is 0000:1a:00.0", id="refusal"),
        pytest.param("binding", "was 0000:2b:00.0, is 0000:1a:00.0", id="binding"),
    ],
)
async def test_what_comes_out_otherwise_is_named(desk: Desk, change: str, difference: str) -> None:
    """A decision that today's code takes otherwise than the node did is told with both outcomes."""
    desk.deal("train", "n0-s0")
    desk.relist()
    await desk.start("n0-s0")
    entries = [_changed(entry, change) for entry in read(await desk.text())]
    told = [one for step in replay(entries) if isinstance(step, Replayed) for one in step.differences]
    assert difference in told


def _changed(entry: Entry, change: str) -> Entry:
    """The line as it would stand there had the node decided otherwise."""
    match entry, change:
        case ListMade(changed={"n0-s0": line}), "hca" if line is not None and line.hca:
            other = msgspec.structs.replace(line, hca=PciAddress("0000:2b:00.0"))
            return msgspec.structs.replace(entry, changed={**entry.changed, "n0-s0": other})
        case ListMade(changed={"n1-s3": _}), "seat":
            return msgspec.structs.replace(entry, changed={**entry.changed, "n1-s3": None})
        case ListMade(changed={"n1-s3": line}), "health" if line is not None:
            other = msgspec.structs.replace(line, healthy=False)
            return msgspec.structs.replace(entry, changed={**entry.changed, "n1-s3": other})
        case StartMade(), "refusal":
            return msgspec.structs.replace(entry, binding=None, refusal=Code.HCA_GONE)
        case StartMade(binding=binding), "binding" if binding is not None:
            other_binding = msgspec.structs.replace(binding, hcas=(PciAddress("0000:2b:00.0"),))
            return msgspec.structs.replace(entry, binding=other_binding)
        case _:
            return entry


async def test_a_start_in_doubt_is_decided_in_doubt_again(desk: Desk) -> None:
    """Whether the checkpoint could be trusted is recorded: it does not follow from what was last read of it."""
    desk.deal("train", "n0-s0")
    desk.relist()
    await desk.start("n0-s0")
    desk.distrust("the disk did not answer")
    desk.relist()
    doubted = await desk.start("n0-s0")
    desk.distrust(None)
    trusted = await desk.start("n0-s0")
    assert (doubted.start.pod, trusted.start.pod) == (None, "train")
    assert found(await desk.decided()) == []


async def test_a_new_file_begins_anew(desk: Desk, tmp_path: Path) -> None:
    """A recording whose oldest file is gone is replayed from the next one's head, without what was before."""
    small = Desk(desk.raw, tmp_path / "small", bytes_at_most=1 << 18)
    small.look()
    for number in range(24):
        small.port("mlx5_0", _DOWN if number % 2 else _ACTIVE)
        small.now += 5
        small.relist()
        small.relist(ROCE_POOL)
        await small.start("n0-s0")
    assert found(await small.decided()) == []
    files = sorted((tmp_path / "small" / RECORDER_DIR).iterdir())
    rest = b"".join(file.read_bytes() for file in files[1:])
    replayed = list(replay(read(rest)))
    assert len(files) > 2
    assert isinstance(replayed[0], Began)
    assert found([step for step in replayed if isinstance(step, Replayed)]) == []


async def test_notes_stand_between_the_decisions(desk: Desk) -> None:
    """What decides nothing is shown where it happened."""
    desk.recorder.note("Allocate", pool=INFINIBAND_POOL, seats=("n0-s0",))
    steps = await desk.steps()
    assert isinstance(steps[-1], Note)
    assert (steps[-1].what, steps[-1].facts) == ("Allocate", {"pool": INFINIBAND_POOL, "seats": ["n0-s0"]})
    assert [type(one) for one in steps] == [Began, Replayed, Replayed, Note]


async def test_a_decision_that_was_written_twice_is_the_same_text(desk: Desk) -> None:
    """What is read is what was written, line by line."""
    desk.deal("train", "n0-s0", gpus=(_FIRST_GPU,))
    await desk.start("n0-s0")
    text = await desk.text()
    assert write(read(text)) == text


class _World:
    """Draws what happens next."""

    def __init__(self, desk: Desk, rng: random.Random) -> None:
        self._desk = desk
        self._rng = rng
        self._whole = desk.raw
        self._pods = 0

    async def happen(self) -> None:
        happenings = (
            self._port,
            self._unplug,
            self._plug,
            self._admit,
            self._admit,
            self._start,
            self._start,
            self._end,
            self._mode,
            self._tear,
            self._in_flight,
            self._heard,
            self._acknowledge,
        )
        self._desk.now += self._rng.choice([0.01, 1, 5, 11, 70])
        await self._rng.choice(happenings)()
        for pool in self._desk.outlooks:
            if self._rng.random() < 0.8:
                self._desk.relist(pool)

    def _device(self) -> str:
        return self._rng.choice(self._whole.rdma_devices).name

    async def _port(self) -> None:
        self._desk.port(self._device(), self._rng.choice([_DOWN, _ACTIVE, _ACTIVE]))

    async def _unplug(self) -> None:
        self._desk.unplug(self._device())

    async def _plug(self) -> None:
        self._desk.look(self._whole)

    async def _admit(self) -> None:
        pool, resource = self._rng.choice([(INFINIBAND_POOL, RESOURCE), (ROCE_POOL, ROCE)])
        held = {one for entry in self._desk.entries for ids in entry["DeviceIDs"].values() for one in ids}  # type: ignore[attr-defined]
        free = [seat for seat, healthy in self._desk.relist(pool).items() if healthy and seat not in held]
        if free:
            self._pods += 1
            chosen = self._rng.sample(free, min(len(free), self._rng.choice([1, 1, 2])))
            gpus = (str(self._rng.randrange(8)),) if self._rng.random() < 0.5 else ()
            self._desk.deal(f"pod-{self._pods}", *chosen, resource=resource, gpus=gpus)
            if self._rng.random() < 0.3:
                self._desk.tell_pod(
                    f"pod-{self._pods}", locality=self._rng.choice(["required-pcie", "required-numa"])
                )

    async def _start(self) -> None:
        ours = [one for one in self._desk.entries if one["ResourceName"] != "nvidia.com/gpu"]
        if ours:
            entry = self._rng.choice(ours)
            seats = [one for ids in entry["DeviceIDs"].values() for one in ids]  # type: ignore[attr-defined]
            pool = ROCE_POOL if entry["ResourceName"] == ROCE else INFINIBAND_POOL
            if self._rng.random() < 0.5:
                await self._desk.start(*seats, pool=pool)
            else:
                # Kept at the loop's next turn: behind the list that is made at once.
                self._desk.decide(*seats, pool=pool)

    async def _end(self) -> None:
        if self._desk.entries:
            pod = str(self._rng.choice(self._desk.entries)["PodUID"])
            self._desk.end(pod) if self._rng.random() < 0.5 else self._desk.tell_pod(pod, ended=True)

    async def _mode(self) -> None:
        label = self._rng.choice(["ib-shared", "ib-shared", "ib-shared-multi", None])
        self._desk.node.set(NodeFacts(seen=True, mode_label=label))

    async def _tear(self) -> None:
        self._desk.write_checkpoint(b"{" if self._rng.random() < 0.5 else None)

    async def _in_flight(self) -> None:
        seats = {f"n{self._rng.randrange(2)}-s{self._rng.randrange(4)}": self._rng.randrange(9)}
        self._desk.outlooks[INFINIBAND_POOL].in_flight.set(self._rng.choice([seats, {}]))

    async def _heard(self) -> None:
        self._desk.outlooks[INFINIBAND_POOL].heard.set(self._desk.now)

    async def _acknowledge(self) -> None:
        listed = self._desk.relist()
        self._desk.registered = {RESOURCE: [seat for seat, well in listed.items() if well]}
        self._desk.write_checkpoint()
