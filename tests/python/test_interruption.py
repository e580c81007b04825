"""Ctrl-C ends what takes long."""

import os
import signal
import threading
import time
import unittest

import command
import stagecraft


class Interruptions(unittest.TestCase):
    def end_by_ctrl_c(self, call):
        """Sends the process what Ctrl-C sends, half a second after `call` begins; it must end soon, and not before."""
        timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
        begin = time.monotonic()
        timer.start()
        try:
            with self.assertRaises(KeyboardInterrupt):
                call()
        finally:
            timer.join()
        seconds = time.monotonic() - begin
        self.assertGreaterEqual(seconds, 0.5)
        # The machine may be busy, and sanitizers slow; none of these ends by itself within minutes.
        self.assertLess(seconds, 900 if "asan" in os.environ.get("LD_PRELOAD", "") else 20)

    def test_ctrl_c_ends_long_calls(self):
        run = stagecraft.load(command.paper / "175b-present.yaml")
        values = {"batch.global": list(range(64, 40_000, 8)), "recompute": ["none", "selective", "full"]}
        sweep = {"base": str(command.paper / "175b-present.yaml"), "values": values}
        plan = dict(model=command.configs / "models/gpt3-175b.yaml", system="selene-a100", gpus=4096, global_batch=4096)
        calls = {
            "sweep": lambda: stagecraft.sweep(sweep),
            "schedule": lambda: stagecraft.schedule("searched", 8, 32, weight_gradient=0.7, transfer=0.3, seconds=600,
                                                    iterations=1_000_000_000),
            "plan": lambda: stagecraft.plan(**plan),
        }
        for name, call in calls.items():
            with self.subTest(name):
                self.end_by_ctrl_c(call)
        self.assertGreater(stagecraft.simulate(run).iteration_seconds, 0)  # nothing is left behind


if __name__ == "__main__":
    unittest.main()
