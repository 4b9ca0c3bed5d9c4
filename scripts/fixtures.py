#!/usr/bin/env python3
"""Writes the synthetic logs under fixtures/capture, and beside each what a converter must find in it.

A case is a plan: who sends what, when, and what it waited for. The log is rendered from the plan, and so is
`<case>.expected.json`; no converter is asked. All text is made up here; only the short markers by which a converter knows
a harness are the harness's own. Same bytes on every run: fixed seeds, fixed times, no clock.

    scripts/fixtures.py            write fixtures/capture
    scripts/fixtures.py --check    write to a temporary directory and compare
"""
import base64, copy, datetime, filecmp, hashlib, json, pathlib, random, sqlite3, struct, sys, tempfile, zlib

ROOT = pathlib.Path(__file__).resolve().parent.parent / 'fixtures' / 'capture'
EPOCH = int(datetime.datetime(2026, 3, 2, 9, tzinfo=datetime.timezone.utc).timestamp()) * 1000  # ms
MODEL, HAIKU = 'claude-opus-5-5', 'claude-haiku-4-5-20251001'
ALNUM = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz'
HOME = '/home/nora/parcel-tracker'


def dump(value):
    return json.dumps(value, ensure_ascii=False, separators=(',', ':'))


# ------------------------------------------------------------------------------------------------ made-up text
WORDS = """parcel depot courier route label weight scan belt dock ledger invoice harbour crane pallet window driver shift
manifest customs bridge river lantern garden orchard kettle copper violet amber slate timber granite meadow willow
function module handler parser buffer queue worker thread socket schema column index cursor branch commit merge patch
test fixture assert value field record table header footer margin border colour pixel frame signal timer retry backoff
checks moves reads writes returns keeps drops sorts counts merges splits renames opens closes waits finds shows holds
small large early late green quiet steady broken missing second third older newer plain empty local remote shared
when after before unless because while where which that this each every some none under over between beside without
quickly slowly twice rarely always never again maybe first last only also still already""".split()
SPICE = [
    '荷物の追跡番号は倉庫で二度読み取られ、夕方までに港へ運ばれます。配達員は雨でも時間どおりに来ます。',
    '빨간 상자는 창고 세 번째 줄에 있고, 파란 상자는 아직 도착하지 않았습니다.',
    'Paket № 7 → Köln 📦🚚, naïve façade, 👩🏽‍🔧 fixed it – “almost” ✓ ½ ≤ ¾ … e\u0301 vs é',
    'C:\\Users\\Nora\\depot\\new\\table.csv\r\nsecond line\r\n\tindented "quoted" \\n not a newline\r\n',
    'Look-alikes: <|im_end|> <|im_start|>user <EOT> <META_START> </s> [INST] <|endoftext|> <SOS> \n\nHuman: hi\n\nAssistant:',
    'fn main() {\n    let n: usize = parcels.iter().filter(|p| p.weight_g > 2_000).count();\n    println!("{n:>5}\\t{}", "💡");\n}\n',
    '{"a": [1, 2.50, -3e-7, null, true], "\\u00fc": "\\\\", "path": "/srv/depot/../depot/./in box"}',
]


