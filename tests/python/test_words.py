"""Bubble, exposed communication and host wait: one word has one number, whoever says it."""

import html.parser
import pathlib
import re
import tempfile
import unittest

import command
import stagecraft

# By the name in `simulate --json`: those of a trace's phases, and of the columns of a report's table.
phases = {"bubble": "bubble", "pipeline_transfer": "transfer", "data_parallel": "data_parallel", "host_wait": "host_wait"}
columns = {name: phase.replace("_", " ") for name, phase in phases.items()}

# Small, so that the host is slower than the device; with stages and replicas, so that there is something to wait for.
run = command.paper / "175b-present-twin.yaml"
behind = {
    "parallel.data": 2,
    "batch.global": 32,
    "software.host.kernel.value": "60 us",
    "system.calibration.iteration_overhead.value": "2 ms",
}
overhead = 2e-3  # s
slow = {"value": {"latency": "0 us", "bandwidth": "1 GB/s"}, "source": "invented"}
# Units on slow links, which no computation hides.
units = {
    "parallel": {"tensor": 1, "pipeline": 1, "data": 8},
    "schedule": "1f1b",
    "batch.global": 16,
    "sharding": "fsdp2",
    "recompute": "none",
    "system": {"base": "dgx-h100", "node": {"all_gather": slow, "reduce_scatter": slow}},
    "system.calibration.iteration_overhead.value": "2 ms",
}
ahead = {**behind, "system.node.host_speed.value": 1000}


class Tables(html.parser.HTMLParser):
    """The cells of a page's table of stages, row by row, and its caption."""

    def __init__(self):
        super().__init__()
        self.rows, self.caption, self.where = [], "", ""

    def handle_starttag(self, tag, attributes):
        if tag == "table":
            self.where = tag if ("class", "stages") in attributes else ""
        elif self.where and tag == "tr":
            self.rows.append([])
        elif self.where and tag in ("th", "td", "caption"):
            self.where = tag
            if tag != "caption":
                self.rows[-1].append("")

    def handle_endtag(self, tag):
        self.where = "" if tag == "table" else self.where and "table"

    def handle_data(self, text):
        if self.where == "caption":
            self.caption += text
        elif self.where in ("th", "td"):
            self.rows[-1][-1] += text


def seconds_of_page(page, stage):
    """A stage's times in a report, by column, and half of the last digit in which they are shown."""
    tables = Tables()
    tables.feed(page)
    unit = {"s": 1, "ms": 1e-3, "us": 1e-6}[tables.caption.split("time in ")[1].split(",")[0]]
    heading, *rows = tables.rows
    row = next(row for row in rows if row[0] == str(stage))
    texts = {name: row[heading.index(column)] for name, column in columns.items()}
    digits = max(len(text.partition(".")[2]) for text in texts.values())
    return {name: float(text) * unit for name, text in texts.items()}, 0.5001 * unit * 10**-digits


def waiting_of_page(page):
    """The card of waiting, in percent of the iteration."""
    return float(re.search(r"Waiting of the busiest stage</dt><dd class=\"value\">([\d.]+)\s%", page)[1])


class Words(unittest.TestCase):
    def compare(self, said, expected, delta):
        # A trace does not say which of several messages was waited for: what it counts as a transfer, while any of
        # them is on its way, the prediction counts as bubble until the one that ends last has started.
        both = ("bubble", "pipeline_transfer")
        self.assertAlmostEqual(sum(map(said.get, both)), sum(map(expected.get, both)), delta=2 * delta)
        for name in set(phases) - set(both):
            self.assertAlmostEqual(said[name], expected[name], delta=delta, msg=name)

    def check(self, overrides):
        options = command.set_options(overrides)
        simulated = command.document("simulate", run, *options)
        expected = simulated["breakdown_seconds"]
        self.assertAlmostEqual(sum(expected.values()), simulated["iteration_seconds"], delta=1e-9)
        self.assertEqual(simulated["host_wait_seconds"], expected["host_wait"])

        # Waiting is bubble and communication that nothing hides: all but what the stage computes and the overhead.
        waiting = sum(expected[name] for name in ("bubble", "pipeline_transfer", "data_parallel", "offload"))
        self.assertAlmostEqual(simulated["waiting_seconds"], waiting, delta=1e-9)
        self.assertAlmostEqual(simulated["ideal_seconds"] + waiting + overhead, simulated["iteration_seconds"], delta=1e-9)
        text = command.run("simulate", run, *options).stdout
        said = re.search(r"waiting \(bubble and exposed communication\): ([\d.]+) s", text)[1]
        self.assertAlmostEqual(float(said), waiting, delta=5.001e-4)

        busiest = command.document("explain", run, *options)["busiest_stage"]
        self.assertAlmostEqual(busiest["waiting_seconds"], waiting, delta=1e-9)
        for name in phases:
            self.assertAlmostEqual(busiest["seconds"][name], expected[name], delta=1e-9, msg=name)

        cfg = stagecraft.load(run, overrides)
        self.assertEqual(stagecraft.simulate(cfg).breakdown_seconds, expected)
        self.assertEqual(stagecraft.simulate(cfg).waiting_seconds, simulated["waiting_seconds"])
        for detail in ("chunk", "op"):
            with self.subTest(detail), tempfile.TemporaryDirectory() as folder:
                file = pathlib.Path(folder, "trace.h5")
                done = command.run("simulate", run, *options, "--trace", file, "--detail", detail)
                self.assertEqual(done.returncode, 0, done.stderr)

                compared = command.document("compare", file, file)
                self.assertEqual(compared["stage"], busiest["stage"])
                parts = {part["phase"]: part["seconds"] for part in compared["phases"]}
                said = {name: parts.get(phase, (0, 0))[0] for name, phase in phases.items()}
                # Of units, rows of ops and the sums of passes are a few microseconds apart.
                apart = 1e-5 if detail == "op" and "sharding" in overrides else 1e-9
                self.compare(said, expected, apart)
                self.assertAlmostEqual(compared["waiting_seconds"][0], waiting, delta=apart)
                both = sum(part[0] for part in parts.values())
                self.assertAlmostEqual(both, simulated["iteration_seconds"], delta=1e-9)

                page = stagecraft.report(file).html
                shown, half = seconds_of_page(page, busiest["stage"])
                self.compare(shown, expected, half + apart)
                percent = 100 * waiting / simulated["iteration_seconds"]
                self.assertAlmostEqual(waiting_of_page(page), percent, delta=0.0501)

                ops = stagecraft.read_trace(file).ops
                waits = ops[(ops["stage"] == busiest["stage"]) & (ops["phase"] == "host_wait")]
                self.assertAlmostEqual(waits["duration"].sum() * 1e-12, expected["host_wait"], delta=1e-9)
        return expected

    def test_the_host_is_behind(self):
        expected = self.check(behind)
        for name in phases:
            self.assertGreater(expected[name], 0, name)

    def test_units_wait_for_their_gathers(self):
        expected = self.check(units)
        self.assertGreater(expected["data_parallel"], 0)

    def test_the_host_is_ahead(self):
        self.assertEqual(self.check(ahead)["host_wait"], 0)


if __name__ == "__main__":
    unittest.main()
