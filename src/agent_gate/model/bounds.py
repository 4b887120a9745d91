"""Every bound of the gate in one place; units last in each name."""

MESSAGE_BYTES_MAX = 1_048_576
ARGS_BYTES_MAX = 1_048_576
JSON_DEPTH_MAX = 64
INTEGER_MAX = 2**53 - 1
INDEX_DIGITS_MAX = 10
"""Of a place in a list; more digits name none that there could be, and reading thousands of them takes long."""
IDENTIFIER_CHARS_MAX = 200
"""Agent, project, request and tool names."""
TOKEN_CHARS_MAX = 4_096

OUTPUT_BYTES_MAX = 16 * 1_048_576
STATE_BYTES_MAX = 4 * 1_048_576
STATE_DIFF_OPS_MAX = 10_000
STATE_DIFF_PATHS_CHARS_MAX = 1_048_576
"""Of all paths of a difference together: a long key stands in every path below it."""
STATE_PATHS_MAX, STATE_PATHS_CHARS_MAX = 256, 32_768
"""Of one call, told one by one as what it would change; beyond that, as all that lies below one path."""
STATE_READ_PATHS_MAX = 64
"""Likewise of what it would show: reads are many, and each name is judged and written down."""
PATCH_WORK_MAX = 2_000_000
"""Of one JSON Patch: what is copied, and what moves up or down in lists."""
SIGNATURES_MAX = 1_000
FAILURE_CHARS_MAX = 1_000
"""Of what a tool says when it fails."""

YAML_BYTES_MAX = 1_048_576
POLICY_BYTES_MAX = 32 * 1_048_576
"""Room for 100,000 rules and more."""
YAML_DEPTH_MAX = 32
YAML_NODES_MAX = 1_000_000
YAML_ALIAS_NODES_MAX = 10_000
"""Nodes that aliases may add by being expanded."""

MATCHERS_MAX = 50_000
"""Compiled patterns of one policy kept at a time; they are made when first needed."""
EXPRESSION_CHARS_MAX = 2_000
EXPRESSION_NODES_MAX = 200
EXPRESSION_STEPS_MAX = 10_000
EXPRESSION_RESULT_CHARS_MAX = 10_000

PLAN_STEPS_MAX = 10_000
RUN_RESULTS_BYTES_MAX = 64 * 1_048_576
"""Bytes that the steps of one plan of an agent's may reach together: all of it is kept until the run is answered."""
REBIND_TRIES_MAX = 20
"""Times that a call may be bound again because the state moved under it."""
REBIND_TRIES_AMONG_OTHERS = 2
"""Times on top of other calls' changes; after that it waits until they are committed, and stands on none."""
JOIN_POLL_S = 1.0
"""Interval at which one who joined a call of another process looks whether it has ended."""
JOIN_POLLS_MAX = 1_000
"""Times that a repeated request looks, about once a second, whether the first one has ended in another process."""
JOIN_LATE_POLLS_MAX = 60
"""Times that it still looks after the deadline: an act that was approved in time may take a while."""

WRITER_QUEUE_MAX = 20_000
WRITER_GROUP_MAX = 512
WRITER_REOPEN_AFTER_S = 0.5
BUSY_TIMEOUT_S = 60.0
LOCK_WAIT_S = 60.0
STATUS_AGE_MAX_S = 0.1
TURNS_MAX, TURNS_S, TURNS_BYTES_MAX = 1_024, 0.1, 16 * 1_048_576
"""Changes of a project's state, seconds and bytes that one process computes on top of each other.

Then all of them must be committed, and another process that waits for the project has its turn.
"""
KEY_BYTES_MAX = 65_536
WAL_CHECKPOINT_BYTES = 4 * 1_048_576
ANCHOR_SYNC_INTERVAL_S = 1.0
ANCHOR_COMPACT_BYTES = 8 * 1_048_576
ANSWER_POLL_INTERVAL_S = 0.2
CLOCK_JUMP_MIN_S = 2.0
"""Seconds that the wall clock must be off by to count as set; leap seconds and slow corrections do not."""