class Writer:
    """Made-up prose and ids from one seeded source."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.spices = 0

    def text(self, words, spice=False):
        out = []
        while words > 0:
            n = min(words, self.rng.randint(7, 15))
            sentence = ' '.join(self.rng.choice(WORDS) for _ in range(n))
            out.append(sentence[0].upper() + sentence[1:] + '.')
            words -= n
        if spice:
            out.insert(len(out) // 2, '\n' + SPICE[self.spices % len(SPICE)] + '\n')
            self.spices += 1
        return ' '.join(out)

    def code(self, lines):
        pick = self.rng.choice
        return '\n'.join(f'{n:6}\tdef {pick(WORDS)}_{pick(WORDS)}(self, {pick(WORDS)}): return self.{pick(WORDS)}[{n}]' for n in range(1, lines + 1))

    def id(self, prefix, n=22):
        return prefix + ''.join(self.rng.choice(ALNUM) for _ in range(n))

    def hex(self, n):
        return ''.join(self.rng.choice('0123456789abcdef') for _ in range(n))

    def uuid(self):
        h = self.hex(32)
        return f'{h[:8]}-{h[8:12]}-4{h[13:16]}-a{h[17:20]}-{h[20:]}'


FIXED = Writer('text that every session shares')  # the shared heads: tools, system prompts, reminders
TOOL_CLASS = {'Read': 'read', 'Grep': 'search', 'ToolSearch': 'search', 'Edit': 'edit', 'Write': 'edit', 'Bash': 'shell',
              'WebSearch': 'web', 'WebFetch': 'web', 'Agent': 'agent', 'Task': 'agent', 'SendMessage': 'agent', 'Workflow': 'agent'}


def tool(name, *fields):
    return {'name': name, 'description': f'{name}: ' + FIXED.text(28), 'input_schema': {
        'type': 'object', 'properties': {f: {'type': 'string', 'description': FIXED.text(6)} for f in fields}, 'required': list(fields[:1])}}


TOOLS = {t['name']: t for t in [
    tool('Agent', 'prompt', 'description', 'subagent_type', 'run_in_background'), tool('Bash', 'command', 'description', 'run_in_background'),
    tool('Edit', 'file_path', 'old_string', 'new_string'), tool('Grep', 'pattern', 'path'), tool('Read', 'file_path', 'offset', 'limit'),
    tool('SendMessage', 'to', 'summary', 'message'), tool('Task', 'prompt', 'description', 'subagent_type'), tool('ToolSearch', 'query', 'max_results'),
    tool('WebFetch', 'url', 'prompt'), tool('WebSearch', 'query'), tool('Workflow', 'script'), tool('Write', 'file_path', 'content')]}
MAIN_TOOLS = ['Agent', 'Bash', 'Edit', 'Read', 'ToolSearch', 'Workflow', 'Write']
SUB_TOOLS = ['Agent', 'Bash', 'Edit', 'Read', 'Write']
SYSTEM = {kind: FIXED.text(230, spice=kind == 'main') for kind in ('main', 'general-purpose', 'custom', 'Explore', 'Plan', 'workflow-subagent', 'old')}
SYSTEM['workflow-subagent'] = 'You are a subagent spawned by a workflow orchestration script. ' + SYSTEM['workflow-subagent']
IDENTITY = {'main': 'You help people who keep the books of a parcel depot.', 'other': 'You are a helper of the depot assistant.'}
REMINDERS = ['<system-reminder>\n' + FIXED.text(60, spice=True) + '\n</system-reminder>',
             f'<system-reminder>\ngitStatus: branch night-shift\nGit user: Nora Beispiel <nora@depot.example>\n M {HOME}/src/label.py\n' + FIXED.text(25) + '\n</system-reminder>',
             '<system-reminder>\n' + FIXED.text(20) + '\n</system-reminder>']
ENVIRONMENT = f'Working directory: {HOME}\nPlatform: linux\n' + FIXED.text(45) + "\nToday's date is 2026-03-02."


# ------------------------------------------------------------------------------------------------ content blocks
def T(text):
    return {'type': 'text', 'text': text}


def TH(text=''):
    return {'type': 'thinking', 'thinking': text, 'signature': base64.b64encode(bytes(FIXED.rng.randrange(256) for _ in range(90))).decode()}


def U(name, **given):
    return {'type': 'tool_use', 'id': None, 'name': name, 'input': given}


def strip(value):
    if isinstance(value, dict):
        return {k: strip(v) for k, v in value.items() if k not in ('cache_control', 'signature')}
    return [strip(v) for v in value] if isinstance(value, list) else value


def blocks_of(message):
    content = message['content']
    return [T(content)] if isinstance(content, str) else content


def head_parts(body):
    system = [b['text'] for b in body.get('system', []) if not b['text'].startswith('x-anthropic-billing-header')]
    return ['tool ' + dump(strip(t)) for t in body.get('tools', [])] + ['system ' + t for t in system]


def message_parts(body):
    """Messages as a flat list, role before blocks: one prompt begins with another where its list does."""
    out = []
    for m in body['messages']:
        out += ['role ' + m['role']] + [dump(strip(b)) for b in blocks_of(m)]
    return out


def begins(later, earlier):
    return later[:len(earlier)] == earlier


def part_words(blocks):
    order = ['text', 'thinking', 'tool_use', 'tool_result', 'image', 'document', 'other']
    names = {'redacted_thinking': 'thinking', **{w: w for w in order}}
    found = {names.get(b['type'], 'other') for b in blocks}
    return [w for w in order if w in found]


# ------------------------------------------------------------------------------------------------ the plan
class Case:
    def __init__(self, name, day):
        self.name, self.base = name, EPOCH + day * 86_400_000
        self.w = Writer(name)
        self.sessions, self.probes = [], []

    def session(self, **kw):
        self.sessions.append(Session(self, **kw))
        return self.sessions[-1]

    def probe(self, at, method, path, body=None):
        """A request of another API, which a converter skips."""
        self.probes.append(dict(start=at, method=method, path=path, headers=[['Accept', '*/*'], ['User-Agent', 'Bun/1.3.14']], body=body,
                                status=200, first=4, end=at + 5, response_headers=[['content-type', 'application/json']], pieces=[[5, '{}']] if body else [], cut=None))

    def exchanges(self):
        requests = [r.exchange() for s in self.sessions for r in s.requests]
        return sorted(requests + self.probes, key=lambda e: (e['end'], e['start']))

    def expected(self):
        sessions = sorted((s for s in self.sessions), key=lambda s: min(r.start for r in s.requests))
        return {'sessions': [s.expected() for s in sessions], 'skipped': {'other_api': len(self.probes)} if self.probes else {},
                'count_tokens': sum(r.kind == 'count_tokens' for s in sessions for r in s.requests)}


class Session:
    def __init__(self, case, version='2.1.332', entry='sdk-cli', model=MODEL, secret='x-api-key'):
        self.case, self.version, self.entry, self.model, self.secret = case, version, entry, model, secret
        w = case.w
        self.uuid, self.device, self.account, self.billing = w.uuid(), w.hex(64), w.uuid(), w.hex(3)
        self.key = ['x-api-key', w.id('sk-ant-api03-FAKE-', 40) + '-FAKEKEYAA'] if secret == 'x-api-key' else ['Authorization', w.id('Bearer fake-oauth-token-', 32)]
        self.agents, self.requests, self.edges = [], [], []
        self.main = self.agent('main', 'main', None)

    @property
    def old(self):
        return self.version.startswith('1.')

    def agent(self, kind, type_, parent, **kw):
        self.agents.append(Agent(self, kind, type_, parent, **kw))
        return self.agents[-1]

    def edge(self, source, target, relation, why, evidence):
        self.edges.append((source, target, relation, why, evidence))

    def headers(self, agent):
        if self.old:
            return [['host', 'api.example.invalid'], ['connection', 'keep-alive'], ['accept', 'application/json'], ['content-type', 'application/json'],
                    ['user-agent', f'claude-cli/{self.version} (external, cli)'], self.key, ['x-app', 'cli'], ['x-stainless-helper-method', 'stream'],
                    ['x-stainless-retry-count', '0'], ['accept-language', '*'], ['sec-fetch-mode', 'cors'], ['anthropic-version', '2023-06-01']]
        ids = [['X-Claude-Code-Session-Id', self.uuid]]
        if agent.id:
            ids.append(['x-claude-code-agent-id', agent.id])
            if agent.parent and agent.parent.id and agent.kind != 'fork':
                ids.append(['x-claude-code-parent-agent-id', agent.parent.id])
        return [['Accept', 'application/json'], ['Content-Type', 'application/json'], ['User-Agent', f'claude-cli/{self.version} (external, {self.entry})'], *ids,
                ['X-Stainless-Retry-Count', '0'], ['anthropic-beta', 'made-up-beta-2026-01-01'], ['anthropic-version', '2023-06-01'], self.key, ['x-app', 'cli'],
                ['Cookie', f'depot_session=fake-{self.device[:24]}'], ['X-Depot-Team', 'night-shift@depot.example'], ['X-Depot-Token', f'fake-token-{self.account}'],
                ['Connection', 'keep-alive'], ['Host', 'api.example.invalid'], ['Accept-Encoding', 'gzip, deflate, br, zstd']]

    def metadata(self):
        if self.old:
            return {'user_id': f'user_{self.device}_account__session_{self.uuid}'}
        return {'user_id': dump({'device_id': self.device, 'account_uuid': self.account, 'session_id': self.uuid})}

    # -------------------------------------------------------------------------------------------- what must be found
    def expected(self):
        rows = sorted(self.requests, key=lambda r: r.start)
        assert len({r.start for r in rows}) == len(rows), 'two requests at one time'
        zero, number = rows[0].start, {r: n for n, r in enumerate(rows)}
        agents = [self.main] + sorted((a for a in self.agents if a is not self.main), key=lambda a: a.requests[0].start)
        unlisted = list(dict.fromkeys(r.model for r in rows if not r.model.startswith('claude-')))
        place = {a: n for n, a in enumerate(agents)}
        ref = lambda r: None if r is None else number[r]
        out = {'harness': 'claude_code', 'agents': [], 'requests': [], 'edges': [], 'tools': []}
        for a in agents:
            out['agents'].append({'kind': a.kind, 'type': a.type, 'parent_agent': None if a.parent is None else place[a.parent], 'depth': a.depth,
                                  'status': a.status, 'spawn_request': ref(a.spawned_by), 'join_request': ref(a.joined_by)})
        for r in rows:
            whole = head_parts(r.body) + message_parts(r.body)
            best, length = None, 0
            for e in rows[:number[r]]:
                parts = head_parts(e.body) + message_parts(e.body)
                if begins(whole, parts) and len(parts) >= length:
                    best, length = e, len(parts)
            model = r.model if r.model.startswith('claude-') else f'other-{unlisted.index(r.model) + 1}'
            system = [T(b['text']) for b in r.body.get('system', [])]
            out['requests'].append({
                'agent': place[r.agent], 'turn': r.turn, 'kind': r.kind, 'model': model, 'status': r.status, 'stop': r.stop, 'attempt': r.attempt,
                'streaming': r.body.get('stream', False), 'start_ms': r.start - zero, 'duration_ms': r.end - r.start, 'ttft_ms': r.ttft,
                'messages': len(r.body['messages']), 'input_parts': part_words(system + [b for m in r.body['messages'] for b in blocks_of(m)]),
                'output_parts': part_words(r.seen), 'extends_request': ref(best)})
        for target in rows:
            edges = [e for e in self.edges if e[1] is target]
            moment = {}
            for e in edges:
                early = e[2] == 'spawn' and target.start < e[0].end
                moment[e] = (e[0].start, 'dispatch') if early else (e[0].end, 'completion')
            last = max(edges, key=lambda e: moment[e][0], default=None)
            carrier = next((e for e in edges if e[2] == 'sequence' and e[3] == 'user'), last)
            for e in edges:
                at, trigger = moment[e]
                delay = max(0, target.start - at) if e is carrier else 0
                out['edges'].append({'from': number[e[0]], 'to': number[target], 'relation': e[2], 'trigger': trigger, 'delay_ms': delay, 'delay_kind': e[3], 'evidence': e[4]})
        out['edges'].sort(key=lambda e: (e['to'], e['from'], e['relation']))
        for r in rows:
            for n, c in enumerate(r.calls):
                out['tools'].append({'request': number[r], 'index': n, 'class': TOOL_CLASS[c.block['name']], 'is_error': c.is_error,
                                     'consumer_request': ref(c.consumer), 'child_agent': None if c.child is None else place[c.child]})
        return out


class Call:
    """A tool call of an answer."""

    def __init__(self, request, block):
        self.request, self.block, self.id = request, block, block['id']
        self.is_error = self.consumer = self.child = None


class Agent:
    def __init__(self, session, kind, type_, parent, tools=None, status='completed'):
        self.session, self.kind, self.type, self.parent = session, kind, type_, parent
        self.depth = 0 if parent is None else parent.depth + 1
        self.status = None if parent is None else status
        self.id = 'a' + session.case.w.hex(16) if parent and not session.old else None
        self.tools = tools or (MAIN_TOOLS if kind == 'main' else SUB_TOOLS)
        self.messages, self.requests = [], []
        self.last = self.spawned_by = self.joined_by = None
        self.carried = []  # calls whose results the next request carries first

    # ---- the thread's messages, kept as block lists; rendered as the client sends them
    def add(self, role, *blocks, **more):
        self.messages.append({'role': role, 'content': list(blocks), **more})

    def first(self, prompt, reminders=True):
        """The first user message: reminders, the prompt as its last text block; then the environment."""
        old = self.session.old
        self.add('user', *([T(t) for t in REMINDERS] if reminders else [T(REMINDERS[2])]), T(prompt))
        if not old:
            self.add('system', T(ENVIRONMENT))

    def results(self, *pairs, more=()):
        """Tool results in order of completion: (call, text or blocks[, is_error]); then more text blocks."""
        blocks = []
        for call, content, *error in pairs:
            call.is_error = bool(error and error[0])
            block = {'tool_use_id': call.id, 'type': 'tool_result', 'content': content}
            blocks.append({**block, 'is_error': True} if call.is_error else block)
            self.carried.append(call)
        self.add('user', *blocks, *more)

    def rendered(self, messages, mark):
        out = copy.deepcopy(messages)
        marks = {mark % len(out), (mark - 2) % len(out)} if self.session.old and len(out) > 2 else {mark % len(out)}
        for n, m in enumerate(out):
            last = n in marks or n == len(out) - 1
            if n in marks and m['content']:
                m['content'][-1]['cache_control'] = {'type': 'ephemeral'}
            if not last and m['role'] != 'assistant' and [b['type'] for b in m['content']] == ['text']:
                m['content'] = m['content'][0]['text']
        return out

    def system(self):
        s = self.session
        mark = {'cache_control': {'type': 'ephemeral'}}
        identity = IDENTITY['main' if self.kind in ('main', 'fork') else 'other']
        proper = SYSTEM['main' if self.type == 'fork' else 'old' if s.old and self.kind == 'main' else self.type]
        if s.old:
            return [{**T(identity), **mark}, {**T(proper + f'\ncwd: {HOME}'), **mark}]
        sub = ' cc_is_subagent=true;' if self.parent else ''
        billing = f'x-anthropic-billing-header: cc_version={s.version}.{s.billing}; cc_entrypoint={s.entry};{sub}'
        return [T(billing), {**T(identity), **mark}, {**T(proper), **mark}]

    def body(self, messages=None, mark=-1):
        s = self.session
        shared = {'model': s.model, 'messages': self.rendered(messages or self.messages, mark), 'system': self.system(),
                  'tools': [TOOLS[t] for t in self.tools], 'metadata': s.metadata()}
        if s.old:
            order = {'model': shared['model'], 'messages': shared['messages'], 'temperature': 1, 'system': shared['system'], 'tools': shared['tools'], 'metadata': shared['metadata']}
            return {**order, 'max_tokens': 32000, 'stream': True}
        return {**shared, 'max_tokens': 128000, 'thinking': {'type': 'adaptive', 'display': 'omitted'},
                'context_management': {'edits': [{'type': 'clear_thinking_20251015', 'keep': 'all'}]}, 'output_config': {'effort': 'medium'}, 'stream': True}

    # ---- requests
    def send(self, at, ms, answer, why=None, ttft=None, spawn=None, joins=(), retry=False, keep=True, **kw):
        """A turn. `why`: what the time since the turn before was spent on. `spawn`: (call, evidence). `joins`: (agent, evidence)."""
        body = self.body()
        body.update(kw.pop('change', {}))
        r = Request(self, at, ms, body, answer, ttft, **kw)
        before = self.last
        if retry:
            r.turn, r.attempt, why = before.turn, before.attempt + 1, 'retry'
        elif before:
            r.turn = before.turn + 1
        if before:
            prefix = before.kind != 'compaction' and begins(message_parts(body), message_parts(before.body))
            self.session.edge(before, r, 'sequence', why, 'prefix' if prefix else 'time' if self.session.old else 'header')
        if spawn:
            call, evidence = spawn
            call.child = self
            self.spawned_by = self.spawned_by or call.request
            self.session.edge(call.request, r, 'spawn', 'agent', evidence)
        for child, evidence in joins:
            child.joined_by = r
            self.session.edge(child.last, r, 'join', 'agent', evidence)
        for call in self.carried:
            call.consumer = r
        self.carried = []
        self.last = r
        if keep and r.status == 'ok':
            self.add('assistant', *copy.deepcopy(r.answer))
        return r

    def side(self, kind, at, ms, text, answer, after, appended=False, change=(), **kw):
        """The whole thread plus one instruction: `appended` to its last user message, else as a message of its own."""
        if appended:
            messages = copy.deepcopy(self.messages[:-1])  # without the last answer, which is kept as the tail
            messages[-1]['content'].append(T(text))
        else:
            messages = self.messages + [{'role': 'user', 'content': [T(text)]}]
        body = self.body(messages, mark=-2 if kind in ('compaction', 'recap') else -1)
        for key, value in dict(change).items():
            body.pop(key) if value is None else body.__setitem__(key, value)
        r = Request(self, at, ms, body, answer, None, kind=kind, **kw)
        r.turn = after.turn
        self.session.edge(after, r, 'sequence', 'none', 'prefix')
        if kind == 'compaction':
            self.last = r
        return r

    def auxiliary(self, at, ms, answer, after, prompt, system=None, model=None, path='/v1/messages?beta=true', **more):
        """A request of the harness itself, beside the thread."""
        counts = 'count_tokens' in path
        body = {'model': model or self.session.model, 'messages': [{'role': 'user', 'content': prompt if counts else [T(prompt)]}]}
        if counts:
            body['tools'] = more['tools']
        else:
            body.update({'system': self.system()[:2] + [T(system)], 'tools': [], 'metadata': self.session.metadata(), 'max_tokens': 4096, **more, 'stream': True})
        r = Request(self, at, ms, body, answer, None, kind='count_tokens' if counts else 'auxiliary', path=path)
        if after:
            r.turn = after.turn
            self.session.edge(after, r, 'sequence', 'none', 'time')
        return r

    def calls(self):
        return self.last.calls


class Request:
    """One exchange. Times in ms since the case began; `fail`: (status word, HTTP status, error type) or 'event', 'cut', 'client'."""

    def __init__(self, agent, at, ms, body, answer, ttft, kind='turn', path='/v1/messages?beta=true', fail=None, headers=()):
        w = agent.session.case.w
        self.agent, self.start, self.end, self.body, self.kind, self.path = agent, at, at + ms, body, kind, path
        self.model, self.turn, self.attempt, self.cut, self.extra = body['model'], 0, 0, None, list(headers)
        self.answer = [{**b, 'id': w.id('toolu_01')} if b['type'] == 'tool_use' else b for b in copy.deepcopy(answer)]
        self.calls, self.stops, self.seen, self.stop, self.ttft = [], {}, [], None, None
        self.http, self.status = 200, 'ok'
        self.first = min(ms - 1, 60 + len(body['messages']) * 3) if ms > 20 else ms
        stream = body.get('stream', False)
        if isinstance(fail, tuple):
            self.status, self.http, error = fail
            self.first = ms
            self.pieces = [[ms, dump({'type': 'error', 'error': {'type': error, 'message': 'Made-up failure: ' + w.text(5)}, 'request_id': w.id('req_01')})]]
        elif kind == 'count_tokens':
            self.pieces = [[ms, dump({'input_tokens': len(dump(body)) // 4})]]
        elif stream:
            self.pieces = self.streamed(ms, ttft or self.first + (ms - self.first) // 3, fail)
        else:
            self.finish(self.answer)
            self.pieces = [[ms, dump({**self.message(), 'content': self.answer, 'stop_reason': self.stop})]]
        agent.requests.append(self)
        agent.session.requests.append(self)

    def finish(self, blocks):
        self.seen = blocks
        self.calls = [Call(self, b) for b in blocks if b['type'] == 'tool_use']
        self.stop = 'tool_use' if self.calls else 'end_turn'

    def usage(self, output):
        size = lambda parts: sum(len(p.encode()) for p in parts) // 4
        mine, read = head_parts(self.body) + message_parts(self.body), 0
        for other in self.agent.session.requests:
            theirs = head_parts(other.body) + message_parts(other.body)
            same = next((n for n, (a, b) in enumerate(zip(mine, theirs)) if a != b), min(len(mine), len(theirs)))
            if other.status == 'ok' and other.kind != 'count_tokens' and other.model == self.model:
                read = max(read, size(mine[:same]))
        write = size(mine) - read
        return {'input_tokens': 3, 'cache_creation_input_tokens': write, 'cache_read_input_tokens': read,
                'cache_creation': {'ephemeral_5m_input_tokens': write, 'ephemeral_1h_input_tokens': 0}, 'output_tokens': output}

    def message(self):
        output = 1 if self.body.get('stream') else len(dump(self.answer)) // 4
        return {'id': self.agent.session.case.w.id('msg_01'), 'type': 'message', 'role': 'assistant', 'model': self.model, 'content': [],
                'stop_reason': None, 'stop_sequence': None, 'usage': self.usage(output)}

    def streamed(self, ms, ttft, fail):
        """Pieces of a stream: the first content `ttft` ms after the start, the last event at its end. Some events come in two pieces."""
        event = lambda data: f"event: {data['type']}\ndata: {dump(data)}\n\n"
        out = [[self.first + 2, event({'type': 'message_start', 'message': self.message()}) + event({'type': 'ping'})]]
        if fail == 'event':
            self.status, self.cut = 'overloaded', 'client'  # the client hangs up on an error event
            return out + [[ms, event({'type': 'error', 'error': {'type': 'overloaded_error', 'message': 'Overloaded'}})]]
        steps = []  # (block, text, whether the block ends here)
        for n, b in enumerate(self.answer):
            whole = {'text': b.get('text'), 'thinking': b.get('thinking'), 'tool_use': dump(b.get('input'))}[b['type']]
            empty = {'text': {'text': ''}, 'thinking': {'thinking': '', 'signature': ''}, 'tool_use': {'input': {}}}[b['type']]
            size = 48 if b['type'] == 'tool_use' else 130
            field = {'text': ('text_delta', 'text'), 'thinking': ('thinking_delta', 'thinking'), 'tool_use': ('input_json_delta', 'partial_json')}[b['type']]
            deltas = [event({'type': 'content_block_delta', 'index': n, 'delta': {'type': field[0], field[1]: whole[i:i + size]}}) for i in range(0, len(whole), size)]
            if b['type'] == 'thinking':
                deltas.append(event({'type': 'content_block_delta', 'index': n, 'delta': {'type': 'signature_delta', 'signature': b['signature']}}))
            deltas[0] = event({'type': 'content_block_start', 'index': n, 'content_block': {**b, **empty}}) + deltas[0]
            steps += [(n, d, False) for d in deltas] + [(n, event({'type': 'content_block_stop', 'index': n}), True)]
        if fail in ('cut', 'client'):
            steps = steps[:max(2, len(steps) // 2)]
            self.status, self.cut = {'cut': ('network_error', 'upstream'), 'client': ('client_cancelled', 'client')}[fail]
            self.seen = self.answer[:steps[-1][0] + 1]
            texts = [json.loads(d.rsplit('data: ', 1)[1])['delta'].get('text', '') for _, d, ends in steps[:-1] if not ends]
            self.partial = ''.join(texts)  # the last event breaks off
        else:
            self.finish(self.answer)
        self.ttft = ttft
        for n, (index, text, ends) in enumerate(steps):
            at = ttft + (ms - ttft) * n // len(steps)
            if ends:
                self.stops[index] = self.start + at
            half = len(text) // 2 if n % 4 == 3 else 0
            out += [[at, text[:half]], [at, text[half:]]] if half else [[at, text]]
        if self.cut:
            out[-1][1] = out[-1][1][:len(out[-1][1]) * 2 // 3]  # breaks off inside an event
            return out
        usage = {'output_tokens': max(1, len(dump(self.answer)) // 4)}
        return out + [[ms, event({'type': 'message_delta', 'delta': {'stop_reason': self.stop, 'stop_sequence': None}, 'usage': usage}) + event({'type': 'message_stop'})]]

    def exchange(self):
        w = self.agent.session.case.w
        kind = 'text/event-stream; charset=utf-8' if self.http == 200 and self.body.get('stream') else 'application/json'
        answer = [['content-type', kind], ['request-id', w.id('req_01')], ['anthropic-organization-id', '0f0f0f0f-fake-4000-8000-00000000face'],
                  ['set-cookie', f'edge=fake-{w.hex(16)}; Path=/; Secure'], *self.extra]
        return dict(start=self.start, method='POST', path=self.path, headers=self.agent.session.headers(self.agent), body=dump(self.body),
                    status=self.http, first=self.first, end=self.end, response_headers=answer, pieces=self.pieces, cut=self.cut)


# ------------------------------------------------------------------------------------------------ wording of the harness
def report(w, agent, text, named=True):
    """The result of a foreground agent, as the parent reads it."""
    tail = f"\nagentId: {agent.id} (use SendMessage with to: '{agent.id}' to go on)\n<usage>subagent_tokens: 900\ntool_uses: 1\nduration_ms: 800</usage>" if named else ''
    return [T(f'[Subagent hand-back] The report follows:\n  {text}{tail}')]


def launched(agent):
    return [T(f'Async agent launched successfully. It runs beside this conversation.\nagentId: {agent.id} (for SendMessage)\noutput_file: /tmp/depot/tasks/{agent.id}.output')]


def notification(task, call, text, summary='Agent "helper" finished'):
    return T(f'<task-notification>\n<task-id>{task}</task-id>\n<tool-use-id>{call.id}</tool-use-id>\n<output-file>/tmp/depot/tasks/{task}.output</output-file>\n'
             f'<status>completed</status>\n<summary>{summary}</summary>\n<result>{text}</result>\n</task-notification>')


# ------------------------------------------------------------------------------------------------ the cases
def linear(c):
    w, m = c.w, c.session().main
    m.first('Tell me why the night labels are printed twice. ' + w.text(60, True))
    m.send(0, 2400, [TH(), T(w.text(20)), U('Read', file_path=f'{HOME}/src/label.py')], ttft=900)
    m.results((m.calls()[0], w.code(22)))
    m.send(2545, 3100, [TH(w.text(45, True)), T(w.text(12)), U('Read', file_path=f'{HOME}/src/belt.py'), U('Bash', command='python3 -m unittest -q 2>&1 | tail -3', description='Run the tests'),
                        U('Read', file_path=f'{HOME}/docs/札.md')], why='tool', ttft=800)
    a, b, d = m.calls()
    m.results((d, w.text(90, True)), (a, w.code(14)), (b, 'Exit code 1\nFAILED (failures=1)\r\n' + w.text(30, True), True))
    m.add('system', T(w.text(12)), output_config={'effort': 'high'})
    m.send(9000, 2000, [T(w.text(10)), U('Edit', file_path=f'{HOME}/src/label.py', old_string='x = "\\n"\n\treturn', new_string='x = "📦"\r\n\treturn')], why='tool', ttft=700)
    m.results((m.calls()[0], 'The file was changed.'))
    m.send(11037, 1800, [U('Bash', command='git diff --stat && python3 -m unittest -q', description='Look again')], why='tool', ttft=650)
    m.results((m.calls()[0], w.text(110, True)))
    m.send(15555, 2600, [TH(), T(w.text(80, True))], why='tool', ttft=1000)
    m.add('user', T('And now the same for the day shift, please. ' + w.text(40, True)))
    m.send(15555 + 2600 + 5_700_000, 1900, [T(w.text(50))], why='user', ttft=950)


def fanout(c):
    w = c.w
    s = c.session(entry='cli', secret='bearer')
    m = s.main
    m.first('Check the depot from three sides. ' + w.text(40))
    m.send(0, 1500, [U('Read', file_path=f'{HOME}/README.md')])
    m.results((m.calls()[0], w.text(70, True)))
    asks = ['Study the belt code and have its tests counted. ' + w.text(40), 'Review the style of the label code. ' + w.text(30, True), 'Find every use of weigh(). ' + w.text(25)]
    m.send(1620, 4000, [T(w.text(12)), U('Agent', description='Study belt', prompt=asks[0], subagent_type='general-purpose', run_in_background=False),
                        U('Agent', description='Review style', prompt=asks[1], subagent_type='depot-reviewer', run_in_background=False),
                        U('Agent', description='Find uses', prompt=asks[2], subagent_type='Explore', run_in_background=False)], why='tool')
    top, (ca, cb, cc) = m.last, m.calls()
    a, b, x = s.agent('subagent', 'general-purpose', m), s.agent('subagent', 'custom', m, tools=['Bash', 'Read']), s.agent('subagent', 'Explore', m, tools=['Bash', 'Grep', 'Read'])
    a.first(asks[0]), b.first(asks[1]), x.first(asks[2], reminders=False)
    a.send(top.stops[1] + 40, 2500, [U('Read', file_path=f'{HOME}/src/belt.py')], spawn=(ca, 'tool_result'))
    b.send(top.end + 12, 2000, [T(w.text(8)), U('Read', file_path=f'{HOME}/src/label.py')], spawn=(cb, 'tool_result'))
    x.send(top.end + 31, 1100, [U('Grep', pattern='weigh\\(', path=HOME)], spawn=(cc, 'prompt'))
    a.results((a.calls()[0], w.code(12)))
    a.add('system', T('Agent types: ' + w.text(25)))
    ask = 'Count the tests of the belt. ' + w.text(30)
    a.send(a.last.end + 90, 2200, [T(w.text(9)), U('Agent', description='Count tests', prompt=ask, subagent_type='general-purpose', run_in_background=False)], why='tool')
    cd, d = a.calls()[0], s.agent('subagent', 'general-purpose', a)
    d.first(ask)
    d.send(a.last.end + 25, 900, [U('Bash', command='wc -l tests/*.py', description='Count')], spawn=(cd, 'tool_result'))
    x.results((x.calls()[0], w.text(60)))
    x.send(x.last.end + 120, 800, [T(w.text(30))], why='tool')
    b.results((b.calls()[0], w.code(18)))
    b.send(b.last.end + 75, 1300, [T(w.text(35))], why='tool')
    d.results((d.calls()[0], w.text(40)))
    d.send(d.last.end + 210, 1000, [T(w.text(25))], why='tool')
    a.results((cd, report(w, d, w.text(25))))
    a.send(d.last.end + 55, 1400, [T(w.text(40))], why='agent', joins=[(d, 'tool_result')])
    m.results((cc, report(w, x, w.text(30), named=False)), (cb, report(w, b, w.text(35))), (ca, report(w, a, w.text(40))))
    m.send(a.last.end + 64, 1700, [U('Bash', command='git status --short', description='Look')], why='agent', joins=[(a, 'tool_result'), (b, 'tool_result'), (x, 'tool_result')])
    m.results((m.calls()[0], ' M src/label.py'))
    m.send(m.last.end + 130, 1500, [T(w.text(60))], why='tool')


def background(c):
    w = c.w
    s = c.session(entry='cli')
    m = s.main
    m.first('Start a helper and meanwhile run the long job. ' + w.text(35))
    ask, endless = 'Watch the belt, then report. ' + w.text(30), 'Watch the door and never stop. ' + w.text(30)
    m.send(0, 2000, [T(w.text(10)), U('Agent', description='Watch', prompt=ask), U('Agent', description='Door', prompt=endless, subagent_type='depot-watcher', run_in_background=True)])
    top, (call, door) = m.last, m.calls()
    x, y = s.agent('background', 'general-purpose', m), s.agent('background', 'custom', m, tools=['Bash', 'Read'], status='async_launched')
    x.first(ask), y.first(endless)
    x.send(top.stops[1] + 15, 1600, [U('Bash', command='./watch.sh', description='Watch', run_in_background=True)], spawn=(call, 'tool_result'))
    y.send(top.end + 9, 1100, [U('Bash', command='sleep 3600', description='Watch the door')], spawn=(door, 'tool_result'))
    m.results((call, launched(x)), (door, launched(y)))
    m.send(top.end + 20, 1200, [U('Bash', command='make long', description='Long job', run_in_background=True)], why='agent')
    job, watch = m.calls()[0], x.calls()[0]
    job_id, watch_id = 'b' + w.hex(6), 'b' + w.hex(6)
    m.results((job, f'Command running in background with ID: {job_id}. Output goes to /tmp/depot/tasks/{job_id}.output'))
    m.send(m.last.end + 44, 900, [T(w.text(20))], why='tool')
    x.results((watch, f'Command running in background with ID: {watch_id}. Output goes to /tmp/depot/tasks/{watch_id}.output'))
    x.send(x.last.end + 61, 1500, [T(w.text(30))], why='tool')
    m.add('user', notification(x.id, call, w.text(30)))
    m.send(x.last.end + 33, 800, [T(w.text(15))], why='agent', joins=[(x, 'notification')])
    m.add('user', notification(job_id, job, '', 'Background command "Long job" completed (exit code 0)'))
    m.send(m.last.end + 7000, 850, [T(w.text(12))], why='tool')
    x.add('user', notification(watch_id, watch, '', 'Background command "Watch" completed (exit code 0)'))
    x.send(m.last.end + 2150, 1400, [T(w.text(35))], why='tool')
    m.add('user', notification(x.id, call, w.text(35)), T('<system-reminder>' + w.text(8) + '</system-reminder>'))
    m.send(x.last.end + 41, 950, [T(w.text(25))], why='agent', joins=[(x, 'notification')])


def retry(c):
    w = c.w
    m = c.session().main
    overloaded, busy, broken = ('overloaded', 529, 'overloaded_error'), ('rate_limited', 429, 'rate_limit_error'), ('server_error', 500, 'api_error')
    m.first('Weigh the parcels again. ' + w.text(50))
    m.send(0, 51, [], fail=overloaded)
    m.send(560, 52, [], retry=True, fail=overloaded)
    m.send(1712, 1500, [U('Bash', command='./weigh.sh', description='Weigh')], retry=True)
    m.results((m.calls()[0], w.text(60)))
    m.send(3400, 48, [], why='tool', fail=busy, headers=[['retry-after', '3']])
    m.send(6450, 1300, [U('Read', file_path=f'{HOME}/weights.csv')], retry=True)
    m.results((m.calls()[0], w.text(40, True)))
    m.send(7790, 55, [], why='tool', fail=broken)
    m.send(8390, 1600, [T(w.text(40))], retry=True)


def cancelled(c):
    w = c.w
    m = c.session(entry='cli').main
    m.first('Explain the belt at length. ' + w.text(40))
    m.send(0, 1400, [U('Read', file_path=f'{HOME}/src/belt.py')])
    m.results((m.calls()[0], w.code(12)))
    m.send(1500, 2300, [TH(), T(w.text(160, True))], why='tool', fail='client')
    m.add('assistant', T(m.last.partial))
    m.add('user', T('Shorter, please. ' + w.text(20)))
    m.send(3800 + 41_000, 1200, [T(w.text(30))], why='user')


def fallback(c):
    w = c.w
    m = c.session().main
    m.first('Sort the ledger. ' + w.text(45))
    m.send(0, 700, [], fail='event')
    m.send(800, 2600, [T(w.text(15)), U('Read', file_path=f'{HOME}/ledger.csv')], retry=True, change={'max_tokens': 64000, 'stream': False})
    m.results((m.calls()[0], w.text(70, True)))
    m.send(3480, 1100, [T(w.text(60))], why='tool', fail='cut')
    m.send(5100, 1500, [T(w.text(60))], retry=True)


def compaction(c):
    w = c.w
    m = c.session(entry='cli').main
    m.first('Tidy up the customs module. ' + w.text(50))
    m.send(0, 1500, [TH(w.text(20)), T(w.text(10)), U('Read', file_path=f'{HOME}/src/customs.py')])
    m.results((m.calls()[0], w.code(20)))
    m.send(1640, 1300, [T(w.text(10)), U('Edit', file_path=f'{HOME}/src/customs.py', old_string='a', new_string='b')], why='tool')
    m.results((m.calls()[0], 'The file was changed.'))
    m.send(2990, 1200, [T(w.text(45))], why='tool')
    summary = w.text(90)
    tail = m.messages[-1]
    m.side('compaction', 94_190, 2100, 'CRITICAL: Respond with TEXT ONLY. ' + w.text(40), [T(f'<summary>{summary}</summary>')], m.last, appended=True)
    m.messages = []
    m.add('user', T('This session is being continued from a previous conversation that grew too long. ' + summary))
    m.add('system')
    m.messages.append(tail)
    m.add('user', T('<command-name>/compact</command-name>'))
    m.add('user', *[T(t) for t in REMINDERS], T('Now add a test for it. ' + w.text(25)))
    m.add('system', T(ENVIRONMENT))
    m.send(126_290, 1600, [U('Write', file_path=f'{HOME}/tests/test_customs.py', content=w.code(6))], why='user')
    m.results((m.calls()[0], 'The file was written.'))
    m.send(127_940, 1100, [T(w.text(30))], why='tool')


def resume(c):
    w = c.w
    m = c.session(version='2.1.234').main
    c.probe(-900, 'HEAD', '/api/hello')
    m.first('What changed at the harbour? ' + w.text(40))
    m.send(0, 1300, [U('Read', file_path=f'{HOME}/CHANGES')])
    m.results((m.calls()[0], w.text(80)))
    m.send(1420, 1500, [T(w.text(40, True))], why='tool')
    again = 2920 + 1_200_000
    c.probe(again - 800, 'HEAD', '/api/hello')
    m.add('user', T('Look it up on the web too. ' + w.text(20)))
    m.send(again, 1200, [T(w.text(8)), U('ToolSearch', query='select:WebFetch', max_results=3)], why='user')
    m.results((m.calls()[0], [{'type': 'tool_reference', 'tool_name': 'WebFetch'}]), more=[T('Tool loaded.')])
    m.tools = sorted(m.tools + ['WebFetch'])
    m.send(again + 1230, 1400, [U('WebFetch', url='https://harbour.example/news', prompt=w.text(8))], why='tool')
    m.results((m.calls()[0], w.text(60)))
    m.send(again + 4000, 1500, [T(w.text(35))], why='tool')


def auxiliary(c):
    w = c.w
    m = c.session(entry='cli').main
    m.tools = sorted(MAIN_TOOLS + ['WebSearch'])
    schema = lambda name: {'format': {'type': 'json_schema', 'schema': {'type': 'object', 'properties': {name: {'type': 'string'}}, 'required': [name]}}}
    ask = 'What do other depots do about rain? ' + w.text(40)
    c.probe(-50, 'POST', '/api/event_logging/v2/batch', dump({'events': [{'name': 'start', 'email': 'nora@depot.example'}]}))
    m.auxiliary(0, 420, [T('{"isNewTopic":true,"title":"Rain"}')], None, ask, 'Analyze if this message indicates a new conversation topic. ' + w.text(25), model=HAIKU, max_tokens=512, temperature=0)
    m.auxiliary(5, 610, [T('{"title":"Rain at the depot"}')], None, ask, w.text(40), model=HAIKU, output_config=schema('title'))
    m.first(ask)
    t0 = m.send(30, 1900, [U('WebSearch', query='depot rain')])
    m.auxiliary(2010, 1500, [T(w.text(40))], t0, 'Perform a web search for the query: depot rain', w.text(20),
                tools=[{'type': 'web_search_20250305', 'name': 'web_search', 'max_uses': 8}], tool_choice={'type': 'tool', 'name': 'web_search'})
    m.results((m.calls()[0], 'Web search results for query: "depot rain"\n' + w.text(60)))
    t1 = m.send(3560, 1400, [T(w.text(50))], why='tool')
    hook = m.system()[:2] + [T('You are evaluating a stop-condition hook. ' + w.text(40))]
    m.side('auxiliary', 5010, 500, 'Is the condition met? ' + w.text(15), [T('{"ok":true}')], t1,
           change={'system': hook, 'tools': [], 'thinking': None, 'context_management': None, 'output_config': schema('ok')})
    for n, (text, tools) in enumerate([('foo', [TOOLS['Bash']]), ('foo', [TOOLS['Agent'], TOOLS['Read']]), ('A helper that ' + w.text(12), [])]):
        m.auxiliary(9000 + n, 30 + n, [], t1, text, path='/v1/messages/count_tokens?beta=true', tools=tools)
    m.side('recap', 65_000, 900, 'The user is back after a while: say in a few words where this work stands. ' + w.text(15), [T(w.text(25))], t1)
    m.auxiliary(70_000, 450, [T('{"name":"rain-plan"}')], t1, f'<conversation>\n{ask}\n{w.text(30)}\n</conversation>', w.text(30), output_config=schema('name'))
    m.add('user', T('Good. Write it down. ' + w.text(20)))
    m.send(93_000, 1300, [T(w.text(30))], why='user')


def interleaved(c):
    w = c.w
    one, two = c.session(entry='cli'), c.session(model='depot-lab/in-house-coder-7b', secret='bearer')
    m, n = one.main, two.main
    m.first('Ask a helper about the crane. ' + w.text(30)), n.first('Rename the pallets. ' + w.text(50, True))
    ask = 'Describe the crane. ' + w.text(25)
    m.send(0, 1700, [U('Agent', description='Crane', prompt=ask, subagent_type='Plan', run_in_background=False)])
    call, x = m.calls()[0], one.agent('subagent', 'Plan', m)
    n.send(350, 2100, [T(w.text(12)), U('Bash', command="sed -i 's/pallet/tray/' *.csv", description='Rename')])
    x.first(ask, reminders=False)
    x.send(1730, 1900, [U('Read', file_path=f'{HOME}/crane.txt')], spawn=(call, 'tool_result'))
    n.results((n.calls()[0], 'sed: no such file\r\n', True))
    n.send(2530, 900, [U('Bash', command='ls -la', description='List')], why='tool')
    x.results((x.calls()[0], w.text(50)))
    x.send(3690, 1000, [T(w.text(25))], why='tool')
    n.results((n.calls()[0], w.text(60, True)))
    n.send(3500, 2200, [T(w.text(40))], why='tool')
    m.results((call, report(w, x, w.text(25))))
    m.send(4733, 1200, [T(w.text(30))], why='agent', joins=[(x, 'tool_result')])


def sendmessage(c):
    w = c.w
    s = c.session()
    m = s.main
    m.first('Let a helper look twice. ' + w.text(30))
    ask = 'Take a quick look. ' + w.text(25)
    m.send(0, 1500, [T(w.text(8)), U('Agent', description='Look', prompt=ask, subagent_type='general-purpose', run_in_background=False)])
    call, x = m.calls()[0], s.agent('subagent', 'general-purpose', m)
    x.first(ask)
    x.send(1520, 1100, [U('Bash', command='ls', description='List')], spawn=(call, 'tool_result'))
    x.results((x.calls()[0], w.text(40)))
    x.send(2700, 900, [T(w.text(20))], why='tool')
    m.results((call, report(w, x, w.text(20))))
    m.send(3650, 1000, [U('ToolSearch', query='select:SendMessage', max_results=3)], why='agent', joins=[(x, 'tool_result')])
    m.results((m.calls()[0], [{'type': 'tool_reference', 'tool_name': 'SendMessage'}]), more=[T('Tool loaded.')])
    m.tools = sorted(m.tools + ['SendMessage'])
    again = 'Please look once more. ' + w.text(20)
    m.send(4680, 1200, [T(w.text(8)), U('SendMessage', to=x.id, summary='look again', message=again)], why='tool')
    call = m.calls()[0]
    x.add('user', T(f'<agent-message from="main">\n{again}\n</agent-message>'))
    x.send(5920, 1000, [U('Bash', command='ls -la', description='List')], why='agent', spawn=(call, 'tool_result'))
    m.results((call, [T(dump({'success': True, 'message': f'Agent {x.id} goes on in the background.'}))]))
    m.send(5925, 800, [T(w.text(15))], why='agent')
    x.results((x.calls()[0], w.text(50)))
    x.send(7000, 1100, [T(w.text(25))], why='tool')
    m.add('user', notification(x.id, call, w.text(25)))
    m.send(8150, 1000, [T(w.text(30))], why='agent', joins=[(x, 'notification')])


def fork(c):
    w = c.w
    s = c.session(entry='cli')
    m = s.main
    m.first('Check the wording in two places. ' + w.text(40))
    m.send(0, 1300, [U('Read', file_path=f'{HOME}/README.md')])
    m.results((m.calls()[0], w.text(80, True)))
    asks = ['Check the wording of the readme. ' + w.text(20), 'Check the wording of the labels. ' + w.text(20)]
    shared = copy.deepcopy(m.messages)
    m.send(1400, 2400, [T(w.text(12))] + [U('Agent', description=f'Fork {n}', prompt=ask, subagent_type='fork', run_in_background=False) for n, ask in enumerate(asks)], why='tool')
    top, calls = m.last, m.calls()
    forks = [s.agent('fork', 'fork', m, tools=list(MAIN_TOOLS)) for _ in asks]
    for f, call, ask in zip(forks, calls, asks):
        f.messages = copy.deepcopy(shared)
        f.add('assistant', call.block)
        f.add('user', {'tool_use_id': call.id, 'type': 'tool_result', 'content': [T('Fork started — that fork is you.')]},
              T(f'<fork-boilerplate>\n{w.text(30)}\n</fork-boilerplate>\n\nYour directive: {ask}'))
    f, g = forks
    f.send(top.stops[1] + 18, 1500, [U('Bash', command='cat README.md', description='Read')], spawn=(calls[0], 'tool_result'))
    g.send(top.end + 22, 1200, [U('Bash', command='grep -rn label src', description='Search')], spawn=(calls[1], 'tool_result'))
    g.results((g.calls()[0], w.text(50)))
    g.send(g.last.end + 85, 900, [T(w.text(25))], why='tool')
    f.results((f.calls()[0], w.text(70)))
    f.send(f.last.end + 1700, 1100, [T(w.text(30))], why='tool')
    m.results((calls[1], report(w, g, w.text(25), named=False)), (calls[0], report(w, f, w.text(30))))
    m.send(f.last.end + 47, 1200, [T(w.text(35))], why='agent', joins=[(f, 'tool_result'), (g, 'tool_result')])


def workflow(c, plain=False):
    w = c.w
    s = c.session(version='2.1.172' if plain else '2.1.332')
    m = s.main
    m.first('Survey the depot with a workflow. ' + w.text(30))
    closing = 'Put the surveys together in one page.'
    script = ("export const meta = { name: 'survey' }\nconst parts = await parallel(['dock', 'belt'].map(x => () => agent(`Survey the ${x}.`)))\n"
              f"return await agent('{closing}')\n")
    m.send(0, 1600, [T(w.text(8)), U('Workflow', script=script)])
    call, task = m.calls()[0], 'w' + w.hex(7)
    m.results((call, f'Workflow launched in background. Task ID: {task}\nSummary: survey\nRun ID: wf_{w.hex(8)}-{w.hex(3)}\nTranscript dir: /tmp/depot/{task}'))
    m.send(1640, 900, [T(w.text(12))], why='agent')
    a, b, z = (s.agent('workflow', 'workflow-subagent', m) for _ in range(3))
    for agent, text in ((a, 'Survey the dock.\nThen stop.'), (b, 'Survey the belt.\nThen stop.'), (z, closing)):
        lines = '\n'.join('  ' + line for line in text.split('\n'))
        if plain:
            agent.id = None
        agent.first(text if plain else f'[Workflow harness — computed task] {w.text(25)}\nThe computed task text follows:\n{lines}')
    a.send(1700, 1200, [U('Bash', command='ls dock', description='List')], spawn=(call, 'time'))
    b.send(1815, 1000, [U('Bash', command='ls belt', description='List')], spawn=(call, 'time'))
    b.results((b.calls()[0], w.text(40)))
    b.send(2990, 800, [T(w.text(20))], why='tool')
    a.results((a.calls()[0], w.text(50)))
    a.send(3100, 950, [T(w.text(22))], why='tool')
    z.send(4120, 1100, [T(w.text(30))], spawn=(call, 'prompt'))
    call.child = None
    m.add('user', notification(task, call, w.text(30), 'Workflow "survey" finished'), T('<system-reminder>' + w.text(8) + '</system-reminder>'))
    m.send(5290, 1200, [T(w.text(30))], why='agent', joins=[(a, 'notification'), (b, 'notification'), (z, 'notification')])


def interrupted(c):
    w = c.w
    s = c.session(entry='cli')
    m = s.main
    m.first('Let a helper count everything. ' + w.text(35))
    ask = 'Count every parcel. ' + w.text(25)
    m.send(0, 1500, [T(w.text(10)), U('Agent', description='Count', prompt=ask, subagent_type='general-purpose', run_in_background=False)])
    call, x = m.calls()[0], s.agent('subagent', 'general-purpose', m, status='interrupted')
    x.first(ask)
    x.send(1540, 1200, [U('Bash', command='find / -name "*.parcel"', description='Find')], spawn=(call, 'prompt'))
    x.results((x.calls()[0], w.text(60)))
    x.send(2900, 2600, [T(w.text(90))], why='tool', fail='client')
    m.results((call, "The user doesn't want to proceed with this tool use. It was stopped.", True), more=[T('[Request interrupted by user for tool use]')])
    m.add('assistant', T('No response requested.'))
    m.add('user', T('Only count the ones of today. ' + w.text(15)))
    m.send(27_500, 1300, [T(w.text(30))], why='user')


def headerless(c):
    w = c.w
    s = c.session(version='1.0.128', model='claude-sonnet-4-20250514')
    m = s.main
    m.tools, sub = ['Bash', 'Edit', 'Read', 'Task', 'Write'], ['Bash', 'Read']
    m.first('Compare the two docks. ' + w.text(40))
    asks = ['Describe the north dock. ' + w.text(25), 'Describe the south dock. ' + w.text(25, True)]
    m.send(0, 2000, [T(w.text(10))] + [U('Task', description=f'Dock {n}', prompt=ask, subagent_type='general-purpose') for n, ask in enumerate(asks)])
    calls = m.calls()
    a, b = (s.agent('subagent', 'general-purpose', m, tools=sub) for _ in asks)
    for x, ask in zip((a, b), asks):
        x.first(ask, reminders=False)
    a.send(2015, 1500, [U('Read', file_path=f'{HOME}/north.txt')], spawn=(calls[0], 'prompt'))
    b.send(2022, 900, [U('Read', file_path=f'{HOME}/south.txt')], spawn=(calls[1], 'prompt'))
    b.results((b.calls()[0], w.text(50)))
    b.send(2990, 800, [T(w.text(25))], why='tool')
    a.results((a.calls()[0], w.text(60, True)))
    a.send(3600, 1000, [T(w.text(30))], why='tool')
    m.results((calls[1], [T(w.text(25))]), (calls[0], [T(w.text(30))]))
    m.send(4640, 1300, [T(w.text(40))], why='agent', joins=[(a, 'tool_result'), (b, 'tool_result')])
    m.add('user', T('Thanks. And the east dock? ' + w.text(20)))
    m.send(65_940, 1200, [T(w.text(30))], why='user')


def workflow_plain(c):
    """2.1.172: the agents bear no header, and their tasks no wrapping; only the system prompt tells what they are."""
    workflow(c, plain=True)


def twins(c):
    """Two agents that are asked the same, without headers: only the calls that each answers tell their requests apart."""
    w = c.w
    s = c.session(version='1.0.128', model='claude-sonnet-4-20250514')
    m = s.main
    m.tools, sub = ['Bash', 'Edit', 'Read', 'Task', 'Write'], ['Bash', 'Read']
    m.first('Have it checked twice. ' + w.text(30))
    ask = 'Check the ledger. ' + w.text(25)
    m.send(0, 2000, [T(w.text(10)), U('Task', description='One', prompt=ask, subagent_type='general-purpose'), U('Task', description='Two', prompt=ask, subagent_type='general-purpose')])
    calls = m.calls()
    a, b = (s.agent('subagent', 'general-purpose', m, tools=sub) for _ in calls)
    for x in (a, b):
        x.first(ask, reminders=False)
    a.send(2015, 1500, [U('Read', file_path=f'{HOME}/ledger.txt')], spawn=(calls[0], 'prompt'))
    b.send(2022, 900, [U('Bash', command='wc ledger.txt', description='Count')], spawn=(calls[1], 'prompt'))
    b.results((b.calls()[0], w.text(20)))
    b.send(2990, 800, [T(w.text(25))], why='tool')
    a.results((a.calls()[0], w.text(60)))
    a.send(3600, 1000, [T(w.text(30))], why='tool')
    m.results((calls[1], [T(w.text(25))]), (calls[0], [T(w.text(30))]))
    m.send(4640, 1300, [T(w.text(40))], why='agent', joins=[(a, 'tool_result'), (b, 'tool_result')])


CASES = [linear, fanout, background, retry, cancelled, fallback, compaction, resume, auxiliary, interleaved, sendmessage, fork, workflow, interrupted, headerless, workflow_plain, twins]


# ------------------------------------------------------------------------------------------------ formats
def native(case, exchanges):
    us = lambda ms: (case.base + ms) * 1000
    for e in exchanges:
        line = {'tracecloak_capture': 1, 'method': e['method'], 'path': e['path'], 'start_us': us(e['start']), 'headers': e['headers'], 'body': e['body'] or '',
                'status': e['status'], 'first_byte_us': us(e['start'] + e['first']), 'end_us': us(e['end']), 'response_headers': e['response_headers'],
                'response': [[at * 1000, text] for at, text in e['pieces']]}
        yield dump({**line, 'cut': e['cut']} if e['cut'] else line) + '\n'


def claude_trace(case, exchanges):
    """One pair a line: seconds with milliseconds, lower-case headers, keys shortened, whole SSE text, no connection headers."""
    seconds = lambda ms: (case.base + ms) / 1000
    for e in exchanges:
        headers = {k.lower(): v for k, v in e['headers'] if k.lower() not in ('host', 'connection', 'content-length')}
        if 'x-api-key' in headers:
            headers['x-api-key'] = headers['x-api-key'][:10] + '...' + headers['x-api-key'][-4:]
        headers['cookie'] = headers['cookie'][:10] + '...' + headers['cookie'][-4:]
        stamp = datetime.datetime.fromtimestamp(0, datetime.timezone.utc) + datetime.timedelta(milliseconds=case.base + e['end'])
        yield dump({'request': {'timestamp': seconds(e['start']), 'method': e['method'], 'url': 'https://api.example.invalid' + e['path'], 'headers': headers, 'body': json.loads(e['body'])},
                    'response': {'timestamp': seconds(e['start'] + e['first']), 'status_code': e['status'], 'headers': dict(e['response_headers']),
                                 'body_raw': ''.join(text for _, text in e['pieces'])},
                    'logged_at': stamp.strftime('%Y-%m-%dT%H:%M:%S.') + f'{stamp.microsecond // 1000:03}Z'}) + '\n'


def har(case, exchanges):
    """As mitmproxy writes it: flows in order of start, decoded text under a content-encoding header, keys in clear."""
    entries = []
    for e in sorted(exchanges, key=lambda e: e['start']):
        stamp = datetime.datetime.fromtimestamp(0, datetime.timezone.utc) + datetime.timedelta(milliseconds=case.base + e['start'])
        text = ''.join(t for _, t in e['pieces'])
        size = len(text.encode())
        pairs = lambda headers: [{'name': k, 'value': v} for k, v in headers]
        entries.append({
            'startedDateTime': stamp.isoformat(timespec='microseconds'), 'time': float(e['end'] - e['start']),
            'request': {'method': e['method'], 'url': 'https://api.example.invalid' + e['path'], 'httpVersion': 'HTTP/1.1', 'cookies': [], 'headers': pairs(e['headers']),
                        'queryString': [{'name': 'beta', 'value': 'true'}], 'headersSize': 900, 'bodySize': len(e['body'].encode()),
                        'postData': {'mimeType': 'application/json', 'text': e['body'], 'params': []}},
            'response': {'status': e['status'], 'statusText': 'OK', 'httpVersion': 'HTTP/1.1', 'cookies': [], 'headers': pairs(e['response_headers'] + [['content-encoding', 'gzip']]),
                         'content': {'size': size // 3, 'compression': size - size // 3, 'mimeType': e['response_headers'][0][1], 'text': text},
                         'redirectURL': '', 'headersSize': 300, 'bodySize': size // 3},
            'cache': {}, 'timings': {'connect': -1.0, 'ssl': -1.0, 'send': 1.0, 'wait': e['first'] - 1.0, 'receive': float(e['end'] - e['start'] - e['first'])}, 'serverIPAddress': '192.0.2.7'})
    yield '{"log":{"version":"1.2","creator":{"name":"mitmproxy","version":"11.0.2","comment":""},"pages":[],"entries":[\n'
    yield ',\n'.join(dump(e) for e in entries)
    yield '\n]}}\n'


def gzipped(data):
    """Stored, not compressed: the same bytes whatever the library."""
    blocks = [data[at:at + 65535] for at in range(0, len(data), 65535)]
    stored = b''.join(bytes([n == len(blocks) - 1]) + struct.pack('<HH', len(b), 65535 - len(b)) + b for n, b in enumerate(blocks))
    return b'\x1f\x8b\x08\0\0\0\0\0\0\xff' + stored + struct.pack('<II', zlib.crc32(data), len(data))


def har_of(tool, case, exchanges):
    """As others write it over HTTP/2: names in lower case, pseudo headers, sizes of -1. Charles: base64, a zone, a clock that starts before it connects. Proxyman: what came
    over the wire, still compressed, in base64. A browser: no text of a stream, nulls, and what it knows of the page."""
    entries, zone = [], datetime.timezone(datetime.timedelta(hours=2 if tool == 'Charles Proxy' else 0))
    for e in exchanges:
        at = datetime.datetime.fromtimestamp((case.base + e['start']) / 1000, zone)
        took, text = e['end'] - e['start'], whole_text(e).encode()
        pairs = lambda headers: [{'name': k.lower(), 'value': v} for k, v in headers]
        pseudo = [[':method', e['method']], [':authority', 'api.example.invalid'], [':scheme', 'https'], [':path', e['path']]]
        request = {'method': e['method'], 'url': 'https://api.example.invalid' + e['path'], 'httpVersion': 'h2', 'cookies': [], 'headers': pairs(pseudo + e['headers']), 'queryString': [],
                   'headersSize': -1, 'bodySize': -1, 'postData': {'mimeType': 'application/json', 'text': e['body']}}
        response = {'status': e['status'], 'statusText': '', 'httpVersion': 'HTTP/2.0', 'cookies': [], 'headers': pairs([[':status', str(e['status'])]] + e['response_headers']), 'redirectURL': None,
                    'headersSize': -1, 'bodySize': -1, 'content': {'size': -1, 'mimeType': e['response_headers'][0][1]}}
        entry = {'startedDateTime': at.isoformat(timespec='milliseconds'), 'time': took, 'request': request, 'response': response, 'cache': {},
                 'timings': {'blocked': -1, 'dns': -1, 'connect': -1, 'ssl': -1, 'send': 2, 'wait': e['first'] - 2, 'receive': took - e['first']}}
        if tool == 'Charles Proxy':
            request['postData'].update(text=base64.b64encode(e['body'].encode()).decode(), encoding='base64')
            response['content'].update(text=base64.b64encode(text).decode(), encoding='base64')
            entry['timings'].update(dns=3, connect=9, ssl=6, wait=e['first'] - 2 - 12)
            entry['_charlesStatus'] = 'COMPLETE'
        elif tool == 'Proxyman':
            response['headers'].append({'name': 'content-encoding', 'value': 'gzip'})
            response['content'].update(text=base64.b64encode(gzipped(text)).decode(), encoding='base64', comment='')
            entry.update(time=-1, _id='1', _name='', _isHTTPS=True, _clientName='node', comment=None)
        else:
            response.update(content={'size': -1, 'mimeType': 'text/event-stream', 'text': None}, _transferSize=-1, _error=None)
            entry.update(pageref='page_1', _initiator={'type': 'script'}, _priority='High', _resourceType='fetch', serverIPAddress='', connection=None)
            entry['timings'].update(_blocked_queueing=1.5, _workerStart=-1)
        entries.append(entry)
    pages = [{'startedDateTime': entries[0]['startedDateTime'], 'id': 'page_1', 'title': 'depot', 'pageTimings': {'onContentLoad': None, 'onLoad': -1}}]
    yield json.dumps({'log': {'version': '1.2', 'creator': {'name': tool, 'version': '1'}, 'pages': pages if tool == 'WebInspector' else [], 'entries': entries}}, indent=2 if tool == 'WebInspector' else None,
                     ensure_ascii=False) + '\n'


def expected_text(expected):
    """JSON with one row a line, so that a person can read it."""
    rows = lambda items: '[' + ''.join('\n      ' + json.dumps(i, ensure_ascii=False) + ',' for i in items).rstrip(',') + ('\n    ]' if items else ']')
    sessions = []
    for s in expected['sessions']:
        fields = [f'    "harness": "{s["harness"]}"'] + [f'    "{k}": {rows(s[k])}' for k in ('agents', 'requests', 'edges', 'tools')]
        sessions.append('  {\n' + ',\n'.join(fields) + '\n  }')
    return '{\n"sessions": [\n' + ',\n'.join(sessions) + f'\n],\n"skipped": {json.dumps(expected["skipped"])},\n"count_tokens": {expected["count_tokens"]}\n}}\n'


def stamp(case, ms, digits=3):
    """RFC 3339, UTC."""
    at = datetime.datetime.fromtimestamp(0, datetime.timezone.utc) + datetime.timedelta(milliseconds=case.base + ms)
    return at.strftime('%Y-%m-%dT%H:%M:%S') + (f'.{at.microsecond:06}'[:digits + 1] if digits else '') + 'Z'


def whole_text(e):
    return ''.join(text for _, text in e['pieces'])


def events(e):
    return [json.loads(line[6:]) for line in whole_text(e).split('\n') if line.startswith('data: ')]


def answer(e):
    """The message that a tool puts together of a stream; of JSON, that."""
    if not whole_text(e).startswith('event:'):
        return json.loads(whole_text(e))
    message = {}
    for event in events(e):
        if event['type'] == 'message_start':
            message = copy.deepcopy(event['message'])
        elif event['type'] == 'content_block_start':
            message['content'].append({**event['content_block'], **({'input': ''} if event['content_block']['type'] == 'tool_use' else {})})
        elif event['type'] == 'content_block_delta':
            delta, block = event['delta'], message['content'][event['index']]
            for field, key in (('text', 'text'), ('thinking', 'thinking'), ('partial_json', 'input')):
                if field in delta:
                    block[key] += delta[field]
        elif event['type'] == 'content_block_stop':
            block = message['content'][event['index']]
            if block['type'] == 'tool_use':
                block['input'] = json.loads(block['input'])
            block.pop('signature', None)
        elif event['type'] == 'message_delta':
            message.update(stop_reason=event['delta']['stop_reason'])
            message['usage'].update(event['usage'])
    return message


# ---- claude-tap: the time of a record is its end; keys shortened; records in order of completion
def tap_record(case, n, e):
    headers = {k: '***' if k.lower() in ('x-api-key', 'authorization') else v for k, v in e['headers']}
    return {'timestamp': stamp(case, e['end'], 6).replace('Z', '+00:00'), 'request_id': f'req_{n:012x}', 'turn': n, 'duration_ms': e['end'] - e['start'],
            'request': {'method': e['method'], 'path': e['path'], 'headers': headers, 'body': json.loads(e['body'])},
            'response': {'status': e['status'], 'headers': dict(e['response_headers']), 'body': answer(e)}, 'upstream_base_url': 'https://api.example.invalid',
            'capture': {'client': 'claude', 'proxy_mode': 'reverse'}}


def tap_jsonl(case, exchanges):
    for n, e in enumerate(exchanges, 1):
        yield dump(tap_record(case, n, e)) + '\n'


def tap_old(case, exchanges):
    """0.1.30: events without times beside what was put together of them."""
    for n, e in enumerate(exchanges, 1):
        record = tap_record(case, n, e)
        record['response']['sse_events'] = [{'event': event['type'], 'data': event} for event in events(e)]
        del record['capture'], record['upstream_base_url']
        yield dump(record) + '\n'


def tap_compacted(record, blobs):
    """Large values once, by hash."""
    def swap(value):
        text = json.dumps(value, ensure_ascii=False)
        if len(text) < 900:
            return value
        key = 'sha256:' + hashlib.sha256(text.encode()).hexdigest()
        blobs[key] = value
        return {'__claude_tap_blob_ref__': {'version': 1, 'kind': 'json', 'hash': key, 'bytes': len(text.encode())}}
    record = copy.deepcopy(record)
    body = record['request']['body']
    body['tools'] = swap(body['tools'])
    for key in ('system', 'messages'):
        body[key] = [swap(part) for part in body[key]]
    return {'__claude_tap_compact_record__': {'version': 1, 'encoding': 'json-blob-ref', 'refs': []}, 'record': record}


def tap_compact(case, exchanges):
    blobs = {}
    records = [tap_compacted(tap_record(case, n, e), blobs) for n, e in enumerate(exchanges, 1)]
    yield json.dumps({'__claude_tap_compact_trace__': {'version': 1}, 'records': records,
                      'blobs': {k: {'kind': 'json', 'bytes': 1, 'payload': v} for k, v in blobs.items()}}, ensure_ascii=False)


def tap_lossy(case, exchanges):
    records = []
    for n, e in enumerate(exchanges, 1):
        r = tap_record(case, n, e)
        body, message = r['request']['body'], r['response']['body']
        records.append({'turn': n, 'timestamp': r['timestamp'], 'duration_ms': r['duration_ms'], 'model': body['model'], 'messages': body['messages'],
                        'response': {k: message[k] for k in ('content', 'usage', 'stop_reason')}, 'system': body['system'], 'tools': body['tools']})
    yield json.dumps(records, ensure_ascii=False, indent=1) + '\n'


def database(script, rows):
    """Bytes of an SQLite database; the version of the library, which is part of them, is made the same everywhere."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / 'x'
        connection = sqlite3.connect(path)
        connection.execute('pragma page_size = 4096')
        connection.executescript(script)
        for query, values in rows:
            connection.execute(query, values)
        connection.commit()
        connection.close()
        data = bytearray(path.read_bytes())
    data[96:100] = (3_045_000).to_bytes(4, 'big')
    return bytes(data)


