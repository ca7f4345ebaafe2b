"""A what-if that several shards are asked: who is asked what, and what none of them knows."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from mainstay.model.errors import Rejected, Unknown
from mainstay.model.questions import WhatIfAnswer, WhatIfQuery


def divided(
    query: WhatIfQuery, serving: Mapping[str, Collection[str]]
) -> Mapping[str, WhatIfQuery]:
    """What each shard is asked, by the clusters that each serves: more demand meets one of them.

    One shard alone is asked all of it; of several, one that nothing is about is not asked.
    """
    if len(serving) == 1:
        return dict.fromkeys(serving, query)
    owner = {each.cluster: _owner(each.cluster, serving) for each in query.additions}
    asked = {
        shard: replace(
            query, additions=tuple(each for each in query.additions if owner[each.cluster] == shard)
        )
        for shard in serving
    }
    return {shard: each for shard, each in asked.items() if each != WhatIfQuery()}


def _owner(cluster: str, serving: Mapping[str, Collection[str]]) -> str:
    ask = "ask the one that is meant with `mainstay whatif --shard NAME`"
    found = sorted(shard for shard, clusters in serving.items() if cluster in clusters)
    if not found:
        raise Unknown(f"no shard that answers serves cluster {cluster[:80]}: {ask}")
    if len(found) > 1:
        names = ", ".join(found)
        raise Rejected(f"{len(found)} shards serve cluster {cluster[:80]} ({names}): {ask}")
    return found[0]


def check_known(answers: Sequence[WhatIfAnswer], *, all_answered: bool) -> None:
    """What is about machines of which no shard has one is a mistake, and not only left out; a
    shard that did not answer may have them.
    """
    nowhere = set.intersection(*(set(each.unmatched) for each in answers))
    if nowhere and all_answered:
        raise Unknown(f"no machine has {min(nowhere)}; name values that machines have")
