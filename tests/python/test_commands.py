"""What other commands compute, and files: the same from Python as from the command."""

import os
import pathlib
import pickle
import shlex
import tempfile
import unittest

import command
import numpy
import stagecraft
import stagecraft.plots
from stagecraft._words import options
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure


def without_seconds(document):
    return {key: value for key, value in document.items() if key != "seconds"}


class Documents(unittest.TestCase):
    small = dict(model=command.configs / "models/gpt-22b.yaml", system="selene-a100", gpus=8, global_batch=8)

    def words(self, *more):
        return ("plan", self.small["model"], "--system", "selene-a100", "--gpus", 8, "--global-batch", 8, *more)

    def test_plan_gives_the_document_of_its_command(self):
        found = stagecraft.plan(**self.small, top=3, fix={"tensor": [4, 8], "recompute": "selective"})
        expected = command.document(*self.words("--top", 3, "--fix", "tensor=4,8", "--fix", "recompute=selective"))
        self.assertEqual(without_seconds(found), without_seconds(expected))
        best = found["best"][0]
        simulation = stagecraft.simulate(stagecraft.load(best["config"]))
        self.assertEqual(simulation.iteration_seconds, best["iteration_seconds"])
        axes = stagecraft.plots.front(found, FigureCanvasAgg(Figure()).figure.subplots())
        self.assertEqual([len(line.get_xdata()) for line in axes.lines], [3, len(found["pareto"])])

    def test_documents_are_tables_and_pickle_and_their_key_errors_name_the_nearest_key(self):
        found = stagecraft.plan(**self.small, top=3, fix={"tensor": [4, 8]})
        again = pickle.loads(pickle.dumps(found))
        self.assertEqual(again, found)
        for document in (again, again["best"][0]):
            with self.assertRaisesRegex(KeyError, "; did you mean '(iteration_seconds|pareto)'"):
                document["paret" if document is again else "iteration_second"]
        cfg = stagecraft.load("175b-present")
        with self.assertRaisesRegex(KeyError, "; did you mean 'activations'"):
            stagecraft.simulate(cfg).stages[0].at_peak["activation"]
        with self.assertRaisesRegex(stagecraft.ConfigError, "^rank: found 'cost' without price; "):
            stagecraft.plan(**self.small, rank="cost")
        with self.assertRaisesRegex(stagecraft.ConfigError, "^kind: found '1f1'"):
            stagecraft.schedule("1f1", 4, 8)
        frame = found.to_dataframe()
        self.assertEqual(list(frame["iteration_seconds"]), [best["iteration_seconds"] for best in found["best"]])
        self.assertEqual(list(frame["config.parallel.tensor"]),
                         [best["config"]["parallel"]["tensor"] for best in found["best"]])
        self.assertEqual(len(found.to_dataframe("pareto")), len(found["pareto"]))
        with self.assertRaisesRegex(ValueError, "found 'seconds'; accepted: .*best"):
            found.to_dataframe("seconds")
        run = stagecraft.load(command.paper / "22b-present.yaml")
        explained = stagecraft.explain(run)
        self.assertEqual(len(explained.to_dataframe()), len(explained["changes"]))

    def test_plan_refuses_in_the_words_of_its_command(self):
        for error, arguments, more in (
            (stagecraft.ConfigError, {"fix": {"tensor": 3}}, ("--fix", "tensor=3")),
            (stagecraft.ConfigError, {"margin": "much"}, ("--margin", "much")),
            (stagecraft.ConfigError, {"safety": 1.5}, ("--safety", "1.5")),
            (stagecraft.DoesNotFit, {"set": {"memory.reserve": "79 GiB"}}, ("--set", "memory.reserve=79 GiB")),
        ):
            with self.subTest(arguments), self.assertRaises(error) as caught:
                stagecraft.plan(**self.small, **arguments)
            self.assertNotIn("--", str(caught.exception))
            self.assertIn(str(caught.exception), command.run(*self.words(*more)).stderr.replace("--", ""))
        problem = self.problem_of(fix={"tensor": 3})
        self.assertEqual((problem.key, problem.found), ("fix", "'tensor=3'"))

    def problem_of(self, **arguments):
        try:
            stagecraft.plan(**self.small, **arguments)
        except stagecraft.ConfigError as error:
            return error.problems[0]

    def test_schedule_has_the_bubble_of_the_closed_form(self):
        for p, m in ((2, 4), (4, 8), (8, 64)):
            # Narayanan et al. 2021, section 2.2: (p - 1) / m of the ideal time.
            self.assertAlmostEqual(stagecraft.schedule("1f1b", p, m)["bubble_fraction"], (p - 1) / m)
        self.assertEqual(stagecraft.schedule("zbv", 4, 8, weight_gradient=0.5),
                         command.document("schedule", "--schedule", "zbv", "-p", 4, "-n", 8, "--weight-gradient", 0.5))

    def test_the_line_of_the_capacity_is_in_gib_whatever_its_unit(self):
        run = stagecraft.load(command.paper / "22b-full.yaml")
        for memory, gib in (("85899345921 B", 80), ("83886592 KiB", 80.000488), ("85 GB", 79.162421)):
            simulation = stagecraft.simulate(run.with_({"system.accelerator.memory": memory}))
            axes = stagecraft.plots.memory_by_stage(simulation, FigureCanvasAgg(Figure()).figure.subplots())
            self.assertAlmostEqual(axes.lines[0].get_ydata()[0], gib, places=5)

    def test_a_schedule_takes_the_cost_of_a_whole_backward(self):
        # (p + m - 1)(forward + backward) by hand.
        self.assertEqual(stagecraft.schedule("1f1b", 4, 8, forward=1, backward=3)["makespan"], 11 * 4)

    def test_a_report_takes_a_name_that_begins_with_a_dash_as_a_file(self):
        with self.assertRaisesRegex(stagecraft.Error, "--help: there is no such file"):
            stagecraft.report("--help")
        self.assertIn("<html", stagecraft.report(stagecraft.load(command.paper / "22b-full.yaml"), ranks=range(1)).html)

    def test_imports_are_those_of_the_command(self):
        flags = ("--num-layers 24 --hidden-size 1024 --num-attention-heads 16 --seq-length 1024 "
                 "--max-position-embeddings 1024 --micro-batch-size 4 --global-batch-size 16 --fp16 "
                 "--tensor-model-parallel-size 2").split()
        imported = stagecraft.import_megatron(flags, world_size=8)
        self.assertEqual(stagecraft.import_megatron(shlex.join(flags), world_size=8).text, imported.text)
        process = command.run("import", "megatron", "--world-size", 8, "--", *flags)
        self.assertEqual(imported.text, process.stdout)
        self.assertEqual("".join(f"note: {note}\n" for note in imported.notes), process.stderr)
        self.assertEqual(imported.config["parallel.data"], 4)  # 8 ranks, tensor 2
        config = {"model_type": "gpt2", "n_layer": 12, "n_embd": 768, "n_head": 12, "n_positions": 1024,
                  "vocab_size": 50257, "activation_function": "gelu_new", "torch_dtype": "float32"}
        model = stagecraft.import_huggingface(config)
        self.assertEqual((model.model["layers"], model.model["hidden"]), (12, 768))
        run = stagecraft.load({"model": model.model, "system": "selene-a100", "batch": {"global": 8},
                               "schedule": "1f1b"})
        self.assertGreater(stagecraft.simulate(run).peak_bytes, 0)
        with self.assertRaises(stagecraft.ConfigError):
            stagecraft.import_huggingface({**config, "model_type": "no such model"})

    def test_a_framework_s_file_is_a_run(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "accelerate.yaml"
            file.write_text("distributed_type: FSDP\nmixed_precision: bf16\nnum_processes: 16\n"
                            "fsdp_config: {fsdp_version: 2, fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP}\n")
            run = stagecraft.import_framework("accelerate", file, model="llama3-8b", micro_batch=1, system="dgx-h100",
                                              settings={"num_processes": 32})
        self.assertEqual(run.config["parallel.data"], 32)
        self.assertEqual(run.config["sharding.kind"], "fsdp2")


class Tables(unittest.TestCase):
    def test_a_sweep_is_a_table_with_the_numbers_of_simulate(self):
        run = command.paper / "22b-full.yaml"
        keys = {"batch.micro": [1, 2, 4], "recompute": ["none", "full"], "parallel.data": [1, 2]}
        frame = stagecraft.sweep({"base": str(run), "values": keys}, threads=2)
        self.assertEqual(len(frame), 12)
        # The run has 4 sequences per iteration: two replicas cannot have microbatches of 4.
        possible = frame["parallel.data"] * frame["batch.micro"] <= 4
        self.assertEqual(list(frame["valid"]), list(possible))
        self.assertEqual(len(frame[frame["valid"] & ~frame["fits"].fillna(True)]),
                         sum(one == False for one in frame["fits"].dropna()))
        for _, row in frame[possible].iterrows():
            cfg = stagecraft.load(run, {key: row[key] for key in keys})
            simulation = stagecraft.simulate(cfg)
            self.assertEqual((row["iteration_seconds"], row["peak_bytes"], row["plan"]),
                             (simulation.iteration_seconds, simulation.peak_bytes, simulation.plan))
        self.assertEqual(frame.attrs["units"]["iteration_seconds"], "s")
        self.assertEqual(frame.attrs["document"]["rows"], 12)

    def test_the_base_of_a_sweep_is_a_run_a_file_of_the_package_or_a_mapping(self):
        shipped = "stagecraft:configs/paper/22b-full.yaml"
        cfg = stagecraft.load(shipped)
        tables = [stagecraft.sweep({"base": base, "values": {"batch.micro": [1, 2]}})
                  for base in (shipped, cfg, cfg.to_dict(), command.paper / "22b-full.yaml")]
        for table in tables:
            self.assertEqual([cfg.with_({"batch.micro": micro})["batch.micro"] for micro in (1, 2)],
                             list(table["batch.micro"]))
            self.assertEqual([stagecraft.simulate(cfg.with_({"batch.micro": micro})).iteration_seconds
                              for micro in (1, 2)], list(table["iteration_seconds"]))

    def test_keys_that_follow_from_others_follow_in_sweeps_of_a_run_too(self):
        # model.ffn_hidden is four times model.hidden unless it is given.
        cfg = stagecraft.load(command.paper / "22b-full.yaml", {"batch.global": 8}).with_({"batch.micro": 2})
        table = stagecraft.sweep({"base": cfg, "values": {"model.hidden": [6144, 12288]}})
        for hidden, seconds in zip((6144, 12288), table["iteration_seconds"]):
            words = command.set_options({"batch.global": 8, "batch.micro": 2, "model.hidden": hidden})
            document = command.document("simulate", command.paper / "22b-full.yaml", *words)
            self.assertEqual(seconds, document["iteration_seconds"])

    def test_columns_of_a_sweep_are_the_arrays_of_the_module_not_copies(self):
        table = stagecraft.sweep({"base": str(command.paper / "22b-full.yaml"), "values": {"batch.micro": [1, 2]}})
        for name in ("iteration_seconds", "peak_bytes"):
            owner = table[name].to_numpy(copy=False)
            while getattr(owner, "base", None) is not None:
                owner = owner.base
            self.assertNotIsInstance(owner, numpy.ndarray, name)  # numpy does not own the memory

    def test_money_and_energy_are_columns_when_asked(self):
        rates = {"price": "2 EUR/gpu-hour", "power": "500W", "pue": 1.2, "gpu_hours_per_failure": "40k"}
        keys = {"batch.micro": [1, 2]}
        frame = stagecraft.sweep({"base": str(command.paper / "22b-full.yaml"), "values": keys}, **rates)
        seconds = frame["iteration_seconds"]
        self.assertEqual(frame.attrs["units"]["cost_per_iteration"], "EUR")
        for cost, joules, duration in zip(frame["cost_per_iteration"], frame["joules_per_iteration"], seconds):
            self.assertAlmostEqual(cost, 2 * 8 * duration / 3600)
            self.assertAlmostEqual(joules, 500 * 1.2 * 8 * duration)
        self.assertTrue(all(frame["goodput"].between(0.9, 1)))
        best = stagecraft.plan(**Documents.small, top=1, **rates)["best"][0]
        self.assertAlmostEqual(best["operation"]["joules_per_iteration"],
                               500 * 1.2 * Documents.small["gpus"] * best["iteration_seconds"])
        self.assertEqual(options(price={"a": 2.5, "b": 5}), ["--price=a=2.5,b=5"])
        slower = stagecraft.plan(**Documents.small, top=1, checkpoint_time="600 s", restart_time="3600 s", **rates)
        self.assertLess(slower["best"][0]["operation"]["goodput"]["share"], best["operation"]["goodput"]["share"])

    def test_a_trace_is_read_as_it_was_written(self):
        cfg = stagecraft.load(command.paper / "175b-present.yaml")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "t.h5")
            stagecraft.write_trace(cfg, path)
            trace = stagecraft.read_trace(path)
            page = stagecraft.report(path, title="A title")
            with self.assertRaises(stagecraft.Error):
                stagecraft.read_trace(os.path.join(folder, "missing.h5"))
        simulation = stagecraft.simulate(cfg)
        self.assertEqual(trace.meta["plan"], simulation.plan)
        ends = trace.ops["start"] + trace.ops["duration"]
        self.assertEqual(ends.max(), round(simulation.iteration_seconds * 1e12))
        categories = trace.memory.drop(columns=["rank", "stage", "time", "workspace"]).sum(axis=1)
        for stage in simulation.stages:
            held = categories[trace.memory["stage"] == stage.stage].max()
            self.assertEqual(held, stage.peak_bytes - stage.at_peak["workspace"])
        self.assertIn("A title", page.html)
        self.assertIn("<iframe", page._repr_html_())

    def test_validate_and_fit_give_the_documents_of_their_commands(self):
        data = command.configs.parent / "experiments/validation/table5.csv"
        found = stagecraft.validate(data)
        expected = command.document("validate", data)
        self.assertEqual(found.summary, expected["summary"])
        predicted = [row["predicted_seconds"] for row in expected["rows"]]
        self.assertEqual(list(found.rows["predicted_seconds"]), predicted)
        # Korthikanti et al. 2022, table 5: seconds of the eight rows.
        self.assertEqual(sorted(found.rows["measured_seconds"]),
                         sorted([1.42, 1.10, 18.13, 13.75, 49.05, 37.83, 94.42, 71.49]))
        axes = stagecraft.plots.predicted_against_measured(found, FigureCanvasAgg(Figure()).figure.subplots())
        self.assertEqual(sorted(axes.lines[0].get_xdata()), sorted(found.rows["measured_seconds"]))
        self.assertEqual(list(axes.lines[0].get_ydata()), predicted)
        run = command.paper / "22b-present.yaml"
        fitted = stagecraft.fit(run, measured="1.13s")
        notes = fitted.pop("notes")
        self.assertEqual(fitted, command.document("fit", run, "--measured", "1.13s"))
        self.assertEqual(notes, [])


if __name__ == "__main__":
    unittest.main()