def tap_store(case, exchanges):
    rows, blobs = [], {}
    for n, e in enumerate(exchanges, 1):
        record = tap_record(case, n, e)
        rows.append(('insert into records values (?,?,?,?,?)', ('one', n, n, record['timestamp'], dump(tap_compacted(record, blobs)))))
    rows += [('insert into record_blobs values (?,?,?,?)', ('one', k, 'json', json.dumps(v, ensure_ascii=False))) for k, v in blobs.items()]
    yield database('create table sessions (id text primary key); create table records (session_id text not null, record_index integer not null, turn integer, timestamp text, '
                   'payload_json text not null, primary key (session_id, record_index)); create table record_blobs (session_id text, hash text, kind text, payload_json text, '
                   'primary key (session_id, hash));', rows)


# ---- mitmproxy flows
def tnet(value):
    if value is None:
        return b'0:~'
    if isinstance(value, bool):
        body, kind = (b'true' if value else b'false'), b'!'
    elif isinstance(value, int):
        body, kind = str(value).encode(), b'#'
    elif isinstance(value, float):
        body, kind = repr(value).encode(), b'^'
    elif isinstance(value, bytes):
        body, kind = value, b','
    elif isinstance(value, str):
        body, kind = value.encode(), b';'
    elif isinstance(value, dict):
        body, kind = b''.join(tnet(k) + tnet(v) for k, v in value.items()), b'}'
    else:
        body, kind = b''.join(tnet(v) for v in value), b']'
    return str(len(body)).encode() + b':' + body + kind


