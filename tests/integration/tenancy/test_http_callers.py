"""Who may call what: keys, tokens, roles, limits, and a row of the audit for who was refused."""

import json
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet, OctKey

from callers import Caller, Stage, called, on_stage
from mainstay.runtime.clock import StepClock
from mainstay.tenancy.http.tokens import Issuer, Tokens
from postgres import database_url, server
from tenants import PROJECT, rows, value

__all__ = ["database_url", "server"]

NOW_S: Final = 1_800_000_000
ROLES: Final = ("tenant", "member", "readonly", "admin")


def may(method: str, path: str) -> set[str]:
    """Who may, said once more and otherwise than in the code."""
    if "/admin/" in path:
        seen = method == "get" and not path.endswith("/api-keys")
        return {"admin", "readonly"} if seen else {"admin"}
    if path.startswith(("/api/v1/api-keys", "/api/v1/ssh-keys")) and (
        method != "get" or "api-keys" in path
    ):
        return {"tenant", "admin"}
    return set(ROLES) if method == "get" else {"tenant", "member", "admin"}


def operations(stage: Stage) -> Iterator[tuple[str, str]]:
    for path, found in stage.app.openapi()["paths"].items():
        for method in found:
            yield method, path


async def tried(caller: Caller, method: str, path: str) -> httpx.Response:
    """As far as the door: what is behind it is not there."""
    filled = path.replace("{slot_index}", "0").replace("{entry}", "1")
    for name in ("allocation_id", "key_id", "event_id", "account_id", "node_id"):
        filled = filled.replace(f"{{{name}}}", "nobody")
    headers = {"X-Idempotency-Key": f"{method} {filled}".replace(" ", "-")}
    query = {"project_id": PROJECT} if caller.secret and "/admin/" not in path else {}
    ask = getattr(caller.client, method)
    found: httpx.Response = await ask(filled, headers=headers, params=query)
    return found


def test_every_route_lets_in_exactly_those_who_may(database_url: str) -> None:
    async def scenario(stage: Stage) -> None:
        wrong = []
        for method, path in operations(stage):
            if path.endswith("/stream"):
                continue  # it would not end
            for role in ROLES:
                status = (await tried(stage.by(role), method, path)).status_code
                assert status != 500
                if (status == 403) == (role in may(method, path)):
                    wrong.append((role, method, path, status))

        assert wrong == []

    on_stage(database_url, scenario)


def test_nobody_is_let_in_anywhere(database_url: str) -> None:
    async def scenario(stage: Stage) -> None:
        async with AsyncExitStack() as stack:
            nobody = await called(stack, stage.app, "")
            stranger = await called(stack, stage.app, "msk_made-up")
            for method, path in operations(stage):
                missing = await tried(nobody, method, path)
                made_up = await tried(stranger, method, path)
                assert (missing.status_code, missing.json()["code"]) == (401, "token_missing")
                assert (made_up.status_code, made_up.json()["code"]) == (401, "token_invalid")
                assert missing.headers["WWW-Authenticate"] == "Bearer"

    on_stage(database_url, scenario)


def test_who_is_refused_a_privileged_call_is_in_the_audit(database_url: str) -> None:
    async def scenario(stage: Stage) -> None:
        path = "/admin/allocations/alc_x/force-release"

        answer = await stage.tenant.post(path, None, **{"X-Correlation-Id": "cor-7"})

        assert (answer.status_code, answer.json()["code"]) == (403, "admin_required")
        [row] = await rows(stage.pool, "select * from audit where action = 'authz.deny'")
        assert row["result"] == "failure"
        assert row["correlation_id"] == "cor-7"
        assert row["target_id"] == f"POST /api/v1{path}"
        assert row["actor"].startswith("key:aky_")
        shown = (await stage.readonly.get("/admin/audit", action="authz.deny")).json()["items"]
        assert [found["id"] for found in shown] == [row["id"]]

    on_stage(database_url, scenario)


class TestKeys:
    def test_a_key_that_was_revoked_or_has_expired_opens_nothing(self, database_url: str) -> None:
        async def scenario(stage: Stage) -> None:
            made = (await stage.tenant.post("/api-keys", {"role": "member"})).json()
            short = (await stage.tenant.post("/api-keys", {"role": "member", "valid_s": 60})).json()
            async with AsyncExitStack() as stack:
                first = await called(stack, stage.app, made["secret"])
                second = await called(stack, stage.app, short["secret"])
                assert (await first.get("/me")).status_code == 200
                assert (await second.get("/me")).status_code == 200

                await stage.tenant.delete(f"/api-keys/{made['id']}")
                await rows(
                    stage.pool,
                    """update api_keys set expires_at = clock_timestamp() where id = %s
                       returning id""",
                    [short["id"]],
                )

                assert (await first.get("/me")).status_code == 401
                assert (await second.get("/me")).status_code == 401

        on_stage(database_url, scenario)

    def test_a_tenant_makes_no_key_beyond_its_own_project(self, database_url: str) -> None:
        async def scenario(stage: Stage) -> None:
            for role in ("admin", "readonly"):
                answer = await stage.tenant.post("/api-keys", {"role": role})
                assert answer.status_code == 403
            [mine] = (await stage.other.get("/api-keys")).json()["items"]
            answer = await stage.tenant.delete(f"/api-keys/{mine['id']}")
            assert (answer.status_code, answer.json()["code"]) == (404, "api_key_not_found")

        on_stage(database_url, scenario)

    def test_only_the_hash_of_a_key_is_kept(self, database_url: str) -> None:
        async def scenario(stage: Stage) -> None:
            kept = str(await rows(stage.pool, "select * from api_keys"))
            shown = (await stage.admin.get("/admin/api-keys")).text

            assert stage.tenant.secret not in kept
            assert "hash" not in shown

        on_stage(database_url, scenario)

    @pytest.mark.parametrize("body", [{"role": "tenant"}, {"role": "admin", "project_id": PROJECT}])
    def test_a_role_has_a_project_or_it_has_none(
        self, database_url: str, body: dict[str, Any]
    ) -> None:
        async def scenario(stage: Stage) -> None:
            answer = await stage.admin.post("/admin/api-keys", body)

            assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")

        on_stage(database_url, scenario)


