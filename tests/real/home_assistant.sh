#!/usr/bin/env bash
# A real Home Assistant server on loopback, for integration tests.
#
#   home_assistant.sh DIR PORT        make what is missing, start, wait until RUNNING,
#                                     print one JSON object on stdout (logs go to stderr)
#   home_assistant.sh --stop DIR      stop it (bounded, then SIGKILL by pid)
#   home_assistant.sh --status DIR    print running or stopped
#   home_assistant.sh --install DIR   only make the venv
#   home_assistant.sh --reset DIR     stop, delete config and database, keep the venv
#   home_assistant.sh --lock DIR      write the pins beside this file anew, from the release's own manifests
#
# Environment (all optional):
#   HA_VENV=DIR/venv      venv to use (shared between instances if set)
#   HA_PYTHON=python3     interpreter for the venv: Python 3.11 or 3.12
#   HA_UV=uv              installer; without it pip, which takes longer
#   HA_OWNER=PID          stop when this process is gone
#   HA_INSTALL_TIMEOUT=420  HA_START_TIMEOUT=120  HA_STOP_TIMEOUT=25   seconds
#   HA_TLS=0              1: serve https with a self-signed certificate (DIR/tls.crt)
#   HA_SEED=1             create areas and assign demo entities to them (0: leave bare)
#
# Idempotent: a second start with HA running prints the same JSON and starts nothing.
# The tokens and the users survive restarts (they live in DIR/config/.storage/auth).
# `homeassistant.restart` works: a small loop restarts hass on its exit code 100.
set -euo pipefail

HA_VERSION=2024.3.3 # the last release for Python 3.11
HA_PYTHON=${HA_PYTHON:-python3}
HA_UV=${HA_UV:-$(command -v uv || true)}
PINS=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/home_assistant.txt
INSTALL_T=${HA_INSTALL_TIMEOUT:-420}
START_T=${HA_START_TIMEOUT:-120}
STOP_T=${HA_STOP_TIMEOUT:-25}
SEED=${HA_SEED:-1}
TLS=${HA_TLS:-0}

log() { printf '[ha] %s\n' "$*" >&2; }
die() { log "ERROR: $*"; exit 1; }

mode=start
case "${1:-}" in
  --stop|--status|--install|--reset|--lock) mode=${1#--}; shift ;;
  ''|-h|--help) sed -n '2,/^set -euo/p' "$0" | sed '$d'; exit 2 ;;
esac
mkdir -p "${1:?DIR}"
DIR=$(cd "$1" && pwd)
PORT=${2:-}
VENV=${HA_VENV:-$DIR/venv}
CONF=$DIR/config
PIDF=$DIR/hass.pid         # the restart loop's pid
HPIDF=$DIR/hass.child.pid  # hass itself
STOPF=$DIR/stop.flag

alive() { [ -s "$1" ] && kill -0 "$(cat "$1")" 2>/dev/null; }

stop_ha() {
  touch "$STOPF"
  if alive "$HPIDF"; then kill -TERM "$(cat "$HPIDF")" 2>/dev/null || true; fi
  local i=0
  while alive "$PIDF" || alive "$HPIDF"; do
    i=$((i + 1))
    if [ "$i" -gt $((STOP_T * 10)) ]; then
      log "not gone after ${STOP_T}s: SIGKILL"
      alive "$HPIDF" && kill -KILL "$(cat "$HPIDF")" 2>/dev/null || true
      alive "$PIDF" && kill -KILL "$(cat "$PIDF")" 2>/dev/null || true
      sleep 0.3; break
    fi
    sleep 0.1
  done
  rm -f "$PIDF" "$HPIDF" "$STOPF"
}