PATH_BYTES_MAX = 4_095
OWN_ENTRIES_MAX = 10_000
"""Of a working directory, looked through for ledgers."""
OWN_DATABASES_MAX = 100
"""Databases there that are looked into."""
OWN_TEXT_BYTES_MAX = 65_536
"""Of a configuration or policy there, to see whether it is one."""
NOTED_MAX, NOTED_BYTES_MAX = 200, 1_048_576
"""Of the list of what a user's gates call their own; beyond that the oldest are left out."""
OWN_FILES_FRESH_S = 1.0
"""Age that a finding of the gate's own files may have."""
FILE_THREADS_MAX = 8
FILE_JOBS_MAX = 1_000
"""File work under way and waiting for a thread."""
FILE_LOCK_WAIT_S = 10.0
DIFF_BYTES_MAX = 262_144
"""Larger files are not compared line by line."""
DIFF_SHOWN_CHARS_MAX = 8_000
CHANGES_SHOWN_CHARS_MAX = 200_000
"""Of all differences that a person is shown of one command."""

BLOCKING_THREADS_MAX = 8
TRANSITION_THREADS_MAX = 4
JUDGING_THREADS_MAX = 4
JUDGED_ON_LOOP_BYTES_MAX = 8_192
"""Of arguments; the verdict on a call with more is found in a thread."""
TRANSITION_TIMEOUT_S = 30.0
"""Of a pure function: its project is locked meanwhile."""
TRANSITION_ON_LOOP_BYTES_MAX = 16_384
"""Of arguments and state together; where there are more, also the gate's own pure tools run in a thread."""
PLACE_WAIT_S = 5.0
"""Seconds that a call waits for a thread or a command's place before it is refused."""
PLACES_WAITED_FOR_MAX = 64
"""By one agent."""
TOOL_TIMEOUT_S = 60.0
EFFECT_TIMEOUT_S = 30.0
NOTIFY_TIMEOUT_S = 10.0
REFUSAL_SUMMARY_S = 1.0
"""Time for which refusals at the doors are counted before they are written down together."""
APPROVAL_TIMEOUT_S = 900.0
GRANT_SECONDS_MAX = 86_400
GRANT_USES_MAX = 100
WAITING_RESULTS_SHOWN_MAX = 1_000
"""Of one agent, in one answer; the rest comes when those are acknowledged."""
WAITING_RESULTS_BYTES_MAX = 16 * 1_048_576

HANDSHAKE_TIMEOUT_S = 10.0
"""From a socket's opening to a request's headers, and again to the agent's token."""
HANDSHAKES_MAX = 1_024
"""Sockets that have not said who they are, at once; the oldest makes room for the next."""
STRANGERS_MESSAGE_BYTES_MAX = 65_536
"""Of a socket that has not said whose it is."""
HEAD_BYTES_MAX = 65_536
"""Of a request over HTTP, before its body."""
REQUEST_TIMEOUT_S = 30.0
"""From a request's headers to the end of its body."""
STALLED_S = 30.0
"""Seconds that a peer may read nothing of what is written to it."""
GOODBYE_S = 2.0
"""Seconds that a peer has to answer that the connection is closed."""
PING_INTERVAL_S = 20.0
PING_TIMEOUT_S = 20.0
AGENT_CONNECTIONS_MAX = 1_000
"""Of one agent."""
REQUESTS_IN_FLIGHT_MAX = 64
"""Of one connection."""
STRAIGHT_MAX = 4
"""So many of them may be unanswered where another is taken straight from the socket."""
INTAKE_BACKLOG_MAX = 256
"""Work that waits for the ledger's writer before the doors of agents stop reading."""
INTAKE_PAUSE_S = 0.002
PLANS_UNDER_WAY_MAX = 16
"""Of one connection, and after it has ended."""
UNSENT_BYTES_MAX = 64 * 1_048_576
"""Answers that one connection has not yet taken."""
MEMORY_TIDY_INTERVAL_S = 10.0
DRAIN_S = 5.0
"""Seconds that a server that ends waits until its answers have been taken."""
POLICY_POLL_INTERVAL_S = 1.0

