"""Who asks is written into orders, by the certificate; questions are left as they are."""

from mainstay.model import money_views as m
from mainstay.model import questions as q
from mainstay.wire.shard_view_server import signed
from mainstay.wire.tls import Identity, Role

ADMIN = Identity(Role.ADMIN)


def test_an_order_is_given_by_whom_the_certificate_names() -> None:
    order = q.RetireRequest(machine="m-1", reason="gone", by="somebody")

    assert signed(order, ADMIN).by == "bigfleet://admin"
    assert signed(order, None).by == "somebody"


def test_a_question_may_mean_something_else_by_the_same_word() -> None:
    question = m.MoneyQuery(by="cluster")

    assert signed(question, ADMIN) == question
