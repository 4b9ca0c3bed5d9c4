#!/usr/bin/env python3
"""Counts what a recording of a coding agent holds, without any code of the converter, to check the converter against it.

    scripts/count-truth.py RECORDING.jsonl ...              a table
    scripts/count-truth.py --json RECORDING.jsonl ...       the same counts as JSON
    scripts/count-truth.py --compare GRAPH.json RECORDING.jsonl ...   differences from the converter's graph of these recordings; exit 1 if any

A recording is JSONL with one HTTP exchange a line: the mock endpoint's own (seq, t_start, t_end, headers, body, chunks, client_gone) or our native
capture (tracecloak_capture). Only counts are printed, never text. Each rule below is one short function, to be trusted by reading.
"""
import argparse, collections, json, re, sys

SPAWNS = ('Agent', 'Task')
NOTIFICATION = re.compile(r'<task-notification>.*?</task-notification>', re.S)
PREAMBLE = 'The computed task text follows:\n'
WORKFLOW = 'You are a subagent spawned by a workflow orchestration script'
COUNTS = ['requests', 'turn', 'auxiliary', 'recap', 'compaction', 'count_tokens', 'other_path', 'sessions', 'agents', 'spawn', 'by_result', 'by_notification',
          'by_prompt', 'by_time', 'no_spawn', 'join_result', 'join_notification', 'shell_notification', 'interrupted', 'retries', 'cancelled', 'failed']


# ------------------------------------------------------------------------------------------------ reading
class Exchange:
    """One HTTP exchange, parsed. `calls`: tool_use blocks of the answer. `state`: ok, failed or cancelled."""

    def __init__(self, row):
        if 'tracecloak_capture' in row:
            row = {'t_start': row['start_us'] / 1e6, 't_end': row['end_us'] / 1e6, 'method': row['method'], 'path': row['path'], 'headers': row['headers'], 'body': row['body'],
                   'status': row['status'], 'chunks': row['response'], 'client_gone': row.get('cut') == 'client'}
        self.start, self.end, self.path = row['t_start'], row['t_end'], row['path'].split('?')[0]
        self.is_message = row['method'] == 'POST' and self.path in ('/v1/messages', '/v1/messages/count_tokens')
        self.headers = {name.lower(): value for name, value in row['headers']}
        self.body = json.loads(row['body']) if self.is_message else {}
        answer = ''.join(text for _, text in row['chunks'] or [])
        events = [json.loads(line[5:]) for line in answer.split('\n') if line.startswith('data:') and is_json(line[5:])]
        whole = any(e['type'] == 'message_stop' for e in events) if self.body.get('stream') else is_json(answer)
        told = any(e['type'] == 'error' for e in events)  # on an error event the client hangs up too
        self.state = 'ok' if row['status'] == 200 and whole else 'cancelled' if row['status'] == 200 and row.get('client_gone') and not told else 'failed'
        self.calls = calls_of_events(events) if events else calls_of_message(answer) if self.state == 'ok' else []
        self.usage = usage_of(events or [json.loads(answer)] if self.state == 'ok' else [])
        self.messages = [(m['role'], blocks_of(m)) for m in self.body.get('messages', [])]
        self.agent = None  # set by threads()


def is_json(text):
    try:
        json.loads(text)
        return True
    except ValueError:
        return False


def blocks_of(message):
    """Blocks of a message; cache marks dropped, a string made a text block."""
    content = message['content']
    blocks = [{'type': 'text', 'text': content}] if isinstance(content, str) else content
    return [{k: v for k, v in b.items() if k != 'cache_control'} for b in blocks]


def calls_of_message(answer):
    return [(b['id'], b['name'], b['input']) for b in json.loads(answer).get('content', []) if b['type'] == 'tool_use']


def calls_of_events(events):
    """(id, name, input) of each tool_use block that the stream finished."""
    open_blocks, calls = {}, []
    for e in events:
        if e['type'] == 'content_block_start' and e['content_block']['type'] == 'tool_use':
            open_blocks[e['index']] = [e['content_block'], '']
        elif e['type'] == 'content_block_delta' and e['index'] in open_blocks:
            open_blocks[e['index']][1] += e['delta'].get('partial_json', '')
        elif e['type'] == 'content_block_stop' and e['index'] in open_blocks:
            block, text = open_blocks.pop(e['index'])
            calls.append((block['id'], block['name'], json.loads(text or '{}')))
    return calls


def usage_of(answers):
    """What the last statement of each count said."""
    stated = {}
    for a in answers:
        stated.update((a.get('message') or {}).get('usage') or a.get('usage') or {})
    return stated


def text_of(block):
    content = block.get('content') or ''
    return content if isinstance(content, str) else '\n'.join(b.get('text', '') for b in content)


def user_texts(exchange, which=None):
    messages = exchange.messages if which is None else exchange.messages[which:]
    return [b['text'] for role, blocks in messages if role == 'user' for b in blocks if b['type'] == 'text']


def first_prompt(exchange):
    """The last text of the first user message: what the agent was started with."""
    texts = [b['text'] for role, blocks in exchange.messages[:1] for b in blocks if b['type'] == 'text']
    return texts[-1] if texts else None


