#!/usr/bin/env python3
"""Writes the synthetic logs under fixtures/capture, and beside each what a converter must find in it.

A case is a plan: who sends what, when, and what it waited for. The log is rendered from the plan, and so is
`<case>.expected.json`; no converter is asked. All text is made up here; only the short markers by which a converter knows
a harness are the harness's own. Same bytes on every run: fixed seeds, fixed times, no clock.

    scripts/fixtures.py            write fixtures/capture
    scripts/fixtures.py --check    write to a temporary directory and compare
"""
import base64, copy, datetime, filecmp, json, pathlib, random, sys, tempfile

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


def workflow(c):
    w = c.w
    s = c.session()
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
        agent.first(f'[Workflow harness — computed task] {w.text(25)}\nThe computed task text follows:\n{lines}')
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


CASES = [linear, fanout, background, retry, cancelled, fallback, compaction, resume, auxiliary, interleaved, sendmessage, fork, workflow, interrupted, headerless]


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


def expected_text(expected):
    """JSON with one row a line, so that a person can read it."""
    rows = lambda items: '[' + ''.join('\n      ' + json.dumps(i, ensure_ascii=False) + ',' for i in items).rstrip(',') + ('\n    ]' if items else ']')
    sessions = []
    for s in expected['sessions']:
        fields = [f'    "harness": "{s["harness"]}"'] + [f'    "{k}": {rows(s[k])}' for k in ('agents', 'requests', 'edges', 'tools')]
        sessions.append('  {\n' + ',\n'.join(fields) + '\n  }')
    return '{\n"sessions": [\n' + ',\n'.join(sessions) + f'\n],\n"skipped": {json.dumps(expected["skipped"])},\n"count_tokens": {expected["count_tokens"]}\n}}\n'


def untimed(expected):
    """What is found where the recorder did not keep the times inside a stream."""
    out = copy.deepcopy(expected)
    for r in out['sessions'][0]['requests']:
        r['ttft_ms'] = None
    return out


def write(root):
    for day, plan in enumerate(CASES):
        case = Case(plan.__name__, day)
        plan(case)
        exchanges, expected = case.exchanges(), case.expected()
        files = [('native', 'jsonl', native, expected)]
        files += [('claude-trace', 'jsonl', claude_trace, untimed(expected))] if plan is linear else []
        files += [('har', 'har', har, untimed(expected))] if plan is fanout else []
        for folder, ending, form, truth in files:
            place = root / folder
            place.mkdir(parents=True, exist_ok=True)
            (place / f'{case.name}.{ending}').write_bytes(''.join(form(case, exchanges)).encode())
            (place / f'{case.name}.expected.json').write_bytes(expected_text(truth).encode())


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
