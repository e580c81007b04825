"""Predictions from Python are those of the command."""

import pickle
import random
import threading
import unittest

import command
import stagecraft


class Simulations(unittest.TestCase):
    def test_random_runs_give_the_document_of_the_command_or_its_message(self):
        draw = random.Random(16)
        possible = 0
        for _ in range(24):
            path, overrides = command.random_run(draw)
            words = ("simulate", path, *command.set_options(overrides))
            with self.subTest(path=path.name, overrides=overrides):
                try:
                    cfg = stagecraft.load(path, overrides)
                except stagecraft.ConfigError as error:
                    process = command.run(*words)
                    self.assertEqual(process.returncode, 2)
                    self.assertEqual(str(error) + "\n", process.stderr.replace("--set ", ""))
                    continue
                possible += 1
                document = stagecraft.simulate(cfg).to_dict()
                self.assertEqual(document, command.document(*words))
                changed = stagecraft.load(path).with_(overrides)
                self.assertEqual(changed.to_dict(), document["config"])
        self.assertGreater(possible, 3)

    def test_attributes_are_the_members_of_the_document(self):
        simulation = stagecraft.simulate(stagecraft.load(command.paper / "175b-present.yaml"))
        expected = command.document("simulate", command.paper / "175b-present.yaml")
        stages = expected.pop("stages")
        for name in set(expected) - {"schema", "config"}:
            with self.subTest(name):
                value = getattr(simulation, name)
                self.assertEqual(list(value) if isinstance(value, tuple) else value, expected[name])
        for stage, members in zip(simulation.stages, stages):
            for name, value in members.items():
                with self.subTest(name, stage=stage.stage):
                    self.assertEqual(getattr(stage, name), value)
        self.assertEqual(simulation.config.to_dict(), expected["config"])
        self.assertEqual(simulation.peak_bytes, max(stage["peak_bytes"] for stage in stages))
        self.assertEqual([dict(stage) for stage in simulation.stages], stages)
        self.assertEqual(simulation.stages[3].reserved_bytes, stages[3]["reserved_bytes"])
        simulation.stages[3]["at_peak"].clear()  # the caller's own
        self.assertEqual(simulation.to_dict()["stages"], stages)

    def test_progress_ends_with_everything_done(self):
        configs = [stagecraft.load(command.paper / "22b-full.yaml")] * 3
        heard = []
        stagecraft.simulate_many(configs, progress=lambda what, share: heard.append((what, share)))
        self.assertEqual(heard[-1], ("simulating", 1))
        heard.clear()
        stagecraft.plan("gpt-22b", "selene-a100", gpus=8, global_batch=8, fix={"tensor": 8},
                        progress=lambda what, share: heard.append(share))
        self.assertEqual(heard[-1], 1)

    def test_a_number_of_threads_that_cannot_be_is_refused_everywhere(self):
        cfg = stagecraft.load(command.paper / "22b-full.yaml")
        plan = dict(model="gpt-22b", system="selene-a100", gpus=8, global_batch=8)
        for threads in (-1, 1025):
            for call in (lambda: stagecraft.simulate_many([cfg], threads=threads),
                         lambda: stagecraft.explain(cfg, threads=threads),
                         lambda: stagecraft.plan(**plan, threads=threads),
                         lambda: stagecraft.validate("x.csv", threads=threads),
                         lambda: stagecraft.sweep({"base": cfg, "values": {}}, threads=threads)):
                with self.assertRaisesRegex(stagecraft.ConfigError, f"threads: found '{threads}'; accepted: a whole"):
                    call()

    def test_many_at_once_are_those_one_by_one_in_their_order(self):
        base = stagecraft.load(command.paper / "22b-full.yaml")
        configs = [base.with_({"batch.micro": micro, "recompute": policy})
                   for micro in (1, 2, 4) for policy in ("none", "selective", "full")]
        shares = []
        many = stagecraft.simulate_many(configs, threads=2, progress=lambda what, share: shares.append(share))
        self.assertEqual([one.iteration_seconds for one in many],
                         [stagecraft.simulate(config).to_dict()["iteration_seconds"] for config in configs])
        self.assertEqual(shares, sorted(shares))
        self.assertEqual(len({one.iteration_seconds for one in many}), len(configs))

    def test_threads_may_share_a_run_and_its_simulation(self):
        base = stagecraft.load(command.paper / "22b-present.yaml")
        simulation = stagecraft.simulate(base)
        results = []

        def work(micro):
            results.append((simulation.mfu, base.with_({"batch.micro": micro})["batch.micro"]))

        threads = [threading.Thread(target=work, args=(micro,)) for micro in (1, 2, 4, 1, 2, 4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(sorted(results), [(simulation.mfu, micro) for micro in (1, 1, 2, 2, 4, 4)])

    def test_a_plan_that_does_not_fit_is_refused_in_the_words_of_the_command(self):
        path = command.paper / "175b-present.yaml"
        overrides = {"recompute": "none", "parallel.sequence": False, "batch.micro": 4}
        process = command.run("simulate", path, "--require-fit", *command.set_options(overrides))
        self.assertEqual(process.returncode, 3)
        with self.assertRaises(stagecraft.DoesNotFit) as caught:
            stagecraft.simulate(stagecraft.load(path, overrides), require_fit=True)
        self.assertIn(str(caught.exception), process.stderr.replace("--", ""))
        self.assertIsInstance(caught.exception, stagecraft.Error)

    def test_a_simulation_can_be_sent_to_another_process(self):
        simulation = stagecraft.simulate(stagecraft.load("22b-full", {"batch.micro": 2}))
        self.assertEqual(pickle.loads(pickle.dumps(simulation)).to_dict(), simulation.to_dict())

    def test_explain_and_layer_give_the_documents_of_their_commands(self):
        path = command.paper / "22b-present.yaml"
        cfg = stagecraft.load(path)
        self.assertEqual(stagecraft.layer(cfg), command.document("layer", path))
        self.assertEqual(stagecraft.explain(cfg), command.document("explain", path))


if __name__ == "__main__":
    unittest.main()
