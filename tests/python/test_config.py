"""Runs are read, changed and refused as the command does."""

import copy
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
import types
import unittest

import command
import numpy
import stagecraft


class Configs(unittest.TestCase):
    def test_a_mapping_a_file_and_a_shipped_file_give_the_same_run(self):
        path = command.paper / "175b-present.yaml"
        read = stagecraft.load(path)
        again = stagecraft.load(read.to_dict())
        self.assertEqual(again.to_dict(), read.to_dict())
        self.assertEqual(stagecraft.load("stagecraft:configs/paper/175b-present.yaml").to_dict(), read.to_dict())
        named = {"model": "stagecraft:configs/models/gpt-22b.yaml", "system": "stagecraft:configs/systems/selene-a100.yaml",
                 "parallel": {"tensor": 8}, "batch": {"global": 4}}
        self.assertEqual(stagecraft.load(named)["model.hidden"], 6144)  # Korthikanti et al. 2022, table 3
        for wrong in ("175b-present.yaml", [read], None):
            with self.assertRaisesRegex(TypeError, "accepted: a Config"):
                stagecraft.simulate(wrong)
        self.assertEqual(read.to_yaml(), command.run("simulate", path, "--print-config").stdout)
        self.assertEqual(read["parallel.pipeline"], 8)  # table 3 of the paper
        with self.assertRaisesRegex(KeyError, "parallel.pipelines; did you mean 'parallel.pipeline'"):
            read["parallel.pipelines"]
        self.assertEqual(stagecraft.load("175b-present").to_dict(), read.to_dict())
        with self.assertRaisesRegex(stagecraft.ConfigError, "did you mean '175b-present'"):
            stagecraft.load("175b-presnt")

    def test_values_may_be_numpys_ranges_and_views_of_mappings(self):
        base = stagecraft.load(command.paper / "175b-present.yaml")
        changed = base.with_({"parallel.tensor": numpy.int64(4), "parallel.sequence": numpy.bool_(False)})
        self.assertEqual((changed["parallel.tensor"], changed["parallel.sequence"]), (4, False))
        keys = {**base.to_dict(), "batch": types.MappingProxyType({"global": numpy.int64(128), "micro": 1})}
        self.assertEqual(stagecraft.load(keys)["batch.global"], 128)
        for axis in (range(1, 3), numpy.array([1, 2])):
            frame = stagecraft.sweep({"base": command.paper / "22b-full.yaml", "values": {"batch.micro": axis}})
            self.assertEqual(list(frame["batch.micro"]), [1, 2])
        with self.assertRaisesRegex(TypeError, "a set; accepted: numbers, texts, lists and mappings"):
            base.with_({"parallel.tensor": {4}})

    def test_a_later_value_of_a_key_replaces_an_earlier_one(self):
        base = stagecraft.load(command.paper / "175b-present.yaml")
        changed = base.with_({"parallel.tensor": 4, "system": "dgx-h100"}).with_({"parallel.tensor": 2})
        self.assertEqual(changed["parallel.tensor"], 2)
        self.assertEqual(changed["system.name"], stagecraft.load(
            command.paper / "175b-present.yaml", {"system": "dgx-h100"})["system.name"])
        self.assertEqual(base["parallel.tensor"], 8)

    def test_a_stack_by_name_is_no_change_of_it(self):
        path = command.paper / "175b-present.yaml"
        changed = stagecraft.load(path).with_({"software": "megatron-core"})
        self.assertEqual(stagecraft.simulate(changed).to_dict(),
                         command.document("simulate", path, "--set", "software=megatron-core"))

    def test_a_run_can_be_sent_to_another_process(self):
        cfg = stagecraft.load(command.paper / "22b-full.yaml").with_({"parallel.tensor": 4})
        wider = {"model.hidden": 12288}
        for again in (pickle.loads(pickle.dumps(cfg)), copy.deepcopy(cfg)):
            self.assertEqual(again.to_dict(), cfg.to_dict())
            self.assertEqual(again.with_(wider).to_dict(), cfg.with_(wider).to_dict())
            self.assertEqual((again, hash(again)), (cfg, hash(cfg)))
        self.assertNotEqual(cfg, cfg.with_(wider))
        self.assertTrue("parallel.tensor" in cfg and "parallel.tensr" not in cfg and 0 not in cfg)
        self.assertEqual(list(cfg), list(cfg.to_dict()))
        slower = cfg.with_({"system.network.bandwidth": "10 GB/s"})
        again = pickle.loads(pickle.dumps(slower))
        self.assertFalse(again["system.validated"])  # as of every system of which a constant was set
        self.assertEqual(stagecraft.simulate(again).iteration_seconds, stagecraft.simulate(slower).iteration_seconds)

    def test_paths_may_be_bytes_and_need_not_be_utf_8(self):
        expected = stagecraft.load(command.paper / "22b-full.yaml").to_dict()
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(os.fsencode(folder), b"caf\xe9.yaml")
            with open(path, "w") as file:
                file.write(stagecraft.load(command.paper / "22b-full.yaml").to_yaml())
            for form in (path, os.fsdecode(path)):
                cfg = stagecraft.load(form)
                self.assertEqual(cfg.to_dict(), expected)
                table = stagecraft.sweep({"base": form, "values": {"batch.micro": [1, 2]}})
                self.assertTrue(all(table["valid"]))
                trace = os.path.join(os.path.dirname(form), b"t\xe9.h5" if isinstance(form, bytes) else "t\udce9.h5")
                stagecraft.write_trace(cfg, trace)
                self.assertEqual(stagecraft.read_trace(trace).meta["plan"], stagecraft.simulate(cfg).plan)
            with self.assertRaises(stagecraft.ConfigError) as caught:
                stagecraft.load(path + b".missing")
            self.assertIn("caf\udce9.yaml.missing", str(caught.exception))
        with self.assertRaisesRegex(stagecraft.ConfigError, "a path, which has no NUL"):
            stagecraft.load("a\0b.yaml")
        with self.assertRaisesRegex(stagecraft.ConfigError, r"batch.mi\\x00cro"):
            stagecraft.load(command.paper / "22b-full.yaml", {"batch.mi\0cro": 1})

    def test_problems_have_their_places_as_attributes(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "run.yaml")
            with open(path, "w") as file:
                file.write("model: gpt3-175b\nsystem: selene-a100\nparallel: {tensor: 5, pipelines: 8}\n"
                           "batch: {global: 64}\n")
            with self.assertRaises(stagecraft.ConfigError) as caught:
                stagecraft.load(path)
            self.assertEqual(str(caught.exception) + "\n", command.run("simulate", path).stderr)
        error = caught.exception
        self.assertIsInstance(error, ValueError)
        self.assertIsInstance(error, stagecraft.Error)
        # Line and column of `pipelines` and of `5`, counted by hand.
        self.assertEqual({(p.file, p.line, p.column, p.key) for p in error.problems},
                         {(path, 3, 23, "parallel.pipelines"), (path, 3, 20, "parallel.tensor")})
        self.assertEqual([p.found for p in error.problems if p.key == "parallel.tensor"], ["'5'"])
        self.assertEqual(pickle.loads(pickle.dumps(error)).problems, error.problems)

    def test_a_key_that_was_set_is_named_as_the_command_names_it_without_its_option(self):
        path = command.paper / "175b-present.yaml"
        with self.assertRaises(stagecraft.ConfigError) as caught:
            stagecraft.load(path).with_({"parallel.tensor": 5, "recompute": "som"})
        process = command.run("simulate", path, "--set", "parallel.tensor=5", "--set", "recompute=som")
        self.assertEqual(str(caught.exception) + "\n", process.stderr.replace("--set ", ""))


