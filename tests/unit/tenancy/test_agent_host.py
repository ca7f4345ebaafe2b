"""The books of a simulated host: leases, what stands, and chance by the seed."""

from random import Random
from typing import Any

import pytest

from mainstay.runtime.clock import StepClock
from mainstay.tenancy.agent_faults import FAILING, Fault, Faults
from mainstay.tenancy.agent_host import LEASE_S, LEAVES_SOMETHING, Host, resources
from mainstay.tenancy.agent_run import Run
from mainstay.tenancy.states import TaskStatus
from mainstay.tenancy.work import GIVES, PHASES, RETRYABLE, TAKES_BACK, ErrorCode, Phase, TaskType
from virtual_loop import run

SLOT: dict[str, Any] = {
    "slot_index": 3,
    "pci_address": "0000:04:00.0",
    "nvme_device": "/dev/nvme3n1",
    "fabric_vf_pci_address": "0000:04:00.1",
    "mac_address": "02:00:00:00:00:03",
    "private_ip": "10.100.0.13",
}


class TestLeases:
    def test_all_are_taken_or_none(self) -> None:
        host = Host()
        assert host.lease("one", ["a", "b"], 0.0) is None

        assert host.lease("two", ["c", "b"], 0.0) == "one"

        assert {lease.allocation for lease in host.leases.values()} == {"one"}
        assert sorted(host.leases) == ["a", "b"]

    def test_who_has_them_may_take_them_again(self) -> None:
        host = Host()
        host.lease("one", ["a"], 0.0)

        assert host.lease("one", ["a", "b"], 0.0) is None

    def test_an_expired_lease_is_a_conflict_until_the_reconciler_has_cleared_it(self) -> None:
        host = Host()
        host.lease("dead", ["a"], 0.0)

        assert host.lease("new", ["a"], LEASE_S) == "dead"
        assert host.reconcile(LEASE_S - 1) == []
        assert [lease.allocation for lease in host.reconcile(LEASE_S)] == ["dead"]
        assert host.lease("new", ["a"], LEASE_S) is None

    def test_the_lease_of_what_stands_never_expires(self) -> None:
        host = Host()
        host.lease("one", ["a"], 0.0)
        host.did("one", Phase.LEASE_ACQUIRE)

        for hour in range(1, 5):
            assert host.reconcile(hour * 3600.0) == []

        assert host.leases["a"].expires_s == 4 * 3600 + LEASE_S

    def test_a_lease_is_given_back_alone(self) -> None:
        host = Host()
        host.lease("one", ["a"], 0.0)
        host.lease("two", ["b"], 0.0)

        host.clear("one")

        assert list(host.leases) == ["b"]
        assert (host.is_clean("one"), host.is_clean("two")) == (True, False)


class TestResources:
    def test_a_slot_is_every_piece_of_its_hardware(self) -> None:
        assert resources("node-a", {"slots": [SLOT]}) == [
            "gpu:0000:04:00.0",
            "ip:10.100.0.13",
            "mac:02:00:00:00:00:03",
            "nvme:/dev/nvme3n1",
            "vf:0000:04:00.1",
        ]

    def test_a_slot_of_which_little_is_known_goes_by_its_number(self) -> None:
        assert resources("node-a", {"slots": [{"slot_index": 3}, 4]}) == ["slot:3", "slot:4"]

    def test_without_slots_it_is_the_whole_node(self) -> None:
        assert resources("node-a", {}) == ["node:node-a"]


class TestTables:
    def test_every_type_begins_with_the_check_and_ends_with_the_report(self) -> None:
        assert PHASES.keys() == set(TaskType)
        for phases in PHASES.values():
            assert (phases[0], phases[-1]) == (Phase.VERIFY_TASK, Phase.REPORT)
            assert len(set(phases)) == len(phases)

    def test_a_slice_is_given_and_taken_back_in_the_order_of_the_specification(self) -> None:
        assert PHASES[TaskType.VM_PROVISION] == (
            "verify_task", "lease_acquire", "preflight", "image_ensure", "disk_prepare",
            "vfio_bind", "network_reserve", "cloud_init_seed", "vm_define_start", "ssh_wait",
            "guest_marker_wait", "report",
        )  # fmt: skip
        assert PHASES[TaskType.VM_RELEASE] == (
            "verify_task", "graceful_stop", "destroy", "undefine", "vfio_unbind", "wipe",
            "network_drop", "lease_release", "report",
        )  # fmt: skip

    def test_leases_are_taken_first_and_given_back_last(self) -> None:
        for kind in GIVES:
            assert PHASES[kind][1] is Phase.LEASE_ACQUIRE
        for kind in TAKES_BACK:
            assert PHASES[kind][-2] is Phase.LEASE_RELEASE

    def test_only_what_a_release_undoes_is_left_on_a_host(self) -> None:
        left = {phase for kind in GIVES for phase in PHASES[kind]} & LEAVES_SOMETHING

        assert left == LEAVES_SOMETHING

    def test_what_another_attempt_may_cure_is_as_specified(self) -> None:
        assert {
            ErrorCode.LEASE_CONFLICT, ErrorCode.IMAGE_DOWNLOAD_FAILED, ErrorCode.AGENT_RESTARTED,
        } == RETRYABLE  # fmt: skip

    def test_every_fault_that_fails_a_phase_fails_one_there_is(self) -> None:
        there = {phase for phases in PHASES.values() for phase in phases}

        assert {failing.phase for failing in FAILING.values()} <= there


def outcome(faults: Faults, kind: TaskType = TaskType.VM_PROVISION, seed: int = 0) -> Any:
    clock = StepClock(1000.0)
    return run(
        Run(Host(), "node-a", faults, clock, Random(seed)).result(kind, "one", {"slots": [SLOT]})
    )


class TestRuns:
    def test_the_same_seed_gives_the_same_result(self) -> None:
        assert outcome(Faults(phase_s=1.0)) == outcome(Faults(phase_s=1.0))

    @pytest.mark.parametrize("fault", [Fault.SHA_MISMATCH, Fault.MARKER_MISSING])
    def test_no_phase_after_the_one_that_failed_is_tried(self, fault: Fault) -> None:
        found = outcome(Faults(named=frozenset({fault})))

        tried = [phase["name"] for phase in found.output["phases"]]
        phases = PHASES[TaskType.VM_PROVISION]
        assert tried == list(phases[: phases.index(FAILING[fault].phase) + 1])
        assert found.status is TaskStatus.FAILED