install_ha() {
  local mark; mark=$VENV/.ready-$(sha256sum "$PINS" | cut -c1-16)
  [ -e "$mark" ] && return 0
  log "installing homeassistant==$HA_VERSION into $VENV (limit ${INSTALL_T}s)"
  timeout "$INSTALL_T" bash -euo pipefail -s "$VENV" "$HA_PYTHON" "$HA_UV" "$PINS" >&2 <<'INST' || die "install failed or ran past ${INSTALL_T}s"
venv=$1 py=$2 uv=$3 pins=$4
[ -x "$venv/bin/python" ] || "$py" -m venv "$venv"
export UV_NATIVE_TLS=1 UV_LINK_MODE=copy UV_HTTP_TIMEOUT=180
# pip is far slower, but knows mirrors that only pip was told of.
{ [ -n "$uv" ] && "$uv" pip install -q --python "$venv/bin/python" --no-deps --require-hashes -r "$pins"; } ||
  "$venv/bin/python" -m pip install -q --disable-pip-version-check --no-deps --require-hashes -r "$pins"
"$venv/bin/hass" --version
INST
  touch "$mark"
}

# Everything that the configuration below loads, from the release's own manifests, so that hass needs no network (and
# no pip) at run time.
lock_ha() {
  [ -n "$HA_UV" ] || die "--lock needs uv"
  "$HA_PYTHON" -m venv "$DIR/bare"
  "$HA_UV" pip install -q --python "$DIR/bare/bin/python" --no-deps "homeassistant==$HA_VERSION"
  local site; site=$("$DIR/bare/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
  "$DIR/bare/bin/python" - "$site" "$HA_VERSION" > "$DIR/home_assistant.in" <<'PY'
import importlib.metadata as md, json, os, re, sys
base = os.path.join(sys.argv[1], "homeassistant")
out, seen = {f"homeassistant=={sys.argv[2]}"}, set()
for r in md.requires("homeassistant") or []:
    out.add(re.sub(r"\s*\((.*)\)", r"\1", r))
def walk(c):
    p = os.path.join(base, "components", c, "manifest.json")
    if c in seen or not os.path.exists(p):
        return
    seen.add(c)
    m = json.load(open(p))
    out.update(m.get("requirements", []))
    for d in m.get("dependencies", []):
        walk(d)
boot = open(os.path.join(base, "bootstrap.py")).read()
m = re.search(r"^DEFAULT_INTEGRATIONS = \{(.*?)^\}", boot, re.S | re.M)
for c in re.findall(r'^\s*"([a-z_]+)",', m.group(1), re.M):
    walk(c)
for c in """frontend api websocket_api http auth config recorder history logbook demo kitchen_sink template scene script
        input_boolean sensor camera tts stt image notify weather energy sun mobile_app group""".split():
    walk(c)
# Not pinned by Home Assistant and broken since: hass_nabucasa (imported by the http middleware on every request) needs
# acme, and that needs josepy.ComparableX509, which josepy 2 dropped.
out.add("josepy<2")
print("\n".join(sorted(out)))
PY
  "$HA_UV" pip compile -q --python-version 3.11 --python-platform linux --generate-hashes --no-header --no-annotate \
    --no-emit-index-url --no-emit-find-links -c "$site/homeassistant/package_constraints.txt" \
    "$DIR/home_assistant.in" -o "$PINS"
}

write_config() {
  mkdir -p "$CONF/.storage"
  local tls_yaml=""
  rm -f "$DIR/tls"
  if [ "$TLS" = 1 ]; then
    [ -s "$DIR/tls.crt" ] || openssl req -x509 -newkey rsa:2048 -nodes -days 3650 -subj /CN=localhost \
      -addext 'subjectAltName=DNS:localhost,IP:127.0.0.1' -keyout "$DIR/tls.key" -out "$DIR/tls.crt" 2>/dev/null || die "openssl failed"
    touch "$DIR/tls"
    tls_yaml=$(printf '\n  ssl_certificate: %s\n  ssl_key: %s' "$DIR/tls.crt" "$DIR/tls.key")
  fi
  cat > "$CONF/configuration.yaml" <<YAML
homeassistant:
  name: Test Home
  latitude: 52.37
  longitude: 4.89
  elevation: 2
  unit_system: metric
  currency: EUR
  country: NL
  time_zone: UTC
http:
  server_host: 127.0.0.1
  server_port: $PORT$tls_yaml
logger:
  default: warning
recorder:
  db_url: sqlite:///$CONF/home-assistant_v2.db
  commit_interval: 1
api:
websocket_api:
auth:
config:
history:
logbook:
demo:
kitchen_sink:
burst:
mobile_app:
group:
  downstairs:
    name: Downstairs
    entities: [light.kitchen_lights, light.ceiling_lights, lock.front_door]
input_boolean:
  guest_mode:
    name: Guest mode
  movie_mode:
    name: Movie mode
input_number:
  burst:
    min: 0
    max: 1000000
    step: 1
script:
  movie_time:
    alias: Movie time
    sequence:
      - service: input_boolean.turn_on
        target: {entity_id: input_boolean.movie_mode}
  slow:
    alias: Slow script
    mode: parallel
    sequence:
      - delay: {seconds: 12}
  answer:
    alias: Script with a response
    sequence:
      - variables: {out: {value: 42}}
      - stop: done
        response_variable: out
  failing:
    alias: Script that fails
    sequence:
      - stop: It broke
        error: true
scene:
  - name: Movie night
    entities:
      light.kitchen_lights: "off"
      light.bed_light:
        state: "on"
        brightness: 60
      input_boolean.movie_mode: "on"
  - name: Good night
    entities:
      light.ceiling_lights: "off"
      lock.front_door: locked
      cover.living_room_window: closed
template:
  - sensor:
      - name: Kitchen temperature
        unique_id: tpl_kitchen_temperature
        unit_of_measurement: "°C"
        device_class: temperature
        state_class: measurement
        state: "{{ 20 + (states('input_number.burst') | float(0)) / 10 }}"
YAML
  # load generator for tests: service burst.run {count, entities, per_second (0: one tight
  # loop), prefix}; burst.clear removes what it made
  mkdir -p "$CONF/custom_components/burst"
  cat > "$CONF/custom_components/burst/manifest.json" <<'JSON'
{"domain": "burst", "name": "Burst", "version": "1.0.0", "documentation": "https://example.invalid", "codeowners": [], "iot_class": "calculated", "requirements": [], "dependencies": []}
JSON
  cat > "$CONF/custom_components/burst/__init__.py" <<'PY'
"""Makes state changes at a chosen rate (tests only)."""
import asyncio
import time

DOMAIN = "burst"


async def async_setup(hass, config):
    async def run(call):
        d = call.data
        count, ents = int(d.get("count", 1000)), int(d.get("entities", 100))
        rate, prefix = float(d.get("per_second", 0)), d.get("prefix", "sensor.burst_")
        t0 = time.monotonic()
        for i in range(count):
            hass.states.async_set(
                f"{prefix}{i % ents}", str(i),
                {"friendly_name": f"Burst {i % ents}", "unit_of_measurement": "W", "n": i},
                context=call.context)
            if rate and (ahead := (i + 1) / rate - (time.monotonic() - t0)) > 0:
                await asyncio.sleep(ahead)

    async def clear(call):
        prefix = call.data.get("prefix", "sensor.burst_")
        for e in [e for e in hass.states.async_entity_ids() if e.startswith(prefix)]:
            hass.states.async_remove(e)

    hass.services.async_register(DOMAIN, "run", run)
    hass.services.async_register(DOMAIN, "clear", clear)
    return True
PY
  # owner + a non-admin user, each with a long-lived token; written once, kept after that
  "$VENV/bin/python" - "$CONF" "$DIR" <<'PY'
import base64, hashlib, hmac, json, os, secrets, sys, time, uuid
conf, root = sys.argv[1:]
store = os.path.join(conf, ".storage")
auth, toks = os.path.join(store, "auth"), os.path.join(root, "tokens.json")
def put(name, version, data, minor=1):
    p = os.path.join(store, name)
    tmp = p + ".tmp"
    with open(tmp, "w") as f:
        json.dump({"version": version, "minor_version": minor, "key": name, "data": data}, f)
    os.chmod(tmp, 0o600)
    os.replace(tmp, p)
if not (os.path.exists(auth) and os.path.exists(toks)):
    YEARS10 = 10 * 365 * 86400
    now = int(time.time())
    b64 = lambda b: base64.urlsafe_b64encode(b).rstrip(b"=")
    users, refresh, out = [], [], {}
    for name, group, owner in (("owner", "system-admin", True), ("limited", "system-users", False),
                               ("readonly", "system-read-only", False)):
        uid, rid, key = uuid.uuid4().hex, uuid.uuid4().hex, secrets.token_hex(64)
        users.append({"id": uid, "group_ids": [group], "is_owner": owner, "is_active": True,
                      "name": name, "system_generated": False, "local_only": False})
        refresh.append({"id": rid, "user_id": uid, "client_id": None, "client_name": "tests",
                        "client_icon": None, "token_type": "long_lived_access_token",
                        "created_at": time.strftime("%Y-%m-%dT%H:%M:%S.000000+00:00", time.gmtime(now)),
                        "access_token_expiration": float(YEARS10), "token": secrets.token_hex(64),
                        "jwt_key": key, "last_used_at": None, "last_used_ip": None,
                        "expire_at": None, "credential_id": None, "version": None})
        body = b64(b'{"alg":"HS256","typ":"JWT"}') + b"." + b64(json.dumps(
            {"iss": rid, "iat": now, "exp": now + YEARS10}, separators=(",", ":")).encode())
        sig = b64(hmac.new(key.encode(), body, hashlib.sha256).digest())
        out[name] = {"user_id": uid, "token": (body + b"." + sig).decode()}
    put("auth", 1, {"users": users, "credentials": [], "refresh_tokens": refresh, "groups": [
        {"id": "system-admin", "name": "Administrators"},
        {"id": "system-users", "name": "Users"},
        {"id": "system-read-only", "name": "Read Only"}]})
    put("auth_provider.homeassistant", 1, {"users": []})
    with open(toks, "w") as f:
        json.dump(out, f)
    os.chmod(toks, 0o600)
if not os.path.exists(os.path.join(store, "onboarding")):
    put("onboarding", 4, {"done": ["user", "core_config", "analytics", "integration"]})
PY
}

wait_and_seed() {  # prints the JSON
  "$VENV/bin/python" - "$DIR" "$PORT" "$START_T" "$SEED" "$PIDF" <<'PY'
import asyncio, json, os, sys, time
import aiohttp
root, port, limit, seed, pidf = sys.argv[1:]
tok = json.load(open(os.path.join(root, "tokens.json")))
tls = os.path.exists(os.path.join(root, "tls"))
url = f"http{'s' if tls else ''}://127.0.0.1:{port}"
AREAS = {"Kitchen": ["light.kitchen_lights", "sensor.kitchen_temperature"],
         "Bedroom": ["light.bed_light", "cover.kitchen_window"],
         "Living Room": ["light.living_room_rgbww_lights", "media_player.living_room"]}
DEVICES = {"Kitchen": "Ceiling Lights"}
async def main():
    end, t0 = time.time() + float(limit), time.time()
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False), headers={"Authorization": "Bearer " + tok["owner"]["token"]}) as s:
        while True:
            cfg = None
            try:
                async with s.get(url + "/api/config", timeout=aiohttp.ClientTimeout(total=3)) as r:
                    if r.status == 401:
                        sys.exit("[ha] the port answers but refuses our token: another server there?")
                    cfg = await r.json() if r.status == 200 else None
            except (aiohttp.ClientError, asyncio.TimeoutError, ValueError):
                pass
            if cfg and cfg.get("state") == "RUNNING":
                break
            try:
                os.kill(int(open(pidf).read()), 0)
            except (OSError, ValueError):
                sys.exit("[ha] hass exited while starting; see hass.out and config/home-assistant.log")
            if time.time() > end:
                sys.exit(f"[ha] not RUNNING after {limit}s (last state: {cfg and cfg.get('state')})")
            await asyncio.sleep(0.1)
        if cfg.get("recovery_mode") or cfg.get("safe_mode"):
            sys.exit("[ha] started in recovery/safe mode: see config/home-assistant.log")
        if seed == "1":
            async with s.ws_connect(url + "/api/websocket") as ws:
                await ws.receive_json()
                await ws.send_json({"type": "auth", "access_token": tok["owner"]["token"]})
                await ws.receive_json()
                n = 0
                async def cmd(**kw):
                    nonlocal n
                    n += 1
                    await ws.send_json({"id": n, **kw})
                    return await ws.receive_json(timeout=10)
                have = {a["name"]: a["area_id"] for a in (await cmd(type="config/area_registry/list"))["result"]}
                devices = {d["name"]: d for d in (await cmd(type="config/device_registry/list"))["result"]}
                ents = {e["entity_id"]: e for e in (await cmd(type="config/entity_registry/list"))["result"]}
                for name, ids in AREAS.items():
                    if name not in have:
                        r = await cmd(type="config/area_registry/create", name=name)
                        have[name] = r["result"]["area_id"]
                    for i in ids:
                        if i in ents and ents[i]["area_id"] != have[name]:
                            await cmd(type="config/entity_registry/update", entity_id=i, area_id=have[name])
                for name, device in DEVICES.items():
                    await cmd(type="config/device_registry/update", device_id=devices[device]["id"], area_id=have[name])
        print(json.dumps({"url": url, "ws_url": url.replace("http", "ws", 1) + "/api/websocket",
            "token": tok["owner"]["token"], "limited_token": tok["limited"]["token"],
            "readonly_token": tok["readonly"]["token"],
            "tls_cert": os.path.join(root, "tls.crt") if tls else None, "version": cfg["version"], "pid": int(open(pidf).read()),
            "config_dir": os.path.join(root, "config"), "wait_s": round(time.time() - t0, 2)}))
