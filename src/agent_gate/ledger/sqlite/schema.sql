-- What the migrations make of a new file; a test holds them against each other.

CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL,
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);

CREATE TABLE blobs (
	hash TEXT NOT NULL,
	data BLOB NOT NULL,
	PRIMARY KEY (hash)
);

CREATE TABLE clock (
	boot TEXT NOT NULL,
	offset_s FLOAT NOT NULL,
	PRIMARY KEY (boot)
);

CREATE TABLE contact_info (
	"key" TEXT NOT NULL,
	value BLOB NOT NULL,
	updated_at TEXT NOT NULL,
	PRIMARY KEY ("key")
)
 WITHOUT ROWID;

CREATE TABLE counters (
	project TEXT NOT NULL,
	scope TEXT NOT NULL,
	bucket INTEGER NOT NULL,
	amount FLOAT NOT NULL,
	PRIMARY KEY (project, scope, bucket)
)
 WITHOUT ROWID;

CREATE TABLE entries (
	id INTEGER NOT NULL,
	project TEXT NOT NULL,
	seq INTEGER NOT NULL,
	at TEXT NOT NULL,
	kind TEXT NOT NULL,
	run_id TEXT,
	call_id TEXT,
	request_id TEXT,
	agent_id TEXT,
	tool TEXT,
	signature TEXT,
	status TEXT,
	body TEXT,
	body_hash BLOB NOT NULL,
	prev_hash BLOB NOT NULL,
	hash BLOB NOT NULL,
	PRIMARY KEY (id)
);

CREATE TABLE grants (
	grant_id TEXT NOT NULL,
	project TEXT NOT NULL,
	agent_id TEXT NOT NULL,
	tool TEXT NOT NULL,
	signature TEXT NOT NULL,
	"key" TEXT NOT NULL,
	given_by TEXT NOT NULL,
	roles TEXT NOT NULL,
	call_id TEXT NOT NULL,
	created_at TEXT NOT NULL,
	expires_at TEXT NOT NULL,
	uses INTEGER NOT NULL,
	uses_left INTEGER NOT NULL,
	revoked_at TEXT,
	PRIMARY KEY (grant_id)
);

CREATE TABLE ha_entity_snapshot (
	entity_id TEXT NOT NULL,
	state TEXT NOT NULL,
	attributes TEXT,
	last_updated TEXT NOT NULL,
	captured_at TEXT NOT NULL,
	PRIMARY KEY (entity_id)
);

CREATE TABLE heads (
	project TEXT NOT NULL,
	seq INTEGER NOT NULL,
	hash BLOB NOT NULL,
	state_version INTEGER NOT NULL,
	snapshot_id TEXT,
	status TEXT NOT NULL,
	created_at TEXT NOT NULL,
	initial_state TEXT,
	state_schema TEXT,
	PRIMARY KEY (project)
)
 WITHOUT ROWID;

CREATE TABLE open_work (
	id TEXT NOT NULL,
	kind TEXT NOT NULL,
	project TEXT NOT NULL,
	instance TEXT NOT NULL,
	PRIMARY KEY (id)
)
 WITHOUT ROWID;

CREATE TABLE outbox (
	effect_id TEXT NOT NULL,
	project TEXT NOT NULL,
	call_id TEXT NOT NULL,
	tool TEXT NOT NULL,
	payload TEXT NOT NULL,
	instance TEXT NOT NULL,
	PRIMARY KEY (effect_id)
)
 WITHOUT ROWID;

CREATE TABLE pending_requests (
	call_id TEXT NOT NULL,
	request_id TEXT NOT NULL,
	project TEXT,
	agent_id TEXT,
	tool_name TEXT NOT NULL,
	args TEXT NOT NULL,
	signature TEXT NOT NULL,
	created_at TEXT NOT NULL,
	expires_at TEXT NOT NULL,
	question TEXT,
	nonce TEXT,
	approvers_required INTEGER NOT NULL,
	approved_by TEXT NOT NULL,
	resolution TEXT,
	instance TEXT, boot TEXT, ends_at FLOAT,
	PRIMARY KEY (call_id)
);

CREATE TABLE question_messages (
	channel TEXT NOT NULL,
	call_id TEXT NOT NULL,
	reference TEXT NOT NULL,
	PRIMARY KEY (channel, call_id)
)
 WITHOUT ROWID;

