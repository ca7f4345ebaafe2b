"""From a question to an answer: which need is meant, what the engine says, in words and as data."""

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import Any, Final, NamedTuple

from mainstay.engine.explain import Examined, examine_need, explain_cluster, explain_machine
from mainstay.engine.plan import Plan
from mainstay.model.assignment import NeedRef
from mainstay.model.errors import Rejected
from mainstay.model.ids import ClusterId, parse_cluster_id, parse_machine_id
from mainstay.model.need import Need
from mainstay.model.questions import About, Expected, Explanation, Question
from mainstay.model.resources import from_units
from mainstay.model.views import Stamp
from mainstay.shard.answers.progress import Advance
from mainstay.shard.answers.sentences import (
    cluster_sentences,
    machine_sentences,
    need_sentences,
    ref_text,
)
from mainstay.shard.answers.standing import standing_expected
from mainstay.shard.answers.when import (
    NOTHING_KNOWN,
    Outlook,
    cluster_expected,
    expected_sentence,
    need_expected,
)

CUT: Final = "not tried; with more --patience all are."
"""How an answer ends that leaves out ways to change what is asked."""

NAMED_MAX: Final = 5
"""So many needs that could be meant are named."""


class Told(NamedTuple):
    """What is said about something."""

    subject: str
    sentences: tuple[str, ...]
    report: object
    """What the sentences were made from."""

    expected: Expected


class Given(NamedTuple):
    """What an answer is made with, beside the plan."""

    outlook: Outlook = NOTHING_KNOWN
    enough: Callable[[], bool] | None = None
    """Whether no further decision is to be begun; None: never."""


NOTHING_GIVEN: Final = Given()


def explain(
    plan: Plan, question: Question, stamp: Stamp, given: Given = NOTHING_GIVEN
) -> Explanation:
    """Answer a question from a plan. Pure, and slow enough to run beside the loop."""
    answer = _ANSWERS.get(question.about)
    if answer is None:
        raise Rejected("nothing was asked about: name a need, a gang, a machine or a cluster")
    told = answer(plan, question, given)
    return Explanation(
        stamp=stamp,
        subject=told.subject,
        sentences=(*told.sentences, expected_sentence(told.expected)),
        document=json.dumps(as_document(told.report), sort_keys=True),
        expected=told.expected,
    )


def _machine(plan: Plan, question: Question, given: Given) -> Told:
    told = explain_machine(plan, parse_machine_id(question.name))
    expected = standing_expected(plan, told, given.outlook)
    return Told(told.machine, machine_sentences(told), told, expected)


def _cluster(plan: Plan, question: Question, given: Given) -> Told:
    told = explain_cluster(plan, parse_cluster_id(question.name))
    short = (each.need for each in plan.unsatisfied if each.need.cluster == told.cluster)
    first = next(short, None)
    more = () if first is None else (f"The first that is short: {ref_text(first.ref)}.",)
    expected = cluster_expected(plan, told.cluster, given.outlook)
    progress = Advance(plan, given.outlook).of_cluster(told.cluster)
    return Told(told.cluster, (*cluster_sentences(told, progress), *more), told, expected)


def _need(plan: Plan, question: Question, given: Given) -> Told:
    ref = meant(plan, question)
    examined = examine_need(plan, ref, relax=not question.quick, enough=given.enough)
    told = examined.certificate
    expected = need_expected(plan, examined, given.outlook)
    sentences = (*need_sentences(told), *_tried(examined))
    return Told(ref_text(told.need.ref), sentences, told, expected)


def _tried(examined: Examined) -> Iterator[str]:
    """What was tried in vain, and what was not tried."""
    tried, left_out = examined.tried, examined.left_out
    if tried and not examined.certificate.relaxations:
        were = "1 that was tried" if tried == 1 else f"{tried} that were tried, each on its own"
        yield f"No change helps of the {were}."
    if left_out:
        ways = "1 more way" if left_out == 1 else f"{left_out} more ways"
        yield f"{ways} to change it {'was' if left_out == 1 else 'were'} {CUT}"


_ANSWERS: Final[Mapping[About, Callable[[Plan, Question, Given], Told]]] = {
    About.NEED: _need,
    About.GANG: _need,
    About.MACHINE: _machine,
    About.CLUSTER: _cluster,
}


def meant(plan: Plan, question: Question) -> NeedRef:
    """The need that a question names, by the beginning of its fingerprint, or by its group."""
    cluster = parse_cluster_id(question.name)
    found = list(dict.fromkeys(n.ref for n in _known(plan, cluster) if _is_meant(n, question)))
    if question.about is About.GANG and not question.group:
        raise Rejected("a gang is named by its group: write explain gang CLUSTER GROUP")
    if len(found) == 1:
        return found[0]
    if not found:
        raise Rejected(_nothing_found(plan, cluster, question))
    named = ", ".join(ref_text(ref) for ref in found[:NAMED_MAX])
    raise Rejected(f"{len(found)} needs of {cluster} could be meant: name one of {named}")


def _known(plan: Plan, cluster: ClusterId) -> list[Need]:
    """The rows of a cluster, as they were sent and as the cycle saw them."""
    return [need for need in (*plan.demand.needs, *plan.needs) if need.cluster == cluster]


def _is_meant(need: Need, question: Question) -> bool:
    if question.about is About.GANG and not need.profile.same_keys:
        return False
    same_group = not question.group or need.group == question.group
    return same_group and need.profile.fingerprint.startswith(question.fingerprint.lower())


def _nothing_found(plan: Plan, cluster: ClusterId, question: Question) -> str:
    if not _known(plan, cluster):
        return f"cluster {cluster} has no needs here: `mainstay get clusters` lists those that do"
    asked = "/".join(filter(None, (question.fingerprint[:80], question.group[:80])))
    return f"cluster {cluster} has no need {asked}: `mainstay get needs --cluster {cluster}`"


def as_document(value: object) -> Any:
    """A report as JSON can hold it; amounts are quantities, as Kubernetes writes them."""
    if isinstance(value, Enum):
        return str(value) if isinstance(value.value, int) else value.value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        told = {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
        name = type(value).__name__
        return {"kind": name, **{key: as_document(each) for key, each in told.items()}}
    if isinstance(value, Mapping):
        return _mapping(value)
    if isinstance(value, tuple | list):
        return [as_document(each) for each in value]
    return value


def _mapping(value: Mapping[Any, Any]) -> dict[str, Any]:
    if all(type(key) is str and type(each) is int for key, each in value.items()):
        return {name: from_units(name, amount) for name, amount in value.items()}
    return {_key(key): as_document(each) for key, each in value.items()}


def _key(key: object) -> str:
    if key is None:
        return "satisfied"
    if isinstance(key, tuple):
        return "/".join(map(str, key))
    return str(key.value if isinstance(key, Enum) and not isinstance(key.value, int) else key)
