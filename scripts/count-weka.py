#!/usr/bin/env python3
"""Counts WEKA JSON on its own, and compares two sets of it; knows nothing of the project.

    count-weka.py count FILE|FOLDER          sessions, requests, tokens, block ids, distinct blocks, prefix reuse; as JSON
    count-weka.py compare ONE OTHER          equal as JSON? else: only in the numbering of blocks? else: where first

A file may be one object, or lines, plain or .zst; a folder holds .json files.
"""
import json
import pathlib
import subprocess
import sys


def traces(path):
    path = pathlib.Path(path)
    if path.is_dir():
        for file in sorted(path.glob("*.json")):
            yield json.loads(file.read_text())
        return
    if path.suffix == ".zst":
        with subprocess.Popen(["zstd", "-dc", "--long=31", path], stdout=subprocess.PIPE) as zstd:
            for line in zstd.stdout:
                yield json.loads(line)
        return
    text = path.read_text()
    try:
        yield json.loads(text)
    except json.JSONDecodeError:
        for line in text.splitlines():
            if line.strip():
                yield json.loads(line)


def requests(trace):
    """Main agent first, then each subagent, as they stand."""
    main = [entry for entry in trace["requests"] if entry["type"] != "subagent"]
    nested = [inner for entry in trace["requests"] if entry["type"] == "subagent" for inner in entry["requests"]]
    return main + nested


def count(path):
    total = dict.fromkeys(["sessions", "agents", "requests", "input_tokens", "output_tokens", "blocks", "unique_blocks"], 0)
    for trace in traces(path):
        rows = requests(trace)
        total["sessions"] += 1
        total["agents"] += 1 + sum(entry["type"] == "subagent" for entry in trace["requests"])
        total["requests"] += len(rows)
        total["input_tokens"] += sum(row["in"] for row in rows)
        total["output_tokens"] += sum(row["out"] for row in rows)
        total["blocks"] += sum(len(row["hash_ids"]) for row in rows)
        total["unique_blocks"] += len({block for row in rows for block in row["hash_ids"]})
    return total


def renumbered(trace):
    """The same trace with block ids by first appearance."""
    known = {}
    for row in requests(trace):
        row["hash_ids"] = [known.setdefault(block, len(known)) for block in row["hash_ids"]]
    return trace


def difference(one, other, place=""):
    """Where two values first differ."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted(one.keys() | other.keys()):
            if key not in one or key not in other:
                return f"{place}.{key}"
            found = difference(one[key], other[key], f"{place}.{key}")
            if found:
                return found
        return None
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        pairs = enumerate(zip(one, other))
        return next((found for at, (a, b) in pairs if (found := difference(a, b, f"{place}[{at}]"))), None)
    return None if one == other else place


def compare(left, right):
    others = {trace["id"]: trace for trace in traces(right)}
    result = {"equal": 0, "equal_but_for_numbering": [], "different": {}, "missing": [], "more": []}
    for trace in traces(left):
        other = others.pop(trace["id"], None)
        if other is None:
            result["missing"].append(trace["id"])
        elif trace == other:
            result["equal"] += 1
        elif (where := difference(renumbered(trace), renumbered(other))) is None:
            result["equal_but_for_numbering"].append(trace["id"])
        else:
            result["different"][trace["id"]] = where
    result["more"] = sorted(others)
    return result


def main():
    if len(sys.argv) == 3 and sys.argv[1] == "count":
        print(json.dumps(count(sys.argv[2]), indent=2))
    elif len(sys.argv) == 4 and sys.argv[1] == "compare":
        result = compare(*sys.argv[2:])
        print(json.dumps(result, indent=2))
        sys.exit(bool(result["different"] or result["missing"] or result["more"]))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