MESSAGES_WAITING_MAX = 1_000
"""Of one messenger, to be brought up to date; beyond that all are looked through again later."""
MESSAGE_BACKOFF_S_MAX = 30.0
MESSAGE_LOOK_INTERVAL_S, MESSAGE_LOOK_AGAIN_S = 0.5, 10.0
"""Between two looks at what a messenger shows: at least, and at most."""
MESSAGE_SETTLE_S = 5.0
"""Seconds that a messenger that ends waits for the message that is on its way."""
MESSAGE_PLACE_AGAIN_S = 30.0
"""Seconds for which a place, such as a phone, is left alone after it has refused a message."""
MESSAGE_OVERDUE_S = 120.0
"""Seconds after a deadline in which an answer that was given before it may still be on its way into the ledger."""

WEBHOOK_QUESTIONS_MAX = 1_000
"""Open ones that a webhook is told of at a time; the rest follow as these end."""
WEBHOOK_TEXT_UNITS_MAX = 16_384
"""Of the text of a question, in UTF-16 units; a call that takes more can only be denied by webhook."""
WEBHOOK_TIMEOUT_S = 10.0
"""Seconds in which the receiver must have answered."""
WEBHOOK_RETRY_AFTER_S_MAX = 60.0
"""Seconds that a receiver may ask the gate to wait at a time."""
WEBHOOK_ENDING_S_MAX = 3_600.0
"""Seconds after which a receiver that cannot be told of the end of a question is left without it."""
WEBHOOK_ANSWER_BYTES_MAX = 16_384
WEBHOOK_WINDOW_S = 300
"""Seconds, before and after now, in which an answer must have been signed."""
WEBHOOK_ANSWERS_KEPT_MAX = 10_000
"""Ids of answers of the last minutes, none of which is taken twice."""

TELEGRAM_TEXT_UNITS_MAX = 4_096
"""Of one message, in UTF-16 units; Telegram takes no more."""
TELEGRAM_NOTICE_CHARS_MAX = 200
"""Characters that pop up for the one who pressed a button."""
TELEGRAM_BUTTON_BYTES_MAX = 64
TELEGRAM_QUESTIONS_MAX = 100
"""Open ones in the chat at a time; the rest follow as these end, and are at every other door meanwhile."""
TELEGRAM_NOTICES_MAX = 32
"""Notices on their way at a time."""
TELEGRAM_STRANGERS_MAX = 100
"""Of whom the log speaks by number."""
TELEGRAM_RESENT_MAX = 10
"""Questions that `/pending` shows again."""
TELEGRAM_POLL_S = 25
TELEGRAM_TIMEOUT_S = 10.0
TELEGRAM_COMMAND_AGE_S_MAX = 300.0
"""An older command was meant for a gate that was not there to hear it."""

CERTIFICATE_BYTES_MAX = 1_048_576
"""Of a file with a certificate and its chain, or with a key."""
URL_CHARS_MAX = 8_192
HEADERS_MAX = 64
HEADERS_CHARS_MAX = 16_384
"""Of names and values together, as an agent gives them."""
ADDRESSES_MAX = 64
"""Answers to one look-up; each is judged."""
DIALS_MAX = 4
"""Number of the judged addresses that are tried."""
DIAL_TIMEOUT_S = 10.0
OUTBOUND_BODY_BYTES_MAX = 1_073_741_824
"""Of an answer in the outbound chain; the policy's max_response_bytes is what bounds it."""
LOOKUPS_MAX = 8
"""At once; one that hangs keeps its place."""
LOOKUP_TIMEOUT_S = 5.0
LOOKUP_PLACE_WAIT_S = 2.0
"""Less than that: a name that could not be looked up is told apart from one that nobody knows."""
POLICY_TIMEOUT_S_MAX = 604_800.0
"""The longest time that a policy can give a tool."""

