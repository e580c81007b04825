#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "libsim/model/model_config_reader.hpp"
#include "libsim/training/layer_split.hpp"
#include "libsim/training/training_config_checks.hpp"
#include "libsim/training/training_config_reader.hpp"

namespace stagecraft::training_config_test {
namespace {

/// Reads sections below a model of 12 layers, h = 64, a = 8, 4 kv heads, s = 32.
TrainingConfig read(std::string const& sections, std::vector<std::string>* warnings = nullptr) {
  std::string const text =
      "model: {layers: 12, hidden: 64, heads: 8, kv_heads: 4, sequence: 32, vocabulary: 100}\n" +
      sections;
  Diagnostics diagnostics;
  auto const root = parse_yaml(text, "x.yaml", diagnostics);
  diagnostics.throw_if_any();
  TrainingConfig config = read_training_config(ConfigNode{*root, "", diagnostics});
  diagnostics.throw_if_any();
  if (warnings != nullptr) *warnings = diagnostics.warnings();
  return config;
}

std::string message(std::string const& sections) {
  try {
    read(sections);
  } catch (ConfigError const& error) {
    return error.what();
  }
  return "no error";
}

TEST_CASE("a sequence of thousands that is hardly meant is warned of") {
  auto const warnings_with = [](std::string const& sequence) {
    Diagnostics diagnostics;
    auto const root = parse_yaml(
        "{layers: 12, hidden: 64, heads: 8, vocabulary: 100, sequence: " + sequence + "}", "x.yaml",
        diagnostics);
    read_model_config(ConfigNode{*root, "", diagnostics});
    diagnostics.throw_if_any();
    return diagnostics.warnings();
  };
  std::vector<std::string> const warnings = warnings_with("8k");
  REQUIRE(warnings.size() == 1);
  REQUIRE_THAT(warnings.front(), Catch::Contains("is 8000 tokens, as k is 1000; 8Ki is with 1024"));
  REQUIRE(warnings_with("8Ki").empty());
  REQUIRE(warnings_with("8000").empty());
  REQUIRE(warnings_with("16k").empty());  // 125 x 128
}

TEST_CASE("a run that names only its model trains on one rank, 1F1B, without recompute", "[plan]") {
  TrainingConfig const config = read("");
  REQUIRE(config.parallel == ParallelLayout{});
  REQUIRE(config.batch == BatchConfig{1, 1});
  REQUIRE(config.schedule == ScheduleConfig{});
  REQUIRE(config.schedule.kind == ScheduleKind::one_f_one_b);
  REQUIRE(read("schedule: {p2p: overlapped}").schedule.kind == ScheduleKind::one_f_one_b);
  REQUIRE(config.recompute == std::vector{RecomputePolicy{}});
  REQUIRE(config.memory == MemoryConfig{});
  REQUIRE(config.layout == LayerSplit{});
}

TEST_CASE("memory.distributed_optimizer is short for a kind of sharding", "[plan]") {
  REQUIRE(read("").sharding.kind == ShardingKind::none);
  TrainingConfig const config = read("memory: {distributed_optimizer: true}");
  REQUIRE(config.sharding.kind == ShardingKind::distributed_optimizer);
  REQUIRE(read("sharding: distributed_optimizer") == config);
  REQUIRE(read("sharding: {kind: distributed_optimizer}") == config);
  REQUIRE(read("sharding: none\nmemory: {distributed_optimizer: false}") == read(""));
  REQUIRE(message("sharding: none\nmemory: {distributed_optimizer: true}") ==
          "x.yaml:3:33: memory.distributed_optimizer: found 'true'; accepted: false, as sharding "
          "is none");
  REQUIRE(
      message("sharding: fsdp3") ==
      "x.yaml:2:11: sharding: found 'fsdp3'; accepted: none, distributed_optimizer, fsdp1, fsdp2, "
      "zero1, zero2, zero3, megatron_fsdp; "
      "did you mean 'fsdp1'?");
  REQUIRE_THAT(message("sharding: {kind: none, group: 4}"),
               Catch::Contains("the key kind alone, as sharding is none"));
  REQUIRE_THAT(message("sharding: {kind: none, strategy: optim}"),
               Catch::Contains("the key kind alone, as sharding is none"));
  REQUIRE_THAT(message("sharding: {kind: megatron_fsdp, strategy: optim, generation: 2}"),
               Catch::Contains("the keys kind and strategy alone, as sharding is megatron_fsdp"));
}

TEST_CASE("settings of the allocator are checked where they are written", "[plan]") {
  TrainingConfig const config =
      read("memory: {allocator: cuda_async, allocator_settings: 'max_split_size_mb:64'}");
  REQUIRE(config.memory.allocator == AllocatorKind::cuda_async);
  REQUIRE(config.memory.allocator_settings == "max_split_size_mb:64");
  REQUIRE(message("memory: {allocator_settings: ''}") == "no error");
  REQUIRE(message("memory: {allocator_settings: 'max_split_size_mb:1'}") ==
          "x.yaml:2:30: memory.allocator_settings.max_split_size_mb: found '1'; accepted: a whole "
          "number of MiB from 20");
  REQUIRE(message("memory: {allocator: torch}") ==
          "x.yaml:2:21: memory.allocator: found 'torch'; accepted: pytorch, cuda_async, arena; "
          "did you mean 'pytorch'?");
}

TEST_CASE("tensor parallelism divides heads, kv heads, the MLP and, with it, the sequence",
          "[plan]") {
  REQUIRE(message("parallel: {tensor: 5}") ==
          "x.yaml:2:20: parallel.tensor: found '5'; accepted: a divisor of model.heads (8)");
  REQUIRE(message("parallel: {tensor: 8}") == "no error");  // 4 kv heads, each on two ranks
  REQUIRE(message("parallel: {tensor: 8, sequence: true}") == "no error");
  std::string const model =
      "{layers: 12, hidden: 60, heads: 12, kv_heads: 6, ffn_hidden: 90, sequence: 33, vocabulary: "
      "9}\n";
  auto const other = [&](std::string const& sections) {
    Diagnostics diagnostics;
    auto const root = parse_yaml("model: " + model + sections, "x.yaml", diagnostics);
    read_training_config(ConfigNode{*root, "", diagnostics});
    return diagnostics.problems().empty() ? std::string{"no error"}
                                          : to_string(diagnostics.problems()[0]);
  };
  REQUIRE(other("parallel: {tensor: 4}") ==
          "x.yaml:2:20: parallel.tensor: found '4'; accepted: a divisor or a "
          "multiple of model.kv_heads (6)");
  REQUIRE(other("parallel: {tensor: 12}") ==
          "x.yaml:2:20: parallel.tensor: found '12'; accepted: a divisor of model.ffn_hidden (90)");
  REQUIRE(other("parallel: {tensor: 2}") == "no error");
  REQUIRE(other("parallel: {tensor: 2, sequence: true}") ==
          "x.yaml:2:20: parallel.tensor: found '2'; accepted: with parallel.sequence, a divisor of "
          "model.sequence (33)");
}

TEST_CASE("sequence parallelism with tensor 1 is a warning and stored as off", "[plan]") {
  std::vector<std::string> warnings;
  REQUIRE_FALSE(read("parallel: {sequence: true}", &warnings).parallel.sequence);
  REQUIRE(warnings == std::vector<std::string>{
                          "x.yaml:2:22: parallel.sequence: has no effect with parallel.tensor 1"});
  REQUIRE(read("parallel: {tensor: 2, sequence: true}", &warnings).parallel.sequence);
  REQUIRE(warnings.empty());
}

TEST_CASE("a layout whose ends hold more than the stages between them is a warning", "[plan]") {
  std::vector<std::string> warnings;
  read("parallel: {pipeline: 4}\nlayout: {first: 5, last: 5}", &warnings);
  REQUIRE(warnings.size() == 1);
  REQUIRE_THAT(warnings[0], Catch::Contains("layout: the first or last stage has 5 layers"));
  read("parallel: {pipeline: 4}\nlayout: {first: 1, last: 1}", &warnings);
  REQUIRE(warnings.empty());
}

TEST_CASE("the global batch is a multiple of microbatch times replicas", "[plan]") {
  REQUIRE(message("parallel: {data: 2}\nbatch: {global: 10, micro: 3}") ==
          "x.yaml:3:17: batch.global: found '10'; accepted: a multiple of batch.micro x "
          "parallel.data (6)");
  REQUIRE(
      message("parallel: {data: 2}") ==
      "x.yaml:1:1: batch.global: found '1' (the default); accepted: a multiple of batch.micro x "
      "parallel.data (2)");
}

TEST_CASE("more than one chunk a stage needs the interleaved schedule and two stages", "[plan]") {
  REQUIRE(message("parallel: {pipeline: 2, interleave: 3}\nbatch: {global: 4}") ==
          "x.yaml:1:1: schedule: found '1f1b' (the default); accepted: interleaved, as "
          "parallel.interleave "
          "is 3, or parallel.interleave 1");
  REQUIRE(message("parallel: {pipeline: 2, interleave: 3}\nbatch: {global: 4}\nschedule: gpipe") ==
          "x.yaml:4:11: schedule: found 'gpipe'; accepted: interleaved, as parallel.interleave is "
          "3, or "
          "parallel.interleave 1");
  REQUIRE(message("parallel: {interleave: 3}\nschedule: interleaved") ==
          "x.yaml:2:11: parallel.pipeline: found '1' (the default); accepted: at least 2, as "
          "schedule is "
          "interleaved");
  REQUIRE(
      message(
          "parallel: {pipeline: 2, interleave: 3}\nbatch: {global: 4}\nschedule: interleaved") ==
      "no error");
}

TEST_CASE("a step that is validated later needs stages, master copies and whole state", "[plan]") {
  std::string const later = "schedule: {kind: zb_h1, step: post_validated}\nbatch: {global: 8}\n";
  REQUIRE(read(later + "parallel: {pipeline: 2}\n").schedule.step == StepSync::post_validated);
  REQUIRE_THAT(message(later), Catch::Contains("parallel.pipeline: found '1' (the default); "
                                               "accepted: at least 2, as schedule.step"));
  REQUIRE_THAT(message(later + "parallel: {pipeline: 2, data: 2}\n"
                               "memory: {distributed_optimizer: true}\n"),
               Catch::Contains("memory.distributed_optimizer: found 'true'; accepted: false"));
  REQUIRE_THAT(message(later + "parallel: {pipeline: 2, data: 2}\n"
                               "sharding: distributed_optimizer\n"),
               Catch::Contains("sharding: found 'distributed_optimizer'; accepted: none, as"));
  // One mistake is one error: nothing is said of a short form that the file does not have.
  REQUIRE(message(later + "parallel: {pipeline: 2, data: 2}\nsharding: zero1\n")
              .find("memory.distributed_optimizer") == std::string::npos);
}

TEST_CASE("schedules that split backwards say whether adjacent halves are one backward", "[plan]") {
  std::string const layout = "parallel: {pipeline: 2}\nbatch: {global: 8}\n";
  REQUIRE(read(layout + "schedule: {kind: zb_h1, fuse_adjacent: false}").schedule.fuse_adjacent ==
          false);
  REQUIRE_THAT(message(layout + "schedule: {kind: 1f1b, fuse_adjacent: false}"),
               Catch::Contains("fuse_adjacent"));
  REQUIRE_THAT(message(layout + "schedule: {kind: dualpipev, fuse_adjacent: false}"),
               Catch::Contains("true, as dualpipev has whole backwards"));
}

TEST_CASE("an interleaved group holds p to n microbatches and leaves 0 or at least p", "[plan]") {
  // Megatron-LM's rule, with p = 2: n = 7 in groups of 4 leaves 3, in groups of 3 leaves 1.
  auto const group = [](int size, int n) {
    return message("parallel: {pipeline: 2, interleave: 2}\nbatch: {global: " + std::to_string(n) +
                   "}\nschedule: {kind: interleaved, group: " + std::to_string(size) + "}");
  };
  REQUIRE(group(4, 7) == "no error");
  REQUIRE(group(3, 7) ==
          "x.yaml:4:38: schedule.group: found '3'; accepted: for the microbatches of a replica "
          "(7) of batch.global (7): 4, 5, 7");
  REQUIRE(group(1, 7).find("schedule.group: found '1'; accepted: for the") != std::string::npos);
  REQUIRE(group(8, 7).find("schedule.group: found '8'; accepted: for the") != std::string::npos);
  // Who named no group is told of the batch.
  REQUIRE(message("parallel: {pipeline: 2, interleave: 2}\nbatch: {global: 7}\nschedule: "
                  "interleaved") ==
          "x.yaml:3:17: batch.global: found '7'; accepted: one that makes the microbatches of a "
          "replica (7) a multiple of parallel.pipeline (2), or schedule.group: 4, 5, 7");
  REQUIRE(group(2, 1) ==
          "x.yaml:3:17: batch.global: found '1'; accepted: enough for parallel.pipeline (2) "
          "microbatches of a replica (1), as schedule is interleaved");
  REQUIRE(read("parallel: {pipeline: 2, interleave: 2}\nbatch: {global: 4}\nschedule: interleaved")
              .schedule.group == 2);
  REQUIRE(message("schedule: {kind: 1f1b, group: 4}") ==
          "x.yaml:2:24: schedule.group: found '4'; accepted: this key only with kind interleaved "
          "(--set schedule=1f1b replaces the whole section)");
}

TEST_CASE("an even layout needs layers divisible by pipeline x interleave", "[plan]") {
  REQUIRE(message("parallel: {pipeline: 5}") ==
          "x.yaml:2:22: parallel.pipeline: found '5'; accepted: a divisor of model.layers (12), or "
          "a layout");
  REQUIRE(message("parallel: {pipeline: 13}").find("parallel.pipeline: found '13'") !=
          std::string::npos);
  REQUIRE(
      message(
          "parallel: {pipeline: 4, interleave: 5}\nbatch: {global: 4}\nschedule: interleaved") ==
      "x.yaml:2:37: parallel.interleave: found '5'; accepted: a number whose product with "
      "parallel.pipeline (4) divides model.layers (12), or a layout");
}

TEST_CASE("a layout puts all layers somewhere, at least one on each inner virtual stage",
          "[plan]") {
  auto const layout = [](std::string const& text) {
    return message("parallel: {pipeline: 4}\nlayout: " + text);
  };
  REQUIRE(layout("even") == "no error");
  REQUIRE(layout("[0, 6, 6, 0]") == "no error");
  REQUIRE(layout("{first: 2, last: 2}") == "no error");
  REQUIRE(layout("{first: 0}") == "no error");
  REQUIRE(
      layout("[3, 3, 3, 4]") ==
      "x.yaml:3:9: layout: found a list with 13 layers in all; accepted: model.layers (12) in all");
  REQUIRE(
      layout("[6, 6]") ==
      "x.yaml:3:9: layout: found a list of 2; accepted: a list of parallel.pipeline (4) numbers");
  REQUIRE(layout("[6, 0, 3, 3]") == "no error");
  REQUIRE(layout("{first: 1, last: 2}") ==
          "x.yaml:3:9: layout: found first and last that leave 9 layers; accepted: a multiple of "
          "the 2 stages "
          "between them, of model.layers (12)");
  REQUIRE(layout("{first: 1}") ==
          "x.yaml:3:9: layout: found first, which leaves 11 layers; accepted: a multiple of the 3 "
          "other stages, of model.layers (12)");
  REQUIRE(layout("{frist: 2}")
              .find("layout.frist: found an unknown key; accepted: first, last; did you mean "
                    "'first'?") != std::string::npos);
  REQUIRE(layout("uneven") ==
          "x.yaml:3:9: layout: found 'uneven'; accepted: even, a map {first: 11, last: 11}, "
          "or a list of layers per stage");
  REQUIRE(layout("[3, 3, 3, x]") ==
          "x.yaml:3:19: layout[3]: found 'x'; accepted: a whole number from 0 to 100000");
  REQUIRE(message("layout: {first: 6, last: 6}") ==
          "x.yaml:2:9: layout: found both first and last; accepted: one of them, as "
          "parallel.pipeline is 1");
}

TEST_CASE("layers fall onto virtual stages chunk by chunk", "[plan]") {
  std::string const two =
      "parallel: {pipeline: 2, interleave: 2}\nbatch: {global: 4}\nschedule: interleaved\n";
  using Layers = std::vector<std::int64_t>;
  REQUIRE(layers_of_virtual_stages(read(two)) == Layers{3, 3, 3, 3});
  REQUIRE(layers_of_virtual_stages(read(two + "layout: {first: 4}")) == Layers{2, 4, 2, 4});
  REQUIRE(layers_of_virtual_stages(read(two + "layout: [8, 4]")) == Layers{4, 2, 4, 2});
  REQUIRE(layers_of_virtual_stages(read(two + "layout: [0, 5, 6, 1]")) == Layers{0, 5, 6, 1});
  REQUIRE(message(two + "layout: [7, 5]") ==
          "x.yaml:5:9: layout: found a stage with 7 layers; accepted: multiples of "
          "parallel.interleave (2) for "
          "each stage");
}

TEST_CASE("a recompute policy is a word, a map, or one of either for each stage", "[plan]") {
  auto const policy = [](std::string const& text) {
    return read("recompute: " + text).recompute.front();
  };
  RecomputePolicy expected;
  REQUIRE(policy("none") == expected);
  expected.granularity = RecomputeGranularity::selective;
  REQUIRE(policy("selective") == expected);
  REQUIRE(policy("{granularity: selective, modules: [core_attention]}") == expected);
  expected.modules = {"mlp", "layernorm"};
  REQUIRE(policy("{granularity: selective, modules: [layernorm, mlp]}") == expected);
  expected = {};
  expected.granularity = RecomputeGranularity::full;
  REQUIRE(policy("full") == expected);
  REQUIRE(policy("{granularity: full, method: uniform, layers: 1}") == expected);
  expected.method = RecomputeMethod::block;
  expected.layers = 3;
  expected.store_microbatches.count = 2;
  REQUIRE(policy("{granularity: full, method: block, layers: 3, store_microbatches: 2}") ==
          expected);
  auto const policies =
      read(
          "parallel: {pipeline: 3}\nrecompute: {per_stage: [full, {granularity: none}, selective]}")
          .recompute;
  REQUIRE(policies.size() == 3);
  REQUIRE(policies[2].granularity == RecomputeGranularity::selective);
}

TEST_CASE("early recompute needs messages that do not block, known windows and no second run",
          "[plan]") {
  std::string const early = "parallel: {pipeline: 3}\nrecompute: {granularity: full, early: bubble";
  REQUIRE(message("schedule: {kind: 1f1b, p2p: overlapped}\n" + early + "}") == "no error");
  REQUIRE(message(early + "}")
              .find("recompute.early: found 'bubble'; accepted: no, or "
                    "schedule.p2p overlapped") != std::string::npos);
  std::string const overlapped = "schedule: {kind: zb_h1}\n" + early;
  REQUIRE(message(overlapped + "}") == "no error");
  REQUIRE(message(overlapped + ", for_weights: again}")
              .find("recompute.for_weights: found 'again'; accepted: keep, as early is bubble") !=
          std::string::npos);
  REQUIRE(message(overlapped + ", store_microbatches: 2}") == "no error");
  REQUIRE(message(overlapped + ", store_microbatches: auto}")
              .find("recompute.store_microbatches: found 'auto'; accepted: a number, as early is "
                    "bubble") != std::string::npos);
  REQUIRE(message("schedule: zb_h1\nrecompute: {granularity: full, early: soon}")
              .find("recompute.early: found 'soon'; accepted: no, bubble") != std::string::npos);
}

TEST_CASE("two copies of the parameters do not overlap their gradients", "[plan]") {
  std::string const both =
      "schedule: dualpipe\nbatch: {global: 8}\nparallel: {pipeline: 2, interleave: 2";
  REQUIRE(message(both + "}") == "no error");
  REQUIRE(message(both + ", overlap_gradients: true}")
              .find("parallel.overlap_gradients: found 'true'; accepted: false, as schedule is "
                    "dualpipe: the two copies of a stage's parameters complete their gradients at "
                    "different times") != std::string::npos);
}

TEST_CASE("a recompute key that its granularity does not use is refused", "[plan]") {
  REQUIRE(message("recompute: {granularity: full, modules: [mlp]}") ==
          "x.yaml:2:32: recompute.modules: found a list; accepted: this key only with granularity "
          "selective");
  REQUIRE(message("recompute: {granularity: selective, method: block}") ==
          "x.yaml:2:37: recompute.method: found 'block'; accepted: this key only with granularity "
          "full");
  REQUIRE(message("recompute: {granularity: none, store_microbatches: 2}") ==
          "x.yaml:2:32: recompute.store_microbatches: found '2'; accepted: this key only with "
          "granularity "
          "selective or full");
  REQUIRE(message("recompute: {layers: 2}")
              .find("recompute.granularity: missing; accepted: none, "
                    "selective, full") != std::string::npos);
  REQUIRE(message("recompute: {granularity: selective, modules: [mlp, mlp]}") ==
          "x.yaml:2:52: recompute.modules[1]: found 'mlp'; accepted: each module once");
  REQUIRE(message("recompute: {granularity: full, store_microbatches: some}") ==
          "x.yaml:2:52: recompute.store_microbatches: found 'some'; accepted: auto, or a whole "
          "number from 0 to 2147483647");
  REQUIRE(message("recompute: {granularity: full, store_microbatches: auto}") == "no error");
  REQUIRE(message("recompute: {granularity: none, early: bubble}")
              .find("recompute.early: found 'bubble'; accepted: this key only with granularity "
                    "selective or full") != std::string::npos);
  REQUIRE(message("recompute: {granularity: none, for_weights: again}")
              .find("recompute.for_weights: found 'again'; accepted: this key only with "
                    "granularity selective or full") != std::string::npos);
}

TEST_CASE("a recompute policy fits its chunk and its stages", "[plan]") {
  REQUIRE(message("parallel: {pipeline: 3}\nrecompute: {granularity: full, layers: 5}") ==
          "x.yaml:3:40: recompute.layers: found '5'; accepted: a whole number from 1 to the layers "
          "of a chunk "
          "(4)");
  REQUIRE(message("parallel: {pipeline: 3}\nrecompute: {per_stage: [full, full]}") ==
          "x.yaml:3:24: recompute.per_stage: found a list of 2; accepted: a list of "
          "parallel.pipeline (3) "
          "policies");
  REQUIRE(message("parallel: {pipeline: 2}\nlayout: [2, 10]\n"
                  "recompute: {per_stage: [{granularity: full, layers: 3}, {granularity: full, "
                  "layers: 10}]}")
              .find("recompute.per_stage[0].layers: found '3'; accepted: a whole number from 1 to "
                    "the layers of "
                    "a chunk (2)") != std::string::npos);
}

TEST_CASE("sharded checkpoints need tensor parallelism without sequence parallelism", "[plan]") {
  std::string const sharded = "\nrecompute: {granularity: full, sharded_checkpoints: true}";
  REQUIRE(message("parallel: {tensor: 2}" + sharded) == "no error");
  REQUIRE(message("parallel: {tensor: 1}" + sharded) ==
          "x.yaml:3:53: recompute.sharded_checkpoints: found 'true'; accepted: false, as "
          "parallel.tensor is 1");
  REQUIRE(message("parallel: {tensor: 2, sequence: true}" + sharded) ==
          "x.yaml:3:53: recompute.sharded_checkpoints: found 'true'; accepted: false, as "
          "parallel.sequence "
          "shards the checkpoints already");
  REQUIRE(message("recompute: {granularity: selective, sharded_checkpoints: true}")
              .find("this key only with granularity full") != std::string::npos);
}

TEST_CASE("a configuration that a program made is checked like one of a file", "[plan]") {
  TrainingConfig config = read("parallel: {pipeline: 3}");
  REQUIRE(problems_of(config).empty());
  config.parallel.tensor = 5;
  config.recompute = {RecomputePolicy{}, RecomputePolicy{}};
  auto const problems = problems_of(config);
  REQUIRE(problems.size() == 2);
  REQUIRE(problems[0].key == "parallel.tensor");
  REQUIRE(problems[0].accepted == "a divisor of model.heads (8)");
  REQUIRE(to_string(problems[0]) ==
          "parallel.tensor: found '5'; accepted: a divisor of model.heads (8)");
  REQUIRE(problems[1].accepted == "a list of parallel.pipeline (3) policies");
}

TEST_CASE("dimensions whose products leave 63 bits are refused", "[plan]") {
  Diagnostics diagnostics;
  auto const root = parse_yaml(
      "model: {layers: 100000, hidden: 16777216, heads: 16, sequence: 16777216, vocabulary: "
      "2147483648}\n"
      "parallel: {tensor: 16, data: 1000000}\nbatch: {global: 1048576000000, micro: 1048576}\n",
      "x.yaml", diagnostics);
  read_training_config(ConfigNode{*root, "", diagnostics});
  REQUIRE(diagnostics.problems().size() == 1);
  REQUIRE(to_string(diagnostics.problems()[0]) ==
          "x.yaml:1:8: model: found a model and batch whose bytes or FLOPs do not fit in 63 bits; "
          "accepted: "
          "smaller dimensions, or a smaller batch");
}

TEST_CASE("jobs and schedules beyond what a plan can hold are refused", "[plan]") {
  REQUIRE(message("parallel: {tensor: 8, data: 1000000, pipeline: 12}\nbatch: {global: 1000000}") ==
          "x.yaml:2:11: parallel: found a job of 96000000 ranks; accepted: tensor x context x "
          "pipeline x "
          "data of at most "
          "16777216");
  REQUIRE(message("parallel: {pipeline: 12}\nbatch: {global: 100000000}") ==
          "x.yaml:3:8: batch: found 1200000000 chunk passes an iteration; accepted: "
          "parallel.pipeline x "
          "parallel.interleave x microbatches of at most 16000000");
  // What is accepted can be laid out.
  REQUIRE(message("parallel: {pipeline: 4}\nbatch: {global: 4194304}") ==
          "x.yaml:3:8: batch: found 16777216 chunk passes an iteration; accepted: "
          "parallel.pipeline x "
          "parallel.interleave x microbatches of at most 16000000");
}

}  // namespace
}  // namespace stagecraft::training_config_test
