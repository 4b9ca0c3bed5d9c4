# The client through Envoy with its tap filter, which writes a file a request: bodies as bytes, then as strings, then cut at 1 KB as by default.
. "$T/lib.sh"
set_version 2.1.332; O=$R/captures/envoy; mkdir -p "$O"
one() { # one NAME FORMAT "limits" script...
  local n=$1 format=$2 limits=$3; shift 3; fresh_home; repo; mock_start "$O/$n.truth.jsonl"
  rm -rf "$O/$n"; mkdir -p "$O/$n"
  cat >"$R/tmp/envoy.yaml" <<Y
static_resources:
  listeners:
  - address: {socket_address: {address: 127.0.0.1, port_value: 18094}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: mock
          stream_idle_timeout: 600s
          route_config: {virtual_hosts: [{name: all, domains: ["*"], routes: [{match: {prefix: "/"}, route: {cluster: mock, timeout: 600s}}]}]}
          http_filters:
          - name: envoy.filters.http.tap
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.tap.v3.Tap
              record_headers_received_time: true
              record_downstream_connection: true
              common_config:
                static_config:
                  match: {any_match: true}
                  output_config: {$limits sinks: [{format: $format, file_per_tap: {path_prefix: "$O/$n/tap"}}]}
          - name: envoy.filters.http.router
            typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
  clusters:
  - {name: mock, type: STATIC, connect_timeout: 5s, load_assignment: {cluster_name: mock, endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: $MOCK_PORT}}}}]}]}}
Y
  "$R"/venv-envoy/lib/python3.11/site-packages/envoy/_bin/envoy -c "$R/tmp/envoy.yaml" --disable-hot-restart --concurrency 1 >"$R/tmp/envoy.log" 2>&1 & local PP=$!
  wait_port 18094; export ANTHROPIC_BASE_URL=http://127.0.0.1:18094
  for s in "$@"; do ask "Please do it. (script: $s)"; done
  timeout -s INT 5 $CL -p 'Answer slowly. (script: slow_stream)' </dev/null >/dev/null
  sleep 1; kill $PP; wait $PP; mock_stop; ls "$O/$n" | wc -l
}
ALL='max_buffered_rx_bytes: 67108864, max_buffered_tx_bytes: 67108864,'
one bytes JSON_BODY_AS_BYTES "$ALL" main_basic fanout_fg fanout_bg retry529
one strings JSON_BODY_AS_STRING "$ALL" main_basic fanout_fg
one default JSON_BODY_AS_BYTES "" main_basic
