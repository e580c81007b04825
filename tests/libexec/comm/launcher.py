"""Starts the processes of a job with torchrun's variables, and ends the others when one fails, as torchrun does."""

import os
import socket
import subprocess
import sys
import threading
import time

LAUNCHERS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_", "NCCL_COMM_ID", "TORCHELASTIC", "OMPI_", "PMI", "SLURM_")
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHERS)}


def require(condition, what, *shown):
    if not condition:
        print(what, *shown, sep="\n")
        sys.exit(1)


class Job:
    """`words`: the program and its arguments. `variables`: as well as torchrun's."""

    def __init__(self, size, words, has_master=True, **variables):
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            port = one.getsockname()[1]
        self.begin = time.monotonic()
        self.processes = []
        for rank in range(size):
            place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": size, **variables}
            if has_master:
                place |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
            self.processes.append(
                subprocess.Popen(
                    [str(word) for word in words],
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                    env={**CLEAN, **{name: str(value) for name, value in place.items()}},
                )
            )

    def finish(self, patience):
        """Exit codes, outputs and errors by rank; none of it if the job takes longer than `patience` seconds."""
        texts = [None] * len(self.processes)

        def read(rank):
            texts[rank] = self.processes[rank].communicate()

        threads = [threading.Thread(target=read, args=[rank]) for rank in range(len(self.processes))]
        for thread in threads:
            thread.start()
        deadline = time.monotonic() + patience
        while any(thread.is_alive() for thread in threads) and time.monotonic() < deadline:
            if any(process.poll() for process in self.processes):
                for process in self.processes:
                    process.terminate()
            time.sleep(0.02)
        is_over = not any(thread.is_alive() for thread in threads)
        for process in self.processes:
            process.kill()
        for thread in threads:
            thread.join()
        require(is_over, f"processes do not end within {patience} s", texts)
        return [process.returncode for process in self.processes], [out for out, _ in texts], [err for _, err in texts]
