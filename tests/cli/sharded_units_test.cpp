#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/cli/command_results.hpp"
#include "tests/cli/run_program.hpp"

namespace stagecraft::sharded_units_test {
namespace {

using Catch::Contains;
using nlohmann::json;

constexpr std::int64_t h = 1024;
constexpr std::int64_t v = 1024;
constexpr std::int64_t layers = 6;
constexpr std::int64_t n = 8;
/// The parameters of a layer without biases: QKV 3 h^2, projection h^2, MLP 2 x 4 h^2, two norms.
constexpr std::int64_t of_layer = 12 * h * h + 2 * h;
constexpr std::int64_t of_embedding = v * h;
constexpr std::int64_t of_head = v * h + h;  // and the final norm
constexpr std::int64_t all = layers * of_layer + of_embedding + of_head;

std::string const sharded = "--set sharding=fsdp2 ";

/// The memory of the first rank over an iteration, in bytes.
class Table {
 public:
  explicit Table(std::string const& text) : lines_{text} {
    std::getline(lines_, heading_);
    for (std::string line; std::getline(lines_, line);) rows_.push_back(cells_of(line));
  }
  std::int64_t first(std::string const& column) const { return at(rows_.front(), column); }
  std::int64_t last(std::string const& column) const { return at(rows_.back(), column); }
  std::int64_t most(std::string const& column) const {
    std::int64_t largest = 0;
    for (auto const& row : rows_) largest = std::max(largest, at(row, column));
    return largest;
  }

  bool has(std::string const& column, std::int64_t value) const {
    return std::ranges::any_of(rows_, [&](auto const& row) { return at(row, column) == value; });
  }

 private:
  static std::vector<std::string> cells_of(std::string const& line) {
    std::istringstream text{line};
    std::vector<std::string> cells;
    for (std::string cell; std::getline(text, cell, ',');) cells.push_back(cell);
    return cells;
  }
  std::int64_t at(std::vector<std::string> const& row, std::string const& column) const {
    std::vector<std::string> const names = cells_of(heading_);
    auto const place = std::find(names.begin(), names.end(), column) - names.begin();
    return std::stoll(row.at(static_cast<std::size_t>(place)));
  }