asyncio.run(main())
PY
}

start_ha() {
  [[ "$PORT" =~ ^[0-9]+$ ]] || die "usage: $0 DIR PORT"
  if alive "$PIDF"; then log "already running"; PORT=$(cat "$DIR/port"); wait_and_seed; return; fi
  rm -f "$PIDF" "$HPIDF" "$STOPF"
  install_ha
  write_config
  "$VENV/bin/python" -c 'import socket,sys; s=socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.bind(("127.0.0.1", int(sys.argv[1])))' "$PORT" 2>/dev/null || die "port $PORT is taken"
  echo "$PORT" > "$DIR/port"
  # hass exits 100 to ask for a restart; TERM gives 0. Who started it may be killed: then nobody is left to stop it.
  setsid bash -c '
    echo $$ > "$1"
    if [ -n "$7" ]; then
      ( while kill -0 "$7" 2>/dev/null && kill -0 $$ 2>/dev/null; do sleep 1; done
        kill -0 $$ 2>/dev/null || exit 0
        touch "$6"; kill -KILL "$(cat "$2")" ) &
    fi
    while :; do
      "$3/bin/hass" -c "$4" --skip-pip --log-no-color >> "$5/hass.out" 2>&1 < /dev/null &
      echo $! > "$2"; wait $!; rc=$?
      echo "[loop] hass exit $rc" >> "$5/hass.out"
      if [ $rc -ne 100 ] || [ -e "$6" ]; then break; fi
    done
    rm -f "$1" "$2"
  ' _ "$PIDF" "$HPIDF" "$VENV" "$CONF" "$DIR" "$STOPF" "${HA_OWNER:-}" > /dev/null 2>&1 < /dev/null &
  local i=0; until [ -s "$PIDF" ]; do sleep 0.05; i=$((i + 1)); [ $i -gt 100 ] && die "loop did not start"; done
  if ! wait_and_seed; then stop_ha; tail -n 20 "$DIR/hass.out" >&2 || true; exit 1; fi
}

case $mode in
  start) start_ha ;;
  install) install_ha; log "venv ready: $VENV" ;;
  lock) lock_ha; log "pins written: $PINS" ;;
  stop) stop_ha; log stopped ;;
  reset) stop_ha; rm -rf "$CONF" "$DIR/tokens.json" "$DIR/hass.out" "$DIR/port"; log reset ;;
  status) if alive "$PIDF"; then echo running; else echo stopped; fi ;;
esac
