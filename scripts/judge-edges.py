#!/usr/bin/env python3
"""Judges the converter's graph of a recording edge by edge, against what the endpoint itself saw (scripts/count-truth.py reads that).

    scripts/judge-edges.py NAME TRUTH.jsonl GRAPH.json      one row: found / true (and how many wrong) of requests, agents, spawns and joins

A spawn is wrong if the truth has none between these two requests, a join likewise, and a sequence if it leads from one agent to another. Requests
of the two sides are paired by session, time, number of messages and usage. Only counts are printed, never text.
"""
import collections, importlib.machinery, importlib.util, json, pathlib, sys

loader = importlib.machinery.SourceFileLoader('truth', str(pathlib.Path(__file__).with_name('count-truth.py')))
truth = importlib.util.module_from_spec(importlib.util.spec_from_loader('truth', loader))
loader.exec_module(truth)


def links(exchanges):
    """{(relation, from, to)} of the requests of agents, by the same evidence that the counts are by."""
    turns = [e for e in exchanges if e.kind != 'count_tokens']
    calls = [(e, *call) for e in turns for call in e.calls]
    brought, notified = truth.results(turns), truth.notifications(turns)
    threads = collections.defaultdict(list)
    for e in turns:
        threads[e.session, e.agent].append(e)
    found, children = set(), collections.defaultdict(list)
    caller = {id_: e for e, id_, _, _ in calls}
    for (session, agent), requests in threads.items():
        if agent != 'main':
            _, call = truth.spawned_by(agent, requests[0], calls, brought, notified)
            children[session, call].append(agent)
            if call in caller:
                found.add(('spawn', caller[call], requests[0]))
    join = lambda agent, e: found.update(('join', last, e) for last in [r for r in threads[e.session, agent] if r.start < e.start][-1:])
    for e, id_, name, given in calls:
        if name == 'SendMessage':
            found.update(('spawn', e, next_) for next_ in [r for r in threads[e.session, given['to']] if r.start > e.start][:1])
        carrier, text, error = brought.get(id_, (None, '', False))
        stopped = error and "The user doesn't want to proceed" in text
        if name in truth.SPAWNS and carrier and not stopped and not text.startswith('Async agent launched'):
            for agent in children[e.session, id_]:
                join(agent, carrier)
    for e, task, call in notified:
        for agent in [task] if task.startswith('a') else children[e.session, call]:
            join(agent, e)
    return found


def cost(r, e, first):
    """How unlike a request and an exchange are: milliseconds, and much for what must be equal where it is known."""
    usage = {k: v or 0 for k, v in r['usage'].items()}
    ours = [usage['cache_read'], usage['cache_write_5m'] + usage['cache_write_1h'], usage['output']]
    stated = [e.usage.get(k, 0) for k in ('cache_read_input_tokens', 'cache_creation_input_tokens', 'output_tokens')]
    told = r['usage']['output'] is not None and e.state == 'ok'
    took = abs(r['duration_ms'] - (e.end - e.start) * 1000) if r['duration_ms'] is not None else 0
    return abs(r['start_ms'] - (e.start - first) * 1000) + took + 5000 * (r['messages'] != len(e.messages)) + 50000 * (told and ours != stated)


def paired(session, exchanges):
    """(unlikeness, the exchange of each request of a session): the likest, each once."""
    requests = session['requests']
    pairs = sorted((cost(r, e, exchanges[0].start), n, m) for n, r in enumerate(requests) for m, e in enumerate(exchanges))
    mine, theirs, total = {}, set(), 0
    for unlike, n, m in pairs:
        if n not in mine and m not in theirs:
            mine[n] = exchanges[m]
            theirs.add(m)
            total += unlike
    # Some recorders keep no failed requests.
    sent = [e for e in exchanges if e.kind == 'turn']
    turns = sum(r['kind'] == 'turn' for r in requests)
    missing = min(abs(turns - len(sent)), abs(turns - sum(e.state == 'ok' for e in sent)))
    return total / max(1, len(mine)) + 5000 * missing, mine


def matched(ours, theirs):
    """(session, the exchange of each of its requests): the likest sessions first. Published order tells nothing."""
    all_pairs = {(n, m): paired(session, exchanges) for n, session in enumerate(ours) for m, exchanges in enumerate(theirs)}
    left, right = set(), set()
    for (n, m), (_, pairs) in sorted(all_pairs.items(), key=lambda item: item[1][0]):
        if n not in left and m not in right:
            left.add(n)
            right.add(m)
            yield ours[n], pairs
    yield from ((session, {}) for n, session in enumerate(ours) if n not in left)


def judge(rows, graph):
    exchanges = sorted((truth.Exchange(r) for r in rows), key=lambda e: e.start)
    exchanges = [e for e in exchanges if e.is_message]
    truth.threads(exchanges)
    true, mine, wrong = links(exchanges), set(), collections.Counter()
    by_session = collections.defaultdict(list)
    for e in exchanges:
        by_session[e.session].append(e)
    ours, theirs = graph['sessions'], list(by_session.values())
    evidence = collections.Counter(e['evidence'] for s in ours for e in s['edges'] if e['relation'] == 'spawn')
    for session, pairs in matched(ours, theirs):
        for e in session['edges']:
            source, target = pairs.get(e['from']), pairs.get(e['to'])
            link = (e['relation'], source, target)
            if e['relation'] == 'sequence':
                wrong['sequence'] += source is None or target is None or target.kind == 'turn' and source.agent != target.agent
            elif link in true:
                mine.add(link)
            else:
                wrong[e['relation']] += 1
    return true, mine, wrong, evidence, len(ours) - len(theirs)


def main():
    name, recording, graph = sys.argv[1:]
    rows = [json.loads(line) for line in open(recording, encoding='utf-8')]
    graph = json.load(open(graph, encoding='utf-8'))
    ours, counted = truth.count_graph(graph), truth.count(rows)
    true, mine, wrong, evidence, sessions = judge(rows, graph)
    cell = lambda relation: f'{sum(l[0] == relation for l in mine)}/{sum(l[0] == relation for l in true)}' + (f' {wrong[relation]}!' if wrong[relation] else '')
    cells = [f'{ours[c]}/{counted[c]}' for c in ('requests', 'agents')] + [cell('spawn'), cell('join')]
    odd = (f' {wrong["sequence"]} wrong sequences' if wrong['sequence'] else '') + (f' {sessions:+} sessions' if sessions else '')
    print(f'{name:44}' + ''.join(f'{c:>11}' for c in cells) + '   ' + ' '.join(f'{n} {e}' for e, n in sorted(evidence.items())) + odd)


if __name__ == '__main__':
    main()
