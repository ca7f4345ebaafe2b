"""Which shards a command asks: named, by environment, by context, or those that run here."""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from certificates import Authority
from mainstay.config.load import contexts_file
from mainstay.model.errors import Rejected, Unavailable
from mainstay.processes.announce import announced
from mainstay.processes.finding import API, Where, find, find_api, find_tenants
from mainstay.wire.tls import MutualTls, Plaintext, TlsFlags


def where(folder: Path, **given: Any) -> Where:
    parts: dict[str, Any] = {"environment": {}, **given}
    return Where(process="shard", home=folder / "home", contexts=folder / "contexts.toml", **parts)


def running(folder: Path, name: str, address: str, **facts: Any) -> None:
    run = folder / "home" / "run"
    run.mkdir(parents=True, exist_ok=True)
    told = {"id": name, "pid": os.getpid(), "addresses": {"grpc": address}, "tls": None, **facts}
    (run / f"shard-{name}.json").write_text(json.dumps(told))


def addresses(found: Where) -> list[str]:
    return [server.address for server in find(found)]


class TestOrder:
    @pytest.fixture
    def everywhere(self, tmp_path: Path) -> Path:
        running(tmp_path, "s-0", "127.0.0.1:4")
        (tmp_path / "contexts.toml").write_text(
            'current = "home"\n[contexts.home]\nshard = "127.0.0.1:3"\n'
            '[contexts.other]\nserver = "127.0.0.1:5"\n'
        )
        return tmp_path

    def test_a_flag_wins_over_everything(self, everywhere: Path) -> None:
        environment = {"MAINSTAY_SERVER": "127.0.0.1:2"}
        found = where(everywhere, server="127.0.0.1:1", environment=environment)

        assert addresses(found) == ["127.0.0.1:1"]

    def test_the_environment_wins_over_a_context(self, everywhere: Path) -> None:
        found = where(everywhere, environment={"MAINSTAY_SERVER": "127.0.0.1:2"})

        assert addresses(found) == ["127.0.0.1:2"]

    def test_the_chosen_context_wins_over_what_runs_here(self, everywhere: Path) -> None:
        assert addresses(where(everywhere)) == ["127.0.0.1:3"]

    def test_another_context_may_be_named(self, everywhere: Path) -> None:
        assert addresses(where(everywhere, context="other")) == ["127.0.0.1:5"]

    def test_without_any_of_them_what_runs_here_is_asked(self, everywhere: Path) -> None:
        (everywhere / "contexts.toml").unlink()

        (server,) = find(where(everywhere))

        assert (server.name, server.address) == ("s-0", "127.0.0.1:4")


class TestNamed:
    def test_several_may_be_named_with_commas(self, tmp_path: Path) -> None:
        found = where(tmp_path, server="127.0.0.1:1, 127.0.0.1:2")

        assert addresses(found) == ["127.0.0.1:1", "127.0.0.1:2"]

    @pytest.mark.parametrize("text", ["host", "host:", ":80", "host:http"])
    def test_what_is_no_address_is_refused(self, tmp_path: Path, text: str) -> None:
        with pytest.raises(Rejected, match="not an address"):
            find(where(tmp_path, server=text))

    def test_plaintext_on_loopback_says_so(self, tmp_path: Path) -> None:
        (server,) = find(where(tmp_path, server="127.0.0.1:1"))

        assert "Plaintext at 127.0.0.1:1" in server.announcement

    def test_plaintext_elsewhere_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(Rejected, match="plaintext only on loopback"):
            find(where(tmp_path, server="10.0.0.1:7780"))

    def test_one_that_runs_here_is_known_by_its_name(self, tmp_path: Path) -> None:
        running(tmp_path, "s-7", "127.0.0.1:1")

        (server,) = find(where(tmp_path, server="127.0.0.1:1"))

        assert (server.name, server.announcement) == ("s-7", "")

    def test_flags_are_used(self, tmp_path: Path) -> None:
        flags = Authority(tmp_path).flags("bigfleet://admin")
        (server,) = find(where(tmp_path, server="10.0.0.1:7780", flags=flags))

        assert isinstance(server.over, MutualTls)
        assert server.announcement == ""


