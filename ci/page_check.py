#!/usr/bin/env python3
"""Compares what a browser shows of a page of the cost gate with the JSON that the page carries, number by number."""

import json
import math
import pathlib
import subprocess
import sys
import tempfile
from html.parser import HTMLParser


class Node(HTMLParser):
    """A document as a tree; what a browser prints is well formed."""

    EMPTY = {"meta", "link", "br", "hr", "img", "input"}

    def __init__(self):
        super().__init__()
        self.root = self.at = {"tag": "", "attrs": {}, "children": [], "parent": None}

    def handle_starttag(self, tag, attrs):
        made = {"tag": tag, "attrs": dict(attrs), "children": [], "parent": self.at}
        self.at["children"].append(made)
        if tag not in self.EMPTY:
            self.at = made

    def handle_endtag(self, tag):
        if tag not in self.EMPTY:
            self.at = self.at["parent"]

    def handle_data(self, data):
        self.at["children"].append(data)


def find(node, wanted):
    for child in node["children"]:
        if isinstance(child, dict):
            if wanted(child):
                yield child
            yield from find(child, wanted)


def tagged(node, tag):
    return list(find(node, lambda child: child["tag"] == tag))


def text(node):
    return "".join(child if isinstance(child, str) else text(child) for child in node["children"])


def number(value):
    value = float(value)
    return f"{int(value):,}" if value.is_integer() else f"{math.floor(value * 10 + 0.5) / 10:,}"


def size(value):
    if value < 1000:
        return f"{number(value)} B"
    if value < 1e6:
        return f"{number(math.floor(value / 100 + 0.5) / 10)} kB"
    return f"{number(math.floor(value / 1e5 + 0.5) / 10)} MB"


def limited(cell, name, form):
    """The greatest value over all depths, of its budget; both planes together where both have it."""
    metrics = [metric for metric in cell["metrics"] if metric["name"] == name and (name in ("requests", "bytes") or metric["plane"] != "data")]
    if not metrics:
        return ""
    most = max(sum(values) for values in zip(*(metric["values"] for metric in metrics)))
    budgets = [metric["budget"] for metric in metrics]
    return form(most) + ("" if None in budgets else f" of {form(sum(budgets))}")


def moved(point):
    """The counts of one depth, as its row has them."""
    both = lambda cost: cost["sent"] + cost["received"]
    control, data = point["control"], point["data"]
    counts = [number(point["depth"]), number(point["seq"]), number(control["requests"]), size(both(control)), number(control["entries"])]
    counts += [number(data["requests"]), size(both(data)), number(point["round_trips"])]
    return counts + [", ".join(f"{count} {verb}" for verb, count in point["verbs"].items())]


def main():
    page = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as profile:
        browser = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}", "--dump-dom", f"{page.as_uri()}#open"]
        shown = subprocess.run(browser, check=True, capture_output=True, text=True, timeout=300).stdout
    parser = Node()
    parser.feed(shown)
    root = parser.root
    carried = page.read_text().split('<script type="application/json" id="report">')[1].split("</script>")[0]
    report = json.loads(carried)
    wrong = []

    def same(what, seen, expected):
        if seen != expected:
            wrong.append(f"{what}: the page shows {seen}, and its JSON says {expected}")

    (table,) = find(root, lambda node: node["attrs"].get("id") == "comparison")
    rows = [[text(cell) for cell in tagged(row, "td")] for row in tagged(table, "tr")][1:]
    expected = [
        [
            number(one["depth"]), one["authority"], f"{number(one['requests'])} requests", size(one["bytes"]),
            one["control"], f"{number(one['control_requests'])} requests", size(one["control_bytes"]), f"{number(one['ratio'])} ×",
        ]
        for one in report["comparisons"]
    ]
    same("the comparison", rows, expected)

    lines = {line["attrs"]["data-id"]: line for line in tagged(root, "details")}
    same("the curves", sorted(lines), sorted(cell["id"] for cell in report["cells"]))
    for cell in report["cells"]:
        line = lines.get(cell["id"])
        if not line:
            continue
        values = {node["attrs"]["data-name"]: text(node) for node in find(line, lambda node: "data-name" in node["attrs"])}
        forms = {"requests": number, "trips": number, "bytes": size, "entries": number}
        names = {"trips": "round_trips"}
        same(cell["id"], values, {name: limited(cell, names.get(name, name), form) for name, form in forms.items()})
        points = [[text(one) for one in tagged(row, "td")] for row in tagged(line, "tr")][1:]
        same(f"{cell['id']} by depth", points, [moved(point) for point in cell["points"]])

    tiles = [text(tile) for tile in find(root, lambda node: node["attrs"].get("class", "").startswith("tile "))]
    for verdict, word in (("flat", "curves flat"), ("within", "in a budget"), ("grows", "negative control"), ("failed", "fail")):
        count = sum(cell["verdict"] == verdict for cell in report["cells"])
        same(f"the tile of {verdict}", [tile for tile in tiles if tile.startswith(str(count)) and word in tile][:1] != [], True)

    if wrong or not report["cells"]:
        sys.exit("\n".join(wrong or ["the page has no curves"]))
    points = sum(len(cell["points"]) for cell in report["cells"])
    print(f"a browser shows {len(report['cells'])} curves with {points} points, as its JSON has them")


main()