ARGV_WORDS_MAX = 20_000
WORD_BYTES_MAX = 131_071
"""Bytes that the kernel takes of one word; of all together it takes more than a message can hold."""
SCRIPT_CHARS_MAX = 16_384
"""Of a program for sed, awk or jq in a word of a command."""
GIT_COUNT_S = 2.0
"""Seconds that git may take to count what it was kept from showing."""
SHELL_COMMANDS_MAX = 16
"""At once."""
SHELL_MEMORY_BYTES_MAX = 1_073_741_824
"""Of a command with all that it starts."""
SHELL_PROCESSES_MAX = 128
SHELL_OPEN_FILES_MAX = 256
SHELL_WRITTEN_BYTES_MAX = 1_073_741_824
SHELL_CHUNK_BYTES = 65_536
SHELL_TMP_BYTES_MAX = 67_108_864
"""Of its own /tmp, and of shared memory as much again."""
SHELL_WATCH_INTERVAL_S = 0.02
PREVIEW_CHANGES_MAX = 200
"""Files that a simulation shows as changed."""
FOREIGN_FILES_LOOKED_AT_MAX = 20_000
"""In search of the one that a command could not change."""
WAITING_PROPOSALS_MAX = 4
"""Of one agent: what commands wrote and a person has not agreed to yet takes room on a disk."""
CHANGES_DEPTH_MAX = 128
"""Directories inside one another, counted from the root, in which a command's changes are looked for."""
SIMULATED_FILES_MAX = 100_000
"""Files that a simulation carries from step to step."""
VIEW_ENTRIES_MAX = 100_000
"""Files that are looked at to find out which of them a command may see."""
VIEW_NEAR_MAX = 1_000
"""Those that are looked at for a command that does not descend into directories."""
VIEW_PLACES_MAX = 2_000
"""Those that are shown or hidden one by one."""

SHOWN_CHARS_MAX = 200
"""Characters of a signature that views and messages show before they cut and add a hash."""
PENDING_VALUE_CHARS_MAX, PENDING_ROWS_MAX = 4_000, 400
"""Of one value, and of one question, before `pending ID` wants to be asked for all of it."""

CONSOLE_SESSIONS_MAX = 1_000
"""Of all approvers; the one that was idle longest gives way."""
CONSOLE_SESSIONS_OF_ONE_MAX = 16
CONSOLE_SESSION_IDLE_S = 1_800.0
CONSOLE_SESSION_S = 43_200.0
CONSOLE_NOTICES_MAX = 8
"""Characters that a person is told on the next page."""
GUESSES_PER_MINUTE = 10
"""Tokens from one address that are nobody's; the next ones are refused unread."""
GUESSES_BESIDE_KNOWN_PER_MINUTE = 600
"""Beyond them, until not even tokens that were right from there lately are read."""
GUESSING_ADDRESSES_MAX = 10_000
"""That are remembered for it."""
KNOWN_TOKENS_MAX = 10_000
KNOWN_TOKENS_S = 3_600.0
"""Seconds for which a token that was right stands out among the guesses from its address."""
CONSOLE_STREAMS_MAX = 200
CONSOLE_QUESTIONS_SHOWN_MAX = 100
CONSOLE_VALUE_CHARS_MAX, CONSOLE_PAGE_CHARS_MAX = 30_000, 60_000
"""Of agents' text, as it is drawn, in one value and on one page; the rest is a page further."""
CONSOLE_PARTS_MAX = 50
"""Signatures, arguments, changes and files of one call that are shown at once."""
"""In the list of the inbox, oldest first; the rest is counted."""
CONSOLE_ROWS_MAX = 50
"""Of one page of a list."""
CONSOLE_NOTE_CHARS_MAX = 1_000
CONSOLE_SEARCH_S = 5.0
"""A search that takes longer is broken off."""
CONSOLE_PREVIEW_S = 10.0

PAGE_LIMIT = 100
"""Of a list where nobody says how long it is to be."""
PAGE_MAX = 1_000
"""Of the lists that the HTTP API gives."""
PAGE_BYTES_MAX = 16 * 1_048_576
"""A list ends here, before its limit; one thing is always given, however large."""
NOTE_CHARS_MAX = 1_000
"""Characters that a person writes to an answer, or as the reason of a pause."""
ACKNOWLEDGED_MAX = 1_000
"""Results, in one request."""
READERS_MAX = 8
"""Handles by which a server looks back; the HTTP API works on at most the next number of questions at once."""
READS_AT_ONCE_MAX = 4
READS_WAITING_MAX = 200
READ_S = 10.0
"""One that takes longer is broken off."""

