"""One run over a trace: pods arrive, a policy places each, nobody moves and nobody leaves.

Written so that numba can compile it; plain, it runs as it stands here. Scores are kept per shape
and node and made anew only for nodes that changed. The least score wins, the first node of equal
ones. A pod that fits nowhere is passed over; one that fits somewhere is placed.
"""

import math
from functools import cache
from types import FunctionType
from typing import Any, Final, NamedTuple

import numpy as np

from mainstay.bench.openb import I64, Nodes, Pods
from mainstay.tenancy.placement import waste
from mainstay.tenancy.placement.waste import MILLI, Outlook, added

OURS, BEST_FIT, FGD = 0, 1, 2
NOWHERE: Final = math.inf
CPU_MOST: Final = 128_000.0
GPU_MOST: Final = 8_000.0
"""By which the published best fit makes CPU and GPU comparable."""

TYPICAL_SHARE: Final = 0.95
"""How many of the pods the published policy takes for typical."""


class Run(NamedTuple):
    """How a run ended."""

    arrived: I64
    """GPU thousandths, after each arrival."""

    placed: I64
    cpu_milli: I64
    memory_mib: I64
    gpu_milli: I64


def best_fit(room: Any, want: Any) -> tuple[float, int]:
    """The published best fit: least CPU and GPU left, in steps of a hundredth."""
    total = 0
    pick = -1
    for gpu in range(len(room[2])):
        left = room[2][gpu]
        total += left
        fits = 0 < want[3] < MILLI and want[3] <= left
        if fits and (pick < 0 or left < room[2][pick]):
            pick = gpu
    cpu = (room[0] - want[0]) / CPU_MOST
    gpus = (total - want[2] * want[3]) / GPU_MOST
    return -math.floor((1.0 - 0.5 * cpu - 0.5 * gpus) * 100.0), pick


def split(free: Any, part: int) -> tuple[int, int]:
    """(GPUs with so much free, the sum of what is free on the others)."""
    enough, rest = 0, 0
    for left in free:
        if left >= part:
            enough += 1
        else:
            rest += left
    return enough, rest


def fragments(cpu: int, free: Any, model: int, typical: Any) -> float:
    """The free GPU thousandths that a typical pod cannot use, on average."""
    total = 0
    for left in free:
        total += left
    if total == 0:
        return 0.0
    kinds, starts, cpus, shares = typical
    lost = 0.0
    for kind in range(len(kinds)):
        usable, unusable = split(free, kinds[kind, 1])
        all_of_it = shares[starts[kind + 1] - 1]
        served = 0.0
        if kinds[kind, 0] > 0 and usable >= kinds[kind, 0] and kinds[kind, 2] & model:
            for at in range(starts[kind], starts[kind + 1]):
                if cpus[at] <= cpu:
                    served = shares[at]
        lost += (all_of_it - served) * total + served * unusable
    return lost


def gradient(rise: float) -> float:
    """The published score of a rise in fragments, in steps of a hundredth."""
    return -math.floor(100.0 / (1.0 + math.exp(rise / 1000.0)))


def descend(room: Any, want: Any, model: int, typical: Any) -> tuple[float, int]:
    """The published policy FGD: whatever adds the fewest fragments."""
    free = room[2].copy()
    before = fragments(room[0], free, model, typical)
    cpu = room[0] - want[0]
    if want[2] != 1 or want[3] == MILLI:
        missing = want[2]
        for gpu in range(len(free)):
            if missing > 0 and free[gpu] == MILLI:
                free[gpu] = 0
                missing -= 1
        return gradient(fragments(cpu, free, model, typical) - before), -1
    least, pick = NOWHERE, -1
    for gpu in range(len(free)):
        if free[gpu] >= want[3]:
            free[gpu] -= want[3]
            score = gradient(fragments(cpu, free, model, typical) - before)
            free[gpu] += want[3]
            if score < least:
                least, pick = score, gpu
    return least, pick


def has_room(room: Any, want: Any) -> bool:
    """Whether a pod fits on a node whose model it may use."""
    enough, _ = split(room[2], want[3])
    return bool(room[0] >= want[0] and room[1] >= want[1] and enough >= want[2])


def scored(fleet: Any, node: int, want: Any, rule: Any) -> tuple[float, int]:
    """(score, GPU to take a part of) of a pod on a node; NOWHERE if it does not fit."""
    room = (fleet[0][node], fleet[1][node], fleet[2][node], fleet[4][node])
    if not has_room(room, want):
        return NOWHERE, -1
    policy, outlook, typical = rule
    if policy == OURS:
        return added(room, want, outlook)
    if policy == BEST_FIT:
        return best_fit(room, want)
    return descend(room, want, fleet[3][node], typical)


def take(fleet: Any, node: int, want: Any, pick: int) -> None:
    """Put a pod on a node."""
    fleet[0][node] -= want[0]
    fleet[1][node] -= want[1]
    free = fleet[2][node]
    if pick >= 0:
        free[pick] -= want[3]
        return
    missing = want[2]
    for gpu in range(len(free)):
        if missing > 0 and free[gpu] == MILLI:
            free[gpu] = 0
            missing -= 1