class TestLimits:
    def test_who_calls_too_often_is_told_to_wait_and_nobody_else_is(
        self, database_url: str
    ) -> None:
        clock = StepClock()

        async def scenario(stage: Stage) -> None:
            answers = [(await stage.tenant.get("/me")).status_code for _ in range(4)]
            late = await stage.tenant.get("/me")
            other = await stage.other.get("/me")
            clock.advance(float(late.headers["Retry-After"]))
            again = await stage.tenant.get("/me")

            assert answers == [200, 200, 200, 429]
            assert late.json()["code"] == "rate_limit_exceeded"
            assert (other.status_code, again.status_code) == (200, 200)

        on_stage(database_url, scenario, clock=clock, per_s=0.5, burst=3)


KEY: Final = ECKey.generate_key("P-256", {"kid": "one", "use": "sig"})
STRANGE: Final = ECKey.generate_key("P-256", {"kid": "one", "use": "sig"})


def token(key: Any = KEY, algorithm: str = "ES256", **changes: Any) -> str:
    claims = {
        "iss": "https://issuer.example",
        "aud": "mainstay",
        "sub": "ada",
        "exp": NOW_S + 60,
        "mainstay_role": "tenant",
        "mainstay_project": PROJECT,
        **changes,
    }
    said = {name: value for name, value in claims.items() if value is not None}
    return jwt.encode({"alg": algorithm, "kid": "one"}, said, key, algorithms=[algorithm])


@pytest.fixture
def tokens(tmp_path: Path) -> Tokens:
    path = tmp_path / "jwks.json"
    path.write_text(json.dumps(KeySet([KEY]).as_dict(private=False)))
    issuer = Issuer(issuer="https://issuer.example", audience="mainstay", jwks=str(path))
    return Tokens(issuer, StepClock(float(NOW_S)))


class TestTokens:
    def test_a_token_lets_in_with_its_role_and_project(
        self, database_url: str, tokens: Tokens
    ) -> None:
        async def scenario(stage: Stage) -> None:
            async with AsyncExitStack() as stack:
                ada = await called(stack, stage.app, token())
                root = await called(stack, stage.app, token(mainstay_role="admin"))

                assert (await ada.get("/me")).json() == {
                    "name": "oidc:ada", "role": "tenant", "project_id": PROJECT,
                }  # fmt: skip
                assert (await ada.get("/admin/nodes")).status_code == 403
                assert (await root.get("/admin/nodes")).status_code == 200

        on_stage(database_url, scenario, tokens=tokens)

    def test_a_token_that_is_wrong_lets_nobody_in(self, database_url: str, tokens: Tokens) -> None:
        wrong = {
            "expired": (token(exp=NOW_S - 60), "token_expired"),
            "without end": (token(exp=None), "token_invalid"),
            "another issuer": (token(iss="https://other.example"), "token_invalid"),
            "for somebody else": (token(aud="other"), "token_invalid"),
            "another key": (token(STRANGE), "token_invalid"),
            "changed": (token()[:-4] + "AAAA", "token_invalid"),
            "of a shared secret": (token(OctKey.generate_key(256), "HS256"), "token_invalid"),
            "nonsense": ("a.b.c", "token_invalid"),
            "nobody": (token(sub=None), "token_invalid"),
            "not yet": (token(nbf=NOW_S + 600), "token_invalid"),
        }

        async def scenario(stage: Stage) -> None:
            for why, (given, code) in wrong.items():
                async with AsyncExitStack() as stack:
                    answer = await (await called(stack, stage.app, given)).get("/me")
                    assert (answer.status_code, answer.json()["code"]) == (401, code), why

        on_stage(database_url, scenario, tokens=tokens)

    @pytest.mark.parametrize(
        "claims",
        [
            {"mainstay_role": None},
            {"mainstay_role": "root"},
            {"mainstay_project": None},
            {"mainstay_project": 7},
        ],
    )
    def test_a_token_without_a_role_or_project_of_ours_is_known_and_not_let_in(
        self, database_url: str, tokens: Tokens, claims: dict[str, Any]
    ) -> None:
        async def scenario(stage: Stage) -> None:
            async with AsyncExitStack() as stack:
                answer = await (await called(stack, stage.app, token(**claims))).get("/me")

            assert (answer.status_code, answer.json()["code"]) == (403, "token_scope_invalid")

        on_stage(database_url, scenario, tokens=tokens)

    def test_without_an_identity_provider_no_token_is_believed(self, database_url: str) -> None:
        async def scenario(stage: Stage) -> None:
            async with AsyncExitStack() as stack:
                answer = await (await called(stack, stage.app, token())).get("/me")

            assert (answer.status_code, answer.json()["code"]) == (401, "token_invalid")

        on_stage(database_url, scenario)

    def test_idempotency_and_audit_go_by_the_subject(
        self, database_url: str, tokens: Tokens
    ) -> None:
        async def scenario(stage: Stage) -> None:
            async with AsyncExitStack() as stack:
                ada = await called(stack, stage.app, token())
                await ada.post("/allocations/alc_x/release")

            found = await value(stage.pool, "select principal from idempotency_keys")
            assert found == "oidc:ada"

        on_stage(database_url, scenario, tokens=tokens)
