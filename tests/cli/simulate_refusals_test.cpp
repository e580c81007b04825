#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/cli/command_results.hpp"
#include "tests/cli/run_program.hpp"

namespace stagecraft::simulate_refusals_test {

TEST_CASE("simulate refuses bad files, keys and options with exit code 2, place, found, accepted") {
  TemporaryFolder const folder;
  std::string const wrong = folder.write("wrong.yaml",
                                         "model: {layers: 4, hidden: 64, heads: 4, sequence: 32, "
                                         "vocabulary: 100}\n"
                                         "system: missing.yaml\n"
                                         "parallel: {tensor: 3, pipline: 2}\n"
                                         "batch: {global: x}\n");
  // Every problem of a file at once.
  require_refusal(
      "simulate " + wrong,
      {"wrong.yaml:2:9: system: found ",
       "wrong.yaml:3:20: parallel.tensor: found '3'; accepted: a divisor of model.heads (4)",
       "wrong.yaml:3:23: parallel.pipline: found an unknown key; accepted: tensor, pipeline",
       "did you mean 'pipeline'?", "wrong.yaml:4:17: batch.global: found 'x'; accepted: a whole"});
  std::string const broken = folder.write("broken.yaml", "model: {layers: 4\n");
  require_refusal("simulate --json " + broken, {"broken.yaml:2:1: ", "YAML syntax error"});
  require_refusal("simulate no/such.yaml", {"no/such.yaml: found ", "; accepted: a readable YAML"});
  require_refusal("simulate " + folder.path().string(), {"a folder; accepted: a YAML file"});
  std::string const run = "simulate --json " + paper_run("22b-full");
  require_refusal(run + " --set parallel.tensor=5",
                  {"--set parallel.tensor=5: parallel.tensor: found '5'; accepted: a divisor of "
                   "model.heads (64)"});
  require_refusal(run + " --set paralel.tensor=4", {"paralel", "did you mean 'parallel'?"});
  require_refusal(run + " --set pp=4", {"pp: found an unknown key", "'parallel.pipeline'?"});
  require_refusal(run + " --set micro_batch_size=4", {"did you mean 'batch.micro'?"});
  require_refusal(run + " --set recompute=partial",
                  {"found 'partial'; accepted: none, selective, full, or a map such as {gran"});
  require_refusal("simulate 22b-ful",
                  {"22b-ful", "neither a file nor a name", "a name of configs/paper: 175b-full,",
                   "or of configs/examples: eight,", "did you mean '22b-full'?"});
  require_refusal(run + " --detail fine", {"--detail: found 'fine'; accepted: chunk, op"});
  require_refusal(run + " --ranks 1", {"--ranks: found '1'; accepted: a whole number from 0 to 0"});
  require_refusal(run + " extra.yaml", {"CONFIG: found 2 files; accepted: one run file"});
  require_refusal("simulate", {"CONFIG: found no file; accepted: one run file"});
  require_refusal(run + " --tracee x.h5", {"--tracee"});
}

TEST_CASE("a file of another kind is refused in one line that says what it is and who takes it") {
  auto const [file, found] = GENERATE(table<std::string, std::string>(
      {{"models/gpt-22b.yaml", "found a model file (stagecraft plan takes it, or `model` of a run"},
       {"systems/h200.yaml", "found a system file (stagecraft system takes it"},
       {"software/nanotron-checked.yaml", "found a software file (stagecraft software takes it"},
       {"sweeps/layouts.yaml", "found a sweep file (stagecraft sweep takes it)"}}));
  ProgramResult const result = run_stagecraft("simulate " STAGECRAFT_SOURCE_DIR "/configs/" + file);
  REQUIRE(result.exit_code == 2);
  REQUIRE_THAT(result.errors, Catch::Contains(file + ":") && Catch::Contains(found) &&
                                  Catch::EndsWith("; accepted: a run file\n"));
  REQUIRE(std::count(result.errors.begin(), result.errors.end(), '\n') == 1);
}

}  // namespace stagecraft::simulate_refusals_test
