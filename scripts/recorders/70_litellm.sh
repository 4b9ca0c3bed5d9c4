# The client through a LiteLLM proxy, which posts its StandardLoggingPayloads to a listener that writes them down, a post a line.
. "$T/lib.sh"
set_version 2.1.332; O=$R/captures/litellm; mkdir -p "$O"
fresh_home; repo; mock_start "$O/truth.jsonl"
rm -f "$O/log.jsonl"
python3 - "$O/log.jsonl" <<'PY' &
import http.server, sys
class Listener(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers['content-length']))
        with open(sys.argv[1], 'ab') as log:
            log.write(body.replace(b'\n', b' ') + b'\n')
        self.send_response(200); self.end_headers()
    def log_message(self, *_): pass
http.server.ThreadingHTTPServer(('127.0.0.1', 18091), Listener).serve_forever()
PY
LP=$!
cat >"$R/tmp/litellm.yaml" <<Y
model_list:
  - model_name: "claude-*"
    litellm_params: {model: "anthropic/claude-*", api_base: "http://127.0.0.1:$MOCK_PORT", api_key: sk-ant-dummy}
general_settings: {forward_client_headers_to_llm_api: true}
litellm_settings: {callbacks: ["generic_api"], num_retries: 0, drop_params: true}
Y
export LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY=true LITELLM_LOCAL_MODEL_COST_MAP=True GENERIC_LOGGER_ENDPOINT=http://127.0.0.1:18091 DEFAULT_FLUSH_INTERVAL_SECONDS=2
"$R/venv-litellm/bin/litellm" --config "$R/tmp/litellm.yaml" --host 127.0.0.1 --port 18090 --telemetry False >"$R/tmp/litellm.log" 2>&1 &
PP=$!; for i in 1 2 3 4 5; do wait_port 18090 && break; done; export ANTHROPIC_BASE_URL=http://127.0.0.1:18090
for s in main_basic fanout_fg fanout_bg fork workflow retry529; do ask "Please do it. (script: $s)"; done
sleep 8; kill -INT $PP; sleep 2; kill $PP $LP 2>/dev/null; mock_stop; ls -la "$O"