class TestContexts:
    def test_contexts_are_where_the_user_keeps_settings(self) -> None:
        assert contexts_file({"XDG_CONFIG_HOME": "/x"}) == Path("/x/mainstay/contexts.toml")
        assert contexts_file({}) == Path.home() / ".config/mainstay/contexts.toml"

    def test_a_context_brings_its_certificates(self, tmp_path: Path) -> None:
        flags = Authority(tmp_path).flags("bigfleet://admin")
        (tmp_path / "contexts.toml").write_text(
            f'current = "c"\n[contexts.c]\nshard = "10.0.0.1:7780"\ntls_cert = "{flags.cert}"\n'
            f'tls_key = "{flags.key}"\ntls_ca = "{flags.ca}"\n'
        )

        (server,) = find(where(tmp_path))

        assert isinstance(server.over, MutualTls)

    @pytest.mark.parametrize(
        ("text", "context", "says"),
        [
            ("not toml", "", "cannot read"),
            ("", "prod", "no context 'prod'"),
            ('current = "x"', "", "no context 'x'"),
            ("[contexts.c]\n", "c", "names no shard"),
            ('[contexts.c]\nshard = ""\n', "c", "names no shard"),
            ("contexts = 1\n", "c", "no context 'c'"),
        ],
    )
    def test_a_context_that_says_nothing_is_refused_with_what_to_write(
        self, tmp_path: Path, text: str, context: str, says: str
    ) -> None:
        (tmp_path / "contexts.toml").write_text(text)

        with pytest.raises(Rejected, match=says):
            find(where(tmp_path, context=context))


class TestRunning:
    def test_nobody_there_is_told_with_what_to_do(self, tmp_path: Path) -> None:
        with pytest.raises(Unavailable, match=r"no shard runs here") as refused:
            find(where(tmp_path))

        assert "--server HOST:PORT" in refused.value.what_to_do

    def test_all_that_run_here_are_asked(self, tmp_path: Path) -> None:
        running(tmp_path, "s-0", "127.0.0.1:1")
        running(tmp_path, "s-1", "127.0.0.1:2")

        assert [server.name for server in find(where(tmp_path))] == ["s-0", "s-1"]

    def test_one_that_died_without_a_word_is_passed_over(self, tmp_path: Path) -> None:
        ended = subprocess.Popen([sys.executable, "-c", ""])
        ended.wait()
        running(tmp_path, "s-0", "127.0.0.1:1", pid=ended.pid)
        running(tmp_path, "s-1", "127.0.0.1:2")

        assert [server.name for server in find(where(tmp_path))] == ["s-1"]

    @pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": 1}', '{"pid": true, "addresses": 7}'])
    def test_a_file_that_says_nothing_is_passed_over(self, tmp_path: Path, text: str) -> None:
        running(tmp_path, "s-1", "127.0.0.1:2")
        (tmp_path / "home/run/shard-s-0.json").write_text(text)

        assert [server.name for server in find(where(tmp_path))] == ["s-1"]

    def test_what_a_process_announces_is_found(self, tmp_path: Path) -> None:
        facts = {"addresses": {"grpc": "127.0.0.1:9"}, "tls": None}
        with announced(tmp_path / "home", "shard", "s-3", facts):
            (server,) = find(where(tmp_path))

        assert (server.name, server.address) == ("s-3", "127.0.0.1:9")
        assert isinstance(server.over, Plaintext)
        with pytest.raises(Unavailable):
            find(where(tmp_path))

    def test_one_with_tls_asks_for_a_certificate(self, tmp_path: Path) -> None:
        running(tmp_path, "s-0", "127.0.0.1:1", tls={"cert": "c", "key": "k", "ca": "a"})

        with pytest.raises(Rejected, match=r"s-0 at 127.0.0.1:1 uses TLS: give --tls-cert"):
            find(where(tmp_path))
        flags = Authority(tmp_path).flags("bigfleet://readonly")
        (server,) = find(where(tmp_path, flags=flags))
        assert isinstance(server.over, MutualTls)

    def test_other_processes_are_not_shards(self, tmp_path: Path) -> None:
        running(tmp_path, "s-0", "127.0.0.1:1")
        (tmp_path / "home/run/provider-sim-1.json").write_text(
            (tmp_path / "home/run/shard-s-0.json").read_text()
        )

        assert len(find(where(tmp_path))) == 1

    def test_contradicting_flags_are_refused(self, tmp_path: Path) -> None:
        running(tmp_path, "s-0", "127.0.0.1:1")

        with pytest.raises(Rejected, match="contradicts"):
            find(where(tmp_path, flags=TlsFlags(cert="x", insecure=True)))