  std::istringstream lines_;
  std::string heading_;
  std::vector<std::vector<std::string>> rows_;
};

Table memory_of(TemporaryFolder const& folder, std::string const& run) {
  std::string const trace = folder.path() / "t.h5";
  std::string const table = folder.path() / "m.csv";
  json_of("simulate --json " + run + "--detail op --trace '" + trace + "'");
  REQUIRE(
      run_stagecraft("export '" + trace + "' --format csv --memory -o '" + table + "'").exit_code ==
      0);
  return Table{text_of(table)};
}

}  // namespace

TEST_CASE("a rank keeps an n-th of parameters and moments in fp32, and of gradients once reduced") {
  // FSDP2 with fp32 parameters: 4/N + 4/N + 8/N bytes per parameter. Gradients are gone when an
  // iteration begins, and all there at its end.
  TemporaryFolder const folder;
  Table const memory = memory_of(folder, replicated_run(folder, "300 GB/s", 2) + sharded);
  REQUIRE(memory.first("parameters") == 4 * all / n);
  REQUIRE(memory.first("gradients") == 0);
  REQUIRE(memory.first("optimizer") == 8 * all / n);
  REQUIRE(memory.last("gradients") == 4 * all / n);
  REQUIRE(memory.last("gathered") == 0);
}

TEST_CASE("DeepSpeed's stages keep the bytes of its papers, with gradients in the model's type") {
  // ZeRO (arXiv 1910.02054, figure 1) with 2 bytes of a parameter, 2 of a gradient and 12 of the
  // optimizer: stage 1 shares the 12 among N ranks, stage 2 14, stage 3 all 16.
  TemporaryFolder const folder;
  Table const first =
      memory_of(folder, replicated_run(folder, "300 GB/s", 2) + "--set sharding=zero1 ");
  REQUIRE(first.last("parameters") == 2 * all);
  REQUIRE(first.last("gradients") == 2 * all);
  REQUIRE(first.last("optimizer") == 12 * all / n);
  Table const second =
      memory_of(folder, replicated_run(folder, "300 GB/s", 2) + "--set sharding=zero2 ");
  REQUIRE(second.last("parameters") == 2 * all);
  REQUIRE(second.last("gradients") == 2 * all / n);
  REQUIRE(second.last("optimizer") == 12 * all / n);
  Table const third = memory_of(folder, replicated_run(folder, "300 GB/s", 2) +
                                            "--set 'sharding={kind: zero3, bucket: 0, "
                                            "reuse_distance: 0}' ");
  REQUIRE(third.last("parameters") == 2 * all / n);
  REQUIRE(third.last("gradients") == 2 * all / n);
  REQUIRE(third.last("optimizer") == 12 * all / n);
  // stage3.py: grad_partitions_flat_buffer is there from the beginning.
  REQUIRE(third.first("gradients") == 2 * all / n);
  // The unit, what is gathered of the next one, its gradients, and those being reduced: 2 bytes
  // each, because every microbatch reduces in the model's type, in place.
  REQUIRE(third.most("gathered") == 8 * of_layer);
}

TEST_CASE("DeepSpeed's gradients wait in a bucket, of which a copy is reduced") {
  // reduce_bucket_size elements of 2 bytes: stage 3 has one for the job; stage 2 one in each
  // backward, or two if reductions overlap (setup_buckets()). Beside it are a copy of what is being
  // reduced (allreduce_bucket(), reduce_scatter_coalesced()) and the largest gradient of a layer,
  // 4 h^2 elements, before it is copied there. Stage 3 has two units' parameters as well.
  constexpr std::int64_t bucket = 20'000'000;
  constexpr std::int64_t gradient = 2 * 4 * h * h;
  TemporaryFolder const folder;
  auto const of = [&](std::string const& keys, int microbatches = 1) {
    return memory_of(folder, replicated_run(folder, "300 GB/s", microbatches) +
                                 "--set 'sharding={" + keys + "}' ");
  };
  Table const third = of("kind: zero3, bucket: 20000000, reuse_distance: 0");
  REQUIRE(third.first("gathered") == 2 * bucket);
  REQUIRE(third.most("gathered") == 2 * bucket + 6 * of_layer + gradient);
  Table const second = of("kind: zero2, bucket: 20000000");
  REQUIRE(second.first("gathered") == 0);
  REQUIRE(second.last("gathered") == 0);
  REQUIRE(second.most("gathered") == 2 * bucket + 2 * of_layer);
  REQUIRE(of("kind: zero2, bucket: 20000000, overlap: true").most("gathered") ==
          4 * bucket + 2 * of_layer + gradient);
  // A unit that fills a smaller bucket several times has a copy of the largest gradient at most.
  Table const small = of("kind: zero2, overlap: true, bucket: 5000000");
  REQUIRE(small.most("gathered") == 4 * 5'000'000 + 2 * 5'000'000 + gradient);
}

TEST_CASE("DeepSpeed's stage 2 has a second buffer of gradients in all backwards but the first") {
  // stage_1_and_2.py: grads_in_partition is made in each backward, and added to the first one's.
  TemporaryFolder const folder;
  std::string const zero2 = "--set sharding=zero2 ";
  Table const one = memory_of(folder, replicated_run(folder, "300 GB/s", 1) + zero2);
  REQUIRE(one.first("gradients") == 0);
  REQUIRE(one.most("gradients") == 2 * all / n);
  Table const three = memory_of(folder, replicated_run(folder, "300 GB/s", 3) + zero2);
  REQUIRE(three.most("gradients") == 4 * all / n);
  REQUIRE(three.last("gradients") == 2 * all / n);
}

TEST_CASE("DeepSpeed's stage 3 keeps what is used again within its reuse distance") {
  // __params_to_release(): between a unit's forward and its backward those behind it are used
  // twice, or three times if they are recomputed. Embedding, 6 layers and head are 8 units.
  TemporaryFolder const folder;
  auto const gathers = [&](std::int64_t distance, std::string const& more = "") {
    return run_stagecraft("simulate " + replicated_run(folder, "300 GB/s") +
                          "--set 'sharding={kind: zero3, reuse_distance: " +
                          std::to_string(distance) + "}'" + more)
        .output;
  };
  REQUIRE_THAT(gathers(1'000'000'000), Contains("per iteration 8 gathers and 8 reductions"));
  REQUIRE_THAT(gathers(0), Contains("per iteration 15 gathers"));
  REQUIRE_THAT(gathers(2 * (of_head + of_layer)), Contains("per iteration 14 gathers"));
  REQUIRE_THAT(gathers(2 * (of_head + of_layer) + 1), Contains("per iteration 13 gathers"));
  std::string const recomputed = " --set recompute=full";
  REQUIRE_THAT(gathers(3 * (of_head + of_layer), recomputed), Contains("per iteration 14 gathers"));
  REQUIRE_THAT(gathers(3 * (of_head + of_layer) + 1, recomputed),
               Contains("per iteration 13 gathers"));
}

TEST_CASE("explain names the buffers of stage 3 that DeepSpeed's estimator leaves out") {
  // DeepSpeed's issue 4093 asks why GPT-J 6B takes 13 GB where the estimator says 0.77. Its buffers
  // have 2 bytes per element: 5e8 of a bucket, and a copy of the gradients that are being reduced,
  // at first the head's, of 50400 rows padded to 50432 and a norm with biases.
  TemporaryFolder const folder;
  std::string const run = folder.write(
      "gptj.yaml",
      "model: {layers: 28, hidden: 4096, heads: 16, sequence: 2048, vocabulary: 50400, dropout: "
      "0,\n"
      "        tied_embeddings: false, positions: rotary, attention: flash, precision: fp16}\n"
      "system: dgx-h100\nparallel: {data: 64}\nbatch: {global: 64, micro: 1}\n"
      "recompute: full\nsharding: zero3\n");
  json const explained = json_of("explain --json '" + run + "'");
  auto const bytes = [&](std::string const& name) {
    std::int64_t sum = 0;
    for (json const& tensor : explained.at("peak").at("tensors")) {
      if (tensor.at("tensor") == name) sum += tensor.at("bytes").get<std::int64_t>();
    }
    return sum;
  };
  REQUIRE(bytes("gradients.bucket") == 1'000'000'000);
  REQUIRE(bytes("gradients_behind.reduce_input") == 2 * (50432 * 4096 + 2 * 4096));
}

TEST_CASE("DeepSpeed's estimators count the step's gradients in 32 bits, and no buffers") {
  // estimate_zero2_model_states_mem_needs(all, 8, 1, cpu_offload=False) and
  // estimate_zero3_model_states_mem_needs(all, 4 * h * h, 8, 1, False, False) of DeepSpeed at
  // edaa7221, without its 16-bit gradients in stage 3.
  REQUIRE(all == 77'607'936);
  constexpr std::int64_t second = 329'833'728;
  constexpr std::int64_t third = 191'395'072;
  TemporaryFolder const folder;
  auto const state = [&](std::string const& kind) {
    Table const memory =
        memory_of(folder, replicated_run(folder, "300 GB/s") + "--set sharding=" + kind);
    return memory.last("parameters") + memory.last("gradients") + memory.last("optimizer");
  };
  REQUIRE(second == state("zero2 ") + 4 * all / n);
  REQUIRE(third == state("zero3 ") + (4 - 2) * all / n + 4 * 4 * h * h);
}

TEST_CASE("a backward holds two units' parameters, gradients of one, and those being reduced") {
  // PyTorch's FSDP2 at the end of a unit's backward: the unit, the flat buffer of the next one and
  // the gradients in bf16, the input of the reduction before in fp32: 3 x 2 U + 4 U.
  TemporaryFolder const folder;
  Table const memory = memory_of(folder, replicated_run(folder, "300 GB/s") + sharded);
  REQUIRE(memory.most("gathered") == 10 * of_layer);
}

TEST_CASE("gradients of microbatches that do not reduce stay whole, in the type of the reduction") {
  // A second microbatch adds to 4 bytes of each parameter. At the end of the first unit's backward
  // the head's are in the input of its reduction, the others in their sums; beside them are the
  // unit, the flat buffer of the next one, and the gradients in bf16.
  TemporaryFolder const folder;
  Table const memory = memory_of(folder, replicated_run(folder, "300 GB/s", 2) + sharded);
  REQUIRE(memory.most("gathered") == 4 * all + 3 * 2 * of_layer);
}

TEST_CASE("gradients that wait for the last microbatch have fsdp2's reduced type, fsdp1's own") {
  // PyTorch: FSDPParam.to_accumulated_grad_if_needed casts; FlatParameter's gradient adds up as
  // autograd makes it. Between two microbatches nothing else is gathered, but of fsdp1 the root.
  TemporaryFolder const folder;
  std::string const run = replicated_run(folder, "300 GB/s", 2);
  REQUIRE(memory_of(folder, run + sharded).has("gathered", 4 * all));
  REQUIRE(memory_of(folder, run + "--set sharding=fsdp1 ").has("gathered", 2 * all));
}

TEST_CASE("on slow links a step takes two gathers of each unit and microbatch, and a reduction") {
  // Bytes on the wire of a rank: (n - 1) / n of 2 U per gather and 4 U per reduction. The head is
  // gathered once.
  TemporaryFolder const folder;
  std::string const sync = GENERATE("last", "every");
  double const reductions = sync == "last" ? 1 : 3;
  double const seconds = json_of("simulate --json " + replicated_run(folder, "1 GB/s", 3) +
                                 sharded + "--set sharding.sync=" + sync)
                             .at("iteration_seconds");
  double const bytes = 3 * (4.0 * (layers * of_layer + of_embedding) + 2.0 * of_head) +
                       reductions * 4.0 * static_cast<double>(all);
  double const links = bytes * (n - 1) / n / 1e9;
  REQUIRE(seconds > links);
  REQUIRE(seconds < 1.03 * links);
}

TEST_CASE("on fast links what is exposed is what no unit hides") {
  TemporaryFolder const folder;
  std::string const run = replicated_run(folder, "300 GB/s");
  json const whole = json_of("simulate --json " + run);
  json const units = json_of("simulate --json " + run + sharded);
  REQUIRE(whole.at("plan") != units.at("plan"));
  REQUIRE(units.at("stages")[0].at("peak_bytes").get<std::int64_t>() <
          whole.at("stages")[0].at("peak_bytes").get<std::int64_t>());
  REQUIRE(units.at("model_flops") == whole.at("model_flops"));
  json const& shares = units.at("breakdown_seconds");
  double sum = 0;
  for (auto const& [name, share] : shares.items()) sum += share.get<double>();
  REQUIRE(sum == Approx(units.at("iteration_seconds").get<double>()));
  REQUIRE(shares.at("data_parallel").get<double>() > 0);
}

TEST_CASE("gathers and reductions of units are rows of a trace, on a stream of their own") {
  TemporaryFolder const folder;
  std::string const trace = folder.path() / "t.h5";
  std::string const table = folder.path() / "t.csv";
  json_of("simulate --json " + replicated_run(folder, "300 GB/s") + sharded +
          "--detail op --trace '" + trace + "'");
  REQUIRE(run_stagecraft("export '" + trace + "' --format csv -o '" + table + "'").exit_code == 0);
  std::istringstream lines{text_of(table)};
  int gathers = 0;
  int reductions = 0;
  for (std::string line; std::getline(lines, line);) {
    bool const is_on_stream = line.find(",gather,") != std::string::npos;
    gathers += is_on_stream && line.find("all_gather") != std::string::npos ? 1 : 0;
    reductions += is_on_stream && line.find("reduce_scatter") != std::string::npos ? 1 : 0;
  }
  // Units are the embedding, the layers and the head, which keeps its parameters for backward.
  REQUIRE(gathers == 2 * (layers + 1) + 1);
  REQUIRE(reductions == layers + 2);
}

TEST_CASE("sharded units are printed, and read back as the same plan") {
  TemporaryFolder const folder;
  std::string const run = replicated_run(folder, "300 GB/s");
  ProgramResult const printed = run_stagecraft("simulate " + run + sharded + "--print-config");
  REQUIRE_THAT(printed.output, Contains("sharding: fsdp2"));
  std::string const again = "'" + folder.write("again.yaml", printed.output) + "'";
  REQUIRE(run_stagecraft("simulate --print-config " + again).output == printed.output);
  REQUIRE(json_of("simulate --json " + again).at("plan") ==
          json_of("simulate --json " + run + sharded).at("plan"));
}

TEST_CASE("units of one rank keep and gather all that they have") {
  // FSDP2 on one rank: 4 + 8 bytes per parameter when an iteration begins.
  TemporaryFolder const folder;
  Table const memory = memory_of(folder, replicated_run(folder, "300 GB/s") + sharded +
                                             "--set parallel.data=1 --set batch.global=1 ");
  REQUIRE(memory.first("parameters") == 4 * all);
  REQUIRE(memory.first("optimizer") == 8 * all);
  REQUIRE(memory.last("gradients") == 4 * all);
}

TEST_CASE("an embedding whose table the head shares is one unit with it, gathered once") {
  // PyTorch: tok_embeddings, norm and output in one fully_shard, which keeps its parameters after
  // forward. The table counts once.
  TemporaryFolder const folder;
  std::string const run =
      replicated_run(folder, "1 GB/s") + sharded + "--set model.tied_embeddings=true ";
  constexpr std::int64_t of_both = of_embedding + h;
  constexpr std::int64_t all_tied = layers * of_layer + of_both;
  Table const memory = memory_of(folder, run);
  REQUIRE(memory.first("parameters") == 4 * all_tied / n);
  REQUIRE(memory.last("gradients") == 4 * all_tied / n);
  REQUIRE(memory.last("gathered") == 0);
  double const seconds = json_of("simulate --json " + run).at("iteration_seconds");
  double const bytes = 4.0 * (layers * of_layer) + 2.0 * of_both + 4.0 * all_tied;
  double const links = bytes * (n - 1) / n / 1e9;
  REQUIRE(seconds > links);
  REQUIRE(seconds < 1.03 * links);
}

TEST_CASE(
    "with copies of shards a node gathers alone, and reduced gradients are summed over them") {
  // Two nodes of eight. Between them only the shards' gradients travel, 4 / 8 bytes per parameter:
  // in an all-reduce over two ranks each sends every byte once. A rank keeps what it would in one
  // node.
  TemporaryFolder const folder;
  auto const network = [](std::string const& key, std::string const& value) {
    return "--set system.network." + key + "='{value: " + value + ", source: invented}' ";
  };
  std::string const run = replicated_run(folder, "300 GB/s") + sharded +
                          "--set parallel.data=16 --set batch.global=16 --set sharding.group=8 " +
                          network("bandwidth", "0.08 Gbit/s") + network("efficiency", "1") +
                          network("latency", "0 us");
  REQUIRE(memory_of(folder, run).first("parameters") == 4 * all / n);
  // Ranks that split sequences are among those that share.
  REQUIRE(memory_of(folder, replicated_run(folder, "300 GB/s") + "--set parallel.context=2 " +
                                "--set sharding='{kind: fsdp2, group: 2}' ")
              .first("parameters") == 4 * all / 2);
  double const seconds = json_of("simulate --json " + run).at("iteration_seconds");
  double const links = 4.0 * static_cast<double>(all) / n / 1e7;
  REQUIRE(seconds > links);
  REQUIRE(seconds < 1.03 * links);
}

TEST_CASE("full recompute gathers no third time") {
  TemporaryFolder const folder;
  std::string const run = replicated_run(folder, "1 GB/s");
  double const none = json_of("simulate --json " + run + sharded).at("iteration_seconds");
  double const full =
      json_of("simulate --json " + run + sharded + "--set recompute=full").at("iteration_seconds");
  REQUIRE(full < 1.02 * none);
}

TEST_CASE("a host that is behind gathers the next unit only once it has issued the one before") {
  // Long sequences hide what a layer gathers ahead. If each matrix product takes the host 20 ms,
  // the gathers that layers issue at the end of their forward stand alone: those of five layers and
  // of the head, (n - 1) / n of 2 U bytes each.
  TemporaryFolder const folder;
  auto const host = [](std::string const& key, std::string const& value) {
    return "--set software.host." + key + "='{value: " + value + ", source: invented}' ";
  };
  std::string const run = replicated_run(folder, "300 GB/s") + sharded +
                          "--set model.sequence=8192 " + host("kernel", "0 us") +
                          host("collective", "0 us");
  auto const exposed = [&](std::string const& of_product) {
    return json_of("simulate --json " + run + host("gemm", of_product))
        .at("breakdown_seconds")
        .at("data_parallel")
        .get<double>();
  };
  double const gathers = 2.0 * (5 * of_layer + of_head) * (n - 1) / n / 3e11;
  // Each is preceded by a copy of the shard, at memory speed.
  double const added = exposed("20 ms") - exposed("0 us");
  REQUIRE(added > gathers);
  REQUIRE(added < 1.12 * gathers);
}

TEST_CASE("simulate says in a line how large units are, and how often they are gathered") {
  // Of the largest unit, a layer, 2 bytes of each parameter. All units but the head are gathered
  // twice in each of three microbatches, and each is reduced once.
  TemporaryFolder const folder;
  REQUIRE_THAT(run_stagecraft("simulate " + replicated_run(folder, "300 GB/s", 3) + sharded).output,
               Contains("units of up to 24.0 MiB are gathered; per iteration 45 gathers and 8 "
                        "reductions, "));
}

TEST_CASE("every model that is shipped has units, of all its parameters") {
  // Rows of a few parameters are padded: at most half a percent.
  TemporaryFolder const folder;
  for (auto const& file :
       std::filesystem::directory_iterator{STAGECRAFT_SOURCE_DIR "/configs/models"}) {
    for (std::string const kind : {"fsdp1", "fsdp2", "zero3"}) {
      CAPTURE(file.path().string(), kind);
      json const run =
          json_of("simulate --json '" +
                  folder.write("run.yaml", "model: " + file.path().string() +
                                               "\nsystem: dgx-h100\nparallel: {data: 8}\nbatch: "
                                               "{global: 16, micro: 1}\nsharding: " +
                                               kind + "\n") +
                  "'");
      double const width = kind == "zero3" ? 2 : 4;
      double const share = width * run.at("parameters").get<double>() / 8;
      double const kept = run.at("stages")[0].at("at_peak").at("parameters");
      REQUIRE(kept >= share);
      REQUIRE(kept < 1.005 * share);
    }
  }
}

TEST_CASE("what units cannot be combined with is refused at its key") {
  TemporaryFolder const folder;
  std::string const run = "simulate " + replicated_run(folder, "300 GB/s") + sharded;
  require_refusal(run + "--set sharding.group=3",
                  {"sharding.group: found '3'; accepted: 0, or a divisor of parallel.data"});
  require_refusal(run + "--set sharding.reshard_after_forward=3",
                  {"sharding.reshard_after_forward: found '3'; accepted: auto, true or false"});
  require_refusal(run + "--set parallel.pipeline=2 --set batch.global=32",
                  {"parallel.pipeline: found '2'; accepted: 1, as sharding is fsdp2"});
  std::string const second = "simulate " + replicated_run(folder, "300 GB/s") + "--set sharding=";
  require_refusal(second + "zero2 --set parallel.pipeline=2 --set batch.global=32",
                  {"parallel.pipeline: found '2'; accepted: 1, as sharding is zero2: DeepSpeed's "
                   "pipeline engine asserts"});
  require_refusal(second + "'{kind: zero2, reshard_after_forward: true}'",
                  {"accepted: keys kind, sync, reduce_dtype, bucket, overlap"});
  require_refusal(second + "'{kind: megatron_fsdp, strategy: optim_grads, group: 2}'",
                  {"accepted: keys kind, strategy, reduce_dtype, as sharding is megatron_fsdp with "
                   "strategy optim_grads: each rank has all "});
  require_refusal(
      second + "'{kind: megatron_fsdp, stored_dtype: bf16}'",
      {"sharding.stored_dtype: found 'bf16'; accepted: auto, as ", "master copies 32 bits"});
  require_refusal(second + "'{kind: zero2, sync: last}'",
                  {"sharding.sync: found 'last'; accepted: every, as sharding is zero2"});
  require_refusal("simulate " + replicated_run(folder, "300 GB/s") +
                      "--set sharding='{kind: distributed_optimizer, sync: every}'",
                  {"the key kind alone, as sharding is distributed_optimizer"});
}

}  // namespace stagecraft::sharded_units_test
