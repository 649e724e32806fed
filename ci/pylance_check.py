"""A client that knows nothing of Headwater opens a table's Lance versions: now, and as it was before three more commits."""

import csv
import json
import subprocess
import sys
import tempfile

import lance

headwater = sys.argv[1]


def run(*arguments):
    return subprocess.run([headwater, *arguments], check=True, capture_output=True, text=True).stdout


def rows(lake, table, *at):
    dataset = json.loads(run("files", lake, table, *at, "--json"))["dataset"]
    assert dataset["format"] == "lance"
    opened = lance.dataset(dataset["url"], version=int(dataset["version"]))
    assert opened.version == int(dataset["version"])
    found = opened.to_table()
    assert opened.count_rows() == found.num_rows
    return [tuple(row.values()) for row in found.to_pylist()]


with tempfile.TemporaryDirectory() as folder:
    lake = f"{folder}/lake"
    penguins = "penguins=examples/data/penguins.csv"
    run("load", lake, "--store", "lance", "--null", "NA", "--table", penguins, "--table", "airports=examples/data/airports.csv")
    for table, count in (("penguins", 344), ("airports", 3376)):
        found = rows(lake, table)
        with open(f"examples/data/{table}.csv", newline="") as source:
            expected = list(csv.reader(source))[1:]
        assert len(found) == len(expected) == count
        for have, want in zip(found, expected):
            assert len(have) == len(want)
            for value, text in zip(have, want):
                if text in ("NA", ""):
                    assert value is None, (value, text)
                elif isinstance(value, (int, float)):
                    assert value == float(text), (value, text)
                else:
                    assert value == text, (value, text)
    first = rows(lake, "penguins")
    # A mirrored table needs no version: its latest one is the last commit's, and a version's number is that commit's.
    run("load", lake, "--null", "NA", "--lineage", "mirrored", "--table", "followed=examples/data/penguins.csv")
    folder_of = json.loads(run("files", lake, "followed", "--json"))["dataset"]["url"]

    def followed(**version):
        return [tuple(row.values()) for row in lance.dataset(folder_of, **version).to_table().to_pylist()]

    assert followed() == rows(lake, "followed") == first
    run("load", lake, "--null", "NA", "--table", "followed=examples/data/penguins.csv")
    run("table", "index", lake, "followed", "year")
    assert followed() == rows(lake, "followed") == first + first
    assert lance.dataset(folder_of).version == 4 and [version["version"] for version in lance.dataset(folder_of).versions()] == [2, 3, 4]
    assert followed(version=2) == rows(lake, "followed", "--at", "2") == first
    assert len(lance.dataset(folder_of).to_table(filter="year = 2007")) == 2 * sum(row[-1] == 2007 for row in first)
    run("load", lake, "--null", "NA", "--table", penguins)
    run("load", lake, "--null", "NA", "--mode", "overwrite", "--table", penguins)
    run("table", "add-column", lake, "penguins", "--column", "note varchar")
    assert rows(lake, "penguins", "--at", "1") == first
    assert rows(lake, "penguins", "--at", "5") == first + first
    assert rows(lake, "penguins", "--at", "6") == first
    assert rows(lake, "penguins") == [row + (None,) for row in first]
    # Rows changed by key and compacted: lists of deleted rows, and fragments written anew.
    people = f"{folder}/people.csv"

    def load(lines, *options):
        with open(people, "w") as file:
            file.write("id,name\n" + "\n".join(lines) + "\n")
        run("load", lake, *options, "--table", f"people={people}")

    run("table", "create", lake, "people", "--column", "id bigint not null", "--column", "name varchar", "--key", "id")
    for start in range(0, 40, 10):
        load([f"{i},old" for i in range(start, start + 10)])
    run("table", "index", lake, "people", "id")
    load([f"{i},new" for i in range(0, 60, 3)], "--mode", "upsert")
    wanted = sorted([(i, "new") for i in range(0, 60, 3)] + [(i, "old") for i in range(40) if i % 3])
    before = rows(lake, "people")
    dataset = json.loads(run("files", lake, "people", "--json"))["dataset"]
    found = lance.dataset(dataset["url"], version=int(dataset["version"])).to_table(filter="id >= 30").to_pylist()
    assert sorted((row["id"], row["name"]) for row in found) == [row for row in wanted if row[0] >= 30]
    assert sorted(before) == wanted and before != wanted
    run("optimize", lake, "people")
    assert rows(lake, "people") == before
print(f"pylance {lance.__version__} read the same rows at eight snapshots, one with an index that is behind, and a mirrored table at its latest version")