class TestCoordinators:
    def test_the_variable_of_shards_names_no_coordinator(self, tmp_path: Path) -> None:
        environment = {"MAINSTAY_SERVER": "127.0.0.1:2", "MAINSTAY_COORDINATOR": "127.0.0.1:3"}
        asked = dataclasses.replace(where(tmp_path, environment=environment), process="coordinator")

        assert addresses(asked) == ["127.0.0.1:3"]
        assert addresses(where(tmp_path, environment=environment)) == ["127.0.0.1:2"]

    def test_the_server_of_a_context_is_no_coordinator(self, tmp_path: Path) -> None:
        (tmp_path / "contexts.toml").write_text(
            'current = "c"\n[contexts.c]\nserver = "127.0.0.1:2"\n'
        )
        asked = dataclasses.replace(where(tmp_path), process="coordinator")

        with pytest.raises(Rejected, match='names no coordinator: write coordinator = "HOST:PORT"'):
            find(asked)

    def test_a_context_names_several(self, tmp_path: Path) -> None:
        (tmp_path / "contexts.toml").write_text(
            'current = "c"\n[contexts.c]\ncoordinator = "127.0.0.1:2,127.0.0.1:3"\n'
        )
        asked = dataclasses.replace(where(tmp_path), process="coordinator")

        assert addresses(asked) == ["127.0.0.1:2", "127.0.0.1:3"]


class TestTheApi:
    """`mainstay alloc` and `mainstay admin` look in the same places, for a URL."""

    def api(self, folder: Path, **given: Any) -> str:
        parts: dict[str, Any] = {"environment": {}, **given}
        home, contexts = folder / "home", folder / "contexts.toml"
        return find_api(Where(process=API, home=home, contexts=contexts, **parts))

    @pytest.fixture
    def everywhere(self, tmp_path: Path) -> Path:
        self.runs(tmp_path, "http://127.0.0.1:4")
        (tmp_path / "contexts.toml").write_text(
            'current = "home"\n[contexts.home]\napi = "https://three.example"\n'
            '[contexts.other]\nserver = "127.0.0.1:5"\n'
        )
        return tmp_path

    def runs(self, folder: Path, url: str, name: str = "api-1", **facts: Any) -> None:
        run = folder / "home" / "run"
        run.mkdir(parents=True, exist_ok=True)
        told = {"id": "1", "pid": os.getpid(), "addresses": {"api": url}, **facts}
        (run / f"{name}.json").write_text(json.dumps(told))

    def test_named_then_environment_then_context_then_what_runs_here(
        self, everywhere: Path
    ) -> None:
        environment = {"MAINSTAY_SERVER": "http://two"}

        assert self.api(everywhere, server="http://one", environment=environment) == "http://one"
        assert self.api(everywhere, environment=environment) == "http://two"
        assert self.api(everywhere) == "https://three.example"
        (everywhere / "contexts.toml").unlink()
        assert self.api(everywhere) == "http://127.0.0.1:4"

    def test_a_context_that_names_no_api_is_not_gone_round(self, everywhere: Path) -> None:
        with pytest.raises(Rejected, match='names no api: write api = "http://HOST:PORT"'):
            self.api(everywhere, context="other")

    def test_a_current_context_about_shards_only_says_nothing_of_the_api(
        self, tmp_path: Path
    ) -> None:
        (tmp_path / "contexts.toml").write_text(
            'current = "c"\n[contexts.c]\nserver = "127.0.0.1:5"\n'
        )
        assert self.api(tmp_path) == "http://127.0.0.1:8800"
        self.runs(tmp_path, "http://127.0.0.1:4")
        assert self.api(tmp_path) == "http://127.0.0.1:4"

    def test_what_died_is_not_asked(self, tmp_path: Path) -> None:
        self.runs(tmp_path, "http://127.0.0.1:4", pid=0)
        self.runs(tmp_path, "http://127.0.0.1:6", name="api-2")

        assert self.api(tmp_path) == "http://127.0.0.1:6"

    def test_without_any_sign_it_is_at_the_usual_address(self, tmp_path: Path) -> None:
        assert self.api(tmp_path) == "http://127.0.0.1:8800"


@pytest.mark.parametrize("process", ["bridge", "api"])
def test_who_has_the_bridge_says_which_cluster_tenants_are(tmp_path: Path, process: str) -> None:
    assert find_tenants(tmp_path, "tenants") == "tenants"
    with announced(tmp_path, process, "1", {"addresses": {}, "cluster": "web"}):
        assert find_tenants(tmp_path, "tenants") == "web"
