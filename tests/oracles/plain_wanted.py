"""The nodes that who waits would take, by looking at every node for each."""

from collections.abc import Sequence

from mainstay.tenancy.wanted import Kind, Rank, Waiting, Wanted


def plain_nodes_for(kind: Kind, waiting: Sequence[Waiting]) -> list[Wanted]:
    """The most important first, then the larger; each on the first node with room enough."""
    nodes: list[Wanted] = []
    for each in sorted(waiting, key=lambda one: (-one.priority, -one.gpus)):
        takes = kind.gpus if each.whole else each.gpus
        rank = Rank(each.priority, each.interruption_bucket, each.reclamation_bucket)
        found = [node for node in nodes if node.left >= takes]
        if not found:
            nodes.append(Wanted(rank, kind.gpus - takes, [each.request]))
            continue
        node = found[0]
        node.left -= takes
        node.requests.append(each.request)
        node.rank = Rank(
            node.rank.priority,
            max(node.rank.interruption_bucket, rank.interruption_bucket),
            max(node.rank.reclamation_bucket, rank.reclamation_bucket),
        )
    return nodes