def flow(case, exchanges):
    seconds = lambda ms: (case.base + ms) / 1000
    pairs = lambda headers: [[k.encode(), v.encode()] for k, v in headers]
    for e in sorted(exchanges, key=lambda e: e['start']):
        yield tnet({'websocket': None, 'response': {
            'reason': b'OK', 'status_code': e['status'], 'timestamp_end': None if e['cut'] else seconds(e['end']), 'timestamp_start': seconds(e['start'] + e['first']), 'trailers': None,
            'content': whole_text(e).encode(), 'headers': pairs(e['response_headers']), 'http_version': b'HTTP/1.1'},
            'request': {'path': e['path'].encode(), 'authority': b'', 'scheme': b'https', 'method': e['method'].encode(), 'port': 443, 'host': 'api.example.invalid',
                        'timestamp_end': seconds(e['start'] + 1), 'timestamp_start': seconds(e['start']), 'trailers': None, 'content': e['body'].encode(),
                        'headers': pairs(e['headers']), 'http_version': b'HTTP/1.1'},
            'error': None, 'id': 'flow', 'type': 'http', 'version': 21})


# ---- claude-code-proxy: each turn twice, whole seconds, bodies written anew
def twice(exchanges):
    """The stream, which the client could not use, with calls of its own; then the same without streaming, whose calls count."""
    for e in exchanges:
        body = {k: v for k, v in json.loads(e['body']).items() if k not in ('metadata', 'thinking', 'context_management', 'output_config')}
        message, first = answer(e), copy.deepcopy(e)
        for n, block in enumerate(message['content']):
            if block['type'] == 'tool_use':
                unused = block['id'][:-2] + f'{n}U'
                first['pieces'] = [[at, text.replace(block['id'], unused)] for at, text in first['pieces']]
        first['pieces'] = [[at, text.replace(message['id'], message['id'][:-1] + 'U')] for at, text in first['pieces']]
        yield first, {**body, 'stream': True}, None
        yield e, {**body, 'stream': False}, message