def best_node(fleet: Any, shape: int, demand: Any, book: Any, rule: Any) -> int:
    """The node to take for a shape, or -1; scores of nodes that changed are made anew."""
    wants, allowed = demand[0], demand[1]
    scores, picks, seen, changed = book
    want = (wants[shape, 0], wants[shape, 1], wants[shape, 2], wants[shape, 3])
    least, best = NOWHERE, -1
    for node in range(len(changed)):
        if seen[shape, node] != changed[node]:
            seen[shape, node] = changed[node]
            scores[shape, node] = NOWHERE
            if want[2] == 0 or allowed[shape] & fleet[3][node]:
                score, pick = scored(fleet, node, want, rule)
                scores[shape, node], picks[shape, node] = score, pick
        if scores[shape, node] < least:
            least, best = scores[shape, node], node
    return best


def arrive(fleet: Any, demand: Any, book: Any, rule: Any, placed: Any) -> None:
    """Place pod after pod; `placed` gets the GPU thousandths in use after each."""
    wants, order = demand[0], demand[2]
    used = 0
    for at in range(len(order)):
        shape = order[at]
        node = best_node(fleet, shape, demand, book, rule)
        if node >= 0:
            want = (wants[shape, 0], wants[shape, 1], wants[shape, 2], wants[shape, 3])
            take(fleet, node, want, book[1][shape, node])
            book[3][node] += 1
            used += want[2] * want[3]
        placed[at] = used


_HELPERS: Final = (
    "best_fit", "split", "fragments", "gradient", "descend", "has_room", "scored", "take",
    "best_node",
)  # fmt: skip
_WASTE: Final = ("short", "torn", "worth", "stranded", "added")


@cache
def compiled() -> Any:
    """`arrive`, compiled where numba is at hand; not kept on disk, since it spans two modules."""
    try:
        import numba  # noqa: PLC0415 - slow to import, and may be missing
    except ImportError:
        return arrive
    scope = {**vars(waste), **globals()}
    for names, module in ((_WASTE, vars(waste)), (_HELPERS, globals())):
        for name in names:
            code = module[name].__code__
            scope[name] = numba.njit(FunctionType(code, scope, name))
    return numba.njit(FunctionType(arrive.__code__, scope, "arrive"))


def simulate(nodes: Nodes, pods: Pods, order: I64, policy: int, loop: Any = arrive) -> Run:
    """One run from empty nodes; `loop` is `arrive` or its compiled form."""
    fleet = (
        nodes.cpu_milli.copy(), nodes.memory_mib.copy(), nodes.gpu_milli.copy(), nodes.model,
        np.count_nonzero(nodes.gpu_milli, axis=1),
    )  # fmt: skip
    size = (len(pods.wants), len(nodes.cpu_milli))
    book = (
        np.zeros(size), np.zeros(size, np.int64), np.full(size, -1, np.int64),
        np.zeros(size[1], np.int64),
    )  # fmt: skip
    rule = (policy, outlook_of(pods).columns, typical_of(pods))
    placed = np.zeros(len(order), np.int64)
    wants = np.array(pods.wants, np.int64).reshape(len(pods.wants), 4)
    loop(fleet, (wants, pods.allowed, order), book, rule, placed)
    return Run(np.cumsum(pods.gpu_milli[order]), placed, *fleet[:3])


def outlook_of(pods: Pods) -> Outlook:
    """All that our policy knows of the future: the shapes of the list and how often each is."""
    often = np.bincount(pods.shape, minlength=len(pods.wants))
    return Outlook.of((want, float(n)) for want, n in zip(pods.wants, often, strict=True))


def typical_of(pods: Pods) -> tuple[Any, Any, Any, Any]:
    """What the published policy knows: the most frequent shapes, in four columns.

    (GPUs, thousandths of each, models) per kind, where the CPUs of each kind begin, CPUs in order,
    and the share of all typical pods up to there.
    """
    often: dict[tuple[int, int, int, int], int] = {}
    counts = np.bincount(pods.shape, minlength=len(pods.wants))
    for want, mask, count in zip(pods.wants, pods.allowed, counts, strict=True):
        key = (want.gpus, want.gpu_milli, int(mask), want.cpu_milli)
        often[key] = often.get(key, 0) + int(count)
    kept: dict[tuple[int, int, int, int], int] = {}
    for key in sorted(often, key=lambda key: (-often[key], key)):
        if sum(kept.values()) >= TYPICAL_SHARE * len(pods.shape):
            break
        kept[key] = often[key]
    total = sum(kept.values())
    kinds = sorted({key[:3] for key in kept})
    starts, cpus, shares = [0], [], []
    for kind in kinds:
        share = 0.0
        for key in sorted(key for key in kept if key[:3] == kind):
            share += kept[key] / total
            cpus.append(key[3])
            shares.append(share)
        starts.append(len(cpus))
    columns = np.array([(gpus, part, mask) for gpus, part, mask in kinds], np.int64)
    return columns, np.array(starts), np.array(cpus), np.array(shares)
