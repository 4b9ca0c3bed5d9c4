# Sessions of older versions of the client, recorded plainly: the scenarios of stage 10 that they know. VERSIONS chooses.
. "$T/lib.sh"
export TMO=60
for V in ${VERSIONS:-1.0.128 2.1.109 2.1.139 2.1.172 2.1.234}; do
  set_version "$V"; O=$R/captures/raw/$V
  session() { fresh_home; repo; echo "== $V $1"; mock_start "$O/$1.jsonl"; }
  done_with() { mock_stop; keep_transcripts "$V-$1"; }
  session basic
  ask 'What does this project do? (script: main_basic)'; ask 'Add a docstring. (script: main_followup)' --continue
  ask 'Read three things. (script: parallel_tools)'; ask 'Write a long text. (script: maxtok)'
  done_with basic
  for s in fanout_fg fanout_bg; do session $s; ask "Fan out. (script: $s)"; done_with $s; done
  session agents_misc
  for s in resume_agent fork workflow worktree bash_bg; do ask "Please do it. (script: $s)"; done
  done_with agents_misc
  session errors
  for s in retry529 sse_error bad_request; do ask "Please do it. (script: $s)"; done
  timeout -s INT 5 $CL -p 'Answer slowly. (script: slow_stream)' </dev/null >/dev/null; timeout -s INT 6 $CL -p 'Delegate. (script: slow_agent)' </dev/null >/dev/null
  ask 'Go on. (script: hello)' --continue
  done_with errors
  session compact
  ask 'Fan out. (script: fanout_fg)'; ask '/compact' --continue; ask 'Hi again. (script: hello)' --continue
  done_with compact
  fresh_home; repo one; repo two; echo "== $V two_sessions"; mock_start "$O/two_sessions.jsonl"
  (cd "$R/work/one"; ask 'Fan out. (script: fanout_fg)') & P1=$!
  (cd "$R/work/two"; ask 'Fan out. (script: fanout_bg)') & P2=$!
  wait $P1 $P2; done_with two_sessions
done
