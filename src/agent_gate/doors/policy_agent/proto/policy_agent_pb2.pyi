from google.protobuf import struct_pb2 as _struct_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Phase(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PHASE_UNSPECIFIED: _ClassVar[Phase]
    REQUEST: _ClassVar[Phase]
    RESPONSE: _ClassVar[Phase]
PHASE_UNSPECIFIED: Phase
REQUEST: Phase
RESPONSE: Phase

class Header(_message.Message):
    __slots__ = ("name", "value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: str
    def __init__(self, name: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...

class RequestContext(_message.Message):
    __slots__ = ("headers", "body", "method", "path", "scheme", "authority", "query_params", "client_ip", "state", "response_status", "raw_query", "body_unseen")
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    METHOD_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    SCHEME_FIELD_NUMBER: _ClassVar[int]
    AUTHORITY_FIELD_NUMBER: _ClassVar[int]
    QUERY_PARAMS_FIELD_NUMBER: _ClassVar[int]
    CLIENT_IP_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_STATUS_FIELD_NUMBER: _ClassVar[int]
    RAW_QUERY_FIELD_NUMBER: _ClassVar[int]
    BODY_UNSEEN_FIELD_NUMBER: _ClassVar[int]
    headers: _containers.RepeatedCompositeFieldContainer[Header]
    body: bytes
    method: str
    path: str
    scheme: str
    authority: str
    query_params: _containers.RepeatedCompositeFieldContainer[QueryParam]
    client_ip: str
    state: _struct_pb2.Struct
    response_status: int
    raw_query: bytes
    body_unseen: bool
    def __init__(self, headers: _Optional[_Iterable[_Union[Header, _Mapping]]] = ..., body: _Optional[bytes] = ..., method: _Optional[str] = ..., path: _Optional[str] = ..., scheme: _Optional[str] = ..., authority: _Optional[str] = ..., query_params: _Optional[_Iterable[_Union[QueryParam, _Mapping]]] = ..., client_ip: _Optional[str] = ..., state: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., response_status: _Optional[int] = ..., raw_query: _Optional[bytes] = ..., body_unseen: _Optional[bool] = ...) -> None: ...

class QueryParam(_message.Message):
    __slots__ = ("name", "value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: str
    def __init__(self, name: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...

class PolicyRef(_message.Message):
    __slots__ = ("name", "version", "metadata", "on_failure")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    ON_FAILURE_FIELD_NUMBER: _ClassVar[int]
    name: str
    version: str
    metadata: _struct_pb2.Struct
    on_failure: str
    def __init__(self, name: _Optional[str] = ..., version: _Optional[str] = ..., metadata: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., on_failure: _Optional[str] = ...) -> None: ...

class PolicyRequest(_message.Message):
    __slots__ = ("request_id", "policies", "context", "phase", "deadline_ms")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    POLICIES_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_MS_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    policies: _containers.RepeatedCompositeFieldContainer[PolicyRef]
    context: RequestContext
    phase: Phase
    deadline_ms: int
    def __init__(self, request_id: _Optional[str] = ..., policies: _Optional[_Iterable[_Union[PolicyRef, _Mapping]]] = ..., context: _Optional[_Union[RequestContext, _Mapping]] = ..., phase: _Optional[_Union[Phase, str]] = ..., deadline_ms: _Optional[int] = ...) -> None: ...

class SetHeader(_message.Message):
    __slots__ = ("name", "value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: str
    def __init__(self, name: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...

class RemoveHeader(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class SetBody(_message.Message):
    __slots__ = ("body",)
    BODY_FIELD_NUMBER: _ClassVar[int]
    body: bytes
    def __init__(self, body: _Optional[bytes] = ...) -> None: ...

class SetState(_message.Message):
    __slots__ = ("key", "value")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    key: str
    value: _struct_pb2.Value
    def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_struct_pb2.Value, _Mapping]] = ...) -> None: ...

class ImmediateResponse(_message.Message):
    __slots__ = ("status_code", "headers", "body")
    STATUS_CODE_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    status_code: int
    headers: _containers.RepeatedCompositeFieldContainer[Header]
    body: bytes
    def __init__(self, status_code: _Optional[int] = ..., headers: _Optional[_Iterable[_Union[Header, _Mapping]]] = ..., body: _Optional[bytes] = ...) -> None: ...

class Continue(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Instruction(_message.Message):
    __slots__ = ("set_header", "remove_header", "set_body", "set_state", "immediate_response")
    SET_HEADER_FIELD_NUMBER: _ClassVar[int]
    REMOVE_HEADER_FIELD_NUMBER: _ClassVar[int]
    SET_BODY_FIELD_NUMBER: _ClassVar[int]
    SET_STATE_FIELD_NUMBER: _ClassVar[int]
    IMMEDIATE_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    CONTINUE_FIELD_NUMBER: _ClassVar[int]
    set_header: SetHeader
    remove_header: RemoveHeader
    set_body: SetBody
    set_state: SetState
    immediate_response: ImmediateResponse
    def __init__(self, set_header: _Optional[_Union[SetHeader, _Mapping]] = ..., remove_header: _Optional[_Union[RemoveHeader, _Mapping]] = ..., set_body: _Optional[_Union[SetBody, _Mapping]] = ..., set_state: _Optional[_Union[SetState, _Mapping]] = ..., immediate_response: _Optional[_Union[ImmediateResponse, _Mapping]] = ..., **kwargs) -> None: ...

class Status(_message.Message):
    __slots__ = ("code", "message", "policy_name")
    class Code(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        CODE_UNSPECIFIED: _ClassVar[Status.Code]
        OK: _ClassVar[Status.Code]
        POLICY_DENIED: _ClassVar[Status.Code]
        POLICY_ERROR: _ClassVar[Status.Code]
        TIMEOUT: _ClassVar[Status.Code]
    CODE_UNSPECIFIED: Status.Code
    OK: Status.Code
    POLICY_DENIED: Status.Code
    POLICY_ERROR: Status.Code
    TIMEOUT: Status.Code
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    POLICY_NAME_FIELD_NUMBER: _ClassVar[int]
    code: Status.Code
    message: str
    policy_name: str
    def __init__(self, code: _Optional[_Union[Status.Code, str]] = ..., message: _Optional[str] = ..., policy_name: _Optional[str] = ...) -> None: ...

class PolicyResponse(_message.Message):
    __slots__ = ("request_id", "instructions", "status", "metadata")
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    INSTRUCTIONS_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    instructions: _containers.RepeatedCompositeFieldContainer[Instruction]
    status: Status
    metadata: _containers.ScalarMap[str, str]
    def __init__(self, request_id: _Optional[str] = ..., instructions: _Optional[_Iterable[_Union[Instruction, _Mapping]]] = ..., status: _Optional[_Union[Status, _Mapping]] = ..., metadata: _Optional[_Mapping[str, str]] = ...) -> None: ...

class GetAgentConfigRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class PolicyInfo(_message.Message):
    __slots__ = ("name", "version", "description", "supported_phases", "metadata_schema")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    SUPPORTED_PHASES_FIELD_NUMBER: _ClassVar[int]
    METADATA_SCHEMA_FIELD_NUMBER: _ClassVar[int]
    name: str
    version: str
    description: str
    supported_phases: _containers.RepeatedScalarFieldContainer[Phase]
    metadata_schema: str
    def __init__(self, name: _Optional[str] = ..., version: _Optional[str] = ..., description: _Optional[str] = ..., supported_phases: _Optional[_Iterable[_Union[Phase, str]]] = ..., metadata_schema: _Optional[str] = ...) -> None: ...

class GetAgentConfigResponse(_message.Message):
    __slots__ = ("agent_name", "agent_version", "supported_policies", "agent_metadata")
    class AgentMetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    AGENT_NAME_FIELD_NUMBER: _ClassVar[int]
    AGENT_VERSION_FIELD_NUMBER: _ClassVar[int]
    SUPPORTED_POLICIES_FIELD_NUMBER: _ClassVar[int]
    AGENT_METADATA_FIELD_NUMBER: _ClassVar[int]
    agent_name: str
    agent_version: str
    supported_policies: _containers.RepeatedCompositeFieldContainer[PolicyInfo]
    agent_metadata: _containers.ScalarMap[str, str]
    def __init__(self, agent_name: _Optional[str] = ..., agent_version: _Optional[str] = ..., supported_policies: _Optional[_Iterable[_Union[PolicyInfo, _Mapping]]] = ..., agent_metadata: _Optional[_Mapping[str, str]] = ...) -> None: ...

class HealthCheckRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class HealthCheckResponse(_message.Message):
    __slots__ = ("status", "message")
    class State(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        STATE_UNSPECIFIED: _ClassVar[HealthCheckResponse.State]
        HEALTHY: _ClassVar[HealthCheckResponse.State]
        UNHEALTHY: _ClassVar[HealthCheckResponse.State]
    STATE_UNSPECIFIED: HealthCheckResponse.State
    HEALTHY: HealthCheckResponse.State
    UNHEALTHY: HealthCheckResponse.State
    STATUS_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    status: HealthCheckResponse.State
    message: str
    def __init__(self, status: _Optional[_Union[HealthCheckResponse.State, str]] = ..., message: _Optional[str] = ...) -> None: ...