class Processes(unittest.TestCase):
    def test_the_entry_point_is_the_program(self):
        for words in (["simulate", str(command.paper / "22b-full.yaml")], ["simulate", "missing.yaml"], ["--help"]):
            ours = subprocess.run([sys.executable, "-m", "stagecraft", *words], capture_output=True, text=True)
            theirs = command.run(*words)
            self.assertEqual((ours.returncode, ours.stdout, ours.stderr),
                             (theirs.returncode, theirs.stdout, theirs.stderr))

    def test_an_interrupt_ends_a_long_call_soon(self):
        configs = [stagecraft.load(command.paper / "175b-present.yaml")] * 400_000
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        begin = time.monotonic()
        with self.assertRaises(KeyboardInterrupt):
            stagecraft.simulate_many(configs, threads=2)
        self.assertLess(time.monotonic() - begin, 20)  # half of what all of them take on an idle machine

    def test_what_a_progress_function_raises_ends_the_call(self):
        configs = [stagecraft.load(command.paper / "175b-present.yaml")] * 200_000

        def refuse(what, share):
            raise LookupError(what)

        with self.assertRaisesRegex(LookupError, "simulating"):
            stagecraft.simulate_many(configs, progress=refuse)

    def test_a_forked_process_simulates(self):
        cfg = stagecraft.load(command.paper / "22b-full.yaml")
        expected = stagecraft.simulate_many([cfg] * 4, threads=2)[0].iteration_seconds
        child = os.fork()
        if child == 0:
            same = stagecraft.simulate_many([cfg] * 4, threads=2)[3].iteration_seconds == expected
            os._exit(0 if same else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)

    def test_a_fork_waits_until_no_thread_is_inside_a_call(self):
        cfg = stagecraft.load(command.paper / "22b-full.yaml")
        expected = stagecraft.simulate(cfg).iteration_seconds
        space = {"base": command.paper / "22b-full.yaml", "values": {"batch.global": list(range(4, 2000, 4))}}
        is_over = threading.Event()
        finished = []

        def again_and_again(call):
            while not is_over.is_set():
                call()
            finished.append(call)

        calls = (lambda: stagecraft.simulate_many([cfg] * 500, threads=2),
                 lambda: stagecraft.simulate(cfg.with_({"batch.micro": 2})).to_dict(),
                 lambda: stagecraft.sweep(space, threads=2),
                 lambda: stagecraft.explain(cfg))
        workers = [threading.Thread(target=again_and_again, args=(call,)) for call in calls]
        for worker in workers:
            worker.start()
        for _ in range(20):
            time.sleep(0.03)
            child = os.fork()
            if child == 0:
                signal.alarm(60)  # a child that waits forever is killed
                same = stagecraft.simulate_many([cfg.with_({"batch.micro": 4})] * 4, threads=2)[3].fits is not None
                os._exit(0 if same and stagecraft.simulate(cfg).iteration_seconds == expected else 1)
            self.assertEqual(os.waitpid(child, 0)[1], 0)
        is_over.set()
        for worker in workers:
            worker.join()
        self.assertEqual(len(finished), len(calls))  # no call failed because of a fork

    def test_calls_print_nothing(self):
        text = ("import stagecraft\n"
                "cfg = stagecraft.load('stagecraft:configs/paper/22b-full.yaml', {'system': 'dgx-h100'})\n"
                "stagecraft.simulate(cfg).to_dict(); stagecraft.explain(cfg); stagecraft.layer(cfg)\n"
                "assert cfg.with_({'parallel.sequence': True, 'parallel.tensor': 1}).warnings\n")
        process = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
        self.assertEqual((process.returncode, process.stdout, process.stderr), (0, "", ""))


if __name__ == "__main__":
    unittest.main()
