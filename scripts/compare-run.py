#!/usr/bin/env python3
"""compare-run.py RUN [--block N] [--trace TRACE --dynamo FILE.gz]: a run beside what the server said and saw.

RUN is a folder of `tracecloak replay`. Needs pyarrow. Prints, request by request summed up:
- prompt tokens: the server's count beside the planned one;
- cached tokens: the server's beside the planned ones, in blocks of N (1: token by token);
- the deltas of the server's counters beside the sums of its usage;
- with --dynamo: the block hashes that Dynamo's frontend recorded (DYN_REQUEST_TRACE) beside the block ids of the trace.
Exit code 1 if lengths, counters or block structure differ.
"""
import argparse, collections, gzip, json, os, sys
import pyarrow.parquet as pq

arguments = argparse.ArgumentParser()
arguments.add_argument("run"); arguments.add_argument("--block", type=int, default=1)
arguments.add_argument("--trace"); arguments.add_argument("--dynamo")
args = arguments.parse_args()
rows = pq.read_table(os.path.join(args.run, "records.parquet")).to_pylist()
summary = json.load(open(os.path.join(args.run, "summary.json")))
fine = [row for row in rows if row["ending"] == "ok"]
bad = False

print(f"requests      {len(rows)}, {len(fine)} ok")
exact = sum(row["prompt_tokens"] == row["sent_tokens"] for row in fine)
print(f"prompt tokens {exact} of {len(fine)} counted by the server as planned, and as the trace says in {sum(row['prompt_tokens'] == row['input_tokens'] for row in fine)}")
bad |= exact != len(fine)

told = [row for row in fine if row["cached_tokens"] is not None]
block = args.block
def planned(row):  # a prompt is never cached to its last token, and only in whole blocks; below one block nothing is
    return min(row["planned_cached"], row["prompt_tokens"] - 1) // block * block
difference = collections.Counter()
for row in told:
    off = row["cached_tokens"] - planned(row)
    difference["equal" if off == 0 else "less" if off < 0 else "more"] += 1
share = lambda part, whole: f"{100 * part / max(1, whole):.2f} %"
reported, expected, prompt = (sum(f(row) for row in told) for f in (lambda r: r["cached_tokens"], planned, lambda r: r["prompt_tokens"]))
print(f"cached tokens equal to the planned in {difference['equal']} of {len(told)} requests, less in {difference['less']}, more in {difference['more']}")
print(f"hit ratio     planned {share(expected, prompt)}, reported {share(reported, prompt)}")

counters = summary["counters"]
if counters:
    # A priming and a failed request are in the counters, too.
    usage = {"hit_tokens": sum(row["cached_tokens"] or 0 for row in rows), "asked_tokens": sum(row["prompt_tokens"] or 0 for row in rows)}
    for name, total in usage.items():
        if counters[name] is not None:
            same = round(counters[name]) == total
            bad |= not same
            print(f"counters      {name}: {counters['engine']} {counters[name]:.0f}, usage {total}{'' if same else '  DIFFERENT'}")

if args.dynamo:
    requests = pq.read_table(os.path.join(args.trace, "requests.parquet")).to_pylist()
    size = json.load(open(os.path.join(args.trace, "manifest.json")))["block_size"]
    ids, first_row = [], {}
    for row in requests:
        first_row.setdefault(row["session"], row["request"])
        own = ids[row["prefix_request"]][: row["shared_blocks"]] if row["prefix_request"] is not None else []
        new = row["input_tokens"] // size - len(own)
        ids.append(own + list(range(row["first_block"], row["first_block"] + new)))
    seen = {}
    for line in gzip.open(args.dynamo, "rt"):
        event = json.loads(line); event = event.get("event", event)
        request = event.get("request") or {}
        if event.get("event_type") == "request_end" and request.get("x_request_id"):
            seen[request["x_request_id"]] = request["replay"]
    # A request that is named as too small for its template is sent as another prompt than the trace's, and is compared as one that parts.
    to_hash, to_id, compared, same, named = {}, {}, 0, 0, 0
    for row in sorted(fine, key=lambda row: row["sent_us"]):
        if row["id"] not in seen:
            continue
        replay = seen[row["id"]]
        step = size // replay["trace_block_size"]
        hashes = replay["input_sequence_hashes"][step - 1 :: step]
        mine = ids[first_row[row["session"]] + row["request"]]
        agree = replay["input_length"] == row["input_tokens"] and len(hashes) >= len(mine)
        if row["short_blocks"] is not None:
            named += 1
            parted = row["planned_cached"] // size
            mine = mine[:parted] + [(row["id"], at) for at in range(parted, len(mine))]
        for block_id, block_hash in zip(mine, hashes):
            agree &= to_hash.setdefault(block_id, block_hash) == block_hash and to_id.setdefault(block_hash, block_id) == block_id
        compared, same = compared + 1, same + agree
    bad |= same != len(fine)
    print(f"block ids     {same} of {len(fine)} requests have the block structure of the trace, as Dynamo saw them ({compared} recorded; {named} of them named as sharing less, and share that)")
sys.exit(bad)