def proxied(case, exchanges):
    for n, (e, body, message) in enumerate(twice(exchanges)):
        headers = {}
        for k, v in e['headers']:
            headers.setdefault('-'.join(w.capitalize() for w in k.split('-')), []).append('sha256:0f' if k.lower() in ('x-api-key', 'authorization') else v)
        response = {'statusCode': e['status'], 'headers': {'Content-Type': [e['response_headers'][0][1]]}, 'responseTime': e['end'] - e['start'], 'completedAt': stamp(case, e['end'], 0)}
        if message is None:
            response.update(isStreaming=True, streamingChunks=['data: ' + dump(event) for event in events(e)], body={'content': [], 'stop_reason': ''})
        else:
            response.update(isStreaming=False, body=message)
        yield {'requestId': f'{n:016x}', 'timestamp': stamp(case, e['start'], 0), 'method': 'POST', 'endpoint': '/v1/messages', 'headers': headers, 'body': body, 'response': response}


def proxy_json(case, exchanges):
    yield dump({'requests': list(proxied(case, exchanges)), 'total': 2 * len(exchanges)})


def proxy_store(case, exchanges):
    rows = [('insert into requests values (?,?,?,?,?,?,?)', [r['requestId'], r['timestamp'], r['method'], r['endpoint'], dump(r['headers']), dump(r['body']), dump(r['response'])])
            for r in proxied(case, exchanges)]
    yield database('create table requests (id text primary key, timestamp datetime, method text, endpoint text, headers text, body text, response text);', rows)


