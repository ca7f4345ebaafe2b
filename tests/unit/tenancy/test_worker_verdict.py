"""What the end of an agent's task means."""

from typing import Any

import pytest

from mainstay.tenancy.work import ErrorCode
from mainstay.tenancy.worker.verdict import Failed, Ready, of_given, of_taken_back

PROOF = {"released": True, "wiped": True, "leases_released": True, "hard_stopped": True}


def task(status: str, *, dispatched: bool = True, **columns: Any) -> dict[str, Any]:
    return {
        "id": "tsk_1",
        "status": status,
        "dispatched_at": "then" if dispatched else None,
        "result": None,
        "error_code": None,
        "error_detail": None,
        **columns,
    }


class TestGiven:
    def test_what_is_ready_is_given_with_its_address(self) -> None:
        result = {"ready": True, "host": "10.0.0.1", "ssh_port": 22, "phases": []}

        assert of_given(task("completed", result=result)) == Ready(
            {"host": "10.0.0.1", "ssh_port": 22}
        )

    @pytest.mark.parametrize("result", [{}, None, {"ready": "true"}, {"ready": 1}])
    def test_only_a_plain_true_is_ready(self, result: object) -> None:
        found = of_given(task("completed", result=result))

        assert isinstance(found, Failed)
        assert (found.code, found.clean, found.retryable) == ("not_ready", False, False)

    @pytest.mark.parametrize("code", ErrorCode)
    def test_only_what_another_attempt_may_cure_is_tried_again(self, code: ErrorCode) -> None:
        found = of_given(task("failed", error_code=str(code), error_detail="so", result={}))

        assert isinstance(found, Failed)
        cured = {"lease_conflict", "image_download_failed", "agent_restarted"}
        assert found.retryable == (code in cured)
        assert (found.code, found.reason) == (code, "so")

    @pytest.mark.parametrize(
        ("result", "clean"),
        [({"clean": True, "phase": "wipe"}, True), ({"clean": "yes"}, False), (None, False)],
    )
    def test_a_failure_is_clean_only_if_the_host_says_so(
        self, result: object, *, clean: bool
    ) -> None:
        found = of_given(task("failed", error_code="ssh_timeout", result=result))

        assert isinstance(found, Failed)
        assert found.clean is clean

    def test_what_ran_out_in_an_agents_hands_is_unknown_and_never_tried_again(self) -> None:
        found = of_given(task("expired"))

        assert isinstance(found, Failed)
        assert (found.code, found.clean, found.retryable) == ("task_expired", False, False)

    def test_what_no_agent_ever_had_may_be_tried_again_at_once(self) -> None:
        found = of_given(task("expired", dispatched=False))

        assert isinstance(found, Failed)
        assert (found.code, found.retryable, found.touched) == ("agent_unreachable", True, False)


class TestTakenBack:
    def test_a_whole_proof_is_kept_with_the_task_that_said_it(self) -> None:
        found = of_taken_back(task("completed", result={**PROOF, "phases": []}))

        assert found.is_proved
        assert found.proof == {**PROOF, "task_id": "tsk_1"}

    @pytest.mark.parametrize("part", ["released", "wiped", "leases_released"])
    @pytest.mark.parametrize("said", [False, "true", 1, None])
    def test_each_part_must_be_plainly_true(self, part: str, said: object) -> None:
        found = of_taken_back(task("completed", result={**PROOF, part: said}))

        assert not found.is_proved
        assert part in found.reason

    def test_whoever_failed_proves_nothing_whatever_he_says(self) -> None:
        found = of_taken_back(task("failed", error_code="wipe_failed", result=PROOF))

        assert not found.is_proved
        assert "wipe_failed" in found.reason

    @pytest.mark.parametrize("dispatched", [True, False])
    def test_what_ran_out_proves_nothing(self, *, dispatched: bool) -> None:
        found = of_taken_back(task("expired", dispatched=dispatched))

        assert not found.is_proved
        assert found.proof is None


@pytest.mark.parametrize("status", ["queued", "dispatched"])
def test_a_task_that_has_not_ended_has_no_verdict(status: str) -> None:
    with pytest.raises(AssertionError):
        of_given(task(status))
    with pytest.raises(AssertionError):
        of_taken_back(task(status))