# ------------------------------------------------------------------------------------------------ sessions, kinds, agents
def session_of(e):
    if 'x-claude-code-session-id' in e.headers:
        return e.headers['x-claude-code-session-id']
    user = (e.body.get('metadata') or {}).get('user_id', '')
    return json.loads(user)['session_id'] if user.startswith('{') else user.rsplit('_session_', 1)[-1]


def system_of(e):
    system = e.body.get('system') or []
    return [system] if isinstance(system, str) else [b['text'] for b in system]


def kind_of(e):
    if e.path.endswith('count_tokens'):
        return 'count_tokens'
    system = '\n'.join(system_of(e))
    tools, last = e.body.get('tools') or [], user_texts(e, -1)
    if any(t.startswith('CRITICAL: Respond with TEXT ONLY') for t in last) or 'tasked with summarizing conversations' in system:
        return 'compaction'
    if any(str(t.get('type', '')).startswith('web_search') for t in tools) or not tools:
        return 'auxiliary'  # web search; title, topic, rename and hook bring no tools
    marked = [any('cache_control' in b for b in m['content']) for m in e.body['messages'] if not isinstance(m['content'], str)]
    if any(marked) and not marked[-1]:
        return 'recap'  # the cache mark stays before the instruction (so does that of a compaction)
    return 'turn'


def threads(exchanges):
    """Names each request's agent: the agent header, else the call whose prompt started the thread (before 2.1.139) or, for a workflow's agent (2.1.172),
    its task, else main."""
    prompts = {}
    for e in exchanges:
        for id_, name, given in e.calls:
            if name in SPAWNS:
                prompts.setdefault((session_of(e), given['prompt']), id_)
    for e in exchanges:
        e.session, e.kind = session_of(e), kind_of(e)
        of_workflow = any(text.startswith(WORKFLOW) for text in system_of(e))
        e.agent = e.headers.get('x-claude-code-agent-id') or prompts.get((e.session, first_prompt(e))) or (first_prompt(e) if of_workflow else 'main')


# ------------------------------------------------------------------------------------------------ spawns and joins
def results(exchanges):
    """call id -> the first request that brings its result, the result's text, whether it is an error. A fork's copy of its own call is none."""
    found = {}
    for e in exchanges:
        for role, blocks in e.messages:
            for b in blocks:
                if b['type'] == 'tool_result' and b['tool_use_id'] not in found and not text_of(b).startswith('Fork started'):
                    found[b['tool_use_id']] = (e, text_of(b), bool(b.get('is_error')))
    return found


def notifications(exchanges):
    """(first request that brings it, task id, tool-use id), each notification once a thread."""
    seen, out = set(), []
    for e in exchanges:
        for text in user_texts(e):
            for whole in NOTIFICATION.findall(text):
                if (e.session, e.agent, whole) not in seen:
                    seen.add((e.session, e.agent, whole))
                    task, call = re.search(r'<task-id>(.*?)</', whole), re.search(r'<tool-use-id>(.*?)</', whole)
                    out.append((e, task.group(1), call.group(1) if call else None))
    return out


def spawned_by(agent, first, calls, brought, notified):
    """(evidence, call id) of what started an agent: the first of result, notification, prompt, workflow preamble that tells."""
    mine = [c for c in calls if c[0].session == first.session]
    for e, id_, name, given in mine:
        if name in SPAWNS and id_ in brought and f'agentId: {agent}' in brought[id_][1]:
            return 'by_result', id_
    for e, task, call in notified:
        if task == agent and any(id_ == call and name in SPAWNS for _, id_, name, _ in mine):
            return 'by_notification', call
    texts = [t for t in user_texts(first)]
    for e, id_, name, given in mine:
        if name in SPAWNS and (given['prompt'] in texts[-1:] or any(t.endswith('Your directive: ' + given['prompt']) for t in texts)):
            return 'by_prompt', id_
    plain = first_prompt(first) if any(text.startswith(WORKFLOW) for text in system_of(first)) else None
    task = next((t.split(PREAMBLE, 1)[1] for t in texts if PREAMBLE in t), plain)
    workflows = [c for c in mine if c[2] == 'Workflow' and c[0].start < first.start]
    if task is not None and workflows:
        lines = '\n'.join(line.removeprefix('  ') for line in task.split('\n'))
        return 'by_prompt' if lines.strip() in str(workflows[-1][3].get('script')) else 'by_time', workflows[-1][1]
    return None, None


