#!/usr/bin/env python3
"""Makes each term of the cost model 10 % larger, one at a time, and demands that the tests notice.

usage: tests/mutations/terms.py [--check] [TERM...]

A term is a part of an expression, marked «so» in a fragment that stands once in its file; TERM: numbers as printed. In a
copy of the tree (build/mutations, as run.py makes it) every marked part is wrapped in a function that returns it as it is
unless the environment names it, so that one build serves all terms. Each term is tried with the tests of its folder. Prints
a line for each, and exits 1 if one survives. Part of tests/run.sh --nightly: a build of two test programs, then a second or two
for each term. --check, which is, without a build: only whether each fragment is where it should be, and whether every
constant with a unit (`.value.value`) that these files calculate with stands in one. That a fragment's term is noticed only
the whole run shows; that every number of configs/ is what its source says is tests/accuracy/constants_test.py's.
"""
import os
import pathlib
import re
import subprocess
import sys

import run

COST = "libsim/cost/cost_model.cpp"
COLLECTIVES = "libsim/cost/collective_time.cpp"
GEMM = "libsim/cost/gemm_time.cpp"
MEASURED = "libsim/cost/measured_time.cpp"
BLOCKS = "libsim/engine/player/block_times.cpp"
TIMELINE = "libsim/engine/player/timeline.cpp"
QUANTITY = re.compile(r"[\w.]+\.value\.value\b(?! > 0)")  # but for questions whether it is given
TERMS = (  # file, fragment
    (COST, "system.accelerator.bandwidth.value.value * «system.calibration.stream_efficiency.value»"),
    (COST, "to_sim_time(«system_.software.factor.value» * seconds)"),
    (COST, "shape.accumulate ? «2 * output» : output"),
    (COST, "shape.accumulate ? 2 * output : «output»}"),
    (COST, "«elements * apart» - written"),
    (COST, "return Seconds{product.value + «(added / streaming_rate(system_)).value»};"),
    (COST, "return Seconds{«product.value» + (added"),
    (COST, "gemm.shape.m = «gemm.shape.m * shards / ranks»;"),
    (COST, "of_attention(«constants.flash_forward_efficiency.value»,"),
    (COST, "«constants.latent_flash_forward_efficiency.value»);"),
    (COST, "of_attention(«constants.flash_backward_efficiency.value»,"),
    (COST, "«constants.latent_flash_backward_efficiency.value»);"),
    (COST, "compute = «static_cast<double>(op.flops)» / (peak.value * efficiency)"),
    (COST, "Seconds{«constants.kernel_launch.value.value» +\n                 std::max(compute"),
    (COST, "std::max(compute, «(op.traffic / streaming_rate(system_)).value»)"),
    (COST, "op.draws_random ? «constants.dropout_efficiency.value»"),
    (COST, ": «constants.stream_efficiency.value»;"),
    (COST, "rate{«system_.accelerator.bandwidth.value.value» * efficiency}"),
    (COST, "Seconds{«constants.kernel_launch.value.value» +\n                 traffic_factor"),
    (COST, "traffic_factor(op) * «(op.traffic / rate).value»"),
    (COST, "return «kernels.unfused_softmax_traffic.value»;"),
    (COST, "? 1 : «factor->second»;"),
    (COST, "seconds = «host.collective.value.value» +"),
    (COST, "«per_rank.value.value» * partners"),
    (COST, "launches * «(is_product ? host.gemm : host.kernel).value.value» +"),
    (COST, "more * «host.kernel.value.value»;"),
    (COST, "return calls * «host.call.value.value»;"),
    (COST, "rounded(seconds / «system_.node.host_speed.value»);"),
    (COST, "seconds *= «host.backward.value»;"),
    (COST, "seconds += «host.unfused_softmax.value.value»;"),
    (COST, "sum += «collective_time(kind, payload, spread_of(level), system_).value»;"),
    (COST, "sum = «collective_seconds(OpKind::all_reduce, plan_.roles.tensor, op.payload).value»;"),
    (COST, "sum += «collective_seconds(OpKind::all_reduce, plan_.roles.gradients, op.payload).value»;"),
    (COST, "sum + «collective_seconds(OpKind::ring_shift, group, op.payload).value»"),
    (COST, "sum += «unique_all_to_all_time(op.payload, exchange, spread_of(level), system_).value»;"),
    (COST, "«static_cast<double>(op.payload.count()) * replicas.gather_traffic.value»;"),
    (COST, "pieces * «replicas.gather_piece.value.value»"),
    (COST, "Bytes{elements * «replicas.gradient_bytes.value»}"),
    (COST, "bucket = «static_cast<double>(replicas.bucket.value.count())»;"),
    (COST, "«replicas.call.value.value» + replicas.call_per_rank"),
    (COST, "+ «replicas.call_per_rank.value.value» * plan_"),
    (COST, "Seconds{«transfer.value» + calls"),
    (COST, "is_near ? «link.bandwidth.value»"),
    (COST, ": «network_share(system_).value» / border_slowdown(nodes, system_);"),
    (COST, "network_share(system_).value / «border_slowdown(nodes, system_)»;"),
    (COST, "std::max(1, «stride / system_.node.accelerators.value»);"),
    (COST, "is_near ? «link.latency.value»"),
    (COST, ": «system_.network.latency.value.value») +"),
    (COST, "«system_.calibration.p2p_synchronisation.value.value» +"),
    (COST, "«system_.software.host.message.value.value» / system_.node.host_speed"),
    (COST, "latency += «collective_seconds(OpKind::all_gather, plan_.roles.tensor, whole).value»;"),
    (COST, "rounded(«(sent / BytesPerSecond{rate}).value»)"),
    (COST, "std::lround(«system_.calibration.overlap_slowdown.value» * 1e6)"),
    (COST, "of_units : «system_.calibration.network_slowdown.value»;"),
    (COST, "rounded(«system_.calibration.iteration_overhead.value.value» +"),
    (COST, "double on_host = «host.iteration.value.value»;"),
    (COST, "host.step_launches.value * «host.kernel.value.value» *"),
    (COST, "on_host / «system_.node.host_speed.value»);"),
    (COST, "rounded(«system_.software.host.pass.value.value» /"),
    (COST, "seconds +=\n          «system_.calibration.kernel_launch.value.value» + (output"),
    (COST, "per_node = std::max(1, «system_.node.accelerators.value» / stride)"),
    (COLLECTIVES, "OpKind::all_reduce ? «2» : 1"),
    (COLLECTIVES, "gather_bandwidth.value, spread.nodes()) * «part»;"),
    (COLLECTIVES, "part == 1 ? «rate_at(network.bus_bandwidth.value, spread.nodes())»"),
    (COLLECTIVES, "share = «static_cast<double>(ranks - 1)» / static_cast<double>(ranks)"),
    (COLLECTIVES, "«network.bandwidth.value.value» * network.efficiency.value *"),
    (COLLECTIVES, "return «cost.table.front().duration.value»;"),
    (COLLECTIVES, ": «tables->at(*shape).front().duration.value»;"),
    (COLLECTIVES, "cost.bandwidth.value > 0) return «cost.bandwidth.value»;"),
    (COLLECTIVES, "(shape == nullptr) return «node.bus_bandwidth.value.value»;"),
    (COLLECTIVES, "return «ring_bytes(shape->kind, size, shape->ranks())» / duration.value;"),
    (COLLECTIVES, "return «share * static_cast<double>(size.count())» / duration.value;"),
    (COLLECTIVES, "is_bus_given ? «node.bus_bandwidth.value.value» : cost.bandwidth.value"),
    (COLLECTIVES, "node.bus_bandwidth.value.value : «cost.bandwidth.value»;"),
    (COLLECTIVES, "std::max(least, «cost.latency.value» + ring"),
    (COLLECTIVES, "+ «ring_bytes(kind, whole, ranks)» / rate"),
    (COLLECTIVES, "ring_bytes(kind, whole, ranks) / «ring_bytes(kind, Bytes{1 << 20}, cost.ranks)»"),
    (COLLECTIVES, "node_rate(OpKind::all_gather, together, links, system.node) * «all_to_all_in_node»;"),
    (COLLECTIVES, "inside = «near / beside»;"),
    (COLLECTIVES, "is_given ? «links.latency.value»"),
    (COLLECTIVES, ": «least_time(OpKind::all_gather, together, links, system.node)»;"),
    (COLLECTIVES, "«network.bandwidth.value.value * adapters_per_accelerator(system.node, network)»;"),
    (COLLECTIVES, "far / (rate * «all_to_all_on_network»)"),
    (COLLECTIVES, "latency + «network.latency.value.value» + std::max(inside, outside)"),
    (COLLECTIVES, "piece = «static_cast<double>(sent.count())» / spread.ranks"),
    (COLLECTIVES, "«link.latency.value» + bytes / link.bandwidth.value"),
    (COLLECTIVES, "bytes / «link.bandwidth.value»"),
    (COLLECTIVES, "outside = «slowdown * far» / (rate"),
    (COLLECTIVES, "network_share(system).value * «std::min<double>(spread.fewest(), sharers)» /"),
    (COLLECTIVES, "«border_slowdown(OpKind::ring_shift, spread, system)»;"),
    (COLLECTIVES, "Seconds{«network.latency.value.value» + bytes / rate}"),
    (COLLECTIVES, "network.latency.value.value + «bytes / rate»"),
    (COLLECTIVES, "spread.fewest() * «network_share(system).value» /"),
    (COLLECTIVES, "«border_slowdown(kind, spread, system)»;"),
    (COLLECTIVES, "transfer = «ring_bytes(kind, whole, spread.ranks) / rate»;"),
    (COLLECTIVES, "step = «network.latency.value.value»;"),
    (COLLECTIVES, "start = «cost_of(kind, system.node).latency.value»;"),
    (COLLECTIVES, "rounds_of(kind) * «(spread.ranks - 1)» * step + transfer"),
    (COLLECTIVES, "measured > 0 ? 1 : «0.92»;"),
    (COLLECTIVES, "«2 * depth» * step + transfer / tree_bandwidth"),
    (COLLECTIVES, "per_byte = «ring_bytes(shape->kind, Bytes{1 << 20}, shape->ranks())» / (1 << 20)"),
    (COLLECTIVES, "Seconds{«interpolate(tables.at(*shape), bytes)»}"),
    (COLLECTIVES, "«measured * ours» / modelled_time"),
    (COLLECTIVES, "once = «static_cast<double>(sent.count())»;"),
    (COLLECTIVES, "of_rank = «distinct_parts(exchange.tokens, spread.ranks)» * exchange.hottest"),
    (COLLECTIVES, "far = «distinct_parts(exchange.tokens, spread.nodes())» * (nodes"),
    (GEMM, "«constants.gemm_efficiency.value»;"),
    (GEMM, "stream{«system.accelerator.bandwidth.value.value» *"),
    (GEMM, "«constants.stream_efficiency.value»}"),
    (GEMM, "divide_up(shape.n, «tile.n»);"),
    (GEMM, "waves = «divide_up(made.count, processors)»;"),
    (GEMM, "tile.is_small ? rate * «constants.gemm_small_tile.value» : rate"),
    (GEMM, "return «constants.gemm_tile_prologue.value.value» + flops"),
    (GEMM, "prologue.value.value + «flops / tile_rate»;"),
    (GEMM, "best + «(output / stream).value»;"),
    (GEMM, "memory = «(traffic / stream).value»;"),
    (GEMM, "Seconds{«constants.kernel_launch.value.value» + std::max(compute, memory)}"),
    (MEASURED, "«static_cast<double>(shape.flops())» / rate_of"),
    (MEASURED, "«cost->second.latency.value» + (op.traffic"),
    (MEASURED, "+ «(op.traffic / cost->second.bandwidth).value»"),
    (BLOCKS, "for (Op const& op : ops) host += «cost.host_time(op)»;"),
    (BLOCKS, "std::max(«product.own» - hidden, SimTime{0})"),
    (BLOCKS, "product.own - «hidden», SimTime{0})"),
    (BLOCKS, "SimTime{0}) + «product.rest»;"),
    (BLOCKS, "communication_, «cost_.slowdown_millionths()»);"),
    (BLOCKS, "times_.on_links += «times_.end[i] - times_.start[i]»;"),
    (TIMELINE, "speed = one - «slowdown_millionths»;"),
    (TIMELINE, "time + rounded_quotient(Wide{«(time - from)».count()}"),
)
TARGETS = {file: "test_engine" if file in (BLOCKS, TIMELINE) else "test_cost" for file, _ in TERMS}
HEADER = """#pragma once

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <type_traits>

namespace stagecraft {

/// The value, or a tenth more if the environment names this term.
template <int number, typename Value>
Value mutated(Value value) {
  static bool const is_chosen = [] {
    char const* const text = std::getenv("STAGECRAFT_TERM");
    return text != nullptr && std::atoi(text) == number;
  }();
  if (!is_chosen) return value;
  if constexpr (std::is_floating_point_v<Value>) {
    return value * 1.1;
  } else if constexpr (std::is_integral_v<Value>) {
    return static_cast<Value>(value + std::max<Value>(1, value / 10));
  } else {
    return Value{static_cast<decltype(value.count())>(std::llround(static_cast<double>(value.count()) * 1.1))};
  }
}

}  // namespace stagecraft
"""