METRIC_TOOLS_MAX = 200
"""Tools with a label of their own in the metrics; the rest are counted together."""
HEALTH_CHECK_S = 5.0
READY_FOR_S = 5.0
"""Seconds for which one look at everything that must be well is good."""
LOOP_BEAT_INTERVAL_S = 0.25
LOOP_BLOCKED_S = 1.0
"""An event loop that does not answer for so long is told of."""

CHAIN_POLICIES_MAX = 64
CHAIN_INSTRUCTIONS_MAX = 256
"""Of one policy."""
CHAIN_HEADERS_MAX = 256
CHAIN_HEADERS_BYTES_MAX = 131_072
"""Of names and values together, with what policies add."""
CHAIN_METADATA_BYTES_MAX = 16_384
"""Bytes that the policies of a chain tell beside their instructions, keys and values together."""
CHAIN_GRACE_S = 0.25
"""Seconds that a policy whose time is up may still tidy up."""
CHAIN_HEALTH_TIMEOUT_S = 2.0
CHAIN_WARNINGS_MAX = 256
"""Different warnings that one executor logs as such; further ones are for `debug`."""
SCRUB_STRETCH_CHARS = 16_384
"""Of a response that is looked through for secrets; more than one stretch is not for the event loop."""
ENCODED_SECRETS_MAX = 64
"""Secret values in the arguments of a call that are also looked for as URLs and base64 spell them."""
RATE_KEYS_MAX = 100_000
"""Callers that are counted; while all of them are, a new one is refused."""
RATE_SWEEP_INTERVAL_S = 1.0
JWT_CHARS_MAX = 16_384
JWKS_BYTES_MAX = 262_144
JWKS_KEYS_MAX = 100
JWKS_TIMEOUT_S = 5.0
JWKS_AGE_S = 300.0
JWKS_STALE_S = 3_600.0
"""Seconds that keys serve on while their source does not answer."""
JWKS_RETRY_S = 10.0
"""At least this long between two looks, also where a token names a key that nobody knows."""

AGENT_MESSAGE_OVERHEAD_BYTES = 1_048_576
"""Bytes that a message to the policy agent may hold besides a body: headers, state, metadata of policies."""
AGENT_STREAMS_MAX = 4_096
"""Calls that are open at the policy agent at once; a stream of Envoy's is open for as long as its request."""
AGENT_CHAINS_KEPT_MAX = 256
"""Chains of requests that are kept ready for the next request like it."""
AGENT_CHAIN_KEY_BYTES_MAX = 65_536
"""A longer one is made ready each time."""
AGENT_PIECE_BYTES = 65_536
"""Of a body that goes back to Envoy."""
AGENT_KEPT_BYTES_MAX = 268_435_456
"""Of the bodies that an agent keeps back for their policies, all together."""
AGENT_QUEUE_WAIT_S = 1.0
"""Seconds that a request waits for one of `max_concurrent_requests` places; as many may wait as may run."""
AGENT_HEALTH_INTERVAL_S = 10.0
"""Between two looks at the health of policies for those who watch it."""
AGENT_DRAIN_S = 5.0
"""Seconds that an agent that ends waits for what is under way."""
RELAY_CHUNK_BYTES = 65_536
RELAY_CONNECTIONS_MAX = 256

REQUEST_BODY_SHOWN_BYTES_MAX = 8_192
"""Of a request that is judged here and performed elsewhere; a larger body is told by its size and hash."""
REQUEST_RETRY_AFTER_S = 5
"""Seconds after which somebody whose request waits for a person may come again."""

