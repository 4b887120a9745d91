"""`examples/envoy/` as it is: what its README says of each request holds."""

from __future__ import annotations

from pathlib import Path

import yaml

from tests.real.envoy import API_KEY, EXAMPLE, fronted


def test_the_example_with_ext_proc_does_what_its_readme_says(tmp_path: Path) -> None:
    with fronted(tmp_path, (EXAMPLE / "envoy.yaml").read_text()) as front:
        front.wait_until_served()
        assert front.ask("/").status == 200
        assert front.ask("/api/orders").status == 401
        answer = front.ask_as_anna("/api/orders", b"three beers")
        assert (answer.status, answer.header("x-powered-by")) == (200, None)
        assert front.ask_as_anna("/api/orders", b"x" * 65_537).status == 413
        front.end_agent()
        assert front.ask_as_anna("/api/orders").status == 500
    text = (EXAMPLE / "README.md").read_text()
    assert API_KEY in text
    assert [status for status in ("401", "404", "500") if status not in text] == []


def test_the_example_with_ext_authz_does_what_its_readme_says(tmp_path: Path) -> None:
    config = (EXAMPLE / "config.yaml").read_text()
    last = "    - name: remove_headers\n      metadata: {headers: [server, x-powered-by], phase: response}\n"
    assert last in config
    envoy = (EXAMPLE / "envoy-ext-authz.yaml").read_text()
    with fronted(tmp_path, envoy) as front:
        front.wait_until_served()
        assert front.ask_as_anna("/api/orders").status == 500
        front.end_agent()
        front.config.write_text(config.replace(last, ""))
        front.start_agent()
        front.wait_until_served()
        assert front.ask("/api/orders").status == 401
        assert front.ask_as_anna("/api/orders", b"three beers").status == 200


def test_the_fallback_of_the_guide_sends_no_host_past_its_chain(tmp_path: Path) -> None:
    guide = (EXAMPLE.parents[1] / "docs" / "guides" / "envoy.md").read_text()
    envoy = yaml.safe_load((EXAMPLE / "envoy.yaml").read_text())
    (listener,) = envoy["static_resources"]["listeners"]
    manager = listener["filter_chains"][0]["filters"][0]["typed_config"]
    fallback = guide.partition("### The fallback")[2].partition("```yaml")[2].partition("```")[0]
    manager.update(yaml.safe_load(fallback))
    config = (EXAMPLE / "config.yaml").read_text().replace("route: api", "route: admin")
    with fronted(tmp_path, yaml.safe_dump(envoy), config) as front:
        front.wait_until_served()
        spellings = [
            "admin.shop.test",
            "ADMIN.shop.test",
            "admin.shop.test:443",
            "admin.shop.test.",
            "admin.shop.test.:80",
        ]
        assert [front.ask("/", {"host": host}).status for host in spellings] == [401] * len(spellings)
        strange = ["admin.shop.test:", "x@admin.shop.test", "elsewhere.test", "127.0.0.1"]
        assert all(400 <= front.ask("/", {"host": host}).status < 500 for host in strange)
        assert front.server.seen == []
        assert front.ask("/", {"host": "shop.test"}).status == 200