def doubled(expected):
    """What is found where each turn was sent twice, at whole seconds."""
    out = copy.deepcopy(untimed(expected))
    s = out['sessions'][0]
    requests, tools = [], []
    for r in s['requests']:
        start = r['start_ms'] // 1000 * 1000
        for attempt in (0, 1):
            last = r['extends_request']
            requests.append({**r, 'start_ms': start, 'attempt': attempt, 'streaming': attempt == 0, 'extends_request': (None if last is None else 2 * last + 1) if attempt == 0 else len(requests) - 1})
    for t in s['tools']:
        for attempt in (0, 1):
            real = {**t, 'request': 2 * t['request'] + 1, 'consumer_request': 2 * t['consumer_request'] if t['consumer_request'] is not None else None}
            tools.append(real if attempt else {**real, 'request': 2 * t['request'], 'is_error': None, 'consumer_request': None})
    edges = [{**e, 'from': 2 * e['from'] + 1, 'to': 2 * e['to']} for e in s['edges']]
    edges += [{'from': n, 'to': n + 1, 'relation': 'sequence', 'trigger': 'completion', 'delay_ms': 0, 'delay_kind': 'retry', 'evidence': 'prefix'} for n in range(0, len(requests), 2)]
    s.update(requests=requests, edges=sorted(edges, key=lambda e: (e['to'], e['from'])), tools=sorted(tools, key=lambda t: (t['request'], t['index'])))
    return delayed(out)