def plain(fragment):
    return fragment.replace("«", "").replace("»", "")


def unmarked_constants(file, text):
    """Lines that calculate with a constant that is in none of the file's fragments."""
    spans = []
    for of, fragment in TERMS:
        begin = text.find(plain(fragment)) if of == file else -1
        if begin >= 0:
            spans.append((begin, begin + len(plain(fragment))))
    for use in QUANTITY.finditer(text):
        if not any(begin <= use.start() and use.end() <= end for begin, end in spans):
            yield f"{file}:{text.count(chr(10), 0, use.start()) + 1}: {use[0]}"


def check():
    """Exits 1 if a fragment is not once in its file, or a constant in no fragment."""
    texts = {file: (run.ROOT / file).read_text() for file, _ in TERMS}
    wrong = [f"{file}: {fragment}" for file, fragment in TERMS if texts[file].count(plain(fragment)) != 1]
    unmarked = [line for file, text in texts.items() for line in unmarked_constants(file, text)]
    for fragment in wrong:
        print(f"not once in its file: {fragment}")
    for line in unmarked:
        print(f"in no fragment: {line}")
    print(f"{len(TERMS) - len(wrong)} of {len(TERMS)} terms found")
    return 1 if wrong or unmarked else 0


def wrap_terms():
    """Writes the sources of the copy with every term wrapped."""
    (run.TREE / "tests" / "mutations" / "mutated.hpp").write_text(HEADER)
    for file in dict.fromkeys(file for file, _ in TERMS):
        text = (run.TREE / file).read_text()
        inserted = []  # position, closing before opening, what
        for number, (of, fragment) in enumerate(TERMS, 1):
            if of == file:
                begin = text.index(plain(fragment)) + fragment.index("«")
                length = fragment.index("»") - fragment.index("«") - 1
                inserted += [(begin, 1, f"mutated<{number}>("), (begin + length, 0, ")")]
        for position, _, what in sorted(inserted, reverse=True):
            text = text[:position] + what + text[position:]
        (run.TREE / file).write_text('#include "tests/mutations/mutated.hpp"\n' + text)


