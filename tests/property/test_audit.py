"""An audit log that was changed anywhere is never taken for whole."""

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

import outside
from mainstay.shard.audit.chain import OWN_KEYS
from mainstay.shard.audit.files import AuditFiles, Sizes, files_of
from mainstay.shard.audit.verify import verify

CONTENTS = st.lists(
    st.dictionaries(
        st.text(max_size=5).filter(lambda key: key not in OWN_KEYS),
        st.one_of(st.none(), st.integers(), st.floats(), st.text(max_size=20)),
        max_size=3,
    ),
    min_size=1,
    max_size=12,
)


def log_in(directory: Path, contents: list[dict[str, object]]) -> list[Path]:
    log = AuditFiles(directory, Sizes(file_bytes=700))
    for start in range(0, len(contents), 4):
        log.append(contents[start : start + 4])
    log.close()
    assert verify(directory).broken == ""
    assert verify(directory).lines == len(contents)
    return [*files_of(directory), directory / "head.json"]


@settings(max_examples=outside.examples(30), deadline=None)
@given(contents=CONTENTS, chosen=st.data())
def test_any_single_byte_that_is_changed_is_found(
    contents: list[dict[str, object]], chosen: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        files = log_in(Path(folder), contents)
        path = chosen.draw(st.sampled_from(files))
        content = bytearray(path.read_bytes())
        place = chosen.draw(st.integers(0, len(content) - 1))
        content[place] ^= chosen.draw(st.integers(1, 255))
        path.write_bytes(content)

        assert verify(Path(folder)).broken != ""


def test_each_byte_of_a_small_log_counts(tmp_path: Path) -> None:
    for path in log_in(tmp_path, [{"text": "a\nb"}, {}, {"x": 1}]):
        content = path.read_bytes()
        for place in range(len(content)):
            for other in (content[place] ^ 0x20, 0x0A):
                if other != content[place]:
                    path.write_bytes(content[:place] + bytes([other]) + content[place + 1 :])
                    assert verify(tmp_path).broken != "", (path.name, place, other)
        path.write_bytes(content)


@settings(max_examples=outside.examples(30), deadline=None)
@given(contents=CONTENTS, chosen=st.data())
def test_any_run_of_bytes_that_is_cut_out_is_found(
    contents: list[dict[str, object]], chosen: st.DataObject
) -> None:
    """Also at the very end, once the log was closed."""
    with tempfile.TemporaryDirectory() as folder:
        files = log_in(Path(folder), contents)
        path = chosen.draw(st.sampled_from(files))
        content = path.read_bytes()
        start = chosen.draw(st.integers(0, len(content) - 1))
        end = chosen.draw(st.integers(start + 1, len(content)))
        path.write_bytes(content[:start] + content[end:])

        assert verify(Path(folder)).broken != ""
