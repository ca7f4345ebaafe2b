"""Bearer tokens of an identity provider, checked against its keys."""

from dataclasses import dataclass
from typing import Any, Final

from joserfc import jwt
from joserfc.errors import ExpiredTokenError, JoseError
from joserfc.jwk import KeySet

from mainstay.model.errors import Rejected
from mainstay.runtime.clock import Clock
from mainstay.tenancy.api_keys import OF_A_PROJECT, Role
from mainstay.tenancy.http.jwks import Jwks

ALGORITHMS: Final = ["RS256", "RS512", "PS256", "ES256", "ES384", "EdDSA", "Ed25519"]
"""Signatures by a key that only the provider has; never one that we could make ourselves."""

SKEW_S: Final = 30


class TokenInvalid(Rejected):
    """Not a token, or not for us."""

    code = "token_invalid"
    what_to_do = "sign in again"


class TokenExpired(Rejected):
    """It was good once."""

    code = "token_expired"
    what_to_do = "sign in again"


class TokenScope(Rejected):
    """The token is good, and says nothing that lets anybody in here."""

    code = "token_scope_invalid"
    what_to_do = "have the identity provider give you a role and a project"


@dataclass(frozen=True, slots=True, kw_only=True)
class Issuer:
    """Whose tokens are believed."""

    issuer: str
    audience: str
    jwks: str
    """A file with its public keys, kept up to date by whoever runs us, or the URL of them."""

    role_claim: str = "mainstay_role"
    project_claim: str = "mainstay_project"


@dataclass(frozen=True, slots=True)
class Holder:
    """Whom a token is about."""

    subject: str
    role: Role
    project: str | None


class Tokens:
    """Checks tokens of one issuer."""

    def __init__(self, issuer: Issuer, clock: Clock) -> None:
        self._issuer, self._clock = issuer, clock
        self._jwks = Jwks(issuer.jwks, clock)

    async def holder(self, token: str) -> Holder:
        """Whom it is about, if it is good now."""
        claims = self._claims(token, await self._jwks.for_token(token))
        subject = claims.get("sub")
        if not isinstance(subject, str) or not 0 < len(subject) <= 200:
            raise TokenInvalid("a token without a subject")
        return Holder(subject, *_role(claims, self._issuer))

    def _claims(self, token: str, keys: KeySet) -> dict[str, Any]:
        rules = jwt.JWTClaimsRegistry(
            now=int(self._clock.now_s()),
            leeway=SKEW_S,
            iss={"essential": True, "value": self._issuer.issuer},
            aud={"essential": True, "value": self._issuer.audience},
            exp={"essential": True},
        )
        try:
            decoded = jwt.decode(token, keys, algorithms=ALGORITHMS)
            rules.validate(decoded.claims)
        except ExpiredTokenError as error:
            raise TokenExpired("this token has expired") from error
        except (JoseError, ValueError, TypeError, KeyError, RecursionError) as error:
            raise TokenInvalid("this token is not one that we believe") from error
        return dict(decoded.claims)


def _role(claims: dict[str, Any], issuer: Issuer) -> tuple[Role, str | None]:
    said, project = claims.get(issuer.role_claim), claims.get(issuer.project_claim)
    if said not in list(Role):
        raise TokenScope(f"a token without a role: {issuer.role_claim} must be one of ours")
    role = Role(said)
    if role not in OF_A_PROJECT:
        return role, None
    if not isinstance(project, str) or not project:
        raise TokenScope(f"a token for {role} without a project: {issuer.project_claim}")
    return role, project
