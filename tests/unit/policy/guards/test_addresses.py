"""What is public is what our table says, at every edge of every range, and no disguise of an address is."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent_gate.policy.guards.addresses import Address, parse_address, why_not_public

FOURS = st.integers(0, 2**32 - 1)
SIXES = st.one_of(
    st.integers(0, 2**128 - 1),
    st.lists(st.sampled_from([0, 0, 0, 1, 0x10, 0x2001, 0xDB8, 0xFFFF]), min_size=8, max_size=8).map(
        lambda groups: sum(group << 16 * at for at, group in enumerate(groups))
    ),
)


@pytest.mark.parametrize(
    ("network", "word"),
    [
        ("0.0.0.0/8", "this host"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "shared"),
        ("127.0.0.0/8", "loopback"),
        ("168.63.129.16/32", "cloud"),
        ("169.254.0.0/16", "metadata"),
        ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "protocol"),
        ("192.0.2.0/24", "documentation"),
        ("192.31.196.0/24", "AS112"),
        ("192.52.193.0/24", "multicast"),
        ("192.88.99.0/24", "6to4"),
        ("192.168.0.0/16", "private"),
        ("192.175.48.0/24", "AS112"),
        ("198.18.0.0/15", "benchmarking"),
        ("198.51.100.0/24", "documentation"),
        ("203.0.113.0/24", "documentation"),
        ("2001::/23", "Teredo"),
        ("2001:db8::/32", "documentation"),
        ("2002::/16", "6to4"),
        ("2620:4f:8000::/48", "AS112"),
    ],
)
def test_a_special_range_is_not_public_from_its_first_address_to_its_last_and_its_neighbours_are(
    network: str, word: str
) -> None:
    found = ipaddress.ip_network(network)
    first, last = found[0], found[-1]
    assert [word in (why_not_public(str(address)) or "") for address in (first, last)] == [True, True]
    outside = [first - 1, last + 1] if int(first) else [last + 1]
    assert [why_not_public(str(address)) for address in outside] == [None] * len(outside)


@pytest.mark.parametrize(
    ("inside", "outside"),
    [
        ("224.0.0.0", "223.255.255.255"),
        ("239.255.255.255", "223.255.255.255"),
        ("240.0.0.0", "223.255.255.255"),
        ("255.255.255.255", "223.255.255.255"),
        ("1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "2000::"),
        ("4000::", "3fff:1000::"),
        ("3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff", "3fff:1000::"),
        ("3ffe::", "3ffd:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
        ("2606:4700::5efe:101:101", "2606:4700::5eff:101:101"),
        ("2606:4700::200:5efe:101:101", "2606:4700::100:5efe:101:101"),
    ],
)
def test_the_edges_of_what_is_public(inside: str, outside: str) -> None:
    assert (why_not_public(inside) is not None, why_not_public(outside)) == (True, None)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("::", "this host"),
        ("::1", "loopback"),
        ("::2", "outside 2000::/3"),
        ("::127.0.0.1", "outside 2000::/3"),
        ("::ffff:255.255.255.255", "IPv4"),
        ("::ffff:0:255.255.255.255", "IPv4"),
        ("64:ff9b::ffff:ffff", "NAT64"),
        ("64:ff9b:1:ffff::", "NAT64"),
        ("100::ffff:ffff:ffff:ffff", "discard"),
        ("5f00:ffff::", "segment routing"),
        ("fc00::", "unique local"),
        ("fd00:ec2::254", "unique local"),
        ("fe80::1", "link-local"),
        ("febf::", "link-local"),
        ("fec0::", "site-local"),
        ("feff::", "site-local"),
        ("ff02::1", "multicast"),
        ("ffff::", "multicast"),
        ("4000::", "outside 2000::/3"),
        ("e000::", "outside 2000::/3"),
    ],
)
def test_nothing_outside_of_global_unicast_is_public(text: str, word: str) -> None:
    assert word in (why_not_public(text) or "")


@given(FOURS)
def test_no_address_is_public_inside_another_one(four: int) -> None:
    disguises = [
        four,  # compatible
        0xFFFF << 32 | four,  # mapped
        0xFFFF << 48 | four,  # translated
        0x64FF9B << 96 | four,  # NAT64
        0x64FF9B0001 << 80 | four,  # local NAT64
        0x2002 << 112 | four << 80 | 1,  # 6to4
        0x20010000 << 96 | four ^ 0xFFFFFFFF,  # Teredo
        0x26064700 << 96 | 0x5EFE << 32 | four,  # ISATAP
        0x26064700 << 96 | 0x2005EFE << 32 | four,  # ISATAP, globally unique
    ]
    assert [hex(value) for value in disguises if why_not_public(Address(6, value).text) is None] == []


@given(st.one_of(FOURS.map(ipaddress.IPv4Address), SIXES.map(ipaddress.IPv6Address)))
@example(ipaddress.ip_address("100.64.0.1"))
def test_what_python_does_not_call_global_is_not_public_either(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    if not address.is_global or address.is_multicast or address.is_reserved:
        assert why_not_public(str(address)) is not None


@given(SIXES)
@example(0xFFFF_7F00_0001)
@example(0)
@example(0x2001_0000_0000_0001_0000_0000_0000_0001)
def test_an_address_has_one_spelling_and_reads_as_itself(value: int) -> None:
    text = Address(6, value).text
    assert parse_address(text) == Address(6, value)
    if value >> 32 != 0xFFFF:  # newer Pythons write the tail of these with dots
        assert text == ipaddress.IPv6Address(value).compressed


@given(FOURS)
def test_four_numbers_read_as_they_are_written(value: int) -> None:
    assert parse_address(Address(4, value).text) == Address(4, value)
    assert Address(4, value).text == str(ipaddress.IPv4Address(value))


@given(
    st.one_of(
        st.text("0123456789abcdefABCDEF:.%x/ ", max_size=45),
        st.lists(st.text("0123456789af", max_size=5), max_size=9).map(":".join),
        st.lists(st.sampled_from(["", "0", "1", "127.0.0.1", "ffff", "00001"]), max_size=9).map(":".join),
        st.lists(st.integers(0, 300).map(str), min_size=3, max_size=5).map(".".join),
    )
)
@example("1:2:3:4:5:6:7::")
@example("::ffff:1.2.3.4")
@example("1:2:3:4:5:6:253.254.255.1")
@example("::1:2:3:4:5:6:7:8")
@example("1:2:3:4:5:6:7:8::")
@example("::ffff:1.2.3.4.5")
@example("1.2.3.4::")
@example("::01.2.3.4")
def test_a_text_is_an_address_exactly_where_python_says_so(text: str) -> None:
    try:
        expected = ipaddress.ip_address(text)
    except ValueError:
        assert parse_address(text) is None
    else:
        zoned = "%" in text
        assert parse_address(text) == (None if zoned else Address(expected.version, int(expected)))


@pytest.mark.parametrize(
    "text", ["", "x", "127.1", "0x7f.0.0.1", "0177.0.0.1", "1.2.3.4\n", "[::1]", "fe80::1%1", "٤.1.1.1"]
)
def test_what_is_not_an_address_in_full_is_not_public(text: str) -> None:
    assert (parse_address(text), why_not_public(text)) == (None, "not an address")


def test_addresses_are_tried_in_the_order_of_version_and_value() -> None:
    texts = ["2606:4700::1", "9.9.9.9", "10.0.0.1", "2001:4860::1"]
    found = sorted(address for text in texts if (address := parse_address(text)))
    assert [address.text for address in found] == ["9.9.9.9", "10.0.0.1", "2001:4860::1", "2606:4700::1"]