# ---- LiteLLM: answers in the form of OpenAI, no system prompt
def litellm(case, exchanges):
    seconds = lambda ms: (case.base + ms) / 1000
    for e in exchanges:
        body, message = json.loads(e['body']), answer(e)
        calls = [{'id': b['id'], 'type': 'function', 'function': {'name': b['name'], 'arguments': dump(b['input'])}} for b in message['content'] if b['type'] == 'tool_use']
        text = ''.join(b['text'] for b in message['content'] if b['type'] == 'text')
        usage = message['usage']
        prompt = usage['input_tokens'] + usage['cache_read_input_tokens'] + usage['cache_creation_input_tokens']
        yield dump([{'id': message['id'], 'trace_id': dict(e['headers'])['X-Claude-Code-Session-Id'], 'call_type': 'anthropic_messages', 'status': 'success', 'stream': True,
                     'startTime': seconds(e['start']), 'endTime': seconds(e['end']), 'completionStartTime': seconds(e['start'] + e['first']), 'model': body['model'],
                     'messages': body['messages'], 'model_parameters': {'tools': body['tools'], 'max_tokens': body['max_tokens'], 'stream': True},
                     'metadata': {'requester_custom_headers': {k.lower(): v for k, v in e['headers'] if k.lower().startswith('x-') and 'key' not in k.lower()}},
                     'end_user': body['metadata']['user_id'], 'error_information': {'error_code': ''},
                     'response': {'id': message['id'], 'object': 'chat.completion', 'model': body['model'],
                                  'choices': [{'index': 0, 'finish_reason': 'tool_calls' if calls else 'stop', 'message': {'role': 'assistant', 'content': text or None, **({'tool_calls': calls} if calls else {})}}],
                                  'usage': {'prompt_tokens': prompt, 'completion_tokens': usage['output_tokens'], 'total_tokens': prompt + usage['output_tokens'],
                                            'cache_read_input_tokens': usage['cache_read_input_tokens'], 'cache_creation_input_tokens': usage['cache_creation_input_tokens']}}}]) + '\n'


def unthought(expected):
    out = untimed(expected)
    for r in out['sessions'][0]['requests']:
        r['output_parts'] = [p for p in r['output_parts'] if p != 'thinking']
    return out


# ---- claude-code-router: rows by request id, no answers
def router(case, exchanges):
    row = lambda at, n, **more: dump({'level': 30, 'time': case.base + at, 'pid': 7, 'hostname': 'depot', 'reqId': f'req-{n:x}', **more}) + '\n'
    rows = []
    for n, e in enumerate(exchanges, 1):
        rows += [(e['start'], row(e['start'], n, req={'method': 'POST', 'url': e['path'], 'host': '127.0.0.1:3456'}, msg='incoming request')),
                 (e['start'], row(e['start'], n, type='request body', data=json.loads(e['body']))),
                 (e['start'] + 1, row(e['start'] + 1, n, type='final request', headers=dict(e['headers']), requestUrl='https://api.example.invalid/v1/messages', request={'method': 'POST', 'body': e['body']})),
                 (e['end'], row(e['end'], n, res={'statusCode': e['status']}, responseTime=float(e['end'] - e['start']), msg='request completed'))]
    yield dump({'level': 30, 'time': case.base, 'pid': 7, 'hostname': 'depot', 'msg': 'Server listening'}) + '\n'
    yield from (text for _, text in sorted(rows, key=lambda row: row[0]))


def unanswered(expected):
    """What is found where no answer was kept: what the next request tells of it."""
    out = untimed(expected)
    for r in out['sessions'][0]['requests']:
        r['stop'] = None
    r['output_parts'] = []
    return out


# ---- Envoy tap and nginx
def envoy(case, exchanges):
    pairs = lambda headers: [{'key': k.lower(), 'value': v} for k, v in headers]
    data = lambda text: {'as_bytes': base64.b64encode(text.encode()).decode(), 'truncated': False}
    for e in exchanges:
        yield dump({'http_buffered_trace': {
            'request': {'headers': pairs([[':authority', 'api.example.invalid'], [':path', e['path']], [':method', e['method']]] + e['headers']), 'body': data(e['body']), 'trailers': [],
                        'headers_received_time': stamp(case, e['start'])},
            'response': {'headers': pairs([[':status', str(e['status'])]] + e['response_headers']), 'body': data(whole_text(e)), 'trailers': [],
                         'headers_received_time': stamp(case, e['start'] + e['first'])}}}) + '\n'


def endless(expected):
    """What is found where the end of an answer was not kept."""
    out = untimed(expected)
    for r in out['sessions'][0]['requests']:
        r['duration_ms'] = None
    return delayed(out)


def nginx(case, exchanges):
    for e in exchanges:
        yield dump({'msec': f'{(case.base + e["end"]) / 1000:.3f}', 'request_time': f'{(e["end"] - e["start"]) / 1000:.3f}', 'request_method': e['method'], 'request_uri': e['path'],
                    'status': str(e['status']), 'request_body': e['body'], **{'http_' + k.lower().replace('-', '_'): v for k, v in e['headers']}}) + '\n'


# ---- Claude Code transcripts
def canonical(message):
    return hashlib.sha256(json.dumps(message, sort_keys=True, ensure_ascii=False, separators=(',', ':')).encode()).hexdigest()


def transcript(case, exact):
    """{name: text}: a session's file, and those of its agents with their facts. `exact`: with the rows that keep requests."""
    session, w = case.sessions[0], Writer(case.name + ' transcript')
    files = {}
    for agent in session.agents:
        rows, seen, parent, blobs, last, shapes = [], 0, None, set(), None, set()
        common = {'sessionId': session.uuid, 'version': session.version, **({'agentId': agent.id} if agent.id else {})}

        def add(kind, ms, **more):
            nonlocal parent
            row = {'parentUuid': parent, 'isSidechain': agent.parent is not None, 'type': kind, 'uuid': w.uuid(), 'timestamp': stamp(case, ms), 'cwd': HOME, **common, **more}
            rows.append(row)
            parent = row['uuid']

        for r in sorted(agent.requests, key=lambda r: r.start):
            if r.kind != 'turn' or r.status != 'ok':
                continue
            messages = strip(r.body['messages'])
            listed = [{**m, 'content': blocks_of(m)} for m in messages]
            for m in listed[seen:]:
                if m['role'] == 'user':
                    for block in m['content'] if any(b['type'] == 'tool_result' for b in m['content']) else [None]:
                        add('user', r.start, message={'role': 'user', 'content': m['content'] if block is None else [block]})
            if exact:
                shape = {'system': strip(r.body['system'][1:]), 'tools': r.body['tools']}
                name, ref = canonical(shape), w.uuid()
                if name not in shapes:
                    shapes.add(name)
                    rows.append({'type': 'api-request-shape', **common, 'shapeHash': name, 'timestamp': stamp(case, r.start), 'shape': shape})
                keep = seen and seen - 1
                for m in listed[keep:]:
                    if m['role'] != 'assistant' and canonical(m) not in blobs:
                        blobs.add(canonical(m))
                        rows.append({'type': 'api-request-blob', **common, 'hash': canonical(m), 'message': m})
                rows.append({'type': 'api-request', **common, 'id': ref, 'timestamp': stamp(case, r.start), 'querySource': 'sdk', 'shapeHash': name,
                             'params': {'model': r.model, 'betas': [], 'max_tokens': r.body['max_tokens']}, **({'base': last} if last else {}), 'keep': keep,
                             'tail': [canonical(m) for m in listed[keep:]], 'cacheControl': []})
                last = ref
            seen = len(messages) + 1
            message = answer(dict(pieces=r.pieces))
            ends = [r.stops.get(n, r.end) for n in range(len(r.answer))]
            for n, block in enumerate(r.answer):
                made = {k: v for k, v in message.items() if k != 'content'}
                add('assistant', r.end if n == len(r.answer) - 1 else ends[n], message={**made, 'content': [strip(block) if block['type'] != 'tool_use' else {**block, 'caller': {'type': 'direct'}}]},
                    requestId=f'req_{w.hex(20)}', **({'requestRef': ref} if exact else {}))
        name = f'{session.uuid}.jsonl' if agent.parent is None else f'{session.uuid}/subagents/agent-{agent.id}.jsonl'
        files[name] = ''.join(dump(row) + '\n' for row in rows)
        if agent.parent:
            call = next(c for r in session.requests for c in r.calls if c.child is agent)
            facts = {'agentType': agent.type, 'description': 'helper', 'toolUseId': call.id, 'spawnDepth': agent.depth, **({'parentAgentId': agent.parent.id} if agent.parent.id else {})}
            files[name.replace('.jsonl', '.meta.json')] = dump(facts)
    return files


def stated(expected):
    """A transcript says which call started an agent, where no result does."""
    out = untimed(expected)
    for e in out['sessions'][0]['edges']:
        if e['relation'] == 'spawn' and e['evidence'] == 'prompt':
            e['evidence'] = 'stated'
    return out


def rows_only(expected):
    """Without the requests that the client kept, the harness's own system messages are lost."""
    out = untimed(expected)
    s = out['sessions'][0]
    for r, m in zip(s['requests'], expected['messages']):
        r['messages'] = m
    return out


