# The client through claude-code-router, which logs what it was sent.
. "$T/lib.sh"
set_version 2.1.332; O=$R/captures/claude-code-router; mkdir -p "$O"
fresh_home; repo; mock_start "$O/truth.jsonl"
mkdir -p "$HOME/.claude-code-router"
cat >"$HOME/.claude-code-router/config.json" <<J
{"LOG": true, "LOG_LEVEL": "debug", "HOST": "127.0.0.1", "PORT": 18092, "NON_INTERACTIVE_MODE": true,
 "Providers": [{"name": "mock", "api_base_url": "http://127.0.0.1:$MOCK_PORT/v1/messages", "api_key": "sk-ant-dummy", "models": ["claude-opus-5-5"], "transformer": {"use": ["Anthropic"]}}],
 "Router": {"default": "mock,claude-opus-5-5"}}
J
node "$R/ccr/node_modules/@musistudio/claude-code-router/dist/cli.js" start >"$R/tmp/router.log" 2>&1 &
PP=$!; wait_port 18092; export ANTHROPIC_BASE_URL=http://127.0.0.1:18092
for s in main_basic fanout_fg fanout_bg fork workflow; do ask "Please do it. (script: $s)"; done
sleep 1; kill $PP; mock_stop
cat "$HOME"/.claude-code-router/logs/*.log >"$O/log.jsonl"; ls -la "$O"