def passes(target, number):
    program = next(path for path in (run.BUILD / "tests").rglob(target) if path.is_file())
    environment = dict(os.environ) | {"STAGECRAFT_TERM": str(number)}
    try:
        ran = subprocess.run([program, "--abort"], cwd=run.TREE, env=environment, capture_output=True, timeout=run.LONGEST_TEST)
    except subprocess.TimeoutExpired:
        return False
    return ran.returncode == 0


def main(words):
    if "--check" in words:
        return check()
    if check() != 0:
        return 1
    run.copy_tree()
    try:
        wrap_terms()
        run.configure()
        said = run.build(sorted(set(TARGETS.values())))
        if said is not None:
            sys.exit(said + "the tree does not build with its terms wrapped")
        for target in sorted(set(TARGETS.values())):
            if not passes(target, 0):
                sys.exit(f"{target} fails without any mutation")
        survivors = 0
        chosen = [int(word) for word in words] or range(1, len(TERMS) + 1)
        for number in chosen:
            file, fragment = TERMS[number - 1]
            survived = passes(TARGETS[file], number)
            survivors += survived
            print(f"{number:3}  {'SURVIVED' if survived else 'red':8}  {pathlib.Path(file).stem}: {' '.join(fragment.split())}", flush=True)
        print(f"{len(chosen) - survivors} of {len(chosen)} terms noticed")
        return 1 if survivors else 0
    finally:
        run.git("checkout", "--quiet", "--force", ".", folder=run.TREE)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
