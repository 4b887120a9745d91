"""The messages: what protoc makes of the .proto files is what is committed, and Envoy's are Envoy's own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from envoy.config.core.v3 import address_pb2, base_pb2
from envoy.extensions.filters.http.ext_proc.v3 import processing_mode_pb2
from envoy.service.auth.v3 import attribute_context_pb2, external_auth_pb2
from envoy.service.ext_proc.v3 import external_processor_pb2
from envoy.type.v3 import http_status_pb2
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.rpc import status_pb2

from agent_gate.doors.policy_agent.envoy import ext_authz, ext_proc
from agent_gate.doors.policy_agent.proto import envoy_pb2, policy_agent_pb2

SOURCE = Path(__file__).parents[4] / "src"
PROTO = SOURCE / "agent_gate" / "doors" / "policy_agent" / "proto"
THEIRS = {
    **{name: message for module in (base_pb2, address_pb2, processing_mode_pb2, attribute_context_pb2)
       for name, message in module.DESCRIPTOR.message_types_by_name.items()},
    **{name: message for module in (external_auth_pb2, external_processor_pb2, http_status_pb2)
       for name, message in module.DESCRIPTOR.message_types_by_name.items()},
    "RpcStatus": status_pb2.DESCRIPTOR.message_types_by_name["Status"],
}  # fmt: skip

_OURS = {"google.rpc.Status": "RpcStatus"}


def test_the_committed_python_is_what_protoc_makes_of_the_proto_files(tmp_path: Path) -> None:
    sources = sorted(PROTO.glob("*.proto"))
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{SOURCE}", f"--python_out={tmp_path}"]
    subprocess.run([*command, f"--pyi_out={tmp_path}", *map(str, sources)], check=True)
    made = {file.name: file.read_text() for file in tmp_path.rglob("*_pb2.py*")}
    assert len(made) == 2 * len(sources) == 4
    assert {name: (PROTO / name).read_text() for name in made} == made, "run `make proto`"


@pytest.mark.parametrize("name", envoy_pb2.DESCRIPTOR.message_types_by_name)
def test_a_message_of_envoys_travels_as_envoy_defines_it(name: str) -> None:
    compare(envoy_pb2.DESCRIPTOR.message_types_by_name[name], THEIRS[name])


def compare(ours: Descriptor, theirs: Descriptor) -> None:
    for field in ours.fields:
        other = theirs.fields_by_number[field.number]
        assert (field.name, _kind(field), field.is_repeated) == (other.name, _kind(other), other.is_repeated)
        assert (field.containing_oneof is None) is (other.containing_oneof is None)
        if field.message_type is not None:
            assert other.message_type is not None
            assert field.message_type.name == _OURS.get(other.message_type.full_name, other.message_type.name)
    for enum in ours.enum_types:
        numbers = {value.name: value.number for value in theirs.enum_types_by_name[enum.name].values}
        assert {value.name: value.number for value in enum.values}.items() <= numbers.items()
    for nested in ours.nested_types:
        compare(nested, theirs.nested_types_by_name[nested.name])


def _kind(field: FieldDescriptor) -> int:
    """Numbers of enumerations travel as integers do."""
    return FieldDescriptor.TYPE_INT32 if field.type == FieldDescriptor.TYPE_ENUM else field.type


@pytest.mark.parametrize(
    ("service", "theirs"),
    [(ext_proc, external_processor_pb2), (ext_authz, external_auth_pb2)],
    ids=["ext_proc", "ext_authz"],
)
def test_a_service_of_envoys_has_envoys_name_and_methods(service: object, theirs: object) -> None:
    (found,) = theirs.DESCRIPTOR.services_by_name.values()  # type: ignore[attr-defined]
    ours = service.SERVICE  # type: ignore[attr-defined]
    assert found.full_name == service.NAME  # type: ignore[attr-defined]
    assert [method.name for method in ours.methods] == [method.name for method in found.methods]


def test_an_empty_message_is_not_a_yes() -> None:
    assert policy_agent_pb2.PolicyResponse().status.code != policy_agent_pb2.Status.OK
    assert policy_agent_pb2.Status.OK != 0
