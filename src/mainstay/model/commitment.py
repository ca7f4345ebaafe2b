"""What a need stamps on the machines that are meant for it, early enough that they count for it."""

from mainstay.model.assignment import Assignment
from mainstay.model.cost import upper_bound
from mainstay.model.need import Need


def commitment(need: Need) -> Assignment:
    """What a machine carries while it is created for a need."""
    ref = need.ref
    return Assignment(fingerprint=ref.fingerprint, group=ref.group, cluster=ref.cluster)


def full_commitment(need: Need) -> Assignment:
    """What a machine carries that joins or serves a need."""
    profile, ref = need.profile, need.ref
    return Assignment(
        fingerprint=ref.fingerprint,
        group=ref.group,
        cluster=ref.cluster,
        priority=profile.priority,
        interruption_penalty_dollars=upper_bound(profile.interruption_penalty_bucket),
        reclamation_penalty_dollars=upper_bound(profile.reclamation_penalty_bucket),
    )
