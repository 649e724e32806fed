"""A client that knows nothing of Headwater reads a snapshot's files: now, and as it was before two more commits."""

import csv
import subprocess
import sys
import tempfile

import duckdb

headwater = sys.argv[1]


def run(*arguments):
    return subprocess.run([headwater, *arguments], check=True, capture_output=True, text=True).stdout


def rows(lake, table, *at):
    files = run("files", lake, table, *at).split()
    assert files, "a snapshot with rows has files"
    return duckdb.read_parquet(files).fetchall(), files


with tempfile.TemporaryDirectory() as folder:
    lake = f"{folder}/lake"
    run("load", lake, "--null", "NA", "--table", "penguins=examples/data/penguins.csv", "--table", "airports=examples/data/airports.csv")
    for table, count in (("penguins", 344), ("airports", 3376)):
        found, _ = rows(lake, table)
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
    first, _ = rows(lake, "penguins")
    run("load", lake, "--null", "NA", "--table", "penguins=examples/data/penguins.csv")
    run("load", lake, "--null", "NA", "--mode", "overwrite", "--table", "penguins=examples/data/penguins.csv")
    assert rows(lake, "penguins", "--at", "1")[0] == first
    assert len(rows(lake, "penguins", "--at", "2")[0]) == 688
    assert rows(lake, "penguins")[0] == first
print(f"DuckDB {duckdb.__version__} read the same rows at three snapshots")
