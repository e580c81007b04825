#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include "tests/cli/command_results.hpp"
#include "tests/cli/run_program.hpp"

namespace stagecraft::sweep_command_test {
namespace {

using Catch::Contains;
using nlohmann::json;

/// A sweep file over a run of configs/paper; `rest`: the file after `base`.
std::string sweep_file(TemporaryFolder const& folder, std::string const& rest) {
  return "'" +
         folder.write("sweep.yaml",
                      "base: " STAGECRAFT_SOURCE_DIR "/configs/paper/22b-present.yaml\n" + rest) +
         "'";
}

constexpr char const* tensors = "values: {parallel.tensor: [2, 4, 8], recompute: [none, full]}\n";

/// A shell's limit of 1 GiB of addresses; the address sanitizer itself reserves terabytes of them.
#ifdef __SANITIZE_ADDRESS__
std::string const memory_limit;
#else
std::string const memory_limit = "ulimit -v 1048576; ";
#endif

std::string in(TemporaryFolder const& folder, std::string const& name) {
  return "'" + (folder.path() / name).string() + "'";
}

/// A thousand million points: 10 x 10 x ... .
std::string large_axes() {
  std::string text = "values:\n";
  for (std::string const key :
       {"batch.global", "training.seed", "model.ffn_hidden", "model.sequence", "model.vocabulary",
        "model.layers", "training.weight_decay", "training.clip", "training.loss_scale"}) {
    text += "  " + key + ": [32, 64, 96, 128, 160, 192, 224, 256, 288, 320]\n";
  }
  return text;
}

}  // namespace

TEST_CASE("sweep writes HDF5 and CSV, and prints the counts and the best", "[cli]") {
  TemporaryFolder const folder;
  std::string const file = sweep_file(folder, tensors);
  json const result = json_of("sweep " + file + " -o " + in(folder, "r.h5") + " --csv " +
                              in(folder, "r.csv") + " --jobs 2 --json");
  REQUIRE(folder.names() == std::vector<std::string>{"r.csv", "r.h5", "sweep.yaml"});
  REQUIRE(result.at("points") == 6);
  REQUIRE(result.at("excluded") == 0);
  REQUIRE(result.at("rows") == 6);
  REQUIRE(result.at("computed") == 6);
  json const best = result.at("best");
  json const simulated =
      json_of("simulate " + paper_run("22b-present") +
              " --json --set recompute=" + best.at("recompute").get<std::string>() +
              " --set parallel.tensor=" + std::to_string(best.at("parallel.tensor").get<int>()));
  REQUIRE(best.at("iteration_seconds") == simulated.at("iteration_seconds"));
  REQUIRE(best.at("mfu") == simulated.at("mfu"));
  REQUIRE(best.at("plan") == simulated.at("plan"));
  std::string const csv = text_of(folder.path() / "r.csv");
  REQUIRE_THAT(csv, Catch::StartsWith("index,parallel.tensor,recompute,valid,message,"
                                      "iteration_seconds,"));
  REQUIRE(std::count(csv.begin(), csv.end(), '\n') == 7);
  ProgramResult const text = run_stagecraft("sweep " + file + " -o " + in(folder, "t.h5"));
  REQUIRE(text.exit_code == 0);
  REQUIRE_THAT(text.output,
               Contains("6 rows of 6 points (0 excluded by where)") &&
                   Contains("most tokens per second and GPU of 1 that fit by counted bytes\n"
                            "(counted bytes are a cheaper verdict: `simulate "
                            "--require-fit` also replays the allocator"));
  REQUIRE(text_of(folder.path() / "t.h5") == text_of(folder.path() / "r.h5"));
}

TEST_CASE("the table of a sweep says by which verdict its rows fit", "[cli]") {
  TemporaryFolder const folder;
  // Only megatron-2022-memory says what its framework allocates; the other stacks do not.
  std::string const both = "values: {software: [megatron-2022, megatron-2022-memory]}\n";
  std::string const command = "sweep " + sweep_file(folder, both) + " -o " + in(folder, "r.h5");
  json const document = json_of(command + " --json");
  REQUIRE(document.at("fit") == 2);
  REQUIRE(document.at("fit_by_replay") == 1);
  REQUIRE_THAT(run_stagecraft(command + " --resume").output,
               Contains("of 2 that fit, 1 of them by counted bytes and 1 by the allocator's "
                        "replay\n"));
  std::string const replayed = "values: {software: [megatron-2022-memory]}\n";
  ProgramResult const alone =
      run_stagecraft("sweep " + sweep_file(folder, replayed) + " -o " + in(folder, "s.h5"));
  REQUIRE_THAT(alone.output,
               Contains("of 1 that fit by the allocator's replay\n") && !Contains("cheaper"));
}

TEST_CASE("a sweep that is interrupted says how it goes on", "[cli]") {
  TemporaryFolder const folder;
  std::string sequences, batches;
  for (int i = 1; i <= 400; ++i) {
    sequences += (i == 1 ? "" : ", ") + std::to_string(256 * i);
    batches += (i == 1 ? "" : ", ") + std::to_string(4 * i);
  }
  ProgramResult const result =
      run_stagecraft("sweep " +
                         sweep_file(folder, "values: {model.sequence: [" + sequences +
                                                "], batch.global: [" + batches + "]}\n") +
                         " -o " + in(folder, "r.h5"),
                     "timeout -s INT 3");
  REQUIRE_THAT(result.errors, Contains("ended; the rows so far are kept in") &&
                                  Contains("r.h5.journal: the same command with --resume"));
}

TEST_CASE("sweep ranks by tokens per second and GPU unless asked", "[cli]") {
  TemporaryFolder const folder;
  // With twice the sequence a layer's products are as efficient, and attention counts for more: MFU
  // rises and tokens per second fall.
  std::string const command =
      "sweep " + sweep_file(folder, "values: {model.sequence: [2048, 4096], batch.micro: [1]}\n") +
      " --json -o ";
  auto const best = [&](std::string const& options) {
    return json_of(command + in(folder, "r.h5") + options).at("best").at("model.sequence");
  };
  REQUIRE(best("") == 2048);
  REQUIRE(best(" --resume --rank tokens") == 2048);
  REQUIRE(best(" --resume --rank seconds") == 2048);
  REQUIRE(best(" --resume --rank mfu") == 4096);
  require_refusal(command + in(folder, "s.h5") + " --rank speed",
                  {"--rank: found 'speed'", "tokens, seconds, mfu, cost"});
}

TEST_CASE("sweep ranks by cost, in which interruptions count, when asked", "[cli]") {
  TemporaryFolder const folder;
  // More replicas take less time for the same batch, and cost more: more GPU hours, and more GPUs
  // that are interrupted together.
  std::string const command =
      "sweep " +
      sweep_file(folder,
                 "values: {parallel.data: [1, 4], batch.global: [64], batch.micro: [1]}\n") +
      " -o " + in(folder, "r.h5") + " --resume --rank ";
  std::string const rates = " --price '3 EUR/gpu-hour' --tokens 1B --gpu-hours-per-failure 1k";
  REQUIRE(json_of(command + "seconds --json" + rates).at("best").at("parallel.data") == 4);
  json const best = json_of(command + "cost --json" + rates).at("best");
  REQUIRE(best.at("parallel.data") == 1);
  ProgramResult const text = run_stagecraft(command + "cost" + rates);
  REQUIRE_THAT(text.output, Contains("least cost of 2 that fit by counted bytes") &&
                                Contains("  EUR per day  EUR per 10^12 tokens  EUR cost\n"));
  require_refusal(command + "cost --tokens 1B",
                  {"--rank: found 'cost' without --price; accepted: cost together with --price, or "
                   "another rank"});
}

TEST_CASE("a sweep over systems has a price for each of them", "[cli]") {
  TemporaryFolder const folder;
  // One system by its name, one in a file.
  std::string const command =
      "sweep " +
      sweep_file(folder, "values: {system: [selene-a100, " STAGECRAFT_SOURCE_DIR
                         "/configs/systems/aws-p5.yaml]}\n") +
      " --rank cost --json -o ";
  auto const best = [&](std::string const& file, std::string const& price) {
    return json_of(command + in(folder, file) + " --resume --price " + price).at("best");
  };
  // An H100 is faster, but not ten times as fast.
  for (auto const& [price, system, rate] :
       {std::tuple{"selene-a100=2,aws-p5=3", "aws-p5", 3.0},
        std::tuple{"selene-a100=2,aws-p5=20", "selene-a100", 2.0}}) {
    json const row = best("r.h5", price);
    CAPTURE(row);
    REQUIRE_THAT(row.at("system").get<std::string>(), Contains(system));
    double const hours = row.at("gpus").get<double>() / 3600;
    REQUIRE(row.at("cost_per_iteration").get<double>() ==
            Approx(row.at("iteration_seconds").get<double>() * rate * hours));
    REQUIRE(row.at("cost_per_day").get<double>() ==
            Approx(24 * rate * row.at("gpus").get<double>()));
    double const trillion = 1e12 / row.at("tokens_per_second").get<double>() * hours;
    REQUIRE(row.at("gpu_hours_per_trillion_tokens").get<double>() == Approx(trillion));
    REQUIRE(row.at("cost_per_trillion_tokens").get<double>() == Approx(rate * trillion));
  }
  std::string const other = command + in(folder, "s.h5") + " --price ";
  require_refusal(other + "selene-a100=2", {"--price: found none for '", "aws-p5"});
  require_refusal(other + "selene-a100=2,aws-p5=3,dgx-h100=4",
                  {"--price: found 'dgx-h100'; accepted: selene-a100, "});
  require_refusal(other + "'selene-a100=2,aws-p5=3 EUR'",
                  {"--price: found 'EUR' beside ''; accepted: prices in one currency"});
}

TEST_CASE("a sweep's counts may be written in thousands", "[cli]") {
  TemporaryFolder const folder;
  std::string const command = "sweep " +
                              sweep_file(folder,
                                         "values: {batch.global: [1k, 2k], batch.micro: [4]}\n"
                                         "where: [batch.global > 1.5k, batch.global != 1k, "
                                         "'batch.global in [2k, 3k]']\n") +
                              " -o " + in(folder, "r.h5");
  json const best = json_of(command + " --json").at("best");
  REQUIRE(best.at("batch.global") == 2000);
  REQUIRE(best.at("index") == 1);
}

TEST_CASE("sweep adds money, energy and interruptions when asked, once", "[cli]") {
  TemporaryFolder const folder;
  std::string const rates =
      " --price '3 EUR/gpu-hour' --power 700W --pue 1.5 --gpu-hours-per-failure 1k --tokens 300B";
  std::string const command =
      "sweep " + sweep_file(folder, "values: {batch.global: [2, 4], batch.micro: [2, 4]}\n") +
      " -o " + in(folder, "r.h5") + " --json --csv " + in(folder, "r.csv");
  REQUIRE_FALSE(json_of(command).at("best").contains("days"));
  json const row = json_of(command + " --resume" + rates).at("best");
  REQUIRE(json_of(command + " --resume" + rates).at("best") == row);
  double const seconds = row.at("iteration_seconds").get<double>();
  double const tokens = row.at("tokens_per_second").get<double>();
  int const gpus = 8;
  double const days = 300e9 / tokens / 86400 / row.at("goodput").get<double>();
  REQUIRE(row.at("cost_per_iteration").get<double>() == Approx(3 * gpus * seconds / 3600));
  REQUIRE(row.at("joules_per_iteration").get<double>() == Approx(700 * 1.5 * gpus * seconds));
  REQUIRE(row.at("joules_per_token").get<double>() == Approx(700 * 1.5 * gpus / tokens));
  REQUIRE(row.at("days").get<double>() == Approx(days));
  REQUIRE(row.at("cost").get<double>() == Approx(3 * gpus * 24 * days));
  REQUIRE(row.at("joules").get<double>() == Approx(700 * 1.5 * gpus * 86400 * days));
  // To first order sqrt(2 delta M) is between checkpoints: as much is lost by them as by repeating.
  double const between = 1000 * 3600 / gpus;
  REQUIRE(1 - row.at("goodput").get<double>() ==
          Approx(std::sqrt(2 * 60 / between) + 1200 / between).epsilon(0.05));
  std::string const csv = text_of(folder.path() / "r.csv");
  std::string const heading = csv.substr(0, csv.find('\n'));
  REQUIRE_THAT(heading, Catch::EndsWith(
                            ",layer_paper_bytes,gpu_hours_per_trillion_tokens,cost_per_iteration,"
                            "cost_per_day,cost_per_trillion_tokens,joules_per_iteration,joules_"
                            "per_token,goodput,days,cost,joules,plan"));
  REQUIRE_THAT(csv, Contains("\n1,2,4,0,") && Contains(",,,,,,,,\n2,"));  // the impossible one
}

TEST_CASE("where the stack knows its memory, a sweep's runs fit as simulate says", "[cli]") {
  TemporaryFolder const folder;
  std::string const run = folder.write(
      "run.yaml", "model: " STAGECRAFT_SOURCE_DIR
                  "/configs/models/llama3-8b.yaml\nsystem: aws-p5\n"
                  "software: nanotron\nparallel: {tensor: 8, sequence: true, data: 4}\n"
                  "batch: {global: 32, micro: 1}\nmemory: {distributed_optimizer: true}\n");
  std::string const file =
      folder.write("nanotron.yaml",
                   "base: run.yaml\nvalues: {batch.micro: [1, 4, 8], parallel.tensor: [4, 8]}\n");
  json const rows = json_of("sweep '" + file + "' -o " + in(folder, "r.h5") + " --csv " +
                            in(folder, "r.csv") + " --json");
  std::size_t fitting = 0;
  std::int64_t best_device = 0;
  for (int const micro : {1, 4, 8}) {
    for (int const tensor : {4, 8}) {
      json const simulated =
          json_of("simulate '" + run + "' --json --set batch.micro=" + std::to_string(micro) +
                  " --set parallel.tensor=" + std::to_string(tensor));
      fitting += simulated.at("verdict") != "does_not_fit" ? 1 : 0;
      json const& best = rows.at("best");
      if (best.at("batch.micro") == micro && best.at("parallel.tensor") == tensor) {
        best_device = simulated.at("stages").front().at("device_bytes").get<std::int64_t>();
        REQUIRE(best.at("reserved_bytes") == simulated.at("stages").front().at("reserved_bytes"));
      }
    }
  }
  REQUIRE(rows.at("fit") == fitting);
  REQUIRE(fitting > 0);
  REQUIRE(fitting < 6);
  REQUIRE(rows.at("best").at("device_bytes") == best_device);
}

TEST_CASE("sweep refuses results that are there, but --resume leaves them and adds what is missing",
          "[cli]") {
  TemporaryFolder const folder;
  std::string const file = sweep_file(folder, tensors);
  std::string const command = "sweep " + file + " -o " + in(folder, "r.h5");
  REQUIRE(run_stagecraft(command).exit_code == 0);
  require_refusal(command, {"--output: found '", "r.h5', which exists", "--resume"});
  std::string const before = text_of(folder.path() / "r.h5");
  json const again = json_of(command + " --resume --json --csv " + in(folder, "r.csv"));
  REQUIRE(again.at("computed") == 0);
  REQUIRE(again.at("rows") == 6);
  REQUIRE(text_of(folder.path() / "r.h5") == before);
  REQUIRE(folder.names() == std::vector<std::string>{"r.csv", "r.h5", "sweep.yaml"});
  sweep_file(folder, "values: {parallel.tensor: [2, 4, 8]}\n");
  require_refusal(command + " --resume", {"r.h5: found the results of another sweep"});
}

TEST_CASE("sweep refuses a sweep file's mistakes with their place, and writes nothing", "[cli]") {
  TemporaryFolder const folder;
  auto const refuse = [&](std::string const& rest, std::vector<std::string> const& parts) {
    require_refusal("sweep " + sweep_file(folder, rest) + " -o " + in(folder, "r.h5"), parts);
    REQUIRE(folder.names() == std::vector<std::string>{"sweep.yaml"});
  };
  refuse("values: {parallel.tensr: [2, 4]}\n",
         {"sweep.yaml:2:", "parallel.tensr: found an unknown key", "did you mean 'tensor'?"});
  refuse("values: {parallel.tensor: [2, 5, 8], batch.micro: [1, 2]}\n",
         {"sweep.yaml:2:31: parallel.tensor: found '5'", "no point of the sweep can have it"});
  refuse("values: {parallel.tensor: [2, 8]}\nwhere: [parallel.tensor > 8]\n",
         {"leave out all 2 points"});
  refuse("values: {parallel.tensor: [2, 8]}\nwhere: [parallel.tensor >]\n",
         {"sweep.yaml:3:9: where"});
  require_refusal("sweep -o " + in(folder, "r.h5"), {"SWEEP.yaml: found no file"});
  require_refusal("sweep " + sweep_file(folder, tensors), {"--output (-o): missing"});
  require_refusal("sweep " + sweep_file(folder, tensors) + " -o x.h5 --shard 3/2",
                  {"--shard 3/2: found '3'"});
}

TEST_CASE("a sweep of a thousand million points is refused at once, with what it would take",
          "[cli]") {
  TemporaryFolder const folder;
  std::string const file = sweep_file(folder, large_axes());
  // No memory in proportion, and no time: 1 GiB and 20 s of one core.
  ProgramResult const result =
      run_stagecraft("sweep " + file + " -o " + in(folder, "r.h5"), memory_limit + "ulimit -t 20;");
  REQUIRE(result.exit_code == 2);
  REQUIRE_THAT(result.errors, Contains("found 1000000000 points") && Contains(" threads and ") &&
                                  Contains("accepted: up to 1000000") && Contains("--limit"));
  REQUIRE(folder.names() == std::vector<std::string>{"sweep.yaml"});
  // A shard of it that is allowed begins at once and holds nothing but what it has.
  ProgramResult const shard = run_stagecraft(
      "sweep " + file + " -o " + in(folder, "r.h5") + " --limit 100000000 --shard 1/100 --jobs 1",
      memory_limit + "timeout -s KILL 5");
  REQUIRE(shard.exit_code == 137);
  REQUIRE(folder.names() == std::vector<std::string>{"r.h5.journal", "sweep.yaml"});
}

TEST_CASE("sweep --dry-run --json is the forecast as one document", "[cli]") {
  TemporaryFolder const folder;
  std::string const file =
      sweep_file(folder, std::string{tensors} + "where: [parallel.tensor > 2]\n");
  json const forecast = json_of("sweep " + file + " --dry-run --json --jobs 2");
  REQUIRE(forecast.at("points") == 6);
  REQUIRE(forecast.at("excluded") == 2);
  REQUIRE(forecast.at("rows") == 4);
  REQUIRE(forecast.at("axes").at(0).at("name") == "parallel.tensor");
  REQUIRE(forecast.at("axes").at(0).at("values") == 3);
  REQUIRE(forecast.at("threads") == 2);
  REQUIRE(forecast.at("seconds").get<double>() > 0);
}

TEST_CASE("sweep --dry-run says how many points there are and how long they take", "[cli]") {
  TemporaryFolder const folder;
  ProgramResult const result = run_stagecraft(
      "sweep " + sweep_file(folder, std::string{tensors} + "where: [parallel.tensor > 2]\n") +
      " --dry-run --jobs 2");
  REQUIRE(result.exit_code == 0);
  REQUIRE_THAT(result.output,
               Contains("4 points (3 parallel.tensor x 2 recompute, 2 excluded by where), "
                        "about ") &&
                   Contains("on 2 threads"));
  REQUIRE(folder.names() == std::vector<std::string>{"sweep.yaml"});
}

TEST_CASE("sweep exits with 1 where its output cannot be written, and leaves nothing behind",
          "[cli]") {
  TemporaryFolder const folder;
  std::string const file = sweep_file(folder, tensors);
  for (std::string const& rest :
       {"-o " + in(folder, "no-folder/r.h5"), "-o '" + folder.path().string() + "' --resume",
        "-o " + in(folder, "r.h5") + " --csv " + in(folder, "no-folder/r.csv")}) {
    CAPTURE(rest);
    ProgramResult const result = run_stagecraft("sweep " + file + " " + rest);
    REQUIRE(result.exit_code == 1);
    REQUIRE(result.output.empty());
    REQUIRE_THAT(result.errors, Contains("could not write"));
    REQUIRE(folder.names() == std::vector<std::string>{"sweep.yaml"});
  }
}

TEST_CASE("a disk that is full in the middle of a sweep costs no row: --resume continues",
          "[cli]") {
  TemporaryFolder const folder;
  std::string const file =
      sweep_file(folder,
                 "values: {parallel.tensor: [2, 4, 8], training.seed: [1, 2, 3, 4, 5, 6, 7, "
                 "8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24]}\n");
  std::string const command = "sweep " + file + " --jobs 1 -o ";
  REQUIRE(run_stagecraft(command + in(folder, "whole.h5")).exit_code == 0);
  // A limit on the size of files stands for a full disk; 72 rows take about 25 KB. (dash counts
  // blocks of 512 bytes.)
  ProgramResult const full =
      run_stagecraft(command + in(folder, "r.h5"), "trap '' XFSZ; ulimit -f 24;");
  REQUIRE(full.exit_code == 1);
  REQUIRE(full.output.empty());
  REQUIRE_THAT(full.errors, Contains("could not write") && Contains("r.h5.journal: ") &&
                                Contains(" rows are kept in ") &&
                                Contains("the same command with --resume continues"));
  REQUIRE(folder.names() == std::vector<std::string>{"r.h5.journal", "sweep.yaml", "whole.h5"});
  require_refusal(command + in(folder, "r.h5"), {"r.h5.journal: found the journal", "--resume"});
  json const resumed = json_of(command + in(folder, "r.h5") + " --resume --json");
  REQUIRE(resumed.at("computed").get<int>() > 0);
  REQUIRE(resumed.at("computed").get<int>() < 72);
  REQUIRE(folder.names() == std::vector<std::string>{"r.h5", "sweep.yaml", "whole.h5"});
  REQUIRE(text_of(folder.path() / "r.h5") == text_of(folder.path() / "whole.h5"));
}

TEST_CASE("sweep warns of what simulate warns of, each once with the number of rows", "[cli]") {
  TemporaryFolder const folder;
  std::string const file =
      sweep_file(folder,
                 "values: {parallel.tensor: [1, 8], recompute: [none, full]}\nwhere: "
                 "[parallel.tensor == 1 or recompute == full]\n");
  std::string const command = "sweep " + file + " -o " + in(folder, "r.h5") + " --json";
  ProgramResult const result = run_stagecraft(command);
  REQUIRE(result.exit_code == 0);
  json const document = json::parse(result.output);
  json const& warnings = document.at("warnings");
  REQUIRE(warnings.size() == 1);
  REQUIRE_THAT(warnings[0].at("warning").get<std::string>(),
               Contains("22b-present.yaml:") &&
                   Contains("parallel.sequence: has no effect with parallel.tensor 1"));
  REQUIRE(warnings[0].at("rows") == 2);
  REQUIRE_THAT(result.errors, Contains("warning: ") && Contains("(2 of 3 rows)"));
  ProgramResult const again = run_stagecraft(command + " --resume");
  REQUIRE(json::parse(again.output).at("warnings").is_null());  // results do not say
}

TEST_CASE("shards put together are the sweep, and what does not belong together is refused by name",
          "[cli]") {
  TemporaryFolder const folder;
  std::string const file = sweep_file(folder, tensors);
  REQUIRE(run_stagecraft("sweep " + file + " -o " + in(folder, "whole.h5")).exit_code == 0);
  for (std::string const number : {"1", "2", "3"}) {
    json const part = json_of("sweep " + file + " --json --resume --shard " + number + "/3 -o " +
                              in(folder, "part-" + number + ".h5"));
    REQUIRE(part.at("rows") == 2);
    REQUIRE(part.at("shard") == number + "/3");
  }
  std::string const merge = "sweep --merge -o " + in(folder, "all.h5") + " " +
                            in(folder, "part-1.h5") + " " + in(folder, "part-3.h5") + " ";
  require_refusal(merge, {"found no file for the shards 2/3"});
  require_refusal(merge + in(folder, "part-3.h5"), {"part-3.h5: found shard 3/3 again"});
  require_refusal(merge + in(folder, "whole.h5"), {"whole.h5: found shard 1/1"});
  require_refusal(merge + in(folder, "sweep.yaml"), {"sweep.yaml: is not an HDF5 file"});
  require_refusal(merge + in(folder, "part-2.h5") + " --shard 1/2",
                  {"--shard: found with --merge"});
  json const merged = json_of(merge + in(folder, "part-2.h5") + " --json");
  REQUIRE(merged.at("rows") == 6);
  REQUIRE(text_of(folder.path() / "all.h5") == text_of(folder.path() / "whole.h5"));
}

}  // namespace stagecraft::sweep_command_test
