#include <algorithm>
#include <catch2/catch.hpp>
#include <tuple>

#include "tests/cli/command_results.hpp"
#include "tests/cli/run_program.hpp"

namespace stagecraft::plan_command_test {
namespace {

using nlohmann::json;

std::string const configs = STAGECRAFT_SOURCE_DIR "/configs/";

std::string plan(std::string const& model, int gpus, int batch, std::string const& rest) {
  return "plan '" + configs + "models/" + model + ".yaml' --system '" + configs +
         "systems/selene-a100.yaml' --gpus " + std::to_string(gpus) + " --global-batch " +
         std::to_string(batch) + " " + rest;
}

}  // namespace

TEST_CASE("plan searches expert parallelism, of models with experts") {
  TemporaryFolder const folder;
  std::string const file = (folder.path() / "best.yaml").string();
  std::string const rest = "--fix recompute=none,selective --fix tensor=2,4 --margin 0 ";
  std::string const experts = "--fix expert=4 --fix expert_tensor=2 ";
  json const free = json_of(plan("mixtral-8x7b", 64, 64, rest + "--top 2 --json"));
  json const held =
      json_of(plan("mixtral-8x7b", 64, 64, rest + experts + "--top 2 --json -o '" + file + "'"));
  json const& best = held.at("best")[0];
  REQUIRE(best.at("config").at("parallel").at("expert") == 4);
  REQUIRE(best.at("config").at("parallel").at("expert_tensor") == 2);
  REQUIRE(held.at("considered") < free.at("considered"));
  REQUIRE(free.at("best")[0].at("iteration_seconds") <= best.at("iteration_seconds"));
  json const simulated = json_of("simulate '" + file + "' --json --require-fit");
  REQUIRE(simulated.at("iteration_seconds") == best.at("iteration_seconds"));
  REQUIRE(simulated.at("config").at("parallel") == best.at("config").at("parallel"));

  // What all plans share is said once, and needs no legend.
  ProgramResult const table =
      run_stagecraft(plan("mixtral-8x7b", 64, 64, rest + experts + "--top 2"), "COLUMNS=200");
  REQUIRE_THAT(table.output,
               Catch::Contains(", expert 4, expert tensor 2, ") && !Catch::Contains("EP expert"));
  ProgramResult const several =
      run_stagecraft(plan("mixtral-8x7b", 64, 64,
                          rest + "--top 12 --fix schedule=1f1b,interleaved --fix p2p=blocking"),
                     "COLUMNS=200");
  REQUIRE_THAT(several.output, Catch::Contains("; EP expert; ETP expert"));
  REQUIRE_THAT(run_stagecraft(plan("gpt-22b", 8, 4, "--top 1")).output, !Catch::Contains("ETP"));
  REQUIRE_THAT(run_stagecraft(plan("gpt-22b", 8, 4, "--fix expert=2")).errors,
               Catch::Contains("--fix: found 'expert=2'; accepted: what some legal run") &&
                   Catch::Contains(" has: 1"));
  REQUIRE_THAT(run_stagecraft(plan("mixtral-8x7b", 64, 64, "--set parallel.expert=8")).errors,
               Catch::Contains("which the search decides; accepted: --fix to hold it"));
}

TEST_CASE(
    "plan prints for each plan what simulate gives for its configuration, to the last digit") {
  json const result = json_of(plan("gpt-22b", 8, 4, "--top 3 --json"));
  REQUIRE(result.at("best").size() == 3);
  REQUIRE(result.at("considered").get<int>() == result.at("simulated").get<int>() +
                                                    result.at("dismissed_by_memory").get<int>() +
                                                    result.at("dismissed_by_bound").get<int>());
  TemporaryFolder const folder;
  for (std::string const list : {"best", "pareto"}) {
    for (json const& entry : result.at(list)) {
      std::string const file = folder.write("run.yaml", entry.at("config").dump());
      json const simulated = json_of("simulate '" + file + "' --json --require-fit");
      REQUIRE(simulated.at("config") == entry.at("config"));
      REQUIRE(simulated.at("iteration_seconds") == entry.at("iteration_seconds"));
      REQUIRE(simulated.at("mfu") == entry.at("mfu"));
      std::int64_t peak = 0;
      for (json const& stage : simulated.at("stages")) {
        peak = std::max(peak, stage.at("peak_bytes").get<std::int64_t>());
      }
      REQUIRE(entry.at("peak_bytes").get<std::int64_t>() == peak);
    }
  }
  REQUIRE(result.at("best")[0].at("megatron_flags").get<std::string>().find("--num-layers 48") !=
          std::string::npos);
}

TEST_CASE("plan -o writes the best plan as a run file, and days and money follow from its rate") {
  TemporaryFolder const folder;
  std::string const file = (folder.path() / "best.yaml").string();
  json const result = json_of(
      plan("gpt-22b", 8, 4, "--top 1 --json --price 2.5/gpu-hour --tokens 1e9 -o '" + file + "'"));
  REQUIRE(folder.names() == std::vector<std::string>{"best.yaml"});
  json const best = result.at("best")[0];
  json const simulated = json_of("simulate '" + file + "' --json");
  REQUIRE(simulated.at("iteration_seconds") == best.at("iteration_seconds"));
  double const seconds = 1e9 / simulated.at("tokens_per_second").get<double>();
  REQUIRE(best.at("days").get<double>() == Approx(seconds / 86400));
  REQUIRE(best.at("cost").get<double>() == Approx(seconds / 3600 * 8 * 2.5));
}

TEST_CASE("plan's rates are per GPU, counts have suffixes, and little free memory is said") {
  ProgramResult const tables =
      run_stagecraft(plan("gpt-22b", 8, 4, "--top 1 --price '2.5 EUR/gpu-hour' --tokens 1.5B"));
  REQUIRE(tables.exit_code == 0);
  REQUIRE_THAT(in_one_line(tables.output),
               Catch::Contains(" s tok/s Kh/T MFU % days /day total free ") &&
                   Catch::Contains("; cost in EUR /day and in total; ") &&
                   Catch::Contains("free: GiB on the fullest device"));
  json const best = json_of(plan("gpt-22b", 8, 4, "--top 1 --json --tokens 1.5B")).at("best")[0];
  // MFU is of the A100's 312 TFLOP/s.
  REQUIRE(best.at("teraflops_per_gpu").get<double>() == Approx(312 * best.at("mfu").get<double>()));
  double const rate = best.at("tokens_per_second").get<double>();
  REQUIRE(best.at("tokens_per_second_per_gpu").get<double>() == Approx(rate / 8));
  REQUIRE(best.at("days").get<double>() == Approx(1.5e9 / rate / 86400));
  // What `simulate` says that the fullest device has left; a twentieth of it is 4 GiB.
  std::int64_t const gibibyte = std::int64_t{1} << 30;
  TemporaryFolder const folder;
  json const simulated =
      json_of("simulate '" + folder.write("best.yaml", best.at("config").dump()) + "' --json");
  std::int64_t free = 80 * gibibyte;
  for (json const& stage : simulated.at("stages")) {
    free = std::min(free, stage.at("margin_bytes").get<std::int64_t>());
  }
  REQUIRE(best.at("free_bytes") == free);
  bool const has_margin = free >= 4 * gibibyte;
  REQUIRE(best.at("has_margin") == has_margin);
  bool const is_said = tables.output.find("#1 leaves ") != std::string::npos;
  REQUIRE(is_said == !has_margin);
}

TEST_CASE("plan says why no probability is known of a stack, and what to do instead") {
  require_refusal(plan("gpt-22b", 8, 4, "--safety 0.99"),
                  {"--safety: found software 'megatron-2022'", "too few runs",
                   "accepted: nanotron, nanotron-checked; with other software --margin"});
}

TEST_CASE("plan --safety looks at plans that have a probability, and says so") {
  std::string const of_nanotron =
      "plan llama3-8b --system aws-p5 --gpus 16 --global-batch 64 --software nanotron --safety "
      "0.9 ";
  ProgramResult const text = run_stagecraft(of_nanotron + "--top 1");
  REQUIRE_THAT(text.errors, Catch::Contains("--safety: only plans of one stage are searched"));
  for (json const& entry :
       json::parse(run_stagecraft(of_nanotron + "--top 3 --json").output).at("best")) {
    REQUIRE(entry.at("config").at("parallel").at("pipeline") == 1);
    REQUIRE(entry.at("fits_probability").get<double>() >= 0.9);
  }
  require_refusal(of_nanotron + "--fix pipeline=2",
                  {"--safety: found --fix pipeline without 1", "--fix pipeline=1"});
  REQUIRE_THAT(run_stagecraft(of_nanotron + "--top 1 --fix pipeline=1").errors,
               !Catch::Contains("--safety"));
}

TEST_CASE("plan keeps 5 % of the device free unless --margin says otherwise") {
  std::int64_t const gibibyte = std::int64_t{1} << 30;
  auto const free_bytes = [](std::string const& rest) {
    json const result = json_of(plan("gpt-22b", 8, 4, "--top 5 --json --fix tensor=8 " + rest));
    std::int64_t least = std::int64_t{80} << 30;
    for (json const& entry : result.at("best")) {
      least = std::min(least, entry.at("free_bytes").get<std::int64_t>());
    }
    return least;
  };
  REQUIRE(free_bytes("") >= 4 * gibibyte);
  REQUIRE(free_bytes("--margin 25%") >= 20 * gibibyte);
  REQUIRE(free_bytes("--margin 24GiB") >= 24 * gibibyte);
  for (std::string const wrong : {"x", "5", "101%", "81GiB"}) {
    require_refusal(plan("gpt-22b", 8, 4, "--margin " + wrong),
                    {"--margin: found '" + wrong + "'; accepted: a share of the device"});
  }
  ProgramResult const none =
      run_stagecraft(plan("gpt-22b", 8, 4, "--fix tensor=8 --fix recompute=none --margin 79GiB"));
  REQUIRE(none.exit_code == 3);
  REQUIRE_THAT(none.errors, Catch::Contains("79.00 of margin"));
}

TEST_CASE("plan says which overlaps it did not search, and what they would do to the best") {
  TemporaryFolder const folder;
  std::string const words = "--top 1 --fix tensor=4 --fix pipeline=2 --fix data=2 ";
  json const result = json_of(plan("gpt-22b", 16, 16, words + "--json"));
  json const& assumed = result.at("not_searched");
  REQUIRE(assumed.at("schedule.p2p").is_null());  // both were searched
  REQUIRE(assumed.at("parallel.overlap_gradients") == false);
  REQUIRE(assumed.at("best_with").size() == 1);
  std::string const file = folder.write("best.yaml", result.at("best")[0].at("config").dump());
  for (json const& trial : assumed.at("best_with")) {
    std::string set;
    for (json const& one : trial.at("set")) set += " --set " + one.get<std::string>();
    json const simulated = json_of("simulate '" + file + "' --json" + set);
    REQUIRE(simulated.at("iteration_seconds").get<double>() ==
            Approx(trial.at("iteration_seconds").get<double>()).epsilon(1e-12));
    REQUIRE(simulated.at("iteration_seconds") < result.at("best")[0].at("iteration_seconds"));
  }
  std::string const both = "--set schedule.p2p=overlapped --set parallel.overlap_gradients=true ";
  ProgramResult const set = run_stagecraft(plan("gpt-22b", 16, 16, words + both));
  REQUIRE_THAT(set.output,
               Catch::Contains("not searched: schedule.p2p, overlapped in all plans; "
                               "parallel.overlap_gradients, true in all plans\n  (false: +"));
  // Megatron-LM of 2022 has blocking transfers and reduces gradients after the last backward pass.
  json const of_2022 = json::parse(
      run_stagecraft(plan("gpt-22b", 16, 16, words + "--json --launchable megatron-2022")).output);
  REQUIRE(of_2022.at("best")[0].at("config").at("schedule").at("p2p") == "blocking");
  REQUIRE(of_2022.at("not_searched").at("best_with").empty());
}

TEST_CASE("plan holds a routing factor as far as the split of the experts allows it") {
  std::string const words =
      "--top 1 --json --fix tensor=2 --fix pipeline=8 --fix recompute=none "
      "--fix expert_tensor=1 --set routing.factor=";
  // 8 experts, 2 per token: all tokens of a rank choose among at most 4 times the balanced rows.
  for (auto const& [expert, factor, held] :
       {std::tuple{4, 1.5, 1.5}, std::tuple{8, 4.0, 4.0}, std::tuple{2, 4.0, 2.0}}) {
    json const best =
        json_of(plan("mixtral-8x7b", 64, 64,
                     words + std::to_string(factor) + " --fix expert=" + std::to_string(expert)))
            .at("best")[0];
    REQUIRE(best.at("config").at("routing").at("factor") == held);
    json const balanced =
        json_of(plan("mixtral-8x7b", 64, 64,
                     words + std::string{"1"} + " --fix expert=" + std::to_string(expert)))
            .at("best")[0];
    REQUIRE(best.at("iteration_seconds") > balanced.at("iteration_seconds"));
  }
  require_refusal(plan("mixtral-8x7b", 64, 64, "--set routing.factor=4.5"),
                  {"routing.factor: found '4.5'; accepted: a number up to 4"});
  require_refusal(plan("gpt-22b", 8, 4, "--set routing.factor=2"), {"routing", "no experts"});
}

TEST_CASE("plan lists by memory what may be as fast as the best") {
  json const result = json_of(plan("gpt-22b", 8, 4, "--top 4 --json --fix tensor=4"));
  std::int64_t before = 0;
  for (json const& index : result.at("near_ties")) {
    json const& entry = result.at("best").at(index.get<std::size_t>());
    REQUIRE(entry.at("peak_bytes").get<std::int64_t>() >= before);
    before = entry.at("peak_bytes").get<std::int64_t>();
    REQUIRE((index == 0 || entry.at("separable") == false));
  }
}

TEST_CASE("plan says how far the best may be from the best schedule of its passes") {
  json const split = json_of(plan("gpt-22b", 8, 8, "--top 1 --json --fix schedule=zb_h1,zb_h2"));
  json const& bound = split.at("schedule_bound");
  REQUIRE(bound.at("reason").is_null());
  double const least = bound.at("iteration_seconds").get<double>();
  double const best = split.at("best")[0].at("iteration_seconds").get<double>();
  REQUIRE(least <= best);
  json const& in_memory = bound.at("in_memory");
  REQUIRE(in_memory.at("reason").is_null() == in_memory.at("iteration_seconds").is_number());
  // No order makes accelerators faster than their peak.
  REQUIRE(least >= split.at("best")[0].at("mfu").get<double>() * best);
  REQUIRE_THAT(run_stagecraft(plan("gpt-22b", 8, 8, "--top 1 --fix schedule=zb_h1,zb_h2")).output,
               Catch::Contains("any order of its passes takes at least"));
}

TEST_CASE("plan --launchable finds plans that the flags say, and import megatron reads them back") {
  TemporaryFolder const folder;
  for (auto const& [framework, version, vocabulary] :
       {std::tuple{"megatron-core", "current", "51200"},
        std::tuple{"megatron-2022", "2022", "50257"}}) {
    CAPTURE(framework);
    json const result = json::parse(
        run_stagecraft(plan("gpt-22b", 8, 8,
                            std::string{"--top 2 --json --fix tensor=2,4 --launchable "} +
                                framework + " --set software=" + framework +
                                " --set model.vocabulary=" + vocabulary))
            .output);
    REQUIRE(result.at("launchable") == framework);
    REQUIRE(result.at("best").size() == 2);
    for (json const& entry : result.at("best")) {
      REQUIRE(entry.at("megatron_gaps").empty());
      std::string const file = (folder.path() / "run.yaml").string();
      ProgramResult const imported =
          run_stagecraft(std::string{"import megatron --world-size 8 --megatron "} + version +
                         " --system selene-a100 -o '" + file + "' -- " +
                         entry.at("megatron_flags").get<std::string>());
      INFO(imported.errors);
      REQUIRE(imported.exit_code == 0);
      std::string const whole = folder.write("whole.yaml", entry.at("config").dump());
      json const again = json_of("simulate '" + file + "' --json");
      REQUIRE(again.at("plan") == json_of("simulate '" + whole + "' --json").at("plan"));
      REQUIRE(again.at("iteration_seconds") == entry.at("iteration_seconds"));
    }
  }
  require_refusal(plan("gpt-22b", 8, 4, "--launchable nemo"),
                  {"--launchable: found 'nemo'; accepted: megatron-2022, megatron-core, "
                   "torchtitan, deepspeed"});
  ProgramResult const other =
      run_stagecraft(plan("gpt-22b", 8, 8, "--top 1 --fix tensor=4 --launchable megatron-2022"));
  REQUIRE(other.exit_code == 0);
  REQUIRE_THAT(other.errors, Catch::Contains("cannot run this model as it is: model.vocabulary"));
  std::size_t const warned = other.output.find("These flags do not run the best plan");
  REQUIRE(warned != std::string::npos);
  REQUIRE(warned < other.output.find("--tensor-model-parallel-size"));
  // Without --software the times are those of the framework that is named.
  constexpr char const* of_another =
      "--launchable megatron-core: times and memory are those of the software 'megatron-2022'";
  std::string const of_core = "--top 1 --fix tensor=4 --launchable megatron-core";
  REQUIRE_THAT(run_stagecraft(plan("gpt-22b", 8, 8, of_core)).errors,
               !Catch::Contains("are those of the software"));
  REQUIRE(json::parse(run_stagecraft(plan("gpt-22b", 8, 8, of_core + " --json")).output)
              .at("best")[0]
              .at("config")
              .at("software")
              .at("name") == "megatron-core");
  REQUIRE_THAT(run_stagecraft(plan("gpt-22b", 8, 8, of_core + " --software megatron-2022")).errors,
               Catch::Contains(of_another));
}

TEST_CASE(
    "plan --launchable finds no plan of a model that the framework cannot run, and says why") {
  // Megatron-LM of 2022 has neither rotary positions nor RMS norms; the current one has flags for
  // all of Llama 2.
  require_refusal(
      plan("llama2-7b", 16, 64, "--launchable megatron-2022"),
      {"--launchable: found 'megatron-2022', which can run no plan of this model (",
       "model.positions rotary: Megatron-LM of 2022 has learned positions",
       "model.norm rmsnorm: Megatron-LM of 2022 has LayerNorm",
       "; accepted: megatron-core, torchtitan, deepspeed, accelerate, megatron-fsdp, or no "});
  REQUIRE(
      run_stagecraft(plan("llama2-7b", 16, 64, "--top 1 --launchable megatron-core")).exit_code ==
      0);
}

TEST_CASE("each schedule that was asked for has its loss, or a line that says how to see it") {
  // Two copies of a model of 22B need more than one device, and four microbatches allow two stages.
  std::string const text =
      run_stagecraft(plan("gpt-22b", 8, 4, "--fix schedule=1f1b,zbv,dualpipe --top 1")).output;
  REQUIRE_THAT(text,
               Catch::Contains("simulated of other schedules (--fix schedule=KIND alone finds its "
                               "fastest): ") &&
                   Catch::Contains("schedules of which no plan fits: dualpipe\n"));
  // The search has GPipe from two stages on, and zero-bubble schedules need as many.
  REQUIRE_THAT(run_stagecraft(plan("llama3-8b", 8, 64, "--fix pipeline=1 --top 1")).output,
               Catch::Contains("schedules of which the search has no plan: gpipe, "));
}

TEST_CASE("no plan of the answer runs out by its allocator's replay") {
  // Without a margin the fastest plans fill the device, and driver, context and NCCL take the rest.
  json const result = json_of(plan("gpt3-175b", 64, 64, "--margin 0 --top 4 --json"));
  TemporaryFolder const folder;
  for (json const& entry : result.at("best")) {
    REQUIRE(entry.at("verdict") != "does_not_fit");
    std::string const file = folder.write("run.yaml", entry.at("config").dump());
    REQUIRE(run_stagecraft("simulate '" + file + "' --require-fit").exit_code == 0);
  }
  for (json const& entry : result.at("pareto")) REQUIRE(entry.at("verdict") != "does_not_fit");
  // Some fit by counted bytes alone, and the next ones are tried: more room is never slower.
  REQUIRE(result.at("run_out").get<int>() > 0);
  json const careful = json_of(plan("gpt3-175b", 64, 64, "--margin 5% --top 1 --json"));
  REQUIRE(result.at("best")[0].at("iteration_seconds") <=
          careful.at("best")[0].at("iteration_seconds"));
  std::string const file = folder.write("careful.yaml", careful.at("best")[0].at("config").dump());
  json const simulated = json_of("simulate '" + file + "' --json");
  REQUIRE(simulated.at("stages").size() == 8);
  for (json const& stage : simulated.at("stages")) {
    REQUIRE(stage.at("margin_bytes").get<std::int64_t>() >= std::int64_t{4} << 30);
  }
}

TEST_CASE("plan exits with 3 where nothing fits and says what came closest") {
  TemporaryFolder const folder;
  std::string const file = (folder.path() / "best.yaml").string();
  ProgramResult const result = run_stagecraft(plan("gpt3-175b", 8, 8, "-o '" + file + "'"));
  REQUIRE(result.exit_code == 3);
  REQUIRE(result.output.empty());
  REQUIRE(result.errors.find("nothing fits") != std::string::npos);
  REQUIRE(result.errors.find("GiB too much on stage") != std::string::npos);
  REQUIRE(folder.names().empty());
}

TEST_CASE("a plan that lacks one byte is said to lack one byte, with --exhaustive too") {
  std::string const only =
      "--margin 0 --fix tensor=8 --fix pipeline=1 --fix micro=1 --fix recompute=none --fix "
      "sequence=true --set memory.allocator=arena ";
  json const best = json_of(plan("gpt-22b", 8, 4, only + "--json")).at("best")[0];
  // What is counted, and the reserve of 2 GiB.
  std::int64_t const least = best.at("peak_bytes").get<std::int64_t>() + (std::int64_t{2} << 30);
  std::string const on = "--set 'system.accelerator.memory=";
  REQUIRE(
      run_stagecraft(plan("gpt-22b", 8, 4, only + on + std::to_string(least) + " B'")).exit_code ==
      0);
  for (std::string const how : {"", " --exhaustive"}) {
    REQUIRE_THAT(
        run_stagecraft(plan("gpt-22b", 8, 4, only + on + std::to_string(least - 1) + " B'" + how))
            .errors,
        Catch::Contains("the closest holds 1 B too much on stage 0"));
  }
}

TEST_CASE("plan says that an interrupt left nothing behind") {
  TemporaryFolder const folder;
  std::string const best = (folder.path() / "best.yaml").string();
  ProgramResult const result =
      run_stagecraft(plan("gpt3-175b", 1024, 1024, "--exhaustive -o '" + best + "'"),
                     "timeout --preserve-status -s INT 1 env --default-signal=INT");
  REQUIRE(result.exit_code == 130);  // 128 + SIGINT
  REQUIRE_THAT(result.errors,
               Catch::Contains("stagecraft plan: interrupted, nothing was written\n"));
  REQUIRE(folder.names().empty());
}

TEST_CASE("plan refuses what no run can be with exit code 2") {
  // 7 ranks: neither 64 heads, nor 4 sequences, nor (with equal stages) 48 layers.
  require_refusal(plan("gpt-22b", 7, 4, "--fix layout=even"), {"--fix: found 'layout=even'"});
  require_refusal(plan("gpt-22b", 8, 4, "--fix micro=1 --fix tensor=5"),
                  {"--fix: found 'tensor=5'; accepted: what some legal run of this model on 8"});
  require_refusal(plan("gpt-22b", 8, 4, "--fix tensor=4 --fix pipeline=8"),
                  {"--fix: found 'tensor=4' and 'pipeline=8'"});
  require_refusal(plan("gpt-22b", 101, 4, ""), {"--gpus: found '101'"});
  require_refusal(plan("gpt-22b", 0, 4, ""), {"--gpus: found '0'"});
  require_refusal(plan("gpt-22b", 8, 0, ""), {"--global-batch: found '0'"});
  require_refusal(plan("no-such-model", 8, 4, ""), {"no-such-model.yaml"});
  require_refusal(plan("gpt-22b", 8, 4, "--price 2.5/day"), {"--price: found '2.5/day'"});
  require_refusal(plan("gpt-22b", 8, 4, "--fix tensr=4"), {"--fix: found 'tensr=4'", "tensor"});
  require_refusal(plan("gpt-22b", 8, 4, "--set parallel.tensor=4"), {"--fix"});
  require_refusal(plan("gpt-22b", 8, 4, "--set sharding=fsdp2"), {"accepted: --sharding fsdp2"});
  require_refusal(plan("gpt-22b", 8, 4, "--set parallel.context=2"),
                  {"'parallel.context=2', which the search decides", "--fix"});
  require_refusal("plan " STAGECRAFT_SOURCE_DIR
                  "/configs/models/gpt-22b.yaml --system no/file --gpus 8 --global-batch 4",
                  {"--system: found 'no/file'"});
  require_refusal("plan " + paper_run("22b-full") + " --system x --gpus 8 --global-batch 4",
                  {"22b-full.yaml:", "model: found a run file (", "; accepted: a model file"});
  require_refusal("plan --system x --gpus 8 --global-batch 4", {"MODEL: found no file"});
}

TEST_CASE("plan counts energy and interruptions as simulate does") {
  std::string const rates =
      " --price 2/gpu-hour --power 600W --pue 1.1 --tokens 1B --gpu-hours-per-failure 2k";
  json const best = json_of(plan("gpt-22b", 8, 4, "--top 1 --json" + rates)).at("best").front();
  TemporaryFolder const folder;
  std::string const file = folder.write("best.yaml", best.at("config").dump());
  REQUIRE(best.at("operation") ==
          json_of("simulate '" + file + "' --json" + rates).at("operation"));
  REQUIRE(best.at("days") == best.at("operation").at("days"));
  REQUIRE(best.at("cost") == best.at("operation").at("cost"));
  ProgramResult const text =
      run_stagecraft(plan("gpt-22b", 8, 4, "--top 1" + rates), "COLUMNS=200");
  REQUIRE_THAT(text.output, Catch::Contains("MWh") &&
                                Catch::Contains("an interruption every 250.0 h") &&
                                Catch::Contains("days, cost and energy count it"));
  require_refusal(plan("gpt-22b", 8, 4, "--pue 1.1"), {"--pue: found without --power"});
}

TEST_CASE("plan exits with 1 where its output cannot be written, and leaves nothing behind") {
  TemporaryFolder const folder;
  ProgramResult const result = run_stagecraft(
      plan("gpt-22b", 8, 4, "-o '" + (folder.path() / "no-folder" / "x.yaml").string() + "'"));
  REQUIRE(result.exit_code == 1);
  REQUIRE(result.output.empty());
  REQUIRE(result.errors.find("could not write") != std::string::npos);
  REQUIRE(folder.names().empty());
}

TEST_CASE("plan --fix holds a value") {
  json const result = json_of(plan("gpt-22b", 8, 4,
                                   "--top 2 --json --fix tensor=4 --fix recompute=selective,uniform"
                                   " --fix sequence=false"));
  for (json const& entry : result.at("best")) {
    REQUIRE(entry.at("config").at("parallel").at("tensor") == 4);
    REQUIRE(entry.at("config").at("parallel").at("sequence") == false);
  }
}

TEST_CASE("simulate says how many microbatches store_microbatches: auto has come to") {
  json const result = json_of("simulate " + paper_run("175b-present") +
                              " --json --set "
                              "'recompute={granularity: selective, store_microbatches: auto}'");
  json const policies = result.at("config").at("recompute").at("per_stage");
  REQUIRE(policies.size() == 8);
  for (json const& policy : policies) REQUIRE(policy.at("store_microbatches").get<int>() > 0);
  // As many as fit by counted bytes: the fragments of the allocator may need more.
  for (json const& stage : result.at("stages")) {
    REQUIRE(stage.at("peak_bytes").get<std::int64_t>() <= std::int64_t{78} << 30);
  }
}

TEST_CASE("reproduce appendix-c finds a gain where the paper has one") {
  json const result = json_of("reproduce appendix-c --json");
  int gains = 0;
  for (json const& row : result.at("appendix-c")) {
    if (row.at("quantity") != "mfu_gain_percent") continue;
    REQUIRE(row.at("predicted").get<double>() > 0);
    REQUIRE(row.at("predicted").get<double>() == Approx(row.at("published")).margin(1.0));
    ++gains;
  }
  REQUIRE(gains == 2);
}

}  // namespace stagecraft::plan_command_test