# ------------------------------------------------------------------------------------------------ other APIs and harnesses
def codex(case):
    """Responses API: encrypted reasoning, parallel calls, a request that goes on from an earlier response, an agent with a thread of its own."""
    w = case.w
    one, two = w.uuid(), w.uuid()
    tools = [{'type': 'function', 'name': 'shell', 'description': w.text(12), 'parameters': {'type': 'object', 'properties': {'command': {'type': 'array'}}}},
             {'type': 'function', 'name': 'spawn_agent', 'description': w.text(12), 'parameters': {'type': 'object', 'properties': {'message': {'type': 'string'}}}}]
    user = lambda text: {'type': 'message', 'role': 'user', 'content': [{'type': 'input_text', 'text': text}]}
    call = lambda name, **given: {'type': 'function_call', 'id': w.id('fc_'), 'call_id': w.id('call_'), 'name': name, 'arguments': dump(given)}
    said = lambda text: {'type': 'message', 'role': 'assistant', 'content': [{'type': 'output_text', 'text': text}]}
    result = lambda c, text: {'type': 'function_call_output', 'call_id': c['call_id'], 'output': text}
    thought = lambda: {'type': 'reasoning', 'summary': [{'type': 'summary_text', 'text': w.text(8)}], 'encrypted_content': base64.b64encode(w.text(9).encode()).decode()}
    instructions, task = w.text(120), 'Count the pallets of the east dock. ' + w.text(20)
    out = []

    def send(start, ms, thread, items, output, response, previous=None, parent=None):
        body = {'model': 'gpt-5-codex', 'instructions': instructions, 'input': items, 'tools': tools, 'stream': True, 'store': previous is not None}
        if previous:
            body['previous_response_id'] = previous
        usage = {'input_tokens': 100, 'output_tokens': 20, 'input_tokens_details': {'cached_tokens': 60}, 'output_tokens_details': {'reasoning_tokens': 5}}
        whole = {'id': response, 'object': 'response', 'status': 'completed', 'output': output, 'usage': usage}
        parts = [{'type': 'response.created', 'response': {'id': response}}]
        parts += [{'type': 'response.output_item.done', 'output_index': n, 'item': item} for n, item in enumerate(output)] + [{'type': 'response.completed', 'response': whole}]
        pieces = [[40 + (ms - 40) * n // (len(parts) - 1), f"event: {p['type']}\ndata: {dump(p)}\n\n"] for n, p in enumerate(parts)]
        headers = [['user-agent', 'codex_cli_rs/0.99.0'], ['authorization', 'Bearer fake-token-' + w.hex(20)], ['session-id', thread]]
        out.append(dict(start=start, method='POST', path='/v1/responses', headers=headers + ([['x-codex-parent-thread-id', parent]] if parent else []), body=dump(body), status=200, first=30,
                        end=start + ms, response_headers=[['content-type', 'text/event-stream'], ['x-request-id', w.uuid()]], pieces=pieces, cut=None))
        return pieces[1][0]

    first = [user('Look at the docks. ' + w.text(30))]
    a, b = call('shell', command=['ls', 'docks']), call('spawn_agent', message=task)
    made = [thought(), a, b]
    firsts = [send(0, 900, one, first, made, 'resp_1')]
    child = [user(task)]
    c = call('shell', command=['wc', '-l', 'east.csv'])
    firsts.append(send(930, 700, two, child, [thought(), c], 'resp_2', parent=one))
    firsts.append(send(1700, 500, two, child + [thought(), c][:0] + [*json.loads(out[1]['pieces'][-1][1].split('data: ')[1])['response']['output'], result(c, '41 east.csv')], [said(w.text(9))], 'resp_3', parent=one))
    more = [result(a, w.text(14)), result(b, w.text(10))]
    firsts.append(send(2260, 600, one, first + made + more, [said(w.text(12))], 'resp_4'))
    firsts.append(send(9000, 500, one, [user('And the west dock? ' + w.text(9))], [said(w.text(11))], 'resp_5', previous='resp_4'))
    row = lambda agent, turn, at, ms, messages, parts, made, stop, extends, ttft: {
        'agent': agent, 'turn': turn, 'kind': 'turn', 'model': 'gpt-5-codex', 'status': 'ok', 'stop': stop, 'attempt': 0, 'streaming': True, 'start_ms': at, 'duration_ms': ms, 'ttft_ms': ttft,
        'messages': messages, 'input_parts': parts, 'output_parts': made, 'extends_request': extends}
    know = ['text', 'thinking', 'tool_use', 'tool_result']
    requests = [row(0, 0, 0, 900, 1, ['text'], ['thinking', 'tool_use'], 'tool_use', None, firsts[0]), row(1, 0, 930, 700, 1, ['text'], ['thinking', 'tool_use'], 'tool_use', None, firsts[1]),
                row(1, 1, 1700, 500, 3, know, ['text'], 'end_turn', 1, firsts[2]), row(0, 1, 2260, 600, 3, know, ['text'], 'end_turn', 0, firsts[3]),
                row(0, 2, 9000, 500, 5, know, ['text'], 'end_turn', 3, firsts[4])]
    edge = lambda source, target, relation, delay, kind, evidence: {'from': source, 'to': target, 'relation': relation, 'trigger': 'completion', 'delay_ms': delay, 'delay_kind': kind, 'evidence': evidence}
    edges = [edge(0, 1, 'spawn', 30, 'agent', 'prompt'), edge(1, 2, 'sequence', 70, 'tool', 'prefix'), edge(0, 3, 'sequence', 0, 'agent', 'prefix'), edge(2, 3, 'join', 60, 'agent', 'tool_result'),
             edge(3, 4, 'sequence', 6140, 'user', 'prefix')]
    tool = lambda request, index, kind, consumer, child=None: {'request': request, 'index': index, 'class': kind, 'is_error': False, 'consumer_request': consumer, 'child_agent': child}
    agents = [{'kind': 'main', 'type': 'main', 'parent_agent': None, 'depth': 0, 'status': None, 'spawn_request': None, 'join_request': None},
              {'kind': 'subagent', 'type': 'custom', 'parent_agent': 0, 'depth': 1, 'status': 'completed', 'spawn_request': 0, 'join_request': 3}]
    session = {'harness': 'codex', 'agents': agents, 'requests': requests, 'edges': edges, 'tools': [tool(0, 0, 'shell', 3), tool(0, 1, 'agent', 3, 1), tool(1, 0, 'shell', 2)]}
    return out, {'sessions': [session], 'skipped': {}, 'count_tokens': 0}


def opencode(case):
    """Chat completions: streaming, parallel calls, a child session that names its parent."""
    w = case.w
    one, two = w.id('ses_'), w.id('ses_')
    tools = [{'type': 'function', 'function': {'name': name, 'description': w.text(12), 'parameters': {'type': 'object', 'properties': {}}}} for name in ('bash', 'read', 'task')]
    system = {'role': 'system', 'content': w.text(90)}
    call = lambda name, **given: {'id': w.id('call_'), 'type': 'function', 'function': {'name': name, 'arguments': dump(given)}}
    asks = lambda text, *calls: {'role': 'assistant', 'content': text, **({'tool_calls': list(calls)} if calls else {})}
    result = lambda c, text: {'role': 'tool', 'tool_call_id': c['id'], 'content': text}
    task = 'Read the crane manual. ' + w.text(15)
    out = []

    def send(start, ms, session, messages, answer, parent=None):
        body = {'model': 'depot/coder-7b', 'messages': [system] + messages, 'tools': tools, 'max_tokens': 8000, 'stream': True, 'stream_options': {'include_usage': True}}
        calls = answer.get('tool_calls', [])
        key = w.id('chatcmpl-')
        chunk = lambda delta, **more: {'id': key, 'object': 'chat.completion.chunk', 'choices': [{'index': 0, 'delta': delta, 'finish_reason': None, **more}]}
        parts = [chunk({'role': 'assistant', 'content': ''})] + ([chunk({'content': answer['content']})] if answer['content'] else [])
        for n, c in enumerate(calls):
            text = c['function']['arguments']
            parts += [chunk({'tool_calls': [{'index': n, 'id': c['id'], 'type': 'function', 'function': {'name': c['function']['name'], 'arguments': text[:5]}}]}),
                      chunk({'tool_calls': [{'index': n, 'function': {'arguments': text[5:]}}]})]
        parts += [chunk({}, finish_reason='tool_calls' if calls else 'stop'),
                  {'id': key, 'object': 'chat.completion.chunk', 'choices': [], 'usage': {'prompt_tokens': 90, 'completion_tokens': 20, 'prompt_tokens_details': {'cached_tokens': 64}}}]
        texts = ['data: ' + dump(p) + '\n\n' for p in parts] + ['data: [DONE]\n\n']
        pieces = [[30 + (ms - 30) * n // (len(texts) - 1), text] for n, text in enumerate(texts)]
        headers = [['User-Agent', 'opencode/1.2.3'], ['Authorization', 'Bearer fake-token-' + w.hex(20)], ['x-session-id', session]]
        out.append(dict(start=start, method='POST', path='/v1/chat/completions', headers=headers + ([['x-parent-session-id', parent]] if parent else []), body=dump(body), status=200, first=20,
                        end=start + ms, response_headers=[['content-type', 'text/event-stream']], pieces=pieces, cut=None))
        return pieces[1][0]

    first = [{'role': 'user', 'content': 'How high is the crane? ' + w.text(20)}]
    a, b = call('bash', command='ls'), call('task', description='crane', prompt=task, subagent_type='general')
    turn = asks(w.text(7), a, b)
    firsts = [send(0, 800, one, first, turn)]
    child, c = [{'role': 'user', 'content': task}], call('read', path='crane.txt')
    turn_child = asks(None, c)
    firsts.append(send(850, 600, two, child, turn_child, parent=one))
    firsts.append(send(1500, 500, two, child + [turn_child, result(c, w.text(20))], asks(w.text(9)), parent=one))
    firsts.append(send(2040, 700, one, first + [turn, result(a, 'crane.txt'), result(b, w.text(9))], asks(w.text(12))))
    row = lambda agent, turn, at, ms, messages, parts, made, stop, extends, ttft: {
        'agent': agent, 'turn': turn, 'kind': 'turn', 'model': 'other-1', 'status': 'ok', 'stop': stop, 'attempt': 0, 'streaming': True, 'start_ms': at, 'duration_ms': ms, 'ttft_ms': ttft,
        'messages': messages, 'input_parts': parts, 'output_parts': made, 'extends_request': extends}
    know = ['text', 'tool_use', 'tool_result']
    requests = [row(0, 0, 0, 800, 1, ['text'], ['text', 'tool_use'], 'tool_use', None, firsts[0]), row(1, 0, 850, 600, 1, ['text'], ['tool_use'], 'tool_use', None, firsts[1]),
                row(1, 1, 1500, 500, 3, know[1:] if False else know, ['text'], 'end_turn', 1, firsts[2]), row(0, 1, 2040, 700, 3, know, ['text'], 'end_turn', 0, firsts[3])]
    edge = lambda source, target, relation, delay, kind, evidence: {'from': source, 'to': target, 'relation': relation, 'trigger': 'completion', 'delay_ms': delay, 'delay_kind': kind, 'evidence': evidence}
    edges = [edge(0, 1, 'spawn', 50, 'agent', 'prompt'), edge(1, 2, 'sequence', 50, 'tool', 'prefix'), edge(0, 3, 'sequence', 0, 'agent', 'prefix'), edge(2, 3, 'join', 40, 'agent', 'tool_result')]
    tool = lambda request, index, kind, consumer, child=None: {'request': request, 'index': index, 'class': kind, 'is_error': False, 'consumer_request': consumer, 'child_agent': child}
    agents = [{'kind': 'main', 'type': 'main', 'parent_agent': None, 'depth': 0, 'status': None, 'spawn_request': None, 'join_request': None},
              {'kind': 'subagent', 'type': 'custom', 'parent_agent': 0, 'depth': 1, 'status': 'completed', 'spawn_request': 0, 'join_request': 3}]
    session = {'harness': 'opencode', 'agents': agents, 'requests': requests, 'edges': edges, 'tools': [tool(0, 0, 'shell', 3), tool(0, 1, 'agent', 3, 1), tool(1, 0, 'read', 2)]}
    return out, {'sessions': [session], 'skipped': {}, 'count_tokens': 0}


# ------------------------------------------------------------------------------------------------ what recorders lose
def untimed(expected):
    """What is found where the recorder did not keep the times inside a stream."""
    out = copy.deepcopy(expected)
    out.pop('messages', None)
    for r in out['sessions'][0]['requests']:
        r['ttft_ms'] = None
    return out


def delayed(expected):
    """The same with the delays that its times give."""
    s = expected['sessions'][0]
    start = lambda n: s['requests'][n]['start_ms']
    end = lambda n: start(n) + (s['requests'][n]['duration_ms'] or 0)
    for target in range(len(s['requests'])):
        edges = [e for e in s['edges'] if e['to'] == target]
        moment = lambda e: start(e['from']) if e['trigger'] == 'dispatch' else end(e['from'])
        last = next((e for e in edges if e['relation'] == 'sequence' and e['delay_kind'] == 'user'), max(edges, key=moment, default=None))
        for e in edges:
            e['delay_ms'] = max(0, start(target) - moment(e)) if e is last else 0
    return expected


def unmarked(expected):
    """What is found without headers, in one session of one thread."""
    out = untimed(expected)
    out['sessions'][0]['harness'] = 'other'
    for r in out['sessions'][0]['requests']:
        r['streaming'] = False
    return out


def write(root):
    def put(folder, name, parts, truth=None):
        place = root / folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(b''.join(part if isinstance(part, bytes) else part.encode() for part in parts))
        if truth:
            (root / folder / (name.split('.')[0] + '.expected.json')).write_bytes(expected_text(truth).encode())

    for day, plan in enumerate(CASES):
        case = Case(plan.__name__, day)
        plan(case)
        exchanges, expected = case.exchanges(), case.expected()
        expected['messages'] = [sum(m['role'] != 'system' for m in r.body['messages']) for r in sorted((r for s in case.sessions for r in s.requests), key=lambda r: r.start)]
        put('native', f'{case.name}.jsonl', native(case, exchanges), expected)
        if plan is linear:
            put('claude-trace', 'linear.jsonl', claude_trace(case, exchanges), untimed(expected))
            put('claude-tap', 'old.jsonl', tap_old(case, exchanges), untimed(expected))
            put('claude-tap', 'lossy.json', tap_lossy(case, exchanges), unmarked(expected))
            put('claude-code-proxy', 'api.json', proxy_json(case, exchanges), doubled(expected))
            put('claude-code-proxy', 'store.sqlite3', proxy_store(case, exchanges), doubled(expected))
            put('litellm', 'linear.jsonl', litellm(case, exchanges), unthought(expected))
            put('claude-code-router', 'linear.log', router(case, exchanges), unanswered(expected))
            put('envoy-tap', 'linear.json', envoy(case, exchanges), endless(expected))
            put('har', 'browser.har', har_of('WebInspector', case, exchanges), unanswered(expected))
            put('nginx', 'linear.log', nginx(case, exchanges), unanswered(expected))
            for name, text in transcript(case, exact=False).items():
                put('claude-code-transcript', 'rows/' + name, [text])
            put('claude-code-transcript', 'rows.expected.json', [expected_text(rows_only(expected))])
        if plan is fanout:
            put('har', 'fanout.har', har(case, exchanges), untimed(expected))
            put('har', 'charles.har', har_of('Charles Proxy', case, exchanges), untimed(expected))
            put('har', 'proxyman.har', har_of('Proxyman', case, exchanges), untimed(expected))
            put('mitmproxy', 'fanout.flow', flow(case, exchanges), untimed(expected))
            put('claude-tap', 'export.jsonl', tap_jsonl(case, exchanges), untimed(expected))
            put('claude-tap', 'compact.json', tap_compact(case, exchanges), untimed(expected))
            put('claude-tap', 'store.sqlite3', tap_store(case, exchanges), untimed(expected))
            for name, text in transcript(case, exact=True).items():
                put('claude-code-transcript', 'fanout/' + name, [text])
            put('claude-code-transcript', 'fanout.expected.json', [expected_text(stated(expected))])
    for day, plan in enumerate((codex, opencode), len(CASES)):
        case = Case(plan.__name__, day)
        exchanges, expected = plan(case)
        put('native', f'{case.name}.jsonl', native(case, exchanges), expected)


def check():
    with tempfile.TemporaryDirectory() as directory:
        fresh = pathlib.Path(directory)
        write(fresh)
        names = lambda root: {p.relative_to(root) for p in root.rglob('*') if p.is_file()}
        wrong = sorted(n for n in names(fresh) | names(ROOT) if not ((ROOT / n).is_file() and (fresh / n).is_file() and filecmp.cmp(ROOT / n, fresh / n, shallow=False)))
        for name in wrong:
            print(f'differs: fixtures/capture/{name}', file=sys.stderr)
        return 1 if wrong else 0


if __name__ == '__main__':
    sys.exit(check() if '--check' in sys.argv[1:] else write(ROOT))