CREATE TABLE refusals (
	project TEXT NOT NULL,
	signature TEXT NOT NULL,
	at TEXT NOT NULL, call_id TEXT,
	PRIMARY KEY (project, signature)
)
 WITHOUT ROWID;

CREATE TABLE requests (
	agent_id TEXT NOT NULL,
	request_id TEXT NOT NULL,
	call_id TEXT NOT NULL,
	input_hash TEXT NOT NULL,
	PRIMARY KEY (agent_id, request_id)
)
 WITHOUT ROWID;

CREATE TABLE snapshots (
	snapshot_id TEXT NOT NULL,
	project TEXT NOT NULL,
	version INTEGER NOT NULL,
	at TEXT NOT NULL,
	call_id TEXT,
	document TEXT NOT NULL,
	PRIMARY KEY (snapshot_id)
);

CREATE TABLE waiting_results (
	agent_id TEXT NOT NULL,
	call_id TEXT NOT NULL,
	request_id TEXT,
	at TEXT NOT NULL,
	PRIMARY KEY (agent_id, call_id)
)
 WITHOUT ROWID;

CREATE INDEX entries_begun ON entries (at, run_id) WHERE kind = 'run' AND status = 'running';

CREATE INDEX entries_call ON entries (call_id) WHERE call_id IS NOT NULL;

CREATE UNIQUE INDEX entries_chain ON entries (project, seq);

CREATE INDEX entries_clock_kind ON entries (id) WHERE kind = 'clock';

CREATE INDEX entries_erased_kind ON entries (id) WHERE kind = 'erased';

CREATE INDEX entries_grant ON entries (body ->> '$.grant_id') WHERE kind = 'grant';

CREATE INDEX entries_policy_kind ON entries (id) WHERE kind = 'policy';

CREATE INDEX entries_request ON entries (coalesce(request_id, call_id), agent_id);

CREATE INDEX entries_run ON entries (run_id) WHERE run_id IS NOT NULL;

CREATE INDEX entries_run_kind ON entries (id) WHERE kind = 'run';

CREATE INDEX entries_standing ON entries (project, seq) WHERE kind = 'project';

CREATE INDEX entries_timestamp ON entries (at) WHERE kind = 'settled';

CREATE INDEX entries_tool ON entries (tool, at) WHERE tool IS NOT NULL;

CREATE INDEX entries_tools_kind ON entries (id) WHERE kind = 'tools';

CREATE INDEX entries_totals ON entries (project, seq) WHERE instr(body, '"totals":{') > 0 AND body -> '$.work.totals' IS NOT NULL;

CREATE INDEX grants_key ON grants (project, agent_id, "key");

CREATE INDEX ix_ha_command_log_issued_at ON entries (at) WHERE (kind = 'performing' AND tool IN ('ha_call_service', 'ha_activate_scene')
    OR kind = 'command' AND status = 'sent');

CREATE INDEX outbox_call ON outbox (call_id);

CREATE INDEX pending_requests_agent ON pending_requests (agent_id);

CREATE INDEX pending_requests_expiry ON pending_requests (expires_at);

CREATE INDEX pending_requests_request ON pending_requests (request_id);

CREATE INDEX pending_requests_resolved ON pending_requests (call_id) WHERE resolution IS NOT NULL;

CREATE UNIQUE INDEX snapshots_version ON snapshots (project, version);

CREATE VIEW audit_log AS
SELECT id, request_id, timestamp, tool_name, args, signature, decision, resolution, resolved_by, resolved_at,
       CASE WHEN status = 'success' OR is_erased THEN output
         WHEN output IS NULL THEN json_object('status', status, 'error', json(error))
         ELSE json_object('status', status, 'error', json(error), 'data', json(output)) END AS execution_result,
       agent_id