# ------------------------------------------------------------------------------------------------ counting
def count(rows):
    exchanges = sorted((Exchange(r) for r in rows), key=lambda e: e.start)
    n = collections.Counter({c: 0 for c in COUNTS})
    n['other_path'] = sum(not e.is_message for e in exchanges)
    exchanges = [e for e in exchanges if e.is_message]
    threads(exchanges)
    n['requests'], n['sessions'] = len(exchanges), len({e.session for e in exchanges})
    for e in exchanges:
        n[e.kind] += 1
        n['cancelled'] += e.state == 'cancelled'
        n['failed'] += e.state == 'failed'
    for before, e in pairs(exchanges):
        n['retries'] += before.state == 'failed' and before.messages == e.messages
    turns = [e for e in exchanges if e.kind != 'count_tokens']
    calls = [(e, *call) for e in turns for call in e.calls]
    brought, notified = results(turns), notifications(turns)
    firsts = {}
    for e in turns:
        firsts.setdefault((e.session, e.agent), e)
    n['agents'] = len(firsts) + sum(1 for s in {e.session for e in turns} if (s, 'main') not in firsts)
    children = collections.defaultdict(list)
    for (session, agent), first in firsts.items():
        if agent == 'main':
            continue
        evidence, call = spawned_by(agent, first, calls, brought, notified)
        n[evidence or 'no_spawn'] += 1
        n['spawn'] += evidence is not None
        children[call].append(agent)
    for e, id_, name, given in calls:
        if name == 'SendMessage' and any(t.session == e.session and t.agent == given['to'] and t.start >= e.start for t in turns):
            n['spawn'] += 1
            n['by_result'] += 1
        if name in SPAWNS and id_ in brought and children[id_]:
            _, text, error = brought[id_]
            stopped = error and "The user doesn't want to proceed" in text
            n['interrupted'] += stopped
            n['join_result'] += not stopped and not text.startswith('Async agent launched')
    for e, task, call in notified:
        if task.startswith('a'):
            n['join_notification'] += 1
        elif task.startswith('w'):
            n['join_notification'] += len(children[call])
        else:
            n['shell_notification'] += 1
    return dict(n)


def pairs(exchanges):
    """Each turn with the one before it in its thread."""
    last = {}
    for e in exchanges:
        if e.kind == 'turn':
            if (e.session, e.agent) in last:
                yield last[e.session, e.agent], e
            last[e.session, e.agent] = e


# ------------------------------------------------------------------------------------------------ the converter's side
def graph_sessions(graph):
    """Sessions with agents, requests and edges, as in fixtures/**/*.expected.json. The one place that knows the converter's format."""
    return graph['sessions']


def count_graph(graph):
    sessions = graph_sessions(graph)
    rows = lambda table: [r for s in sessions for r in s[table]]
    n = {'sessions': len(sessions), 'agents': len(rows('agents')), 'requests': len(rows('requests'))}
    for kind in ('turn', 'auxiliary', 'recap', 'compaction', 'count_tokens'):
        n[kind] = sum(r['kind'] == kind for r in rows('requests'))
    edges = rows('edges')
    n['spawn'] = sum(e['relation'] == 'spawn' for e in edges)
    for name, evidence in (('by_result', 'tool_result'), ('by_notification', 'notification'), ('by_prompt', 'prompt'), ('by_time', 'time')):
        n[name] = sum(e['relation'] == 'spawn' and e['evidence'] == evidence for e in edges)
    n['no_spawn'] = sum(a['spawn_request'] is None and a['kind'] != 'main' for a in rows('agents'))
    n['join_result'] = sum(e['relation'] == 'join' and e['evidence'] == 'tool_result' for e in edges)
    n['join_notification'] = sum(e['relation'] == 'join' and e['evidence'] == 'notification' for e in edges)
    n['interrupted'] = sum(a['status'] == 'interrupted' for a in rows('agents'))
    n['retries'] = sum(r['attempt'] > 0 for r in rows('requests'))
    n['cancelled'] = sum(r['status'] == 'client_cancelled' for r in rows('requests'))
    n['failed'] = sum(r['status'] not in ('ok', 'client_cancelled') for r in rows('requests'))
    return n


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('recordings', nargs='+')
    parser.add_argument('--json', action='store_true')
    parser.add_argument('--compare', metavar='GRAPH')
    args = parser.parse_args()
    counts = {}
    for path in args.recordings:
        with open(path, encoding='utf-8') as lines:
            rows = [json.loads(line) for line in lines]
        counts['/'.join(path.split('/')[-2:])] = (rows, count(rows))
    if args.compare:
        with open(args.compare, encoding='utf-8') as file:
            theirs = count_graph(json.load(file))
        ours = count([row for rows, _ in counts.values() for row in rows])
        wrong = [c for c in theirs if theirs[c] != ours[c]]
        for c in wrong:
            print(f'{c}: recording {ours[c]}, graph {theirs[c]}')
        print(f'{len(theirs) - len(wrong)} of {len(theirs)} counts equal: ' + ', '.join(f'{theirs[c]} {c}' for c in theirs if theirs[c]))
        return 1 if wrong else 0
    if args.json:
        print(json.dumps({name: n for name, (_, n) in counts.items()}, indent=1))
        return 0
    names = [name.rsplit('/', 1)[-1].removesuffix('.jsonl').removesuffix('.truth') for name in counts]
    print(' ' * 20 + ''.join(f'{name[:14]:>15}' for name in names))
    for c in COUNTS:
        print(f'{c:20}' + ''.join(f'{n[c]:15}' for _, n in counts.values()))
    return 0


if __name__ == '__main__':
    sys.exit(main())
