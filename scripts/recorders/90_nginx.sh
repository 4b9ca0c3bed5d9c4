# The client through nginx with a JSON access log, once without answers and once with a Lua filter that keeps them.
. "$T/lib.sh"
set_version 2.1.332; O=$R/captures/nginx; mkdir -p "$O"
one() { # one NAME "more in the location" "more in the log" script...
  local n=$1 keep=$2 field=$3; shift 3; fresh_home; repo; mock_start "$O/$n.truth.jsonl"
  rm -f "$O/$n.log"
  cat >"$R/tmp/nginx.conf" <<C
$(for m in ndk_http_module ngx_http_lua_module; do [ -n "$keep" ] && echo "load_module /usr/lib/nginx/modules/$m.so;"; done)
pid $R/tmp/nginx.pid; error_log $R/tmp/nginx.err; daemon off;
events {}
http {
  client_body_temp_path $R/tmp/b; proxy_temp_path $R/tmp/p; fastcgi_temp_path $R/tmp/f; uwsgi_temp_path $R/tmp/u; scgi_temp_path $R/tmp/s;
  client_max_body_size 64m; client_body_buffer_size 16m;
  log_format json escape=json '{"time_iso8601":"\$time_iso8601","msec":"\$msec","request_time":"\$request_time","remote_addr":"\$remote_addr","request_method":"\$request_method","request_uri":"\$request_uri","status":"\$status",'
    '"http_user_agent":"\$http_user_agent","http_x_claude_code_session_id":"\$http_x_claude_code_session_id","http_x_claude_code_agent_id":"\$http_x_claude_code_agent_id",'
    '"http_x_claude_code_parent_agent_id":"\$http_x_claude_code_parent_agent_id","upstream_response_time":"\$upstream_response_time"$field,"request_body":"\$request_body"}';
  server {
    listen 127.0.0.1:18093; access_log $O/$n.log json;
    location / { proxy_pass http://127.0.0.1:$MOCK_PORT; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Accept-Encoding identity; proxy_buffering off; proxy_read_timeout 600s; $keep }
  }
}
C
  /usr/sbin/nginx -e "$R/tmp/nginx.err" -p "$R/tmp" -c "$R/tmp/nginx.conf" & local PP=$!
  wait_port 18093; export ANTHROPIC_BASE_URL=http://127.0.0.1:18093
  for s in "$@"; do ask "Please do it. (script: $s)"; done
  timeout -s INT 5 $CL -p 'Answer slowly. (script: slow_stream)' </dev/null >/dev/null
  kill -QUIT $PP; wait $PP; mock_stop; ls -la "$O"
}
one requests "" "" main_basic fanout_fg fanout_bg retry529
[ -e /usr/lib/nginx/modules/ngx_http_lua_module.so ] && one answers 'set $resp_body ""; body_filter_by_lua_block { ngx.ctx.buffered = (ngx.ctx.buffered or "") .. (ngx.arg[1] or "") if ngx.arg[2] then ngx.var.resp_body = ngx.ctx.buffered end }' ',"resp_body":"$resp_body"' main_basic fanout_fg fanout_bg retry529
