"""Catalogues and recordings: what a file may hold, and how a wrong one is told."""

from pathlib import Path

import pytest

from mainstay.model.errors import Rejected
from mainstay.providers.sim.offers import GPU, choose, read_catalog, small_catalog
from mainstay.providers.sim.trace import Trace, read_trace

HEAD = (
    "cloud,instance_type,region,zone,accelerator,accelerator_count,vcpus,memory_gib,"
    "usd_per_hour,spot_usd_per_hour\n"
)
GOOD = (
    HEAD + "aws,g5.xlarge,r,z,A10G,1.0,4.0,16.0,1.006,0.7251\naws,m5.large,r,z,,,2.0,8.0,0.096,\n"
)


def test_the_small_catalogue_has_every_type_in_every_zone() -> None:
    offers = small_catalog()

    assert len({(offer.instance_type, offer.zone) for offer in offers}) == len(offers) == 39
    assert all(offer.dollars_per_hour > (offer.spot_dollars_per_hour or 0) for offer in offers)


def test_a_file_is_read_with_gpus_and_without_spot(tmp_path: Path) -> None:
    path = tmp_path / "offers.csv"
    path.write_text(GOOD)

    gpu, plain = read_catalog(path)

    assert gpu.resources.units[GPU] == 1
    assert gpu.resources.units["cpu"] == 4000
    assert (gpu.dollars_per_hour, gpu.spot_dollars_per_hour) == (1.006, 0.7251)
    assert (plain.spot_dollars_per_hour, GPU in plain.resources.units) == (None, False)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a,b\n1,2\n", "line 2 of .* has no column: instance_type"),
        (HEAD, "the catalogue is empty"),
        (GOOD.replace("1.006", "cheap"), "usd_per_hour of line 2 .*'cheap'"),
        (GOOD.replace("0.096", "-1"), "usd_per_hour of line 3 .*: -1"),
        (GOOD.replace("0.096", "inf"), "zero or more: inf"),
        (GOOD.replace(",2.0,8.0", ",,8.0"), "line 3 .* must have a type, a zone, vcpus"),
    ],
)
def test_a_wrong_catalogue_is_refused_with_its_line(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "offers.csv"
    path.write_text(text)

    with pytest.raises(Rejected, match=why):
        read_catalog(path)


def test_a_type_that_is_not_sold_is_told() -> None:
    with pytest.raises(Rejected, match="no such instance type in the catalogue: x1"):
        choose(small_catalog(), ["m5.large", "x1"])


@pytest.mark.data("derived/aws_offers_us-east-1_us-west-2.csv")
def test_the_recorded_catalogue_is_read(data_dir: Path) -> None:
    offers = read_catalog(data_dir / "derived/aws_offers_us-east-1_us-west-2.csv")

    known = {(offer.instance_type, offer.zone): offer for offer in offers}
    assert len(known) > 10_000
    for offer in small_catalog():
        recorded = known[offer.instance_type, offer.zone]
        assert recorded.dollars_per_hour == offer.dollars_per_hour
        assert recorded.spot_dollars_per_hour == offer.spot_dollars_per_hour
        assert recorded.resources == offer.resources


def test_a_recording_says_what_share_is_up_and_repeats() -> None:
    trace = Trace(10.0, (4, 2, 0))

    assert [trace.share_at(second) for second in (0, 9, 10, 25, 30)] == [1.0, 1.0, 0.5, 0.0, 1.0]


@pytest.mark.parametrize(
    "text",
    ["", "[]", '{"metadata": {}, "data": [1]}', '{"metadata": {"gap_seconds": 0}, "data": [1]}',
     '{"metadata": {"gap_seconds": 9}, "data": []}',
     '{"metadata": {"gap_seconds": 9}, "data": [true]}',
     '{"metadata": {"gap_seconds": 9}, "data": [-1]}'],
)  # fmt: skip
def test_a_file_that_is_no_recording_is_refused_by_name(tmp_path: Path, text: str) -> None:
    path = tmp_path / "trace.json"
    path.write_text(text)

    with pytest.raises(Rejected, match=r"not a recording of spot capacity: .*trace\.json"):
        read_trace(path)


@pytest.mark.data("skypilot-spot-traces")
def test_every_recording_there_is_can_be_read(data_dir: Path) -> None:
    paths = sorted((data_dir / "skypilot-spot-traces").rglob("*.json"))

    traces = [read_trace(path) for path in paths]

    assert len(traces) > 30
    assert all(0.0 <= trace.share_at(86_400.0) <= 1.0 for trace in traces)