FROM (
  SELECT s.id AS id,
         coalesce(s.request_id, s.call_id) AS request_id,
         s.at AS timestamp,
         s.tool AS tool_name,
         coalesce(s.body -> '$.args', (
           SELECT f.body -> '$.args' FROM entries f WHERE f.call_id = s.call_id AND f.id < s.id
           AND f.body -> '$.args' IS NOT NULL ORDER BY f.id LIMIT 1)) AS args,
         s.signature AS signature,
         s.body ->> '$.decision' AS decision,
         coalesce(s.body ->> '$.resolution', CASE s.body ->> '$.decision' WHEN 'ask' THEN (
           SELECT a.body ->> '$.resolution' FROM entries a WHERE a.call_id = s.call_id AND a.id < s.id
           AND a.body -> '$.resolution' IS NOT NULL ORDER BY a.id DESC LIMIT 1) END) AS resolution,
         coalesce(s.body ->> '$.resolved_by', CASE s.body ->> '$.decision' WHEN 'ask' THEN (
           SELECT nullif(a.body ->> '$.resolved_by', '') FROM entries a WHERE a.call_id = s.call_id AND a.id < s.id
           AND a.body -> '$.resolution' IS NOT NULL ORDER BY a.id DESC LIMIT 1) END) AS resolved_by,
         coalesce(s.body ->> '$.resolved_at', CASE s.body ->> '$.decision' WHEN 'ask' THEN (
           SELECT a.body ->> '$.resolved_at' FROM entries a WHERE a.call_id = s.call_id AND a.id < s.id
           AND a.body -> '$.resolution' IS NOT NULL ORDER BY a.id DESC LIMIT 1) END) AS resolved_at,
         coalesce(s.body -> '$.data', CASE WHEN s.body -> '$.output_hash' IS NOT NULL THEN (
           SELECT CAST(b.data AS TEXT) FROM blobs b WHERE b.hash = 'output:' || s.call_id) END) AS output,
         s.body -> '$.error' AS error,
         s.body IS NULL AS is_erased,
         s.status AS status,
         s.agent_id AS agent_id
  FROM entries s WHERE s.kind = 'settled'
);

CREATE VIEW ha_command_log AS
SELECT id,
       CASE tool WHEN 'ha_activate_scene' THEN 'scene' ELSE args ->> '$.domain' END AS domain,
       CASE tool WHEN 'ha_activate_scene' THEN 'turn_on' ELSE args ->> '$.service' END AS service,
       CASE WHEN args -> '$.entity_id' IS NULL THEN args -> '$.target'
         WHEN args -> '$.target.entity_id' IS NULL
         THEN json_set(coalesce(args -> '$.target', '{}'), '$.entity_id', args -> '$.entity_id')
         ELSE json_set(args -> '$.target', '$.entity_id', (
           SELECT json_group_array(DISTINCT value) FROM (
             SELECT value FROM json_each(args, '$.entity_id')
             UNION ALL SELECT value FROM json_each(args, '$.target.entity_id')))) END AS target,
       CASE tool WHEN 'ha_activate_scene' THEN json_remove(args, '$.entity_id') ELSE args -> '$.data' END AS data,
       coalesce(error, output) AS result,
       output ->> '$.context_id' AS context_id,
       issued_at
FROM (
  SELECT p.id AS id, p.tool AS tool, p.at AS issued_at,
         coalesce(p.body -> '$.command', p.body -> '$.args', (
           SELECT f.body -> '$.args' FROM entries f WHERE f.call_id = p.call_id AND f.id < p.id
           AND f.body -> '$.args' IS NOT NULL ORDER BY f.id LIMIT 1)) AS args,
         s.body -> '$.error' AS error,
         coalesce(s.body -> '$.data', CASE WHEN s.body -> '$.output_hash' IS NOT NULL THEN (
           SELECT CAST(b.data AS TEXT) FROM blobs b WHERE b.hash = 'output:' || s.call_id) END) AS output
  FROM entries p LEFT JOIN entries s ON s.call_id = p.call_id AND s.id > p.id AND (
    p.kind = 'performing' AND s.kind = 'settled'
    OR p.kind = 'command' AND s.kind = 'command' AND s.body ->> '$.command_id' = p.body ->> '$.command_id')
  WHERE (p.kind = 'performing' AND p.tool IN ('ha_call_service', 'ha_activate_scene')
    OR p.kind = 'command' AND p.status = 'sent')
);

