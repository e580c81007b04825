"""Random schedules, with stages, chunks and microbatches that suit them."""

SINGLE = ["1f1b", "gpipe", "zb_h1", "zb_h2", "zb_auto", "searched"]  # one chunk per stage
LOOPED = ["interleaved", "interleaved", "interleaved_zb", "group_interleaved"]
IN_V = ["zbv", "v_half", "v_min", "v_auto", "1f1b_v", "dualpipev", "dualpipe"]


class Shape:
    """Stages, chunks per stage, microbatches, and the section `schedule` that goes with them."""

    def __init__(self, rng, orders, small):
        self.interleave = 1
        self.schedule = {}
        most = 3 if small else 8
        draw = rng.random()
        if orders and draw < 0.06:
            order = rng.choice(orders)
            self.pipeline, self.interleave = order["pipeline"], order["chunks"]
            self.microbatches = order["microbatches"]
            self.schedule = {"kind": "order", "placement": order["placement"]}
            self.schedule.update(rng.choice([{"file": order["file"]}, {"orders": order["orders"]}]))
        elif draw < 0.45:
            self.single(rng, rng.choice([p for p in (1, 2, 3, 4, 8) if p <= most]), small)
        elif draw < 0.75:
            self.looped(rng, rng.choice([p for p in (2, 3, 4, 8) if p <= most]))
        else:
            self.in_v(rng, rng.choice([p for p in (2, 3, 4) if p <= most]))
        kind = self.schedule["kind"]
        if kind in ("1f1b", "gpipe", "interleaved"):
            self.schedule["p2p"] = rng.choice(["blocking", "overlapped"])
        elif rng.random() < 0.4:
            self.schedule["p2p"] = "overlapped"
        splits = kind.startswith(("zb", "v_")) or kind in ("interleaved_zb", "dualpipev", "dualpipe")
        if splits and rng.random() < 0.3:
            self.schedule["fuse_adjacent"] = rng.random() < 0.5
        if rng.random() < 0.15:
            self.schedule["step"] = rng.choice(["barrier", "post_validated"])
        if rng.random() < 0.6:
            self.schedule["scatter_gather"] = rng.random() < 0.6

    def single(self, rng, pipeline, small):
        kind = rng.choice(SINGLE[:2] if pipeline == 1 else SINGLE + SINGLE[:2])
        if small and kind in ("zb_auto", "searched"):
            kind = "zb_h1"  # the executor takes no schedule that depends on costs
        self.pipeline = pipeline
        self.microbatches = rng.choice([1, 2, 4] if small else [1, 2, 4, 7, 8, 12, 16, 24])
        self.schedule["kind"] = kind
        if kind == "zb_h2":
            self.microbatches = max(self.microbatches, 2 * pipeline - 1)
        if kind == "zb_auto" and rng.random() < 0.5:
            self.schedule["memory_limit"] = rng.choice([pipeline, 2 * pipeline])
        if kind == "searched":
            self.pipeline = min(pipeline, 4)
            self.microbatches = min(self.microbatches, 8)
            self.schedule.update(seed=rng.choice([1, 7]), iterations=300, seconds=600.0)

    def looped(self, rng, pipeline):
        self.pipeline = pipeline
        self.interleave = rng.choice([2, 2, 3])
        self.microbatches = pipeline * rng.choice([1, 2, 3])
        kind = rng.choice(LOOPED)
        self.schedule["kind"] = kind
        if kind == "interleaved" and rng.random() < 0.5:
            self.microbatches += rng.choice([0, 1, 3])
            groups = [g for g in range(pipeline, self.microbatches + 1)
                      if self.microbatches % g == 0 or self.microbatches % g >= pipeline]
            self.schedule["group"] = rng.choice(groups)
        elif kind == "group_interleaved":
            self.schedule["group"] = pipeline * rng.choice([1, 2])
            self.microbatches = max(self.microbatches, self.schedule["group"])

    def in_v(self, rng, pipeline):
        kind = rng.choice(IN_V)
        self.pipeline = 4 if kind == "dualpipe" and pipeline > 2 else 2 if kind == "dualpipe" else pipeline
        self.interleave = 2
        self.microbatches = 2 * self.pipeline * rng.choice([1, 2])
        self.schedule["kind"] = kind
        if kind == "zbv" and rng.random() < 0.6:
            self.schedule["variant"] = rng.choice(["fixed", "auto"])
        if kind in ("zbv", "v_auto") and rng.random() < 0.4:
            self.schedule["memory_limit"] = 2 * self.pipeline

    def has_copies(self):
        return self.schedule["kind"] == "dualpipe" or self.schedule.get("placement") == "bidirectional"

    def parts(self):
        """Parts of the model that lie on stages; a stage has two chunks, of different copies, with has_copies()."""
        return self.pipeline * (1 if self.has_copies() else self.interleave)
