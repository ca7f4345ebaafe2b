"""tools/proto_pages.py: a call, what it carries and what is said of it, from the sources."""

import re
from pathlib import Path

import pytest

import outside
from tree import load_tool

SOURCE = """
syntax = "proto3";
package mainstay.v1;

// For whoever
// asks.
service Asking {
  // As long as | it takes.
  rpc Watch(Asked) returns (stream Told);
}
message Asked {}
// What is told.
message Told {
  enum Kind {
    KIND_NONE = 0;
    // The one.
    KIND_ONE = 4;
  }
  message Part { string name = 1; }
  // Of which kind.
  Kind kind = 7;
  repeated Part parts = 2;
  map<string, Part> named = 3;
  optional int64 at = 4;
  oneof way {
    // There.
    string there = 5;
  }
}
"""


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.syspath_prepend(outside.ROOT / "tools")  # as its own folder is for a script
    (tmp_path / "a.proto").write_text(SOURCE)
    (tmp_path / "b.proto").write_text('syntax = "proto3"; package theirs; message Other {}')
    return str(load_tool("proto_pages").proto_page(tmp_path))


@pytest.mark.parametrize(
    "told",
    [
        "## Asking\n\nFor whoever asks.\n",
        "| `Watch` | [Asked](#mainstay-v1-asked) | a stream of [Told](#mainstay-v1-told) |"
        " As long as \\| it takes. |",
        "### Asked\n\nIt is empty.\n",
        "(mainstay-v1-told)=\n### Told\n\nWhat is told.\n",
        "| 7 | `kind` | [Told.Kind](#mainstay-v1-told-kind) | Of which kind. |",
        "| 2 | `parts` | repeated [Told.Part](#mainstay-v1-told-part) |  |",
        "| 3 | `named` | string to [Told.Part](#mainstay-v1-told-part) |  |",
        "| 4 | `at` | optional int64 |  |",
        "| 5 | `there` | string | one of `way`. There. |",
        "(mainstay-v1-told-part)=\n### Told.Part\n",
        "| 4 | `KIND_ONE` | The one. |",
    ],
)
def test_all_that_the_source_says_is_on_the_page(page: str, told: str) -> None:
    assert told in page


def test_what_is_not_ours_and_how_a_map_is_sent_are_not(page: str) -> None:
    assert "Other" not in page
    assert "NamedEntry" not in page


def test_every_call_and_every_message_of_ours_is_on_the_page_that_is_committed() -> None:
    written = (outside.ROOT / "docs/reference/mainstay-v1.md").read_text()
    source = "".join(
        path.read_text() for path in sorted(Path(outside.ROOT, "proto/mainstay/v1").glob("*.proto"))
    )
    services, calls, messages = (
        re.findall(rf"^ *{word} (\w+)", source, re.MULTILINE)
        for word in ("service", "rpc", "message")
    )

    missing = [name for name in services if f"\n## {name}\n" not in written]
    missing += [name for name in calls if f"| `{name}` |" not in written]
    missing += [name for name in messages if not re.search(rf"\n### ([\w.]+\.)?{name}\n", written)]

    assert (len(calls) > 20, len(messages) > 50, missing) == (True, True, [])