CREATE VIEW runs AS
SELECT r.run_id AS run_id,
       r.at AS created_at,
       e.at AS completed_at,
       r.body ->> '$.plan_hash' AS plan_hash,
       r.body ->> '$.policy_hash' AS policy_hash,
       (SELECT CAST(b.data AS TEXT) FROM blobs b WHERE b.hash = r.body ->> '$.plan_hash') AS plan_json,
       (SELECT CAST(b.data AS TEXT) FROM blobs b WHERE b.hash = r.body ->> '$.policy_hash') AS policy_json,
       r.body ->> '$.mode' AS mode,
       coalesce(e.status, 'running') AS status,
       r.body ->> '$.total_steps' AS total_steps,
       coalesce(e.body ->> '$.completed_steps', (
         SELECT count(*) FROM entries s WHERE s.run_id = r.run_id AND s.kind = 'settled'
         AND s.status = 'success')) AS completed_steps,
       coalesce(e.body ->> '$.denied_steps', (
         SELECT count(*) FROM entries s WHERE s.run_id = r.run_id AND s.kind = 'settled'
         AND s.status IN ('denied', 'expired'))) AS denied_steps,
       coalesce(e.body ->> '$.failed_steps', (
         SELECT count(*) FROM entries s WHERE s.run_id = r.run_id AND s.kind = 'settled'
         AND s.status IN ('error', 'unknown'))) AS failed_steps
FROM entries r
LEFT JOIN entries e ON e.run_id = r.run_id AND e.kind = 'run' AND e.status <> 'running'
WHERE r.kind = 'run' AND r.status = 'running';

CREATE VIEW tool_calls AS
SELECT e.call_id AS call_id,
       e.run_id AS run_id,
       e.body ->> '$.step_index' AS step_index,
       e.tool AS tool_name,
       e.body -> '$.args' AS args_json,
       min(coalesce(e.body ->> '$.started_at', e.at), coalesce((
         SELECT f.body ->> '$.started_at' FROM entries f WHERE f.call_id = e.call_id AND f.id > e.id
         AND f.kind = 'settled' ORDER BY f.id LIMIT 1), e.at)) AS created_at
FROM entries e
WHERE e.kind IN ('held', 'performing', 'settled', 'judged') AND NOT EXISTS (
  SELECT 1 FROM entries f WHERE f.call_id = e.call_id AND f.id < e.id AND f.kind IN ('held', 'performing', 'settled', 'judged'));

CREATE VIEW tool_results AS
SELECT call_id, run_id,
       CASE status WHEN 'expired' THEN 'denied' WHEN 'unknown' THEN 'error' ELSE status END AS status,
       CASE WHEN output IS NULL AND error IS NOT NULL AND status IN ('error', 'unknown')
         THEN json_object('error', json(error)) ELSE output END AS output_json,
       error ->> '$.detail' AS error,
       json_object('decision', decision, 'reasons', json(CASE WHEN is_bound THEN reasons ELSE json_array(
         json_object('layer', coalesce(error ->> '$.stage', 'bind'), 'rule', error ->> '$.name',
           'text', error ->> '$.detail')) END)) AS policy_decision_json,
       started_at, ended_at, input_hash, output_hash
FROM (
  SELECT s.call_id AS call_id,
         s.run_id AS run_id,
         s.status AS status,
         coalesce(s.body -> '$.data', CASE WHEN s.body -> '$.output_hash' IS NOT NULL THEN (
           SELECT CAST(b.data AS TEXT) FROM blobs b WHERE b.hash = 'output:' || s.call_id) END) AS output,
         s.body -> '$.error' AS error,
         s.body ->> '$.decision' AS decision,
         coalesce(s.body ->> '$.signatures', '') <> '[]' AS is_bound,
         coalesce(s.body -> '$.reasons', (
           SELECT f.body -> '$.reasons' FROM entries f WHERE f.call_id = s.call_id AND f.id < s.id
           AND f.body -> '$.reasons' IS NOT NULL ORDER BY f.id DESC LIMIT 1)) AS reasons,
         coalesce(s.body ->> '$.started_at', (
           SELECT f.at FROM entries f WHERE f.call_id = s.call_id ORDER BY f.id LIMIT 1)) AS started_at,
         s.at AS ended_at,
         coalesce(s.body ->> '$.input_hash', (
           SELECT f.body ->> '$.input_hash' FROM entries f WHERE f.call_id = s.call_id AND f.id < s.id
           AND f.body -> '$.input_hash' IS NOT NULL ORDER BY f.id DESC LIMIT 1)) AS input_hash,
         s.body ->> '$.output_hash' AS output_hash
  FROM entries s WHERE s.kind = 'settled' AND s.call_id IS NOT NULL
);
