"""What `mainstay provider sim` serves, by default and from a file."""

from collections import Counter
from pathlib import Path

import pytest

from mainstay.model.calls import Call
from mainstay.model.errors import Rejected
from mainstay.model.profile import CapacityType
from mainstay.providers.sim.backend import CREATE_FAULT_LABEL
from mainstay.providers.sim.fleet_file import mixed_fleet, read_faults, read_fleet
from mainstay.providers.sim.spec import slots_of


def written(folder: Path, text: str) -> Path:
    path = folder / "it.toml"
    path.write_text(text)
    return path


def test_the_mixed_fleet_has_at_least_five_hundred_slots_of_every_kind() -> None:
    fleet = mixed_fleet(7)
    slots = list(slots_of(fleet.spec))
    kinds = Counter(slot.profile.capacity_type for slot in slots)

    assert sum(not slot.host for slot in slots) >= 500
    assert kinds.keys() == set(CapacityType) - {CapacityType.UNSPECIFIED}
    assert len({slot.name for slot in slots}) == len(slots)
    assert all(0.1 <= each.median_s <= 0.5 for each in fleet.spec.latencies.values())
    assert fleet.spec.seed == 7
    assert not fleet.spec.selectors


def test_a_file_says_which_pools_how_slow_and_how_patient(tmp_path: Path) -> None:
    text = (
        'name = "lab"\n[[pool]]\ncapacity = "Spot"\nslots = 3\ntype = "m5.large"\n'
        'zone = "use1-az2"\n[[pool]]\nslots = 80\n[latency_s]\ncreate = 2\n[timeout_s]\ndrain = 9\n'
    )

    fleet = read_fleet(written(tmp_path, text), 1)

    slots = list(slots_of(fleet.spec))
    assert len(slots) == 83
    assert len({slot.profile.instance_type for slot in slots[3:]}) == 13
    assert [slot.name for slot in slots[:3]] == [
        f"m5.large.use1-az2.spot.0000{n}" for n in range(3)
    ]
    assert (fleet.spec.name, fleet.spec.latencies[Call.CREATE].median_s) == ("lab", 2.0)
    assert fleet.options.step_timeouts_s[Call.DRAIN] == 9.0
    assert fleet.options.step_timeouts_s[Call.CREATE] == 300.0


def test_fault_slots_are_labelled_and_switch_the_selectors_on(tmp_path: Path) -> None:
    pool = '[[pool]]\ntype = "m5.large"\nzone = "use1-az2"\nslots = 2\n'

    fleet = read_fleet(written(tmp_path, f"fault_slots = 3\n{pool}"), 1)

    slots = list(slots_of(fleet.spec))
    assert fleet.spec.selectors
    assert len({slot.name for slot in slots}) == 5
    assert sum(CREATE_FAULT_LABEL in slot.profile.labels for slot in slots) == 3


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "a fleet needs a"),
        ("pool = 3\n", "a fleet needs a"),
        ("pool = [3]\n", "pools are written as"),
        ("colour = 1\n", "unknown key: colour"),
        ("[[pool]]\ncolour = 1\n", "unknown key: colour"),
        ("[[pool]]\nslots = -1\n", "slots must be a whole number: -1"),
        ("[[pool]]\nslots = true\n", "slots must be a whole number: True"),
        ('[[pool]]\nslots = 1\ncapacity = "Gold"\n', "no such capacity type: 'Gold'"),
        ('[[pool]]\nslots = 1\ntype = "gold"\n', r"it has the types .*m5\.large.* in the zones "),
        ("[[pool]]\nslots = 1\n[latency_s]\nget = 1\n", "unknown key: get"),
        ("[[pool]]\nslots = 1\n[timeout_s]\ndrain = -1\n", "timeout_s.drain must be seconds: -1"),
        ("latency_s = 1\n[[pool]]\nslots = 1\n", "latency_s must be a table: 1"),
        ("not toml", "not TOML"),
    ],
)
def test_a_wrong_file_is_refused_by_its_key(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(Rejected, match=complaint):
        read_fleet(written(tmp_path, text), 1)


def test_a_missing_file_is_refused_by_its_name(tmp_path: Path) -> None:
    with pytest.raises(Rejected, match=r"cannot read .*nothing\.toml"):
        read_fleet(tmp_path / "nothing.toml", 1)


def test_faults_come_from_a_file_under_their_names(tmp_path: Path) -> None:
    faults = read_faults(written(tmp_path, 'failures = "create=0.5"\nlost_acks = 0.25\n'))

    assert faults.failures == {Call.CREATE: 0.5}
    assert faults.lost_acks == 0.25
    with pytest.raises(Rejected, match="no such fault: fog"):
        read_faults(written(tmp_path, "fog = 1\n"))