HOME_CALL_S = 60.0
"""Seconds that a service of Home Assistant may take; one that acts on slow devices ends when they have answered."""
HOME_SERVICE_S = 55.0
"""Less than that: a service that does not answer in time is told apart from a tool that hangs."""
HOME_NAME_CHARS_MAX = 255
"""Of an entity's id; Home Assistant has none that are longer."""
HOME_HISTORY_IDS_MAX = 50
HOME_HISTORY_ROWS_MAX = 5_000
HOME_HISTORY_DAYS_MAX = 31
"""Of one question; a busy sensor has tens of thousands of rows a day."""
HOME_STATISTIC_IDS_MAX = 50
HOME_STATISTIC_ROWS_MAX = 5_000
"""Of all ids together."""
HOME_STATISTIC_ROWS_ASKED_MAX = 100_000
"""Periods in the time asked for; more would not fit into one message of the server's."""
HOME_TEMPLATE_CHARS_MAX = 20_000
HOME_SERVICES_SHOWN_MAX = 1_000
HOME_NAMES_COMPARED_MAX, HOME_NAMES_COMPARED_CLOSELY_MAX = 5_000, 50
"""In search of the one that was meant by a name that does not exist."""

HOME_MESSAGE_BYTES_MAX = 64 * 1_048_576
"""Of one frame or answer of Home Assistant's; it sends thousands of events in one."""
HOME_ENTITIES_MAX = 100_000
HOME_HANDSHAKE_S = 10.0
"""From dialling to `auth_ok`."""
HOME_ANSWER_S = 30.0
"""Seconds that a question may take; a call of a service has a time of its own."""
HOME_PONG_S = 10.0
HOME_GOODBYE_S = 1.0
"""To end subscriptions, and again to close."""
HOME_BACKOFF_S_MIN, HOME_BACKOFF_S_MAX = 1.0, 60.0
"""Between two attempts to connect: doubled each time."""
HOME_TOKEN_LOOK_S = 5.0
"""Between two looks whether another token was given in place of one that the home refuses."""
HOME_FIRST_SIGHT_S = 20.0
"""Seconds that a gate that starts waits until the home has been read; then it goes on without."""
HOME_STARTING_INTERVAL_S = 1.0
"""Between two looks whether a server that starts is running."""
HOME_SETTLE_S = 0.5
"""Registries change in bursts: how long after the first change they are read again."""
HOME_SETTLED_S = 3.0
"""Seconds that a call that names an area or the like waits for that."""
HOME_CONTEXTS_MAX = 1_000
"""Causes of changes that are remembered while calls of services are under way."""
HOME_PHONE_LINES_MAX, HOME_PHONE_LINE_CHARS = 9, 36
"""Characters that a phone surely shows of a notification with buttons; a longer call cannot be approved there."""
HOME_NOTICE_S = 15.0
"""Seconds that Home Assistant may take to hand a notification on."""
HOME_QUESTIONS_MAX = 20
"""Open ones on phones at a time; the rest follow as these end, and are at every other door meanwhile."""
HOME_PRESSES_MAX = 100
"""Of buttons, that wait to be looked at; what comes beyond that is refused."""
HOME_SNAPSHOT_ROWS_MAX = 200
HOME_SNAPSHOT_BYTES_MAX = 1_048_576
"""Of one commit while the home is kept, so that calls that are recorded meanwhile hardly wait."""
HOME_ATTRIBUTES_KEPT_BYTES_MAX = 65_536
"""An entity that carries more is kept without them."""
HOME_SNAPSHOT_CLOSE_S = 5.0
"""Seconds in which a gate that closes keeps the home for the last time."""

MCP_WAIT_S = 20.0
"""Seconds that a call waits for a person where the client follows its progress."""
MCP_WAIT_S_MAX = 3_600.0
MCP_DECIDED_S = 5.0
"""Seconds that a call waits at least for what a person has agreed to already."""
MCP_PROGRESS_INTERVAL_S = 2.0
MCP_NAME_CHARS_MAX = 64
"""Of a tool, as clients take it."""
MCP_APPROVERS_SHOWN_MAX = 5
MCP_TOOLS_FRESH_MS = 10_000
"""Seconds for which a client may go on with a list of tools that it has."""
MCP_SUBSCRIPTIONS_MAX = 8
PIPE_CHUNK_BYTES = 65_536
PIPE_CHUNKS_MAX = 8
"""Read and not yet looked at."""

UNDO_ROW_MAX = 100
"""Number of undoings of undoings that are followed to the call that they are about."""
